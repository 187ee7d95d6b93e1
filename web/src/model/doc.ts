// The notebook of a session: its cells in order, what they showed, and how their last run went.
import type { Artifact, CellStatus } from '../net/types';
import { Outputs } from './outputs';
import { Store } from './store';

export type RunState = 'sending' | 'queued' | 'running' | 'done' | 'lost';

export interface Run {
  /** The gateway's id of this run; '' until it is known. */
  id: string;
  state: RunState;
  status: CellStatus | null;
  detail: string;
  code: string;
  startedAt: number;
  wallMs: number | null;
  input: { prompt: string; password: boolean } | null;
  artifacts: Artifact[];
}

export type CellKind = 'code' | 'markdown';

/** Who says it, in the chat view. */
export type Voice = 'user' | 'assistant' | null;

export class Cell extends Store {
  outputs = new Outputs();
  count: number | null = null;
  run: Run | null = null;
  voice: Voice = null;
  editing = false; // markdown only
  metadata: Record<string, unknown> = {};

  constructor(
    readonly id: string,
    public kind: CellKind,
    public source = '',
  ) {
    super();
  }

  /** After a restart of the kernel the old numbers mean nothing. */
  forgetCount(): void {
    if (this.busy) return;
    this.count = null;
    this.changed();
  }

  get busy(): boolean {
    const state = this.run?.state;
    return state === 'sending' || state === 'queued' || state === 'running';
  }
}

export const newId = (): string => crypto.randomUUID?.() ?? Math.random().toString(16).slice(2).padEnd(12, '0');

export class Doc extends Store {
  cells: Cell[] = [];
  metadata: Record<string, unknown> = {};

  cell(id: string): Cell | undefined {
    return this.cells.find(c => c.id === id);
  }

  index(id: string): number {
    return this.cells.findIndex(c => c.id === id);
  }

  insert(at: number, cell: Cell): Cell {
    this.cells.splice(at, 0, cell);
    this.changed();
    return cell;
  }

  append(kind: CellKind, source = ''): Cell {
    return this.insert(this.cells.length, new Cell(newId(), kind, source));
  }

  remove(id: string): void {
    this.cells = this.cells.filter(c => c.id !== id);
    if (!this.cells.length) this.append('code');
    this.changed();
  }

  move(id: string, by: number): void {
    const from = this.index(id);
    const to = from + by;
    if (from < 0 || to < 0 || to >= this.cells.length) return;
    const [cell] = this.cells.splice(from, 1);
    if (cell) this.cells.splice(to, 0, cell);
    this.changed();
  }
}

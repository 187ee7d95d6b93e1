// Brings the events of a session to the cells of its notebook. Runs that this page (or another tab) began are
// expected by their code; runs of somebody else, through whichever door, get a cell of their own.
import type { StreamEvent } from '../net/types';
import { Cell, Doc, type Run } from './doc';
import { displayIdOf, wholeNumber } from './outputs';

interface Intent {
  cell: string;
  code: string;
  ref: string;
}

export const newRun = (code: string): Run => ({
  id: '', state: 'sending', status: null, detail: '', code, startedAt: Date.now(), wallMs: null, input: null, artifacts: [],
});

export class Runs {
  private intents: Intent[] = [];
  private bound = new Map<string, Cell>();
  private early = new Map<string, StreamEvent[]>(); // of runs whose code was not seen yet
  private displays = new Map<string, Set<Cell>>();

  constructor(
    private doc: Doc,
    private readonly finished: (cell: Cell) => void,
  ) {
    this.adopt(doc);
  }

  /** Another document takes the place of the old one. */
  adopt(doc: Doc): void {
    this.doc = doc;
    this.bound.clear();
    this.displays.clear();
    for (const cell of doc.cells) {
      if (cell.run?.id) this.bound.set(cell.run.id, cell);
      for (const o of cell.outputs.items) if (o.kind === 'data' && o.displayId) this.known(o.displayId, cell);
    }
  }

  expect(cell: string, code: string, ref: string): void {
    this.intents.push({ cell, code, ref });
  }

  forget(ref: string): void {
    this.intents = this.intents.filter(i => i.ref !== ref);
  }

  expected(): readonly Intent[] {
    return this.intents;
  }

  /** The gateway took it under this id; its events may have come before. */
  accepted(ref: string, id: string): void {
    const intent = this.intents.find(i => i.ref === ref);
    const cell = intent && this.doc.cell(intent.cell);
    if (!cell?.run || cell.run.id) return;
    cell.run.id = id;
    if (cell.run.state === 'sending') cell.run.state = 'queued';
    this.bound.set(id, cell);
    this.flush(id, cell);
    cell.changed();
  }

  event(e: StreamEvent): void {
    const id = e.cell ?? e.msg_id;
    if (e.type === 'gap' && !id) return this.gap(e);
    if (!id) return;
    const cell = this.bound.get(id);
    if (cell) return this.apply(cell, id, e);
    if (e.type === 'code') return this.begin(id, e);
    if (e.type === 'done') return void this.early.delete(id);
    if (e.type === 'status' && !e.cell) return;
    const waiting = this.early.get(id) ?? [];
    if (waiting.length < 1000) waiting.push(e);
    this.early.set(id, waiting);
  }

  private begin(id: string, e: StreamEvent): void {
    const said = e.content?.code;
    const code = typeof said === 'string' ? said : '';
    const at = this.intents.findIndex(i => i.code === code && this.doc.cell(i.cell));
    const intent = at >= 0 ? this.intents.splice(at, 1)[0] : undefined;
    const cell = (intent && this.doc.cell(intent.cell)) ?? this.sameCode(code) ?? this.own(id, code);
    cell.run = { ...newRun(code), id, state: 'running' };
    cell.outputs.clear();
    this.bound.set(id, cell);
    this.flush(id, cell);
    this.apply(cell, id, e);
  }

  /** A cell with this very code that never ran, or that a reload left behind. */
  private sameCode(code: string): Cell | undefined {
    return this.doc.cells.find(c => c.kind === 'code' && c.source === code && (!c.run || c.run.state === 'sending'));
  }

  /** Named like the run, so that all tabs make the same cell of it. */
  private own(id: string, code: string): Cell {
    const { cells } = this.doc;
    const last = cells[cells.length - 1];
    const empty = last && last.kind === 'code' && !last.source.trim() && !last.run;
    return this.doc.insert(cells.length - (empty ? 1 : 0), this.doc.cell(id) ?? new Cell(id, 'code', code));
  }

  private flush(id: string, cell: Cell): void {
    const waiting = this.early.get(id);
    this.early.delete(id);
    for (const e of waiting ?? []) this.apply(cell, id, e);
  }

  private apply(cell: Cell, id: string, e: StreamEvent): void {
    const run = cell.run;
    if (!run || run.id !== id) return this.late(cell, e);
    if (e.type === 'start') this.started(cell, run, e);
    else if (e.type === 'code') this.count(cell, run, e);
    else if (e.type === 'input') run.input = { prompt: String(e.prompt ?? ''), password: !!e.password };
    else if (e.type === 'artifact' && e.artifact) run.artifacts.push(e.artifact);
    else if (e.type === 'done') this.done(cell, run, e);
    else if (e.type === 'status') this.status(cell, run, e);
    else if (e.type === 'update_display') this.update(e);
    else {
      run.input = null;
      if (cell.outputs.apply(e)) this.note(cell, e);
    }
    cell.changed();
  }

  /** Output of an earlier run of a cell that runs again: only updates of displays still mean something. */
  private late(cell: Cell, e: StreamEvent): void {
    if (e.type === 'update_display') this.update(e);
    else if (e.type === 'done') this.finished(cell);
  }

  private started(cell: Cell, run: Run, e: StreamEvent): void {
    run.state = 'running';
    run.startedAt = e.t ?? Date.now();
    run.wallMs = null;
    run.artifacts = [];
    cell.outputs.clear();
  }

  private count(cell: Cell, run: Run, e: StreamEvent): void {
    run.state = 'running';
    cell.count = wholeNumber(e.content?.execution_count);
    this.forgetCode(cell, run.code);
  }

  private forgetCode(cell: Cell, code: string): void {
    const at = this.intents.findIndex(i => i.cell === cell.id && i.code === code);
    if (at >= 0) this.intents.splice(at, 1);
  }

  private status(cell: Cell, run: Run, e: StreamEvent): void {
    const state = (e.content as { execution_state?: string })?.execution_state;
    if (state !== 'idle' || e.cell) return; // runs of /v1 end with "done"
    run.state = 'done';
    run.wallMs = e.t ? e.t - run.startedAt : null;
    run.status = cell.outputs.items.some(o => o.kind === 'error') ? 'error' : 'ok';
    this.finished(cell);
  }

  private done(cell: Cell, run: Run, e: StreamEvent): void {
    const f = e.finished;
    run.state = 'done';
    run.input = null;
    run.status = f?.status ?? (e.status as Run['status']) ?? 'ok';
    run.detail = f?.detail ?? '';
    run.wallMs = f?.usage?.wall_ms ?? null;
    if (f?.execution_count) cell.count = f.execution_count;
    if (f && f.artifacts.length > run.artifacts.length) run.artifacts = f.artifacts;
    this.forgetCode(cell, run.code);
    this.finished(cell);
  }

  private note(cell: Cell, e: StreamEvent): void {
    const id = displayIdOf(e.content);
    if (id) this.known(id, cell);
  }

  private known(displayId: string, cell: Cell): void {
    const cells = this.displays.get(displayId) ?? new Set<Cell>();
    this.displays.set(displayId, cells.add(cell));
  }

  private update(e: StreamEvent): void {
    const content = e.content ?? {};
    for (const cell of this.displays.get(displayIdOf(content) ?? '') ?? [])
      if (cell.outputs.update(content)) cell.changed();
  }

  private gap(e: StreamEvent): void {
    const running = [...this.doc.cells].reverse().find(c => c.run?.state === 'running') ?? this.doc.cells[this.doc.cells.length - 1];
    running?.outputs.apply(e);
    running?.changed();
  }
}

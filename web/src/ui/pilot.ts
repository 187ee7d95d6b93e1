// What a person does in the notebook, whether by key or by button: which cell is selected, and what happens to it.
import { Cell, newId, type CellKind } from '../model/doc';
import type { LiveSession } from '../model/live';
import { Store } from '../model/store';
import { KernelQuestions } from '../net/kernel';
import type { CellEditor } from './codemirror';

export class Pilot extends Store {
  selected = '';
  help = false;
  readonly questions: KernelQuestions;
  private readonly editors = new Map<string, CellEditor>();
  private readonly boxes = new Map<string, HTMLElement>();
  private wanted: { id: string; edit: boolean } | null = null;
  private removed: { cell: Cell; at: number }[] = [];
  private lastKey = { key: '', at: 0 };

  constructor(readonly live: LiveSession) {
    super();
    this.questions = new KernelQuestions(live.session.id);
  }

  private get doc() {
    return this.live.doc;
  }

  register(id: string, editor: CellEditor | null): void {
    if (editor) this.editors.set(id, editor);
    else this.editors.delete(id);
    this.settle();
  }

  box(id: string, element: HTMLElement | null): void {
    if (element) this.boxes.set(id, element);
    else this.boxes.delete(id);
    this.settle();
  }

  /** Puts the focus where it belongs, as soon as that place is on the page. */
  private settle(): void {
    const w = this.wanted;
    const target = w && (w.edit ? this.editors.get(w.id) : this.boxes.get(w.id));
    if (!w || !target) return;
    this.wanted = null;
    target.focus();
    this.boxes.get(w.id)?.scrollIntoView({ block: 'nearest' });
  }

  select(id: string, edit: boolean): void {
    const cell = this.doc.cell(id);
    if (!cell) return;
    if (edit && cell.kind === 'markdown' && !cell.editing) {
      cell.editing = true;
      cell.now();
    }
    this.selected = id;
    this.wanted = { id, edit };
    this.now();
    this.settle(); // else when its element registers
  }

  focused(id: string): void {
    if (this.selected === id) return;
    this.selected = id;
    this.changed();
  }

  run(id: string, then: 'stay' | 'next' | 'insert'): void {
    const cell = this.doc.cell(id);
    if (!cell) return;
    if (cell.kind === 'markdown') {
      cell.editing = false;
      cell.changed();
      this.live.edited();
    } else if (cell.source.trim()) this.live.run(cell);
    const at = this.doc.index(id);
    const next = this.doc.cells[at + 1];
    if (then === 'stay') return cell.kind === 'markdown' ? this.select(id, false) : undefined;
    if (then === 'next' && next) return this.select(next.id, next.kind === 'code');
    this.insert(at + 1, 'code');
  }

  insert(at: number, kind: CellKind, source = '', edit = true): Cell {
    const cell = new Cell(newId(), kind, source);
    cell.editing = kind === 'markdown';
    this.doc.insert(at, cell);
    this.doc.now();
    this.live.edited();
    this.select(cell.id, edit);
    return cell;
  }

  remove(id: string): void {
    const at = this.doc.index(id);
    const cell = this.doc.cell(id);
    if (!cell) return;
    if (cell.busy) return this.live.tell('This cell is running. Interrupt it before you delete it.', true);
    this.removed.push({ cell, at });
    this.doc.remove(id);
    this.live.edited();
    const next = this.doc.cells[Math.min(at, this.doc.cells.length - 1)];
    if (next) this.select(next.id, false);
  }

  unremove(): void {
    const last = this.removed.pop();
    if (!last) return;
    this.doc.insert(Math.min(last.at, this.doc.cells.length), last.cell);
    this.live.edited();
    this.select(last.cell.id, false);
  }

  move(id: string, by: number): void {
    this.doc.move(id, by);
    this.live.edited();
    this.select(id, false);
  }

  convert(id: string, kind: CellKind): void {
    const cell = this.doc.cell(id);
    if (!cell || cell.kind === kind || cell.busy) return;
    cell.kind = kind;
    cell.editing = kind === 'markdown';
    cell.outputs.clear();
    cell.run = null;
    cell.count = null;
    cell.now(); // its new editor is there before the next key, which may be for it
    this.doc.changed();
    this.live.edited();
    this.select(id, false);
  }

  step(id: string, way: -1 | 1, edit: boolean): boolean {
    const next = this.doc.cells[this.doc.index(id) + way];
    if (next) this.select(next.id, edit && next.kind === 'code');
    return !!next;
  }

  runAll(): void {
    for (const cell of this.doc.cells) if (cell.kind === 'code' && cell.source.trim()) this.live.run(cell);
  }

  /** A key while a cell is selected but not edited. True when it meant something. */
  key(e: KeyboardEvent, id: string): boolean {
    const twice = this.lastKey.key === e.key && e.timeStamp - this.lastKey.at < 800;
    this.lastKey = { key: twice ? '' : e.key, at: e.timeStamp };
    const at = this.doc.index(id);
    if (e.key === 'Enter' && e.shiftKey) this.run(id, 'next');
    else if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) this.run(id, 'stay');
    else if (e.key === 'Enter' && e.altKey) this.run(id, 'insert');
    else if (e.altKey && e.key === 'ArrowUp') this.move(id, -1);
    else if (e.altKey && e.key === 'ArrowDown') this.move(id, 1);
    else if (e.ctrlKey || e.metaKey || e.altKey) return false;
    else if (e.key === 'Enter') this.select(id, true);
    else if (e.key === 'ArrowUp' || e.key === 'k') this.step(id, -1, false);
    else if (e.key === 'ArrowDown' || e.key === 'j') this.step(id, 1, false);
    else if (e.key === 'a') this.insert(at, 'code', '', false);
    else if (e.key === 'b') this.insert(at + 1, 'code', '', false);
    else if (e.key === 'm') this.convert(id, 'markdown');
    else if (e.key === 'y') this.convert(id, 'code');
    else if (e.key === 'z') this.unremove();
    else if (e.key === '?') this.showHelp(true);
    else if (e.key === 'd' || e.key === 'i' || e.key === '0') return this.doubled(e.key, id, twice);
    else return false;
    return true;
  }

  private doubled(key: string, id: string, twice: boolean): boolean {
    if (twice && key === 'd') this.remove(id);
    if (twice && key === 'i') void this.live.interrupt();
    if (twice && key === '0') void this.live.restart();
    return true;
  }

  showHelp(open: boolean): void {
    this.help = open;
    this.changed();
  }

  close(): void {
    this.questions.close();
  }
}

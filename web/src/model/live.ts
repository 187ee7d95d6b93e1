// One open session: its notebook, the stream that feeds it, and what a person may do with it. The notebook is
// kept as a file inside the session's VM, so that forks and rollbacks have it too; what happened after it was
// saved is read again from the session's log, by number, so that a closed tab loses and repeats nothing.
import { api, files } from '../net/api';
import { SessionStream, type Link } from '../net/stream';
import type { Session, SessionState, StreamEvent } from '../net/types';
import { Cell, Doc } from './doc';
import { writeNotebook } from './ipynb';
import { saveTrouble, type Notice } from './notice';
import { newRun, Runs } from './runs';
import { NOTEBOOK_PATH, readSaved, type Saved } from './saved';
import { Store } from './store';
import { TabSync } from './sync';

const SAVE_AFTER_MS = 1500;

interface Waiting {
  ref: string;
  cell: Cell;
}

export class LiveSession extends Store {
  doc = new Doc();
  link: Link = { state: 'connecting' };
  state: SessionState;
  reason = '';
  loaded = false;
  notice: Notice | null = null;
  private seq = 0;
  private stream: SessionStream | null = null;
  private readonly runs: Runs;
  private readonly tabs: TabSync;
  private saveTimer = 0;
  private dirty = false;
  private saving: Promise<void> = Promise.resolve();
  private waiting: Waiting[] = [];
  private refs = 0;
  private closed = false;
  private held = false;
  private unsaved = false;

  /** fresh: made just now, so nothing was saved in it. */
  constructor(
    readonly session: Session,
    private readonly fresh = false,
  ) {
    super();
    this.state = session.state;
    this.reason = session.reason ?? '';
    this.runs = new Runs(this.doc, () => this.touched());
    this.tabs = new TabSync(session.id, {
      doc: () => this.doc,
      reordered: () => this.changed(),
      expect: (cell, code) => this.expectForeign(cell, code),
      reload: () => void this.load(true),
    });
    window.addEventListener('pagehide', this.leaving);
  }

  /** Reads the notebook, then the log behind it. Does not wake a paused session. */
  async open(): Promise<void> {
    if (this.state === 'paused' || this.state === 'dead') return this.changed();
    await this.load(false);
  }

  async load(rolledBack: boolean): Promise<void> {
    const saved = this.fresh && !rolledBack ? null : await this.readSaved();
    if (this.closed) return;
    this.setDoc(saved?.doc ?? new Doc());
    const from = saved && saved.session === this.session.id ? saved.seq + 1 : 0;
    this.loaded = true;
    if (rolledBack) {
      this.settle(); // what ran at the checkpoint does not run any more: events since then are not of this notebook
      this.touched();
    } else {
      this.seq = Math.max(0, from - 1);
      this.connect(from);
    }
    this.changed();
  }

  private async readSaved(): Promise<Saved | null> {
    try {
      return await readSaved(this.session.id);
    } catch {
      this.tell('The saved notebook could not be read; what the log has is shown.', true);
      return null;
    }
  }

  setDoc(doc: Doc): void {
    this.doc = doc;
    if (!doc.cells.length) doc.append('code');
    this.runs.adopt(doc);
    doc.subscribe(() => this.tabs.announce());
    this.tabs.announce();
  }

  /** Another notebook takes the place of this one. */
  bring(doc: Doc): void {
    for (const cell of doc.cells) cell.run = null;
    this.setDoc(doc);
    this.touched();
    this.changed();
  }

  private settle(): void {
    for (const cell of this.doc.cells) {
      if (!cell.run || !cell.busy) continue;
      cell.run.state = 'done';
      cell.run.status ??= 'cancelled';
    }
  }

  private connect(from: number): void {
    this.stream?.close();
    this.stream = new SessionStream(this.session.id, from, {
      event: e => this.event(e),
      link: link => this.linked(link),
    });
  }

  private linked(link: Link): void {
    this.link = link;
    if (link.state === 'ended' && link.why === 'dead') {
      this.state = 'dead';
      this.reason = link.message;
      this.settle();
    }
    if (link.state === 'live') this.resend();
    this.changed();
  }

  private event(e: StreamEvent): void {
    if (e.seq !== undefined) this.seq = e.seq;
    if (e.type === 'accepted' && e.ref && e.cell) {
      this.waiting = this.waiting.filter(w => w.ref !== e.ref);
      return this.runs.accepted(e.ref, e.cell);
    }
    if (e.type === 'refused') return this.refused(e);
    if (e.type === 'state' && e.state) return this.stateIs(e.state, e.reason ?? '');
    if (e.type === 'status') this.kernelIs((e.content as { execution_state?: string })?.execution_state);
    this.runs.event(e);
  }

  private kernelIs(state: string | undefined): void {
    if (state !== 'busy' && state !== 'idle') return;
    if (this.state !== state && this.state !== 'dead') {
      this.state = state;
      this.changed();
    }
  }

  /** From the log, or from the list of sessions. */
  stateIs(state: SessionState, reason = ''): void {
    if (state === this.state) return;
    const woke = this.state === 'paused' && state !== 'paused';
    this.state = state;
    this.reason = reason;
    if (state === 'dead') this.settle();
    if (woke && !this.loaded) void this.load(false);
    this.changed();
  }

  private refused(e: StreamEvent): void {
    const waiting = this.waiting.find(w => w.ref === e.ref);
    this.waiting = this.waiting.filter(w => w !== waiting);
    if (!waiting?.cell.run) return this.tell(e.message ?? 'The gateway refused that.', true);
    this.runs.forget(waiting.ref);
    waiting.cell.run.state = 'lost';
    waiting.cell.run.detail = e.message ?? 'The gateway refused to run this cell.';
    waiting.cell.changed();
  }

  /** Runs a cell; when the connection is away, as soon as it is back. */
  run(cell: Cell): void {
    if (cell.kind !== 'code' || cell.busy) return;
    if (this.state === 'dead' || this.link.state === 'ended') return this.tell('This session has ended. Start a new one to run cells.', true);
    const ref = `${cell.id.slice(0, 60)}:${(this.refs += 1)}`;
    const code = cell.source;
    cell.run = newRun(code);
    cell.outputs.clear();
    cell.count = null;
    cell.changed();
    this.runs.expect(cell.id, code, ref);
    this.tabs.running(cell.id, code);
    this.waiting.push({ ref, cell });
    this.sendRun({ ref, cell });
    this.touched();
  }

  private sendRun(w: Waiting): void {
    if (!w.cell.run) return;
    const sent = this.stream?.send({ type: 'execute', ref: w.ref, code: w.cell.run.code, stdin: true });
    if (sent) w.cell.run.detail = 'sent';
    else if (this.state === 'paused' && !this.stream) void this.wake();
  }

  /** After a reconnect: what was never sent goes now. What was sent but not answered may run or not: no guessing. */
  private resend(): void {
    const sure = this.waiting.filter(w => w.cell.run?.state === 'sending' && w.cell.run.detail !== 'sent');
    for (const w of sure) this.sendRun(w);
    const unsure = this.waiting.filter(w => !sure.includes(w));
    if (unsure.length) setTimeout(() => this.giveUp(unsure), 6000);
  }

  private giveUp(unsure: Waiting[]): void {
    for (const w of unsure) {
      if (!this.waiting.includes(w)) continue;
      this.waiting = this.waiting.filter(x => x !== w);
      if (w.cell.run?.state !== 'sending') continue;
      this.runs.forget(w.ref);
      w.cell.run.state = 'lost';
      w.cell.run.detail = 'The connection broke before the gateway said that it has this cell. Look at the outputs, then run it again.';
      w.cell.changed();
    }
  }

  private expectForeign(id: string, code: string): void {
    const cell = this.doc.cell(id);
    this.runs.expect(id, code, `tab:${id}`);
    if (!cell || cell.busy) return;
    cell.run = newRun(code);
    cell.outputs.clear();
    cell.changed();
  }

  answer(cell: Cell, value: string): void {
    if (!cell.run?.id) return;
    const { prompt, password } = cell.run.input ?? { prompt: '', password: false };
    this.stream?.send({ type: 'stdin', ref: `in:${(this.refs += 1)}`, cell: cell.run.id, value });
    cell.outputs.write('stdout', `${prompt}${password ? '•'.repeat(value.length) : value}\n`);
    cell.run.input = null;
    cell.changed();
  }

  async wake(): Promise<void> {
    await this.act('resume', async () => {
      this.stateIs((await api.verb(this.session.id, 'resume')).state);
      if (!this.stream && this.loaded) this.connect(this.seq + 1);
      else if (!this.loaded) await this.load(false);
    });
  }

  interrupt = (): Promise<void> => this.act('interrupt', () => api.verb(this.session.id, 'interrupt'));
  restart = (): Promise<void> =>
    this.act('restart', async () => {
      await api.verb(this.session.id, 'restart');
      for (const cell of this.doc.cells) cell.forgetCount();
      this.tell('A fresh kernel: variables are gone, files are still there.', false);
    });
  pause = (): Promise<void> =>
    this.act('pause', async () => {
      await this.save();
      this.stateIs((await api.verb(this.session.id, 'pause')).state);
    });

  /** Does something and says in a sentence when it did not work. */
  async act(_what: string, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (e) {
      this.tell(e instanceof Error ? e.message : String(e), true);
    }
  }

  tell(text: string, error: boolean, way?: Notice['way']): void {
    this.notice = { text, error, way };
    this.changed();
  }

  /** The notebook changed in a way that is worth keeping. */
  touched(): void {
    this.dirty = true;
    if (this.saveTimer || this.state === 'paused') return;
    this.saveTimer = window.setTimeout(() => {
      this.saveTimer = 0;
      void this.save();
    }, SAVE_AFTER_MS);
  }

  edited(): void {
    this.tabs.announce();
    this.touched();
  }

  /** The other tabs read the notebook again, as after a rollback. */
  tellReload(): void {
    this.tabs.reload();
  }

  async save(): Promise<void> {
    this.saving = this.saving.then(() => this.write(false));
    return this.saving;
  }

  /** Goes back in time: what is shown now must not be saved into the machine as it was then. */
  async withoutSaving(work: () => Promise<unknown>): Promise<void> {
    await this.save();
    this.held = true;
    try {
      await work();
    } finally {
      this.held = false;
      if (this.dirty) this.touched();
    }
  }

  private async write(leaving: boolean): Promise<void> {
    if (this.held) return;
    const asleep = this.state === 'paused' || this.state === 'dead' || this.link.state === 'ended';
    if (!this.dirty || !this.loaded || asleep) return;
    this.dirty = false;
    const text = writeNotebook(this.doc, { session: this.session.id, seq: this.seq });
    if (leaving && text.length > 60_000) return; // more than a page may send when it goes; the log has the rest
    try {
      await files.put(this.session.id, NOTEBOOK_PATH, text, leaving);
      this.unsaved = false;
    } catch (e) {
      this.dirty = true; // with the next change, or when the connection is back
      const trouble = this.unsaved ? '' : saveTrouble(e); // said once
      if (trouble) this.tell(trouble, true);
      this.unsaved ||= !!trouble;
    }
  }

  private readonly leaving = (): void => {
    void this.write(true);
  };

  close(): void {
    this.closed = true;
    clearTimeout(this.saveTimer);
    if (this.dirty) void this.save();
    this.stream?.close();
    this.tabs.close();
    window.removeEventListener('pagehide', this.leaving);
  }
}

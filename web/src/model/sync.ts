// Keeps the tabs of one browser that show one session in step: order and text of the cells. Outputs need no
// help, every tab reads them from the session's log.
import { Cell, type CellKind, type Doc, type Voice } from './doc';

interface Plain {
  id: string;
  kind: CellKind;
  source: string;
  voice: Voice;
}

type Message =
  | { type: 'doc'; cells: Plain[] }
  | { type: 'hello' }
  | { type: 'running'; cell: string; code: string }
  | { type: 'reload' };

export interface SyncHandlers {
  doc: () => Doc;
  reordered: () => void;
  expect: (cell: string, code: string) => void;
  reload: () => void;
}

const ANNOUNCE_AFTER_MS = 120;

export class TabSync {
  private readonly channel: BroadcastChannel | null;
  private timer = 0;
  private said = '';

  constructor(
    session: string,
    private readonly on: SyncHandlers,
  ) {
    this.channel = 'BroadcastChannel' in window ? new BroadcastChannel(`cellkeep:${session}`) : null;
    if (this.channel) this.channel.onmessage = m => this.take(m.data as Message);
    this.post({ type: 'hello' });
  }

  /** Something of the notebook changed: the others hear of it soon, if it is news. */
  announce(): void {
    this.timer ||= window.setTimeout(() => {
      this.timer = 0;
      this.say(false);
    }, ANNOUNCE_AFTER_MS);
  }

  running(cell: string, code: string): void {
    this.say(false);
    this.post({ type: 'running', cell, code });
  }

  reload(): void {
    this.post({ type: 'reload' });
  }

  close(): void {
    clearTimeout(this.timer);
    this.channel?.close();
  }

  private plain(): Plain[] {
    return this.on.doc().cells.map(c => ({ id: c.id, kind: c.kind, source: c.source, voice: c.voice }));
  }

  private say(again: boolean): void {
    const cells = this.plain();
    const text = JSON.stringify(cells);
    if (text === this.said && !again) return;
    this.said = text;
    this.post({ type: 'doc', cells });
  }

  private post(message: Message): void {
    this.channel?.postMessage(message);
  }

  private take(message: Message): void {
    if (message.type === 'hello') {
      if (this.on.doc().cells.length) this.say(true);
    } else if (message.type === 'running') this.on.expect(message.cell, message.code);
    else if (message.type === 'reload') this.on.reload();
    else this.merge(message.cells);
  }

  private merge(plain: Plain[]): void {
    const doc = this.on.doc();
    if (!doc.cells.length || !plain.length) return; // still loading
    doc.cells = plain.map(p => {
      const cell = doc.cell(p.id) ?? new Cell(p.id, p.kind);
      const same = cell.kind === p.kind && cell.source === p.source && cell.voice === p.voice;
      if (!same) {
        Object.assign(cell, { kind: p.kind, source: p.source, voice: p.voice });
        cell.changed();
      }
      return cell;
    });
    this.said = JSON.stringify(this.plain());
    doc.changed();
    this.on.reordered();
  }
}

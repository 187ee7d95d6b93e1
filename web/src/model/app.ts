// Everything the page shows: the list of sessions, which one is open, and how it is looked at.
import { api, ApiError } from '../net/api';
import { getToken, setToken } from '../net/base';
import { browserStorage } from '../net/memory';
import type { Choice, Session } from '../net/types';
import { readNotebook } from './ipynb';
import { LiveSession } from './live';
import { Store } from './store';
import { forkName, freshName } from './names';

export type View = 'notebook' | 'chat';
export type Panel = 'files' | 'timeline' | null;

const LAST = 'cellkeep.last';
const POLL_MS = 3000;
const SAMPLES = 40;

export interface Sample {
  memory: number;
  cpu: number;
}

export const choiceWords = (c: Choice): string => `${c.template}, ${c.memory_mb} MB`;

export class App extends Store {
  needsToken: 'missing' | 'wrong' | null = null;
  sessions: Session[] = [];
  live: LiveSession | null = null;
  view: View = 'notebook';
  panel: Panel = null;
  railOpen = false;
  gatewayAway = false;
  creating = false;
  creatingSince = 0;
  choices: Choice[] = []; // templates in their sizes
  choice = ''; // of them, as its words; '' is what the gateway takes by itself
  failure = '';
  readonly samples = new Map<string, Sample[]>();
  private readonly lastCpu = new Map<string, { cpu: number; at: number }>();
  private polling = 0;
  private turns = 0;

  async start(): Promise<void> {
    if (!getToken()) return this.askToken('missing');
    if (/[^\x21-\x7e]/.test(getToken())) return this.askToken('wrong'); // no header can carry it
    window.addEventListener('hashchange', () => void this.followAddress());
    document.addEventListener('visibilitychange', () => void this.poll());
    if (!(await this.refresh())) return;
    void this.offer();
    await this.followAddress();
    this.schedule();
  }

  async useToken(token: string): Promise<void> {
    setToken(token.trim());
    this.needsToken = null;
    this.changed();
    await this.start();
  }

  private askToken(why: 'missing' | 'wrong'): void {
    if (why === 'wrong') setToken('');
    this.needsToken = why;
    this.changed();
  }

  /** The list, anew. False when there is no way in. */
  async refresh(): Promise<boolean> {
    try {
      this.sessions = await api.sessions();
      this.gatewayAway = false;
    } catch (e) {
      if (e instanceof ApiError && (e.status === 401 || e.status === 403)) return this.askToken('wrong'), false;
      this.gatewayAway = true;
    }
    const current = this.sessions.find(s => s.id === this.live?.session.id);
    if (current && this.live && (current.state === 'paused' || this.live.state === 'paused')) this.live.stateIs(current.state, current.reason);
    this.changed();
    return true;
  }

  /** What a new session may be made of: asked when the page opens. */
  private async offer(): Promise<void> {
    const list = await api.templates().catch(() => []);
    this.choices = list.flatMap(t => t.memory_mb.map(memory_mb => ({ template: t.name, memory_mb })));
    this.changed();
  }

  private schedule(): void {
    clearTimeout(this.polling);
    this.polling = window.setTimeout(() => void this.poll(), POLL_MS);
  }

  private async poll(): Promise<void> {
    clearTimeout(this.polling);
    if (!document.hidden && !this.needsToken) {
      await this.refresh();
      await this.measure();
    }
    this.schedule();
  }

  /** Memory and processor time for the little charts: of the open session each time, of the others in turn. */
  private async measure(): Promise<void> {
    const running = this.sessions.filter(s => s.state === 'idle' || s.state === 'busy').map(s => s.id);
    const open = this.live?.session.id;
    const others = running.filter(id => id !== open);
    const turn = others[(this.turns += 1) % Math.max(1, others.length)];
    for (const id of [open, turn]) if (id && running.includes(id)) await this.measureOne(id);
    for (const id of this.samples.keys()) if (!running.includes(id)) this.samples.delete(id);
    this.changed();
  }

  private async measureOne(id: string): Promise<void> {
    const session = await api.session(id).catch(() => null);
    if (!session?.usage) return;
    const now = performance.now();
    const before = this.lastCpu.get(id);
    this.lastCpu.set(id, { cpu: session.usage.cpu_ms, at: now });
    const cpu = before ? Math.min(1, Math.max(0, (session.usage.cpu_ms - before.cpu) / (now - before.at))) : 0;
    const list = [...(this.samples.get(id) ?? []), { memory: session.usage.memory_bytes, cpu }];
    this.samples.set(id, list.slice(-SAMPLES));
  }

  private async followAddress(): Promise<void> {
    const [id, view] = location.hash.replace(/^#\/?/, '').split('/');
    this.view = view === 'chat' ? 'chat' : 'notebook';
    if (id && id === this.live?.session.id) return this.changed();
    const wanted = id || browserStorage.get(LAST);
    const found = this.sessions.find(s => s.id === wanted && (id || s.state !== 'dead'));
    if (found) return this.open(found);
    if (id) {
      this.failure = 'There is no such session any more. It was deleted, here or elsewhere.';
      this.live?.close();
      this.live = null;
      return this.changed();
    }
    if (!this.gatewayAway) await this.create();
  }

  /** A new session, opened; with a notebook (as JSON) to begin with. */
  async create(notebook?: string): Promise<void> {
    if (this.creating) return;
    this.creating = true;
    this.creatingSince = Date.now();
    this.failure = '';
    this.changed();
    const clock = window.setInterval(() => this.changed(), 1000);
    try {
      const session = await api.create(freshName(this.sessions.map(s => s.name)), this.choices.find(c => choiceWords(c) === this.choice));
      this.sessions = [...this.sessions, session];
      await this.open(session, true);
      if (notebook && this.live?.session.id === session.id) this.live.bring(readNotebook(notebook));
    } catch (e) {
      this.failure = e instanceof Error ? e.message : String(e);
    }
    clearInterval(clock);
    this.creating = false;
    this.changed();
  }

  async open(session: Session, fresh = false): Promise<void> {
    this.live?.close();
    this.failure = '';
    this.railOpen = false;
    const live = new LiveSession(session, fresh);
    this.live = live;
    browserStorage.set(LAST, session.id);
    this.address();
    this.changed();
    await live.open();
  }

  private address(): void {
    const hash = this.live ? `#${this.live.session.id}${this.view === 'chat' ? '/chat' : ''}` : '';
    if (location.hash !== hash) history.replaceState(null, '', location.pathname + location.search + hash);
  }

  look(view: View): void {
    this.view = view;
    this.address();
    this.changed();
  }

  show(panel: Panel): void {
    this.panel = this.panel === panel ? null : panel;
    this.changed();
  }

  /** A copy of the session as it is now, or as it was at a checkpoint, opened. */
  async fork(session: Session, checkpoint?: string): Promise<void> {
    if (!checkpoint && this.live?.session.id === session.id) await this.live.save();
    const [copy] = await api.fork(session.id, checkpoint);
    await this.refresh(); // the gateway counts anew with each fork
    const taken = this.sessions.filter(s => s.id !== copy?.id).map(s => s.name);
    if (copy && taken.includes(copy.name)) copy.name = (await api.rename(copy.id, forkName(session.name, taken))).name;
    if (copy) await this.open(copy);
  }

  toggleRail(): void {
    this.railOpen = !this.railOpen;
    this.changed();
  }

  async remove(session: Session): Promise<void> {
    await api.remove(session.id);
    this.sessions = this.sessions.filter(s => s.id !== session.id);
    if (this.live?.session.id === session.id) {
      this.live.close();
      this.live = null;
      this.address();
    }
    this.changed();
  }
}

export const app = new App();

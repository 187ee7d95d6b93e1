// The session's events over a WebSocket that comes back by itself and goes on after the last event that was
// handled: nothing is lost, nothing comes twice. Knows nothing of notebooks.
import { api, ApiError } from './api';
import { getToken, wsUrl } from './base';
import type { StreamEvent } from './types';

export type Link =
  | { state: 'connecting' }
  | { state: 'live' }
  | { state: 'reconnecting'; since: number }
  | { state: 'ended'; why: 'deleted' | 'dead' | 'forbidden'; message: string };

export interface StreamHandlers {
  event: (e: StreamEvent) => void;
  link: (link: Link) => void;
}

const RETRY_MS = [300, 700, 1500, 3000, 5000];

export class SessionStream {
  private socket: WebSocket | null = null;
  private tries = 0;
  private timer = 0;
  private closed = false;
  private lostSince = 0;
  private beenLive = false;

  constructor(
    private readonly session: string,
    private next: number,
    private readonly handlers: StreamHandlers,
  ) {
    window.addEventListener('online', this.soon);
    window.addEventListener('offline', this.cut);
    this.connect();
  }

  get live(): boolean {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  send(message: Record<string, unknown>): boolean {
    if (!this.live) return false;
    this.socket?.send(JSON.stringify(message));
    return true;
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    window.removeEventListener('online', this.soon);
    window.removeEventListener('offline', this.cut);
    this.socket?.close();
    this.socket = null;
  }

  private readonly cut = (): void => {
    this.socket?.close();
  };

  private readonly soon = (): void => {
    if (this.live || this.closed) return;
    this.tries = 0;
    clearTimeout(this.timer);
    this.connect();
  };

  private connect(): void {
    if (this.closed || this.socket) return;
    if (!this.beenLive) this.handlers.link({ state: 'connecting' });
    const query = `from=${this.next}&token=${encodeURIComponent(getToken())}`;
    const socket = new WebSocket(wsUrl(`/v1/sessions/${encodeURIComponent(this.session)}/stream?${query}`));
    this.socket = socket;
    socket.onopen = () => {
      this.tries = 0;
      this.lostSince = 0;
      this.beenLive = true;
      this.handlers.link({ state: 'live' });
    };
    socket.onmessage = message => this.take(message.data);
    socket.onclose = () => {
      if (this.socket === socket) this.socket = null;
      if (!this.closed) void this.lost();
    };
  }

  private take(data: unknown): void {
    const event = JSON.parse(String(data)) as StreamEvent;
    if (event.seq !== undefined) {
      if (event.seq < this.next) return;
      this.next = event.seq + 1;
    }
    this.handlers.event(event);
  }

  /** Asks why, as a browser does not say; then tries again unless there is nothing to come back to. */
  private async lost(): Promise<void> {
    this.lostSince ||= Date.now();
    this.handlers.link({ state: 'reconnecting', since: this.lostSince });
    try {
      const session = await api.session(this.session);
      if (session.state === 'dead')
        return this.end('dead', session.reason ?? 'The virtual machine of this session has ended.');
    } catch (e) {
      if (e instanceof ApiError && e.status === 404)
        return this.end('deleted', 'This session was deleted, here or elsewhere.');
      if (e instanceof ApiError && (e.status === 401 || e.status === 403))
        return this.end('forbidden', 'The gateway does not take this token any more.');
    }
    if (this.closed) return;
    this.timer = window.setTimeout(() => this.connect(), RETRY_MS[Math.min(this.tries, RETRY_MS.length - 1)]);
    this.tries += 1;
  }

  private end(why: 'deleted' | 'dead' | 'forbidden', message: string): void {
    this.handlers.link({ state: 'ended', why, message });
    this.close();
  }
}


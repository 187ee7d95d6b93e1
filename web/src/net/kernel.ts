// Completion and inspection: two requests of the Jupyter protocol over the Jupyter door. @jupyterlab/services
// would do it too, at more weight than the rest of this page; cells run over the cell API. The socket is opened
// when it is first needed and closed when it was not used for a while, so that output is not sent twice.
import { getToken, wsUrl } from './base';

const IDLE_MS = 20_000;
const ANSWER_MS = 8_000;

interface Reply {
  parent_header?: { msg_id?: string };
  channel?: string;
  content?: unknown;
}

export interface Completion {
  matches: string[];
  cursor_start: number;
  cursor_end: number;
  metadata?: { _jupyter_types_experimental?: { text: string; type: string; start?: number; end?: number }[] };
}

export class KernelQuestions {
  private socket: WebSocket | null = null;
  private opening: Promise<WebSocket> | null = null;
  private readonly asked = new Map<string, (content: unknown) => void>();
  private idle = 0;

  constructor(private readonly session: string) {}

  complete(code: string, cursor: number): Promise<Completion | null> {
    return this.ask('complete_request', { code, cursor_pos: cursor }) as Promise<Completion | null>;
  }

  async inspect(code: string, cursor: number): Promise<string | null> {
    const reply = (await this.ask('inspect_request', { code, cursor_pos: cursor, detail_level: 0 })) as
      { found?: boolean; data?: Record<string, string> } | null;
    return reply?.found ? (reply.data?.['text/plain'] ?? null) : null;
  }

  close(): void {
    clearTimeout(this.idle);
    this.socket?.close();
  }

  private async ask(type: string, content: Record<string, unknown>): Promise<unknown> {
    const socket = await this.open().catch(() => null);
    if (!socket) return null;
    const id = crypto.randomUUID();
    const header = { msg_id: id, msg_type: type, username: '', session: 'cellkeep-web', version: '5.3', date: new Date().toISOString() };
    const answer = new Promise<unknown>(resolve => {
      this.asked.set(id, resolve);
      setTimeout(() => resolve(null), ANSWER_MS);
    });
    socket.send(JSON.stringify({ header, parent_header: {}, metadata: {}, content, channel: 'shell', buffers: [] }));
    const result = await answer;
    this.asked.delete(id);
    clearTimeout(this.idle);
    this.idle = window.setTimeout(() => this.close(), IDLE_MS);
    return result;
  }

  private open(): Promise<WebSocket> {
    if (this.socket?.readyState === WebSocket.OPEN) return Promise.resolve(this.socket);
    this.opening ??= new Promise<WebSocket>((resolve, reject) => {
      const query = `session_id=${crypto.randomUUID()}&token=${encodeURIComponent(getToken())}`;
      const socket = new WebSocket(wsUrl(`/api/kernels/${this.session}/channels?${query}`));
      socket.onopen = () => resolve(socket);
      socket.onclose = () => {
        this.socket = null;
        this.opening = null;
        reject(new Error('closed'));
      };
      socket.onmessage = m => this.take(m.data);
      this.socket = socket;
    }).finally(() => (this.opening = null));
    return this.opening;
  }

  private take(data: unknown): void {
    if (typeof data !== 'string') return;
    const message = JSON.parse(data) as Reply;
    if (message.channel === 'shell') this.asked.get(message.parent_header?.msg_id ?? '')?.(message.content);
  }
}

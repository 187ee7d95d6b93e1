// What one run of a cell has shown so far, made from events in order. Pure: no views, no sockets.
import type { ErrorContent, MimeBundle, StreamEvent } from '../net/types';
import { TextBuf } from './textbuf';

export type Output =
  | { kind: 'stream'; name: 'stdout' | 'stderr'; text: TextBuf }
  | { kind: 'data'; data: MimeBundle; metadata: Record<string, unknown>; count: number | null; displayId?: string; version: number }
  | { kind: 'error'; error: ErrorContent }
  | { kind: 'gap'; count: number; bytes: number };

interface DataContent {
  data?: MimeBundle;
  metadata?: Record<string, unknown>;
  execution_count?: number;
  transient?: { display_id?: string };
}

export class Outputs {
  items: Output[] = [];
  private clearNext = false;

  clear(): void {
    this.items = [];
    this.clearNext = false;
  }

  /** True when the event was an output. */
  apply(e: StreamEvent): boolean {
    if (e.type === 'clear_output') {
      if ((e.content as { wait?: boolean } | undefined)?.wait) this.clearNext = true;
      else this.clear();
      return true;
    }
    if (e.type === 'gap') this.items.push({ kind: 'gap', count: e.count ?? 0, bytes: e.bytes ?? 0 });
    else if (e.type === 'stream') this.stream(e.content as { name?: string; text?: string });
    else if (e.type === 'display' || e.type === 'result') this.data(e.content as DataContent, e.type === 'result');
    else if (e.type === 'error') this.error(e.content as unknown as ErrorContent);
    else return false;
    return true;
  }

  /** A display that was made earlier, maybe by another cell. True when it is one of these. */
  update(content: DataContent): boolean {
    const id = content.transient?.display_id;
    let found = false;
    for (const item of this.items) {
      if (item.kind !== 'data' || !id || item.displayId !== id) continue;
      item.data = content.data ?? {};
      item.metadata = content.metadata ?? {};
      item.version += 1;
      found = true;
    }
    return found;
  }

  write(name: 'stdout' | 'stderr', text: string): void {
    this.ready();
    const last = this.items[this.items.length - 1];
    if (last?.kind === 'stream' && last.name === name) return last.text.write(text);
    const buf = new TextBuf();
    buf.write(text);
    this.items.push({ kind: 'stream', name, text: buf });
  }

  private ready(): void {
    if (this.clearNext) this.clear();
  }

  private stream(content: { name?: string; text?: string }): void {
    this.write(content.name === 'stderr' ? 'stderr' : 'stdout', content.text ?? '');
  }

  private data(content: DataContent, result: boolean): void {
    this.ready();
    this.items.push({
      kind: 'data',
      data: content.data ?? {},
      metadata: content.metadata ?? {},
      count: result ? (content.execution_count ?? null) : null,
      displayId: content.transient?.display_id,
      version: 0,
    });
  }

  private error(content: ErrorContent): void {
    this.ready();
    this.items.push({ kind: 'error', error: content });
  }
}

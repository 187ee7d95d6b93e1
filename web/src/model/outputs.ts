// What one run of a cell has shown so far, made from events in order. Pure: no views, no sockets. The contents are a
// kernel's, whose code may send anything: what is stored here has the types that it says.
import type { ErrorContent, MimeBundle, StreamEvent } from '../net/types';
import { TextBuf } from './textbuf';

export type Output =
  | { kind: 'stream'; name: 'stdout' | 'stderr'; text: TextBuf }
  | { kind: 'data'; data: MimeBundle; metadata: Record<string, unknown>; count: number | null; displayId?: string; version: number }
  | { kind: 'error'; error: ErrorContent }
  | { kind: 'gap'; count: number; bytes: number };

/** plotly sends its library along as HTML that shows nothing; this page has its own. */
export function isLoader(o: Output): boolean {
  if (o.kind !== 'data') return false;
  const html = o.data['text/html'];
  if (typeof html !== 'string' || o.data['application/vnd.plotly.v1+json'] || !/plotly/i.test(html)) return false;
  return !html.replace(/<(script|style)\b[\s\S]*?<\/\1\s*>/gi, '').trim();
}

type Dict = Record<string, unknown>;
const dict = (v: unknown): Dict => (typeof v === 'object' && v !== null && !Array.isArray(v) ? (v as Dict) : {});
const string = (v: unknown): string => (typeof v === 'string' ? v : v === undefined || v === null ? '' : JSON.stringify(v));
export const wholeNumber = (v: unknown): number | null => (typeof v === 'number' && Number.isInteger(v) ? v : null);
export function displayIdOf(content: unknown): string | undefined {
  const id = dict(dict(content).transient).display_id;
  return typeof id === 'string' && id ? id : undefined;
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
    if (e.type === 'gap') this.items.push({ kind: 'gap', count: wholeNumber(e.count) ?? 0, bytes: wholeNumber(e.bytes) ?? 0 });
    else if (e.type === 'stream') this.stream(dict(e.content));
    else if (e.type === 'display' || e.type === 'result') this.data(dict(e.content), e.type === 'result');
    else if (e.type === 'error') this.error(dict(e.content));
    else return false;
    return true;
  }

  /** A display that was made earlier, maybe by another cell. True when it is one of these. */
  update(content: Dict): boolean {
    const id = displayIdOf(content);
    let found = false;
    for (const item of this.items) {
      if (item.kind !== 'data' || !id || item.displayId !== id) continue;
      item.data = dict(content.data);
      item.metadata = dict(content.metadata);
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

  private stream(content: Dict): void {
    this.write(content.name === 'stderr' ? 'stderr' : 'stdout', string(content.text));
  }

  private data(content: Dict, result: boolean): void {
    this.ready();
    this.items.push({
      kind: 'data',
      data: dict(content.data),
      metadata: dict(content.metadata),
      count: result ? wholeNumber(content.execution_count) : null,
      displayId: displayIdOf(content),
      version: 0,
    });
  }

  private error(content: Dict): void {
    this.ready();
    const traceback = Array.isArray(content.traceback) ? content.traceback.map(string) : [];
    this.items.push({ kind: 'error', error: { ename: string(content.ename) || 'Error', evalue: string(content.evalue), traceback } });
  }
}

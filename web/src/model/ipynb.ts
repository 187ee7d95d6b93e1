// nbformat 4: reading what people bring, writing what others can read. Reading checks everything, as the file
// may come from anywhere; what is wrong is said in a sentence.
import type { MimeBundle } from '../net/types';
import type { Artifact, CellStatus } from '../net/types';
import { Cell, Doc, newId, type Run, type RunState } from './doc';
import { isLoader, type Output } from './outputs';
import { TextBuf } from './textbuf';

const SAVED_TEXT_MAX = 512 * 1024; // of one stream output; the rest is in the session's log only

export class NotebookError extends Error {}

interface RawCell {
  cell_type?: unknown;
  id?: unknown;
  source?: unknown;
  outputs?: unknown;
  execution_count?: unknown;
  metadata?: unknown;
}

type Dict = Record<string, unknown>;
const isDict = (v: unknown): v is Dict => typeof v === 'object' && v !== null && !Array.isArray(v);
const dict = (v: unknown): Dict => (isDict(v) ? v : {});

function text(v: unknown, where: string): string {
  if (typeof v === 'string') return v;
  if (Array.isArray(v) && v.every(x => typeof x === 'string')) return v.join('');
  throw new NotebookError(`${where} has no text where text belongs.`);
}

/** nbformat cuts text at its lines; JSON and what is no text stays as it is. */
function readBundle(v: unknown): MimeBundle {
  const out: MimeBundle = {};
  for (const [mime, value] of Object.entries(dict(v))) {
    const lines = Array.isArray(value) && value.every(x => typeof x === 'string');
    out[mime] = lines && !/json$/.test(mime) ? value.join('') : value;
  }
  return out;
}

function readOutput(raw: unknown, cell: Cell, where: string): void {
  const o = dict(raw);
  const items = cell.outputs.items;
  if (o.output_type === 'stream') cell.outputs.write(o.name === 'stderr' ? 'stderr' : 'stdout', text(o.text, where));
  else if (o.output_type === 'error') {
    const tb = Array.isArray(o.traceback) ? o.traceback.map(String) : [];
    items.push({ kind: 'error', error: { ename: String(o.ename), evalue: String(o.evalue), traceback: tb } });
  } else if (o.output_type === 'display_data' || o.output_type === 'execute_result') {
    const count = typeof o.execution_count === 'number' ? o.execution_count : null;
    const id = dict(dict(o.metadata).cellkeep).display_id;
    items.push({
      kind: 'data', data: readBundle(o.data), metadata: dict(o.metadata), count, version: 0,
      displayId: typeof id === 'string' ? id : undefined,
    });
  }
}

const STATES: readonly RunState[] = ['sending', 'queued', 'running', 'done', 'lost'];
const ENDINGS: readonly CellStatus[] = ['ok', 'error', 'timeout', 'interrupted', 'cancelled', 'oom', 'kernel_died', 'vm_died'];

function readArtifact(v: unknown): Artifact[] {
  const a = dict(v);
  const { path, name, mime, size } = a;
  if (typeof path !== 'string' || typeof name !== 'string' || typeof mime !== 'string' || typeof size !== 'number') return [];
  return [{ path, name, mime, size, change: a.change === 'changed' ? 'changed' : 'created', url: '' }];
}

/** How a cell's last run went. The file lies in the session, where its code may have written anything into it. */
function readRun(v: unknown): Run | null {
  const r = dict(v);
  const state = STATES.find(s => s === r.state);
  if (typeof r.id !== 'string' || !r.id || !state) return null;
  const string = (x: unknown): string => (typeof x === 'string' ? x : '');
  const input = isDict(r.input) ? { prompt: string(r.input.prompt), password: r.input.password === true } : null;
  return {
    id: r.id, state, input, detail: string(r.detail), code: string(r.code),
    status: ENDINGS.find(s => s === r.status) ?? null,
    startedAt: typeof r.startedAt === 'number' ? r.startedAt : Date.now(),
    wallMs: typeof r.wallMs === 'number' ? r.wallMs : null,
    artifacts: Array.isArray(r.artifacts) ? r.artifacts.slice(0, 1000).flatMap(readArtifact) : [],
  };
}

function readCell(raw: RawCell, n: number): Cell {
  const where = `Cell ${n + 1}`;
  if (!isDict(raw)) throw new NotebookError(`${where} is not an object.`);
  const kind = raw.cell_type === 'code' ? 'code' : raw.cell_type === 'markdown' || raw.cell_type === 'raw' ? 'markdown' : null;
  if (!kind) throw new NotebookError(`${where} is of an unknown type (${JSON.stringify(raw.cell_type) ?? 'none'}).`);
  const cell = new Cell(typeof raw.id === 'string' && raw.id ? raw.id : newId(), kind, text(raw.source, where));
  cell.metadata = dict(raw.metadata);
  const own = dict(cell.metadata.cellkeep);
  if (own.voice === 'user' || own.voice === 'assistant') cell.voice = own.voice;
  cell.run = readRun(own.run);
  if (typeof raw.execution_count === 'number') cell.count = raw.execution_count;
  if (kind === 'code' && Array.isArray(raw.outputs)) for (const o of raw.outputs) readOutput(o, cell, where);
  return cell;
}

/** Fills a new Doc. Throws a NotebookError with one sentence. */
export function readNotebook(json: string): Doc {
  let root: unknown;
  try {
    root = JSON.parse(json);
  } catch {
    throw new NotebookError('This file is not JSON, so it is not a notebook.');
  }
  if (!isDict(root)) throw new NotebookError('This file is JSON, but not a notebook.');
  if (typeof root.nbformat === 'number' && root.nbformat < 4)
    throw new NotebookError(`This notebook has format ${root.nbformat}; only format 4 is read. Jupyter's "nbconvert" upgrades it.`);
  if (root.nbformat !== 4 || !Array.isArray(root.cells))
    throw new NotebookError('This file has no cells of notebook format 4.');
  const doc = new Doc();
  doc.metadata = dict(root.metadata);
  doc.cells = root.cells.map((c, i) => readCell(c as RawCell, i));
  const seen = new Set<string>();
  doc.cells = doc.cells.map(c => {
    if (!seen.has(c.id)) return seen.add(c.id), c;
    const copy = Object.assign(new Cell(newId(), c.kind, c.source), { outputs: c.outputs, count: c.count });
    return copy;
  });
  return doc;
}

function cutText(buf: TextBuf): string {
  const whole = buf.toString();
  if (whole.length <= SAVED_TEXT_MAX) return whole;
  const half = SAVED_TEXT_MAX / 2;
  return `${whole.slice(0, half)}\n[… ${whole.length - SAVED_TEXT_MAX} characters left out …]\n${whole.slice(-half)}`;
}

function writeOutput(o: Output): Dict | null {
  if (o.kind === 'stream') return { output_type: 'stream', name: o.name, text: cutText(o.text) };
  if (o.kind === 'error') {
    const { ename, evalue, traceback } = o.error;
    return { output_type: 'error', ename, evalue, traceback };
  }
  if (o.kind === 'gap') return null;
  const metadata = o.displayId ? { ...o.metadata, cellkeep: { display_id: o.displayId } } : o.metadata;
  if (o.count !== null) return { output_type: 'execute_result', data: o.data, metadata, execution_count: o.count };
  return { output_type: 'display_data', data: o.data, metadata };
}

/** own: for this page, which has plotly; others want the library that plotly sends along as HTML of some megabytes. */
function writeCell(cell: Cell, own: boolean): Dict {
  const metadata: Dict = { ...cell.metadata };
  delete metadata.cellkeep;
  if (own && (cell.run || cell.voice)) metadata.cellkeep = { run: cell.run ?? undefined, voice: cell.voice ?? undefined };
  const id = cell.id.replace(/[^A-Za-z0-9_-]/g, '-').slice(0, 64);
  if (cell.kind === 'markdown') return { cell_type: 'markdown', id, metadata, source: cell.source };
  const outputs = cell.outputs.items.filter(o => !own || !isLoader(o)).map(writeOutput).filter(o => o !== null);
  return { cell_type: 'code', id, metadata, source: cell.source, execution_count: cell.count, outputs };
}

/** nbformat 4.5. extra: what this page wants to find again; left out in an export for others. */
export function writeNotebook(doc: Doc, extra?: Dict): string {
  const metadata: Dict = {
    ...doc.metadata,
    kernelspec: { name: 'python3', display_name: 'Python 3', language: 'python' },
    language_info: { name: 'python' },
  };
  delete metadata.cellkeep;
  if (extra) metadata.cellkeep = extra;
  const cells = doc.cells.map(c => writeCell(c, !!extra));
  return JSON.stringify({ nbformat: 4, nbformat_minor: 5, metadata, cells }, null, 1);
}

// The notebook as it lies in the session's VM, and up to which event of the log it goes.
import { ApiError, files } from '../net/api';
import type { Doc } from './doc';
import { readNotebook } from './ipynb';

export const NOTEBOOK_PATH = '/var/tmp/cellkeep/notebook.ipynb';

export interface Saved {
  doc: Doc;
  seq: number;
  session: string;
}

/** null: nothing was saved yet. */
export async function readSaved(session: string): Promise<Saved | null> {
  let text: string;
  try {
    text = await (await files.get(session, NOTEBOOK_PATH)).text();
  } catch (e) {
    if (e instanceof ApiError && e.status === 404) return null;
    throw e;
  }
  const doc = readNotebook(text);
  const own = (doc.metadata.cellkeep ?? {}) as { seq?: unknown; session?: unknown };
  const seq = typeof own.seq === 'number' && own.seq >= 0 && Number.isSafeInteger(own.seq) ? own.seq : 0;
  return { doc, seq, session: typeof own.session === 'string' ? own.session : '' };
}

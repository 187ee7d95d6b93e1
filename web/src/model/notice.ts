// What a session tells its person in a line at the bottom of the page.
import { ApiError } from '../net/api';

export interface Notice {
  text: string;
  error: boolean;
  /** Something that can be done about it. */
  way?: { label: string; go: () => void };
}

/** Why a notebook was not saved, as a sentence; '' for what the banner says already: gateway away, session gone. */
export function saveTrouble(e: unknown): string {
  if (!(e instanceof ApiError) || [0, 404, 410, 503, 504].includes(e.status)) return '';
  const why = e.status === 507 ? 'the disk of the session is full. Delete some files' : e.message.replace(/\.$/, '');
  return `The notebook could not be saved into the session: ${why}; it is tried again with your next change. The menu exports it.`;
}

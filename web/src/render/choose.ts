// Which form of a MIME bundle a person gets to see: the richest that this page can show.
import type { MimeBundle } from '../net/types';

const ORDER = [
  'application/vnd.plotly.v1+json',
  'text/html',
  'text/markdown',
  'image/svg+xml',
  'text/latex',
  'image/png',
  'image/jpeg',
  'image/webp',
  'image/gif',
  'application/json',
  'text/plain',
];

export function chooseMime(data: MimeBundle): string | null {
  for (const mime of ORDER) if (data[mime] !== undefined && data[mime] !== '') return mime;
  return Object.keys(data).find(m => m.endsWith('+json')) ?? null;
}

export const asText = (v: unknown): string => (typeof v === 'string' ? v : JSON.stringify(v, null, 2) ?? '');

/** True when HTML wants to run something, so that a sandbox is worth offering. */
export const hasScript = (html: string): boolean => /<script\b|<iframe\b|\son\w+\s*=|javascript:/i.test(html);

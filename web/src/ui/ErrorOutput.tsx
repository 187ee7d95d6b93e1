// An exception: its last line, where in the cell it was, and the whole traceback folded away.
import { useState } from 'preact/hooks';
import type { ErrorContent } from '../net/types';
import { stripAnsi } from '../render/ansi';
import { PlainText } from './DataOutput';

/** The line of the cell in which it happened, as IPython's tracebacks say it; null when it was elsewhere. */
export function errorLine(error: ErrorContent): number | null {
  const text = stripAnsi(error.traceback.join('\n'));
  let line: number | null = null;
  for (const m of text.matchAll(/(?:Cell |Input )In ?\[\d+\][^\n]*?line:? (\d+)/g)) line ??= Number(m[1]);
  return line;
}

export function ErrorOutput({ error }: { error: ErrorContent }) {
  const [open, setOpen] = useState(false);
  const line = errorLine(error);
  return (
    <div class="out-error" role="group" aria-label="Error">
      <p class="error-head">
        <strong>{error.ename}</strong>
        {error.evalue && <span>: {stripAnsi(error.evalue).slice(0, 2000)}</span>}
      </p>
      <p class="error-foot">
        {line !== null && <span>in line {line} of this cell</span>}
        {error.traceback.length > 0 && (
          <button class="link" aria-expanded={open} onClick={() => setOpen(!open)}>{open ? 'Hide the traceback' : 'Show the traceback'}</button>
        )}
      </p>
      {open && <PlainText text={error.traceback.join('\n')} />}
    </div>
  );
}

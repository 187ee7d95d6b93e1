// How a run goes or went: a timer while it runs, its ending in words when that was not the usual one.
import { useEffect, useState } from 'preact/hooks';
import type { Cell } from '../model/doc';
import { span } from './format';

const ENDINGS: Record<string, string> = {
  timeout: 'Its time was over.',
  interrupted: 'Interrupted. Variables are kept.',
  cancelled: 'Cancelled.',
  oom: 'Out of memory. A fresh kernel has started; files are kept, variables are not.',
  kernel_died: 'The kernel ended. A fresh one has started; files are kept, variables are not.',
  vm_died: 'The virtual machine ended, and the session with it.',
};

function Timer({ since }: { since: number }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick(n => n + 1), 200);
    return () => clearInterval(timer);
  }, []);
  const ms = Math.max(0, Date.now() - since);
  return <>{ms < 400 ? 'running' : span(ms)}</>;
}

export function RunTime({ cell }: { cell: Cell }) {
  const run = cell.run;
  if (!run) return null;
  if (run.state === 'sending') return <span class="run-time">sending…</span>;
  if (run.state === 'queued') return <span class="run-time">waiting…</span>;
  if (run.state === 'running') return <span class="run-time running"><Timer since={run.startedAt} /></span>;
  return run.wallMs === null ? null : <span class="run-time">{span(run.wallMs)}</span>;
}

export function RunEnding({ cell }: { cell: Cell }) {
  const run = cell.run;
  if (run?.state === 'lost') return <p class="ending" role="status">{run.detail}</p>;
  if (run?.state !== 'done' || !run.status) return null;
  const words = ENDINGS[run.status];
  return words ? <p class="ending" role="status">{run.detail ? sentence(run.detail) : words}</p> : null;
}

const sentence = (s: string): string => s.charAt(0).toUpperCase() + s.slice(1) + (/[.!?]$/.test(s) ? '' : '.');

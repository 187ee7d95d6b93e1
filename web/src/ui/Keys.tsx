// The keys of the notebook, in a dialog.
import { useEffect, useRef } from 'preact/hooks';
import { useStore } from '../model/store';
import type { Pilot } from './pilot';

const KEYS: [string, string][] = [
  ['Shift-Enter', 'run, go to the next cell'],
  ['Ctrl-Enter', 'run, stay'],
  ['Alt-Enter', 'run, add a cell below'],
  ['Esc / Enter', 'leave the text / edit it'],
  ['Tab, Shift-Tab', 'complete, explain (in code)'],
  ['a, b', 'add a cell above, below'],
  ['d d, z', 'delete, take back'],
  ['m, y', 'make it text, make it code'],
  ['j, k or arrows', 'next, previous cell'],
  ['Alt-arrows', 'move the cell'],
  ['i i, 0 0', 'interrupt, restart the kernel'],
];

export function Keys({ pilot }: { pilot: Pilot }) {
  useStore(pilot);
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (pilot.help && !ref.current?.open) ref.current?.showModal();
  }, [pilot.help]);
  if (!pilot.help) return null;
  return (
    <dialog ref={ref} class="sheet" aria-labelledby="keys-title" onClose={() => pilot.showHelp(false)}>
      <h2 id="keys-title">Keys</h2>
      <dl class="keys">{KEYS.map(([k, what]) => <div key={k}><dt><kbd>{k}</kbd></dt><dd>{what}</dd></div>)}</dl>
      <button class="button primary" onClick={() => ref.current?.close()}>Close</button>
    </dialog>
  );
}

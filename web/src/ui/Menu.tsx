// What is used less often: import and export, run all, keys, colours.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { LiveSession } from '../model/live';
import { NotebookError, readNotebook, writeNotebook } from '../model/ipynb';
import { downloadTar, saveBlob } from './download';
import { IconButton } from './icons';
import type { Pilot } from './pilot';
import { nextTheme, themeWords } from './theme';

export async function importNotebook(live: LiveSession, file: File): Promise<void> {
  try {
    const doc = readNotebook(await file.text());
    const before = writeNotebook(live.doc);
    const worth = live.doc.cells.some(c => c.source.trim());
    live.bring(doc);
    const n = doc.cells.length;
    const way = worth ? { label: 'Take my notebook back', go: () => live.bring(readNotebook(before)) } : undefined;
    live.tell(`${file.name}: ${n} ${n === 1 ? 'cell' : 'cells'}. Its code has not run here yet.`, false, way);
  } catch (e) {
    const why = e instanceof NotebookError ? e.message : 'It could not be read.';
    live.tell(`${file.name} was not imported, your notebook is as it was. ${why}`, true);
  }
}

const safeName = (name: string): string => name.replace(/[^\w.-]+/g, '-') || 'notebook';

export function Menu({ live, pilot }: { live: LiveSession; pilot: Pilot }) {
  const [open, setOpen] = useState(false);
  const [theme, setTheme] = useState(themeWords());
  const file = useRef<HTMLInputElement>(null);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (!open) return;
    const outside = (e: Event): void => {
      if (!box.current?.contains(e.target as Node)) setOpen(false);
    };
    document.addEventListener('pointerdown', outside);
    box.current?.querySelector<HTMLElement>('[role=menuitem]')?.focus();
    return () => document.removeEventListener('pointerdown', outside);
  }, [open]);
  const item = (label: string, work: () => void) => (
    <button role="menuitem" onClick={() => { setOpen(false); work(); }}>{label}</button>
  );
  const keyed = (e: KeyboardEvent): void => {
    const items = [...(box.current?.querySelectorAll<HTMLElement>('[role=menuitem]') ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    if (e.key === 'Escape') setOpen(false);
    if (e.key === 'ArrowDown') items[(at + 1) % items.length]?.focus();
    if (e.key === 'ArrowUp') items[(at - 1 + items.length) % items.length]?.focus();
  };
  const chosen = (): void => {
    const picked = file.current?.files?.[0];
    if (picked) void importNotebook(live, picked);
    if (file.current) file.current.value = '';
  };
  return (
    <div class="menu" ref={box} onKeyDown={keyed}>
      <IconButton icon="more" label="More" pressed={open} onClick={() => setOpen(!open)} />
      <input ref={file} type="file" accept=".ipynb,application/x-ipynb+json" hidden aria-label="Notebook to import" onChange={chosen} />
      {open && (
        <div class="menu-list" role="menu" aria-label="More">
          {item('Run all cells', () => pilot.runAll())}
          {item('Import a notebook…', () => file.current?.click())}
          {item('Export as .ipynb', () => saveBlob(new Blob([writeNotebook(live.doc)], { type: 'application/x-ipynb+json' }), `${safeName(live.session.name)}.ipynb`))}
          {item('Download all files (.tar)', () => void live.act('tar', () => downloadTar(live.session.id, '/home/user', `${safeName(live.session.name)}.tar`)))}
          {item('Keys', () => pilot.showHelp(true))}
          <button role="menuitem" onClick={() => setTheme(nextTheme())}>Colours: {theme}</button>
        </div>
      )}
    </div>
  );
}

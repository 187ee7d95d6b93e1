// A look into one file: a picture, the first rows of a CSV, the beginning of a text.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { LiveSession } from '../model/live';
import { files } from '../net/api';
import type { FileEntry } from '../net/types';
import { useBlobUrl } from './ArtifactCards';
import { parseCsv } from './csv';
import { download } from './download';
import { bytes, shownName } from './format';
import { IconButton } from './icons';

const TEXT_MAX = 64 * 1024;
const ROWS_MAX = 50;
const PICTURE = /\.(png|jpe?g|gif|webp|svg)$/i; // in an <img>, where an SVG runs nothing
const PICTURE_MAX = 64 * 1024 * 1024;

function Picture({ live, path, name }: { live: LiveSession; path: string; name: string }) {
  const { url, problem } = useBlobUrl(live.session.id, path, true);
  const [broken, setBroken] = useState('');
  if (problem) return <p class="hint" role="alert">{problem}</p>;
  if (url && broken === url) return <p class="hint" role="alert">This is no picture that a browser can show. Download it to look at it.</p>;
  return url ? <img class="preview-picture" src={url} alt={name} onError={() => setBroken(url)} /> : <p class="hint">Loading…</p>;
}

function Table({ text }: { text: string }) {
  const [head, ...rows] = parseCsv(text, ROWS_MAX + 1);
  return (
    <div class="table-box" tabIndex={0} role="region" aria-label="First rows">
      <table>
        <thead><tr>{head?.map((h, i) => <th key={i} scope="col">{h}</th>)}</tr></thead>
        <tbody>{rows.map((r, i) => <tr key={i}>{r.map((f, k) => <td key={k}>{f}</td>)}</tr>)}</tbody>
      </table>
    </div>
  );
}

function Text({ live, path, entry }: { live: LiveSession; path: string; entry: FileEntry }) {
  const [text, setText] = useState<string | null>(null);
  const [problem, setProblem] = useState('');
  useEffect(() => {
    setText(null);
    const part = entry.size > TEXT_MAX ? `bytes=0-${TEXT_MAX - 1}` : undefined;
    files.get(live.session.id, path, part)
      .then(r => r.text())
      .then(t => (t.includes('\0') ? setProblem('This is no text, so there is no preview. Download it to look at it.') : setText(t)))
      .catch((e: unknown) => setProblem(e instanceof Error ? e.message : String(e)));
  }, [path, entry.size, entry.modified_at]);
  if (problem) return <p class="hint" role="alert">{problem}</p>;
  if (text === null) return <p class="hint">Loading…</p>;
  if (!text) return <p class="hint">This file is empty.</p>;
  const table = /\.(csv|tsv)$/i.test(entry.name);
  return (
    <>
      {table ? <Table text={text} /> : <pre class="text preview-text" tabIndex={0}>{text}</pre>}
      {entry.size > TEXT_MAX && <p class="hint">The first {bytes(TEXT_MAX)} of {bytes(entry.size)}.</p>}
    </>
  );
}

export function Preview({ live, path, entry, close }: { live: LiveSession; path: string; entry: FileEntry; close: () => void }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (!ref.current?.open) ref.current?.showModal();
  }, [path]);
  const picture = PICTURE.test(entry.name) && entry.size <= PICTURE_MAX;
  return (
    <dialog ref={ref} class="sheet wide" aria-labelledby="preview-title" onClose={close}>
      <div class="panel-head">
        <h2 id="preview-title">{shownName(entry.name)}</h2>
        <span class="hint">{bytes(entry.size)}</span>
        <IconButton icon="download" label="Download" text onClick={() => void live.act('download', () => download(live.session.id, path, entry.name))} />
        <IconButton icon="close" label="Close" onClick={() => ref.current?.close()} />
      </div>
      {picture ? <Picture live={live} path={path} name={entry.name} /> : <Text live={live} path={path} entry={entry} />}
    </dialog>
  );
}

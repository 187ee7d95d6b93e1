// The files of the session: a tree, uploads on their way, and a look into one of them.
import { useEffect, useRef, useState } from 'preact/hooks';
import { app } from '../model/app';
import type { LiveSession } from '../model/live';
import { useStore } from '../model/store';
import { uploads, type Upload } from '../model/uploads';
import { files } from '../net/api';
import type { FileEntry } from '../net/types';
import { HOME, take } from './DropZone';
import { download, downloadTar } from './download';
import { bytes, shownName } from './format';
import { Icon, IconButton, Sure } from './icons';
import { Preview } from './Preview';

function UploadRow({ upload }: { upload: Upload }) {
  const part = upload.size ? Math.round((upload.sent / upload.size) * 100) : 100;
  return (
    <li class={`upload ${upload.state}`}>
      <span class="file-name">{upload.name}</span>
      {upload.state === 'going' && <progress value={part} max={100} aria-label={`Upload of ${upload.name}`}>{part} %</progress>}
      {upload.state === 'done' && <span class="hint"><Icon name="check" /> {bytes(upload.size)}</span>}
      {upload.state === 'failed' && <IconButton icon="close" label="Dismiss" onClick={() => uploads.dismiss(upload.id)} />}
      {upload.state === 'failed' && <span class="upload-why" role="alert">{upload.message}</span>}
    </li>
  );
}

interface RowProps {
  live: LiveSession;
  path: string;
  entry: FileEntry;
  depth: number;
  open: (path: string, entry: FileEntry) => void;
  deleted: () => void;
  fresh: number;
}

function Row({ live, path, entry, depth, open, deleted, fresh }: RowProps) {
  const [expanded, setExpanded] = useState(false);
  const [sure, setSure] = useState(false);
  const folder = entry.type === 'dir';
  const name = shownName(entry.name);
  const remove = (): void => {
    void live.act('delete', async () => {
      await files.remove(live.session.id, path);
      deleted();
    });
  };
  const save = (): Promise<void> =>
    live.act('download', () => (folder ? downloadTar(live.session.id, path, `${entry.name}.tar`) : download(live.session.id, path, entry.name)));
  return (
    <li>
      <div class="file-row" style={{ paddingLeft: `${8 + depth * 16}px` }}>
        <button class="file-open" aria-expanded={folder ? expanded : undefined} onClick={() => (folder ? setExpanded(!expanded) : open(path, entry))}>
          <Icon name={folder ? 'folder' : 'file'} />
          <span class="file-name" title={name}>{name}</span>
          {!folder && <span class="hint">{bytes(entry.size)}</span>}
        </button>
        <IconButton icon="download" label={`Download ${name}`} onClick={() => void save()} />
        {sure ? <Sure label="Delete" yes={remove} no={() => setSure(false)} /> : <IconButton icon="trash" label={`Delete ${name}`} onClick={() => setSure(true)} />}
      </div>
      {expanded && <Tree live={live} path={path} depth={depth + 1} open={open} fresh={fresh} />}
    </li>
  );
}

function Tree({ live, path, depth, open, fresh }: { live: LiveSession; path: string; depth: number; open: RowProps['open']; fresh: number }) {
  const [entries, setEntries] = useState<FileEntry[] | null>(null);
  const [problem, setProblem] = useState('');
  const [again, setAgain] = useState(0);
  useEffect(() => {
    let gone = false;
    files.list(live.session.id, path)
      .then(f => {
        if (gone) return;
        const order = (e: FileEntry): string => (e.type === 'dir' ? '0' : '1') + e.name.toLowerCase();
        setEntries(f.entries.filter(e => !e.name.startsWith('.')).sort((a, b) => (order(a) < order(b) ? -1 : 1)));
        setProblem(f.truncated ? 'There are more than can be listed.' : '');
      })
      .catch((e: unknown) => !gone && setProblem(e instanceof Error ? e.message : String(e)));
    return () => {
      gone = true;
    };
  }, [live, path, again, fresh]);
  return (
    <ul class="tree" aria-label={depth ? undefined : 'Files'}>
      {entries?.map(e => <Row key={e.name} live={live} path={`${path}/${e.name}`} entry={e} depth={depth} open={open} deleted={() => setAgain(n => n + 1)} fresh={fresh} />)}
      {entries?.length === 0 && <li class="hint empty">{depth ? 'Empty' : 'Nothing here yet. Drop a file anywhere on the page.'}</li>}
      {problem && <li class="hint" role="alert">{problem}</li>}
    </ul>
  );
}

/** Goes up whenever files may have changed: an upload arrived, a cell ended. */
function useFresh(live: LiveSession): number {
  useStore(uploads);
  useStore(live);
  const ends = live.state === 'busy' ? 0 : 1;
  const count = useRef({ ends, n: 0, arrived: uploads.arrived });
  const c = count.current;
  if (c.ends !== ends || c.arrived !== uploads.arrived) Object.assign(c, { ends, arrived: uploads.arrived, n: c.n + 1 });
  return c.n;
}

export function Files({ live }: { live: LiveSession }) {
  const fresh = useFresh(live);
  const picker = useRef<HTMLInputElement>(null);
  const [shown, setShown] = useState<{ path: string; entry: FileEntry } | null>(null);
  const asleep = live.state === 'paused' || live.state === 'dead' || live.link.state === 'ended';
  const picked = (): void => {
    void take(live, [...(picker.current?.files ?? [])], HOME);
    if (picker.current) picker.current.value = '';
  };
  return (
    <aside class="panel" aria-label="Files">
      <div class="panel-head">
        <h2>Files</h2>
        <input ref={picker} type="file" multiple hidden aria-label="Files to upload" onChange={picked} />
        <IconButton icon="upload" label="Upload" text disabled={asleep} onClick={() => picker.current?.click()} />
        <IconButton icon="close" label="Close the files" onClick={() => app.show('files')} />
      </div>
      {uploads.items.length > 0 && <ul class="uploads" aria-label="Uploads">{uploads.items.map(u => <UploadRow key={u.id} upload={u} />)}</ul>}
      {asleep ? <p class="hint">The files are there when the session runs.</p> : <Tree live={live} path={HOME} depth={0} fresh={fresh} open={(path, entry) => setShown({ path, entry })} />}
      {shown && <Preview live={live} path={shown.path} entry={shown.entry} close={() => setShown(null)} />}
    </aside>
  );
}

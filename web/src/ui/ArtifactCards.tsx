// Files that a run made or changed: a card each, pictures with a thumbnail.
import { useEffect, useState } from 'preact/hooks';
import { files } from '../net/api';
import type { Artifact } from '../net/types';
import { download } from './download';
import { bytes, shownName } from './format';
import { Icon, IconButton } from './icons';
import { enlarge } from './Lightbox';

const THUMB_MAX = 5_000_000;

/** A file of the session as an address for <img>; problem says why there is none. */
export function useBlobUrl(session: string, path: string, wanted: boolean): { url: string; problem: string } {
  const [url, setUrl] = useState('');
  const [problem, setProblem] = useState('');
  useEffect(() => {
    if (!wanted) return;
    let made = '';
    let gone = false;
    setProblem('');
    files.get(session, path)
      .then(r => r.blob())
      .then(blob => (/\.svg$/i.test(path) ? new Blob([blob], { type: 'image/svg+xml' }) : blob))
      .then(blob => {
        if (!gone) setUrl((made = URL.createObjectURL(blob)));
      })
      .catch((e: unknown) => {
        if (gone) return;
        setUrl('');
        setProblem(e instanceof Error ? e.message : String(e));
      });
    return () => {
      gone = true;
      if (made) URL.revokeObjectURL(made);
    };
  }, [session, path, wanted]);
  return { url, problem };
}

function Card({ session, artifact }: { session: string; artifact: Artifact }) {
  const picture = /^image\/(png|jpeg|gif|webp)$/.test(artifact.mime) && artifact.size < THUMB_MAX;
  const { url } = useBlobUrl(session, artifact.path, picture);
  const name = shownName(artifact.name);
  return (
    <li class="card">
      {picture && url ? (
        <button class="thumb" type="button" aria-label={`Enlarge ${name}`} onClick={() => enlarge(url, name)}><img src={url} alt="" /></button>
      ) : (
        <span class="thumb"><Icon name="file" /></span>
      )}
      <span class="card-text">
        <span class="card-name" title={shownName(artifact.path)}>{name}</span>
        <span class="hint">{bytes(artifact.size)}, {artifact.change}{artifact.partial ? ', still being written' : ''}</span>
      </span>
      <IconButton icon="download" label={`Download ${name}`} onClick={() => void download(session, artifact.path, artifact.name)} />
    </li>
  );
}

export function ArtifactCards({ session, artifacts }: { session: string; artifacts: Artifact[] }) {
  if (!artifacts.length) return null;
  return (
    <ul class="cards" aria-label="Files of this cell">
      {artifacts.slice(0, 24).map(a => <Card key={a.path} session={session} artifact={a} />)}
      {artifacts.length > 24 && <li class="hint">and {artifacts.length - 24} more, see Files</li>}
    </ul>
  );
}

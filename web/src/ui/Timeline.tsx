// The checkpoints of the session, newest first: go back to one, or begin a new session from it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { app } from '../model/app';
import type { LiveSession } from '../model/live';
import { useStore } from '../model/store';
import { api } from '../net/api';
import type { Checkpoint } from '../net/types';
import { age, bytes } from './format';
import { IconButton, Sure } from './icons';

interface ItemProps {
  checkpoint: Checkpoint;
  busy: boolean;
  back: () => void;
  fork: () => void;
  remove: () => void;
}

function Item({ checkpoint, busy, back, fork, remove }: ItemProps) {
  const [sure, setSure] = useState<'back' | 'remove' | null>(null);
  return (
    <li class="point">
      <span class="point-mark" aria-hidden="true" />
      <span class="point-text">
        <span class="point-name">{checkpoint.name}</span>
        <span class="hint">{age(checkpoint.created_at)} · {bytes(checkpoint.bytes)}</span>
      </span>
      {sure ? (
        <Sure label={sure === 'back' ? 'Go back here' : 'Delete'} yes={sure === 'back' ? back : remove} no={() => setSure(null)} />
      ) : (
        <>
          <IconButton icon="back" label={`Go back to ${checkpoint.name}`} disabled={busy} onClick={() => setSure('back')} />
          <IconButton icon="fork" label={`Fork from ${checkpoint.name}`} disabled={busy} onClick={fork} />
          <IconButton icon="trash" label={`Delete ${checkpoint.name}`} disabled={busy} onClick={() => setSure('remove')} />
        </>
      )}
    </li>
  );
}

export function Timeline({ live }: { live: LiveSession }) {
  useStore(live);
  const [list, setList] = useState<Checkpoint[] | null>(null);
  const [busy, setBusy] = useState('');
  const name = useRef<HTMLInputElement>(null);
  const id = live.session.id;
  const asleep = live.state === 'paused' || live.state === 'dead' || live.link.state === 'ended';
  const reload = async (): Promise<void> => setList(await api.checkpoints(id));
  useEffect(() => void live.act('list', reload), [live]);

  const during = (what: string, work: () => Promise<unknown>): void => {
    setBusy(what);
    void live.act(what, async () => {
      await work();
      await reload();
    }).finally(() => setBusy(''));
  };
  const add = (e: Event): void => {
    e.preventDefault();
    during('Saving the machine…', async () => {
      await live.save();
      await api.checkpoint(id, name.current?.value.trim() ?? '');
      if (name.current) name.current.value = '';
    });
  };
  const back = (c: Checkpoint): void =>
    during('Going back…', async () => {
      await live.withoutSaving(async () => {
        await api.rollback(id, c.id);
        await live.load(true);
      });
      live.tellReload();
      live.tell(`This is the machine as it was at “${c.name}”: variables, files and notebook.`, false);
    });
  const forkFrom = (c: Checkpoint): void => during('Forking from the checkpoint…', () => app.fork(live.session, c.id));
  return (
    <aside class="panel" aria-label="Checkpoints">
      <div class="panel-head">
        <h2>Checkpoints</h2>
        <IconButton icon="close" label="Close the checkpoints" onClick={() => app.show('timeline')} />
      </div>
      <form class="point-form" onSubmit={add}>
        <input ref={name} aria-label="Name of the checkpoint" placeholder="A name, if you like" maxLength={60} disabled={asleep || !!busy} />
        <button class="button primary" type="submit" disabled={asleep || !!busy}>Save now</button>
      </form>
      {busy && <p class="hint" role="status">{busy}</p>}
      <ol class="points">
        <li class="point now"><span class="point-mark" aria-hidden="true" /><span class="point-text"><span class="point-name">Now</span></span>
          <IconButton icon="fork" label="Fork" text disabled={!!busy || asleep} onClick={() => during('Forking…', () => app.fork(live.session))} />
        </li>
        {[...(list ?? [])].reverse().map(c => (
          <Item key={c.id} checkpoint={c} busy={!!busy || asleep} back={() => back(c)} fork={() => forkFrom(c)} remove={() => during('Deleting…', () => api.dropCheckpoint(id, c.id))} />
        ))}
      </ol>
      <p class="hint">A checkpoint is the whole machine: variables, open files, background threads and the disk, as of one moment.</p>
    </aside>
  );
}

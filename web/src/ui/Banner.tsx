// What a person should know about the session right now, each with a way on.
import type { ComponentChildren } from 'preact';
import { app } from '../model/app';
import { writeNotebook } from '../model/ipynb';
import type { LiveSession } from '../model/live';
import { useStore } from '../model/store';
import { IconButton } from './icons';

function Bar({ kind, children }: { kind: string; children: ComponentChildren }) {
  return <div class={`banner ${kind}`} role={kind === 'bad' ? 'alert' : 'status'}>{children}</div>;
}

function Again({ live }: { live: LiveSession }) {
  const worth = live.doc.cells.some(c => c.source.trim());
  return (
    <>
      <button class="button" onClick={() => void app.create()}>Start a new session</button>
      {worth && <button class="button" onClick={() => void app.create(writeNotebook(live.doc))}>Start one with these cells</button>}
    </>
  );
}

export function Banner({ live }: { live: LiveSession }) {
  useStore(live);
  const link = live.link;
  if (link.state === 'ended' && link.why === 'forbidden')
    return <Bar kind="bad"><span>{link.message}</span><button class="button" onClick={() => void app.useToken('')}>Enter a token</button></Bar>;
  if (link.state === 'ended' && link.why === 'deleted')
    return <Bar kind="bad"><span>{link.message} What you see is all that is left of it; the menu can still export it.</span><Again live={live} /></Bar>;
  if (live.state === 'dead')
    return <Bar kind="bad"><span>This session has ended: {live.reason || 'its virtual machine is gone'}. The notebook can still be exported.</span><Again live={live} /></Bar>;
  if (live.state === 'paused')
    return <Bar kind="calm"><span>Paused. Memory and disk are put away, nothing is lost.</span><button class="button primary" onClick={() => void live.wake()}>Resume</button></Bar>;
  if (link.state === 'reconnecting')
    return <Bar kind="calm"><span>The gateway is away. Reconnecting; your session goes on without it and nothing is lost.</span></Bar>;
  return null;
}

export function Notice({ live }: { live: LiveSession }) {
  useStore(live);
  if (!live.notice) return null;
  const { text, error, way } = live.notice;
  const close = (): void => {
    live.notice = null;
    live.changed();
  };
  return (
    <div class={`notice ${error ? 'bad' : ''}`} role={error ? 'alert' : 'status'}>
      <span>{text}</span>
      {way && <button class="button small" onClick={() => { close(); way.go(); }}>{way.label}</button>}
      <IconButton icon="close" label="Dismiss" onClick={close} />
    </div>
  );
}

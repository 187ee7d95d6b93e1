// The bar above the open session: its name, how it is, and what one can do with it.
import { useRef, useState } from 'preact/hooks';
import { app } from '../model/app';
import type { LiveSession } from '../model/live';
import { useStore } from '../model/store';
import { api } from '../net/api';
import { Icon, IconButton } from './icons';
import { Menu } from './Menu';
import type { Pilot } from './pilot';
import { StateDot, STATE_WORDS } from './Rail';

function Name({ live }: { live: LiveSession }) {
  const [text, setText] = useState<string | null>(null);
  const input = useRef<HTMLInputElement>(null);
  const done = (): void => {
    const name = text?.trim();
    setText(null);
    if (!name || name === live.session.name) return;
    void live.act('rename', async () => {
      live.session.name = (await api.rename(live.session.id, name)).name;
      await app.refresh();
    });
  };
  const keyed = (e: KeyboardEvent): void => {
    if (e.key === 'Enter') input.current?.blur();
    if (e.key === 'Escape') {
      setText(null);
      input.current?.blur();
    }
  };
  return <input ref={input} class="session-name" aria-label="Name of this session" value={text ?? live.session.name} maxLength={100} onInput={e => setText(e.currentTarget.value)} onBlur={done} onKeyDown={keyed} />;
}

/** What is true about the connection right now, in words. */
export function connectionWords(live: LiveSession): { text: string; kind: string } {
  if (live.link.state === 'ended') return { text: live.link.why === 'forbidden' ? 'locked out' : 'ended', kind: 'dead' };
  if (live.state === 'paused' || live.state === 'dead') return { text: STATE_WORDS[live.state], kind: live.state };
  if (live.link.state === 'reconnecting') return { text: 'reconnecting, nothing is lost', kind: 'starting' };
  if (live.link.state === 'connecting') return { text: 'connecting', kind: 'starting' };
  return { text: STATE_WORDS[live.state], kind: live.state };
}

export function Top({ live, pilot }: { live: LiveSession; pilot: Pilot }) {
  useStore(live);
  const words = connectionWords(live);
  const usable = live.state !== 'dead' && live.link.state !== 'ended';
  return (
    <header class="top">
      <span class="rail-toggle"><IconButton icon="menu" label="Sessions" onClick={() => app.toggleRail()} /></span>
      <Name live={live} />
      <span class="state-pill" role="status"><StateDot state={words.kind as never} />{words.text}</span>
      <div class="switch" role="group" aria-label="View">
        <button aria-label="Notebook" aria-pressed={app.view === 'notebook'} onClick={() => app.look('notebook')}><Icon name="book" /><span>Notebook</span></button>
        <button aria-label="Chat" aria-pressed={app.view === 'chat'} onClick={() => app.look('chat')}><Icon name="chat" /><span>Chat</span></button>
      </div>
      <div class="top-actions">
        <IconButton icon="stop" label="Interrupt" disabled={!usable || live.state !== 'busy'} onClick={() => void live.interrupt()} />
        <IconButton icon="restart" label="Restart the kernel" disabled={!usable || live.state === 'paused'} onClick={() => void live.restart()} />
        <IconButton icon="folder" label="Files" pressed={app.panel === 'files'} onClick={() => app.show('files')} />
        <IconButton icon="clock" label="Checkpoints" pressed={app.panel === 'timeline'} onClick={() => app.show('timeline')} />
        <Menu live={live} pilot={pilot} />
      </div>
    </header>
  );
}

// The sessions: each with its state and age; a new one; what can be done with each.
import { useState } from 'preact/hooks';
import { app, choiceWords } from '../model/app';
import type { LiveSession } from '../model/live';
import { useStore } from '../model/store';
import { api } from '../net/api';
import type { Session, SessionState } from '../net/types';
import { age, bytes } from './format';
import { Icon, IconButton, Sure } from './icons';
import { Sparkline } from './Sparkline';

export const STATE_WORDS: Record<SessionState, string> = { starting: 'starting', idle: 'ready', busy: 'working', paused: 'paused', dead: 'ended' };

export function StateDot({ state }: { state: SessionState }) {
  return <span class={`dot ${state}`} aria-hidden="true" />;
}

async function attempt(work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
    await app.refresh();
  } catch (e) {
    app.failure = e instanceof Error ? e.message : String(e);
    app.changed();
  }
}

function Actions({ session, close }: { session: Session; close: () => void }) {
  const [sure, setSure] = useState(false);
  const current = app.live?.session.id === session.id ? app.live : null;
  const asleep = session.state === 'paused';
  const running = session.state === 'idle' || session.state === 'busy';
  const then = (work: () => Promise<unknown>) => () => {
    close();
    void attempt(work);
  };
  return (
    <div class="rail-actions">
      {running && <IconButton icon="pause" label="Pause" text onClick={then(() => (current ? current.pause() : api.verb(session.id, 'pause')))} />}
      {asleep && <IconButton icon="play" label="Resume" text onClick={then(() => (current ? current.wake() : api.verb(session.id, 'resume')))} />}
      {(running || asleep) && <IconButton icon="fork" label="Fork" text onClick={then(() => app.fork(session))} />}
      {sure ? (
        <Sure label="Delete for good" yes={then(() => app.remove(session))} no={() => setSure(false)} />
      ) : (
        <IconButton icon="trash" label="Delete" text onClick={() => setSure(true)} />
      )}
    </div>
  );
}

/** The state of the open session is known sooner than the list's. */
function State({ live, words }: { live: LiveSession; words: boolean }) {
  useStore(live);
  return words ? <>{STATE_WORDS[live.state]}</> : <StateDot state={live.state} />;
}

function Item({ session }: { session: Session }) {
  const [menu, setMenu] = useState(false);
  const live = app.live?.session.id === session.id ? app.live : null;
  const state = live ? live.state : session.state;
  const samples = app.samples.get(session.id) ?? [];
  const memory = samples[samples.length - 1]?.memory;
  return (
    <li class={`rail-item ${live ? 'current' : ''}`}>
      <div class="rail-row">
        <button class="rail-open" aria-current={live ? 'true' : undefined} onClick={() => void app.open(session)}>
          <span class="rail-name">{live ? <State live={live} words={false} /> : <StateDot state={state} />}{session.name || session.id.slice(0, 8)}</span>
          <span class="hint">{live ? <State live={live} words /> : STATE_WORDS[state]} · {age(session.created_at)}{memory ? ` · ${bytes(memory)}` : ''}</span>
        </button>
        <button class="button only-icon" aria-label={`Actions of ${session.name}`} aria-expanded={menu} onClick={() => setMenu(!menu)}><Icon name="more" /></button>
      </div>
      {(state === 'idle' || state === 'busy') && <Sparkline samples={samples} memoryMax={session.memory_mb * 1048576} />}
      {menu && <Actions session={session} close={() => setMenu(false)} />}
    </li>
  );
}

export function Rail() {
  const seconds = app.creating ? Math.floor((Date.now() - app.creatingSince) / 1000) : 0;
  const waited = seconds > 1 ? ` ${seconds} s` : '';
  return (
    <nav class={`rail ${app.railOpen ? 'open' : ''}`} aria-label="Sessions">
      <div class="brand">
        <img src="favicon.svg" alt="" width="26" height="26" />
        <span>cellkeep</span>
        <span class="rail-close"><IconButton icon="close" label="Close the list" onClick={() => app.toggleRail()} /></span>
      </div>
      <button class="button primary wide" disabled={app.creating} onClick={() => void app.create()}>
        <Icon name="plus" /><span>{app.creating ? `Starting a machine…${waited}` : 'New session'}</span>
      </button>
      {app.choices.length > 1 && (
        <select class="rail-choice" aria-label="Template of a new session" value={app.choice} onChange={e => { app.choice = e.currentTarget.value; }}>
          <option value="">usual template</option>
          {app.choices.map(choiceWords).map(words => <option key={words} value={words}>{words}</option>)}
        </select>
      )}
      {app.failure && app.live && (
        <p class="rail-failure" role="alert">
          {app.failure}
          <IconButton icon="close" label="Dismiss" onClick={() => { app.failure = ''; app.changed(); }} />
        </p>
      )}
      <ul class="rail-list">{[...app.sessions].reverse().map(s => <Item key={s.id} session={s} />)}</ul>
      <p class="hint rail-foot">Every session is a virtual machine of its own. It can pause, fork and go back in time.</p>
    </nav>
  );
}

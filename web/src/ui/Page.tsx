// The whole page.
import { useEffect, useMemo } from 'preact/hooks';
import { app } from '../model/app';
import type { LiveSession } from '../model/live';
import { useStore } from '../model/store';
import { Banner, Notice } from './Banner';
import { Chat } from './Chat';
import { DropZone } from './DropZone';
import { Files } from './Files';
import { IconButton } from './icons';
import { Keys } from './Keys';
import { Lightbox } from './Lightbox';
import { Notebook } from './Notebook';
import { Pilot } from './pilot';
import { Rail } from './Rail';
import { Timeline } from './Timeline';
import { TokenPage } from './TokenPage';
import { Top } from './Top';

function Work({ live }: { live: LiveSession }) {
  useStore(live);
  const pilot = useMemo(() => new Pilot(live), [live]);
  useEffect(() => () => pilot.close(), [pilot]);
  return (
    <DropZone live={live}>
      <Top live={live} pilot={pilot} />
      <Banner live={live} />
      <div class="body">
        <div class="scroll">{app.view === 'chat' ? <Chat live={live} /> : <Notebook pilot={pilot} />}</div>
        {app.panel === 'files' && <Files live={live} />}
        {app.panel === 'timeline' && <Timeline live={live} />}
      </div>
      <Notice live={live} />
      <Keys pilot={pilot} />
    </DropZone>
  );
}

function Nothing() {
  return (
    <main class="nothing">
      <span class="rail-toggle"><IconButton icon="menu" label="Sessions" onClick={() => app.toggleRail()} /></span>
      {app.creating || (!app.failure && !app.gatewayAway && !app.sessions.length) ? (
        <p class="starting" role="status">Starting a machine for you…</p>
      ) : (
        <>
          <h1>{app.gatewayAway ? 'The gateway cannot be reached' : 'No session is open'}</h1>
          <p role={app.failure ? 'alert' : undefined}>{app.failure || (app.gatewayAway ? 'It may be restarting. This page tries again by itself; sessions go on meanwhile.' : 'Choose one from the list, or start a new one.')}</p>
          <button class="button primary" onClick={() => void app.create()}>Start a new session</button>
        </>
      )}
    </main>
  );
}

export function Page() {
  useStore(app);
  if (app.needsToken) return <TokenPage why={app.needsToken} />;
  const live = app.live;
  return (
    <div class="page">
      <Rail />
      {app.railOpen && <div class="shade" onClick={() => app.toggleRail()} />}
      <div class="work">{live ? <Work key={live.session.id} live={live} /> : <Nothing />}</div>
      <Lightbox />
    </div>
  );
}

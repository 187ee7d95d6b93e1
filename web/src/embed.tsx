// One cell's output for other pages: /embed#session=ID&cell=ID in an iframe. The token comes from the page
// around it, by postMessage {type: "cellkeep:token", token}, unless this browser tab has one already; or that
// page hands over a finished cell as it is, {type: "cellkeep:cell", cell}. It is told when this page is ready
// ("cellkeep:ready") and how high it is ("cellkeep:height"). Nothing here changes a session.
import { render } from 'preact';
import { api } from './net/api';
import { getToken, setToken } from './net/base';
import type { Finished } from './net/types';
import { Outputs } from './model/outputs';
import { OutputList } from './ui/OutputList';
import { ArtifactCards } from './ui/ArtifactCards';
import { Lightbox } from './ui/Lightbox';
import { applyTheme } from './ui/theme';
import './style/base.css';
import './style/notebook.css';
import './style/panels.css';

const root = document.getElementById('app');
const wanted = new URLSearchParams(location.hash.replace(/^#/, ''));

function outputsOf(cell: Finished): Outputs {
  const out = new Outputs();
  if (cell.stdout) out.write('stdout', cell.stdout);
  if (cell.stderr) out.write('stderr', cell.stderr);
  for (const d of cell.displays ?? []) out.apply({ type: 'display', content: { ...d } });
  if (cell.result) out.apply({ type: 'result', content: { data: cell.result, metadata: {} } });
  if (cell.error) out.apply({ type: 'error', content: { ...cell.error } });
  return out;
}

function show(cell: Finished): void {
  if (!root) return;
  const session = wanted.get('session');
  render(
    <main class="embedded">
      <OutputList outputs={outputsOf(cell)} version={0} />
      {session && getToken() && <ArtifactCards session={session} artifacts={cell.artifacts ?? []} />}
      <Lightbox />
    </main>,
    root,
  );
}

function say(text: string): void {
  if (root) render(<p class="hint" role="status">{text}</p>, root);
}

async function load(): Promise<void> {
  const session = wanted.get('session');
  const cell = wanted.get('cell');
  if (!session || !cell) return say('The address names no cell: …/embed#session=ID&cell=ID');
  if (!getToken()) return say('Waiting for the page around this one to hand over a token.');
  try {
    const found = await api.cell(session, cell);
    if ((found.status as string) === 'queued' || (found.status as string) === 'running') {
      say('Running…');
      setTimeout(() => void load(), 1000);
    } else show(found);
  } catch (e) {
    say(e instanceof Error ? e.message : String(e));
  }
}

window.addEventListener('message', e => {
  if (e.source !== window.parent) return;
  const data = e.data as { type?: string; token?: unknown; cell?: unknown } | null;
  if (data?.type === 'cellkeep:token' && typeof data.token === 'string') {
    setToken(data.token);
    void load();
  } else if (data?.type === 'cellkeep:cell' && data.cell) show(data.cell as Finished);
});

applyTheme();
if (root)
  new ResizeObserver(() => window.parent.postMessage({ type: 'cellkeep:height', height: document.documentElement.scrollHeight }, '*')).observe(root);
window.parent.postMessage({ type: 'cellkeep:ready' }, '*');
void load();

// The same session as a conversation: what was said and what was run are turns, with the outputs large.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Cell, newId } from '../model/doc';
import type { LiveSession } from '../model/live';
import { useStore } from '../model/store';
import { KernelQuestions } from '../net/kernel';
import { ArtifactCards } from './ArtifactCards';
import { Editor } from './CellEditorView';
import { Icon, IconButton } from './icons';
import { Markdown } from './Markdown';
import { OutputList } from './OutputList';
import { RunEnding, RunTime } from './RunStatus';
import { StdinPrompt } from './StdinPrompt';
import { play } from './transcript';
import { baseUrl } from '../net/base';

function Code({ source }: { source: string }) {
  const lines = source.trimEnd().split('\n');
  const [open, setOpen] = useState(lines.length <= 6);
  return (
    <div class="turn-code">
      <pre><code>{open ? lines.join('\n') : lines.slice(0, 4).join('\n')}</code></pre>
      {lines.length > 6 && <button class="link" onClick={() => setOpen(!open)}>{open ? 'Less' : `${lines.length - 4} more lines`}</button>}
    </div>
  );
}

function CodeTurn({ cell, live }: { cell: Cell; live: LiveSession }) {
  useStore(cell);
  const run = cell.run;
  if (!run && !cell.outputs.items.length) return null;
  const embed = run?.id ? `${baseUrl}/embed#session=${live.session.id}&cell=${run.id}` : '';
  return (
    <article class="turn code" aria-label="Code and its output" data-cell={cell.id}>
      <Code source={run?.code ?? cell.source} />
      <div class="turn-out" aria-busy={cell.busy}>
        <OutputList outputs={cell.outputs} version={cell.version} />
        {run?.input && <StdinPrompt prompt={run.input.prompt} password={run.input.password} answer={v => live.answer(cell, v)} />}
        <RunEnding cell={cell} />
        {run && <ArtifactCards session={live.session.id} artifacts={run.artifacts} />}
      </div>
      <p class="turn-foot">
        <RunTime cell={cell} />
        {embed && !cell.busy && <button class="link" onClick={() => void copyText(embed, live)}>Copy the address for embedding</button>}
      </p>
    </article>
  );
}

async function copyText(text: string, live: LiveSession): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    live.tell('Copied. An iframe with this address shows the output.', false);
  } catch {
    live.tell(text, false);
  }
}

function Turn({ cell, live }: { cell: Cell; live: LiveSession }) {
  if (cell.kind === 'code') return <CodeTurn cell={cell} live={live} />;
  if (!cell.source) return null;
  return <article class={`turn said ${cell.voice ?? 'assistant'}`} aria-label={cell.voice === 'user' ? 'You' : 'Assistant'}><Markdown source={cell.source} /></article>;
}

function Composer({ live }: { live: LiveSession }) {
  const questions = useMemo(() => new KernelQuestions(live.session.id), [live]);
  const [draft, setDraft] = useState(() => new Cell(newId(), 'code'));
  const send = (): void => {
    if (!draft.source.trim()) return;
    const last = live.doc.cells[live.doc.cells.length - 1];
    const empty = last && last.kind === 'code' && !last.source.trim() && !last.run;
    const cell = new Cell(newId(), 'code', draft.source);
    live.doc.insert(live.doc.cells.length - (empty ? 1 : 0), cell);
    live.edited();
    live.run(cell);
    setDraft(new Cell(newId(), 'code'));
  };
  useEffect(() => () => questions.close(), [questions]);
  return (
    <div class="composer">
      <Editor
        key={draft.id} cell={draft} label="Code to run" hint="Python, Shift-Enter to run" questions={questions} errorLine={null}
        ready={editor => editor?.focus()}
        hooks={{ change: text => { draft.source = text; }, focus: () => undefined, run: send, leave: () => undefined, edge: () => false }}
      />
      <IconButton icon="play" label="Run" kind="round primary" onClick={send} />
    </div>
  );
}

export function Chat({ live }: { live: LiveSession }) {
  useStore(live);
  useStore(live.doc);
  const end = useRef<HTMLDivElement>(null);
  const cells = live.doc.cells.filter(c => c.source.trim());
  const said = cells.some(c => c.run || c.voice);
  useEffect(() => end.current?.scrollIntoView({ block: 'end' }), [cells.length]);
  return (
    <div class="chat" role="main">
      {!said && live.loaded && (
        <div class="chat-empty">
          <Icon name="chat" />
          <h2>The same session, as a conversation</h2>
          <p>What you run here is in the notebook too, and the other way round.</p>
          <button class="chip" onClick={() => void play(live)}>Play a sample conversation</button>
        </div>
      )}
      {cells.map(c => <Turn key={c.id} cell={c} live={live} />)}
      <div ref={end} />
      {live.loaded && <Composer live={live} />}
    </div>
  );
}

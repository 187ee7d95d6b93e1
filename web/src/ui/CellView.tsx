// One cell of the notebook: its editor, the buttons beside it, and what it showed.
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Cell } from '../model/doc';
import { useStore } from '../model/store';
import { ArtifactCards } from './ArtifactCards';
import { Editor } from './CellEditorView';
import { errorLine } from './ErrorOutput';
import { IconButton } from './icons';
import { Markdown } from './Markdown';
import { OutputList } from './OutputList';
import type { Pilot } from './pilot';
import { RunEnding, RunTime } from './RunStatus';
import { StdinPrompt } from './StdinPrompt';

function markedLine(cell: Cell): number | null {
  const last = cell.outputs.items.find(o => o.kind === 'error');
  const unchanged = !cell.run || cell.run.code === cell.source;
  return last?.kind === 'error' && unchanged ? errorLine(last.error) : null;
}

function Gutter({ cell, pilot }: { cell: Cell; pilot: Pilot }) {
  if (cell.kind === 'markdown') return <div class="gutter" />;
  const busy = cell.busy;
  return (
    <div class="gutter">
      {busy ? (
        <IconButton icon="stop" label="Interrupt" kind="round busy" onClick={() => void pilot.live.interrupt()} />
      ) : (
        <IconButton icon="play" label="Run this cell" kind="round" onClick={() => pilot.run(cell.id, 'stay')} />
      )}
      <span class="count" title="Execution count">{busy ? '' : cell.count !== null ? cell.count : ''}</span>
    </div>
  );
}

function CellTools({ cell, pilot, index }: { cell: Cell; pilot: Pilot; index: number }) {
  return (
    <div class="cell-tools" role="toolbar" aria-label={`Cell ${index + 1}`}>
      <IconButton icon="up" label="Move up" onClick={() => pilot.move(cell.id, -1)} />
      <IconButton icon="down" label="Move down" onClick={() => pilot.move(cell.id, 1)} />
      <IconButton icon="plus" label="Add a cell below" onClick={() => pilot.insert(index + 1, 'code')} />
      <IconButton icon={cell.kind === 'code' ? 'text' : 'play'} label={cell.kind === 'code' ? 'Make it text' : 'Make it code'} onClick={() => pilot.convert(cell.id, cell.kind === 'code' ? 'markdown' : 'code')} />
      <IconButton icon="trash" label="Delete" onClick={() => pilot.remove(cell.id)} />
    </div>
  );
}

function Body({ cell, pilot, index }: { cell: Cell; pilot: Pilot; index: number }) {
  if (cell.kind === 'markdown' && !cell.editing)
    return <Markdown source={cell.source} edit={() => pilot.select(cell.id, true)} />;
  return (
    <Editor
      cell={cell}
      label={`${cell.kind === 'code' ? 'Code' : 'Text'} of cell ${index + 1}`}
      hint={cell.kind === 'code' ? (index === 0 ? 'Write Python here, then press Shift-Enter' : '') : 'Text, with Markdown'}
      questions={cell.kind === 'code' ? pilot.questions : null}
      errorLine={markedLine(cell)}
      ready={editor => pilot.register(cell.id, editor)}
      hooks={{
        change: text => {
          cell.source = text;
          cell.changed();
          pilot.live.edited();
        },
        focus: () => pilot.focused(cell.id),
        run: then => pilot.run(cell.id, then),
        leave: () => pilot.select(cell.id, false),
        edge: way => pilot.step(cell.id, way, true),
      }}
    />
  );
}

export function CellView({ cell, pilot, index }: { cell: Cell; pilot: Pilot; index: number }) {
  useStore(cell);
  const box = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    pilot.box(cell.id, box.current);
    return () => pilot.box(cell.id, null);
  }, [cell.id]);
  const selected = pilot.selected === cell.id;
  const keyed = (e: KeyboardEvent): void => {
    if (e.target === box.current && pilot.key(e, cell.id)) e.preventDefault();
  };
  const run = cell.run;
  return (
    <section
      ref={box} class={`cell ${cell.kind} ${selected ? 'selected' : ''} ${cell.busy ? 'is-busy' : ''}`} tabIndex={0} data-cell={cell.id} data-state={cell.run?.state}
      aria-label={`Cell ${index + 1}, ${cell.kind === 'code' ? 'code' : 'text'}`} onKeyDown={keyed}
      onFocus={e => e.target === box.current && pilot.focused(cell.id)}
    >
      <Gutter cell={cell} pilot={pilot} />
      <div class="cell-main">
        <div class="cell-input">
          <Body cell={cell} pilot={pilot} index={index} />
          <RunTime cell={cell} />
        </div>
        <div class="outputs" aria-live={selected ? 'polite' : 'off'} aria-busy={cell.busy}>
          <OutputList outputs={cell.outputs} version={cell.version} />
          {run?.input && <StdinPrompt prompt={run.input.prompt} password={run.input.password} answer={v => pilot.live.answer(cell, v)} />}
          <RunEnding cell={cell} />
          {run && <ArtifactCards session={pilot.live.session.id} artifacts={run.artifacts} />}
        </div>
      </div>
      <CellTools cell={cell} pilot={pilot} index={index} />
    </section>
  );
}

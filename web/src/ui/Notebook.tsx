// The notebook view: all cells, and what there is to do when there is only an empty one.
import { useEffect } from 'preact/hooks';
import { useStore } from '../model/store';
import { CellView } from './CellView';
import { IconButton } from './icons';
import type { Pilot } from './pilot';
import { SAMPLES } from './samples';

function Beginning({ pilot }: { pilot: Pilot }) {
  const use = (code: string): void => {
    const cell = pilot.live.doc.cells[0];
    if (!cell) return;
    cell.source = code;
    cell.changed();
    pilot.live.edited();
    pilot.run(cell.id, 'next');
  };
  return (
    <div class="beginning">
      <span>Or try one:</span>
      {SAMPLES.map(s => <button key={s.label} class="chip" onClick={() => use(s.code)}>{s.label}</button>)}
    </div>
  );
}

export function Notebook({ pilot }: { pilot: Pilot }) {
  const { live } = pilot;
  useStore(live);
  useStore(live.doc);
  useStore(pilot);
  const cells = live.doc.cells;
  const only = cells.length === 1 ? cells[0] : undefined;
  const untouched = only && only.kind === 'code' && !only.source && !only.run;
  useEffect(() => {
    const first = cells[0];
    if (live.loaded && first && !pilot.selected) pilot.select(first.id, first.kind === 'code');
  }, [live.loaded, live.doc]);
  return (
    <div class="notebook" role="main">
      {cells.map((cell, i) => <CellView key={cell.id} cell={cell} pilot={pilot} index={i} />)}
      {untouched && <Beginning pilot={pilot} />}
      {cells.length > 0 && (
        <div class="add-row">
          <IconButton icon="plus" label="Code" text onClick={() => pilot.insert(cells.length, 'code')} />
          <IconButton icon="text" label="Text" text onClick={() => pilot.insert(cells.length, 'markdown')} />
        </div>
      )}
    </div>
  );
}

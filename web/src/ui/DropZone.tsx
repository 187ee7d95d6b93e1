// Files that are dropped anywhere go into the session; a notebook becomes the notebook.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { app } from '../model/app';
import type { LiveSession } from '../model/live';
import { uploads } from '../model/uploads';
import { importNotebook } from './Menu';
import { Icon } from './icons';

export const HOME = '/home/user';

export async function take(live: LiveSession, list: readonly File[], folder: string): Promise<void> {
  const notebooks = list.filter(f => f.name.endsWith('.ipynb'));
  const others = list.filter(f => !f.name.endsWith('.ipynb'));
  if (others.length) {
    app.panel = 'files';
    app.changed();
    await uploads.add(live.session.id, folder, others);
  }
  if (notebooks[0]) await importNotebook(live, notebooks[0]);
}

export function DropZone({ live, children }: { live: LiveSession; children: ComponentChildren }) {
  const [over, setOver] = useState(0);
  const carries = (e: DragEvent): boolean => !!e.dataTransfer?.types.includes('Files');
  return (
    <div
      class="drop"
      onDragEnter={e => carries(e) && setOver(n => n + 1)}
      onDragLeave={e => carries(e) && setOver(n => Math.max(0, n - 1))}
      onDragOver={e => carries(e) && e.preventDefault()}
      onDrop={e => {
        if (!carries(e)) return;
        e.preventDefault();
        setOver(0);
        void take(live, [...(e.dataTransfer?.files ?? [])], HOME);
      }}
    >
      {children}
      {over > 0 && <div class="drop-hint"><Icon name="upload" /><span>Drop to put it into this session</span></div>}
    </div>
  );
}

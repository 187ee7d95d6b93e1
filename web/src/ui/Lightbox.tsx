// A picture over the whole page, until a click or Escape.
import { useEffect, useRef } from 'preact/hooks';
import { Store, useStore } from '../model/store';
import { IconButton } from './icons';

class Enlarged extends Store {
  src = '';
  alt = '';
}
const shown = new Enlarged();

export function enlarge(src: string, alt: string): void {
  Object.assign(shown, { src, alt });
  shown.changed();
}

export function Lightbox() {
  useStore(shown);
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (shown.src && !ref.current?.open) ref.current?.showModal();
  }, [shown.src]);
  const close = (): void => {
    ref.current?.close();
    enlarge('', '');
  };
  if (!shown.src) return null;
  return (
    <dialog ref={ref} class="lightbox" aria-label={shown.alt} onClick={close} onClose={close}>
      <img src={shown.src} alt={shown.alt} />
      <div class="lightbox-bar">
        <a class="button" href={shown.src} download="chart.png" onClick={e => e.stopPropagation()}>Save</a>
        <IconButton icon="close" label="Close" onClick={close} />
      </div>
    </dialog>
  );
}

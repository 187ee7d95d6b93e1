// The page's pictograms: one line weight, the colour of their text. Decoration only; a button says its name.
import { useEffect, useRef } from 'preact/hooks';

const PATHS: Record<string, string> = {
  play: 'M7 5l11 7-11 7z',
  stop: 'M7 7h10v10H7z',
  plus: 'M12 5v14M5 12h14',
  up: 'M12 19V5m-6 6l6-6 6 6',
  down: 'M12 5v14m-6-6l6 6 6-6',
  trash: 'M5 7h14M10 7V5h4v2m-7 0l1 12h8l1-12',
  pause: 'M9 6v12M15 6v12',
  restart: 'M19 12a7 7 0 1 1-2-5l2 2m0-4v4h-4',
  fork: 'M7 4v10m0 0a3 3 0 1 0 0 6 3 3 0 0 0 0-6zm0 0c0-4 10-2 10-7m0 0a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5z',
  clock: 'M12 7v5l3 2m6-2a9 9 0 1 1-18 0 9 9 0 0 1 18 0z',
  folder: 'M4 7a2 2 0 0 1 2-2h3l2 2h7a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2z',
  file: 'M7 4h7l4 4v12H7zM14 4v4h4',
  upload: 'M12 16V5m-5 5l5-5 5 5M5 19h14',
  download: 'M12 5v11m-5-5l5 5 5-5M5 20h14',
  close: 'M6 6l12 12M18 6L6 18',
  menu: 'M4 7h16M4 12h16M4 17h16',
  more: 'M5 11.5h1v1H5zM11.5 11.5h1v1h-1zM18 11.5h1v1h-1z',
  chat: 'M5 5h14v11H10l-5 4z',
  book: 'M6 4h12v16H6zM10 4v16',
  back: 'M9 14l-4-4 4-4M5 10h9a5 5 0 0 1 0 10h-3',
  moon: 'M20 14a8 8 0 1 1-9-10 6 6 0 0 0 9 10z',
  text: 'M5 6h14M9 6v13m6-13v13',
  check: 'M5 12l5 5 9-10',
  chevron: 'M9 6l6 6-6 6',
};

export function Icon({ name }: { name: string }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" width="18" height="18" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round">
      <path d={PATHS[name] ?? ''} />
    </svg>
  );
}

interface ButtonProps {
  icon: string;
  label: string;
  onClick: () => void;
  text?: boolean;
  kind?: string;
  disabled?: boolean;
  pressed?: boolean;
}

/** A button with a pictogram; `label` is its name, shown beside it with `text`. */
export function IconButton({ icon, label, onClick, text, kind, disabled, pressed }: ButtonProps) {
  return (
    <button type="button" class={`button ${text ? '' : 'only-icon'} ${kind ?? ''}`} title={text ? undefined : label} aria-label={text ? undefined : label} aria-pressed={pressed} disabled={disabled} onClick={onClick}>
      <Icon name={icon} />
      {text && <span>{label}</span>}
    </button>
  );
}

/** Asks again before what cannot be taken back. Has the focus of the button that it replaces; losing it means no. */
export function Sure({ label, yes, no }: { label: string; yes: () => void; no: () => void }) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => button.current?.focus(), []);
  return (
    <button
      ref={button} type="button" class="button danger small" onBlur={no}
      onKeyDown={e => e.key === 'Escape' && no()} onClick={() => { no(); yes(); }}
    >
      {label}
    </button>
  );
}

// The smallest thing that tells a view that something changed: at most once a frame.
import { useEffect, useState } from 'preact/hooks';

export class Store {
  private readonly listeners = new Set<() => void>();
  private scheduled = false;
  version = 0;

  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  /** Tells the views, at the next frame (or soon, in a tab that is not shown). */
  changed(): void {
    this.version += 1;
    if (this.scheduled) return;
    this.scheduled = true;
    if (document.hidden) window.setTimeout(this.flush, 100);
    else requestAnimationFrame(this.flush);
  }

  /** Tells the views at once: for what the person's next key must find done. */
  now(): void {
    this.version += 1;
    this.flush();
  }

  private readonly flush = (): void => {
    this.scheduled = false;
    for (const listener of [...this.listeners]) listener();
  };
}

/** Renders the component again whenever the store changed, also between its rendering and its subscription. */
export function useStore(store: Store): void {
  const [, set] = useState(0);
  const rendered = store.version;
  useEffect(() => {
    const off = store.subscribe(() => set(store.version));
    if (store.version !== rendered) set(store.version);
    return off;
  }, [store]);
}

// A text cell that is not being edited.
import { useEffect, useRef } from 'preact/hooks';

export function Markdown({ source, edit }: { source: string; edit?: () => void }) {
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    let gone = false;
    const host = ref.current;
    if (!host) return;
    host.textContent = source || 'An empty text cell. Double-click to write.';
    if (!source) return;
    import('../render/rich')
      .then(m => m.renderRich('text/markdown', source, {}))
      .then(node => {
        if (!gone) host.replaceChildren(node);
      })
      .catch(() => undefined);
    return () => {
      gone = true;
    };
  }, [source]);
  return <div ref={ref} class="rich markdown" onDblClick={edit} />;
}

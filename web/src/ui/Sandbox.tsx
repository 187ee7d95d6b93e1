// HTML of a cell with its scripts, in a frame that has an origin of its own: it cannot reach this page, its
// token, or any host. All that is taken from it is a height.
import { useEffect, useRef, useState } from 'preact/hooks';
import { baseUrl } from '../net/base';

const HEIGHT_MAX = 1200;

export function Sandbox({ html }: { html: string }) {
  const frame = useRef<HTMLIFrameElement>(null);
  const [height, setHeight] = useState(240);
  useEffect(() => {
    const take = (e: MessageEvent): void => {
      if (e.source !== frame.current?.contentWindow) return;
      const data = e.data as { type?: string; height?: unknown } | null;
      if (data?.type === 'cellkeep:sandbox') frame.current?.contentWindow?.postMessage({ type: 'cellkeep:html', html }, '*');
      if (data?.type === 'cellkeep:height' && typeof data.height === 'number') setHeight(Math.min(HEIGHT_MAX, Math.max(40, data.height)));
    };
    window.addEventListener('message', take);
    return () => window.removeEventListener('message', take);
  }, [html]);
  return <iframe ref={frame} class="sandbox" title="Active output of a cell" sandbox="allow-scripts" src={`${baseUrl}/sandbox`} style={{ height: `${height}px` }} />;
}

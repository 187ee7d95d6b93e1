// One display or result: an image at once, everything richer by a renderer that is loaded when needed.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Output } from '../model/outputs';
import { TextBuf } from '../model/textbuf';
import { asText, chooseMime, hasScript } from '../render/choose';
import { BufferedText } from '../render/text';
import { JsonTree } from './JsonTree';
import { Sandbox } from './Sandbox';
import { enlarge } from './Lightbox';

type Data = Extract<Output, { kind: 'data' }>;

/** Runs a lazy renderer into an element; shows plain text when it fails. */
function Lazy({ item, mime }: { item: Data; mime: string }) {
  const ref = useRef<HTMLDivElement>(null);
  const [failed, setFailed] = useState('');
  useEffect(() => {
    const host = ref.current;
    if (!host) return;
    let gone = false;
    let undo = (): void => undefined;
    const work = async (): Promise<void> => {
      if (mime === 'application/vnd.plotly.v1+json') {
        const { renderPlotly } = await import('../render/plotly');
        if (!gone) undo = await renderPlotly(host, item.data[mime] as object);
      } else {
        const { renderRich } = await import('../render/rich');
        const node = await renderRich(mime, item.data[mime], item.metadata);
        if (gone) return;
        host.replaceChildren(node);
        if (host.scrollWidth > host.clientWidth) host.tabIndex = 0; // what is wider scrolls, also by keyboard
      }
    };
    work().catch((e: unknown) => !gone && setFailed((e instanceof Error ? e.message : String(e)).split('\n')[0] ?? ''));
    return () => {
      gone = true;
      undo();
    };
  }, [item, mime, item.version]);
  if (failed) return <PlainText text={`${asText(item.data['text/plain'] ?? '')}\n(${mime} could not be shown: ${failed})`} />;
  return <div ref={ref} class={mime.includes('plotly') ? 'plotly-box' : 'rich'} />;
}

/** As the text of a stream: long ones are folded, and can be saved whole. */
export function PlainText({ text }: { text: string }) {
  const buf = useMemo(() => {
    const made = new TextBuf();
    made.write(text);
    return made;
  }, [text]);
  return <BufferedText buf={buf} version={0} />;
}

function Picture({ item, mime }: { item: Data; mime: string }) {
  const src = `data:${mime};base64,${asText(item.data[mime]).replace(/\s/g, '')}`;
  const alt = asText(item.data['text/plain'] ?? 'Picture') || 'Picture';
  const size = (item.metadata[mime] ?? {}) as { width?: number };
  const [broken, setBroken] = useState('');
  if (broken === src) return <p class="hint">A picture ({mime}) that this browser cannot read.</p>;
  return (
    <button class="picture" type="button" aria-label={`Enlarge: ${alt}`} onClick={() => enlarge(src, alt)}>
      <img src={src} alt={alt} width={size.width} onError={() => setBroken(src)} />
    </button>
  );
}

function Html({ item }: { item: Data }) {
  const html = asText(item.data['text/html']);
  const [active, setActive] = useState(false);
  if (!hasScript(html)) return <Lazy item={item} mime="text/html" />;
  return (
    <div>
      {active ? <Sandbox html={html} /> : <Lazy item={item} mime="text/html" />}
      <p class="hint">
        {active ? 'Its scripts run in a sandbox: apart from this page, without any network. ' : 'This output has scripts. They were left out. '}
        <button class="link" onClick={() => setActive(!active)}>{active ? 'Stop them' : 'Run them in a sandbox'}</button>
      </p>
    </div>
  );
}

export function DataOutput({ item }: { item: Data }) {
  const mime = chooseMime(item.data);
  if (!mime) return <p class="hint">An output of a kind that this page cannot show: {Object.keys(item.data).join(', ') || 'empty'}.</p>;
  if (mime === 'text/html') return <Html item={item} />;
  if (/^image\/(png|jpeg|webp|gif)$/.test(mime)) return <Picture item={item} mime={mime} />;
  if (mime === 'text/plain') return <PlainText text={asText(item.data[mime])} />;
  if (mime !== 'application/vnd.plotly.v1+json' && mime.endsWith('json')) return <JsonTree value={item.data[mime]} />;
  return <Lazy item={item} mime={mime} />;
}

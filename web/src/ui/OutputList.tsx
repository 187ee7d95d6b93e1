// Everything that a run has shown, in order.
import type { Output, Outputs } from '../model/outputs';
import { TextOutput } from '../render/text';
import { DataOutput } from './DataOutput';
import { ErrorOutput } from './ErrorOutput';
import { bytes } from './format';

const SHOWN_MAX = 200; // outputs of one run that become elements

/** plotly sends its library along as HTML that shows nothing; this page has its own. */
function isLoader(o: Output): boolean {
  if (o.kind !== 'data') return false;
  const html = o.data['text/html'];
  if (typeof html !== 'string' || o.data['application/vnd.plotly.v1+json'] || !/plotly/i.test(html)) return false;
  return !html.replace(/<(script|style)\b[\s\S]*?<\/\1\s*>/gi, '').trim();
}

export function OutputList({ outputs, version }: { outputs: Outputs; version: number }) {
  const items = outputs.items.filter(o => !isLoader(o));
  const hidden = Math.max(0, items.length - SHOWN_MAX);
  return (
    <>
      {hidden > 0 && <p class="hint">The first {hidden.toLocaleString()} outputs are not shown.</p>}
      {items.slice(hidden).map((o, i) => {
        const key = hidden + i;
        if (o.kind === 'stream') return <TextOutput key={key} buf={o.text} name={o.name} version={version} />;
        if (o.kind === 'error') return <ErrorOutput key={key} error={o.error} />;
        if (o.kind === 'gap') return <p key={key} class="hint">{o.count.toLocaleString()} messages ({bytes(o.bytes)}) of older output are gone: the session's log holds only so much.</p>;
        return <DataOutput key={key} item={o} />;
      })}
    </>
  );
}

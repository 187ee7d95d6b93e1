// Everything that a run has shown, in order.
import { isLoader, type Outputs } from '../model/outputs';
import { TextOutput } from '../render/text';
import { DataOutput } from './DataOutput';
import { ErrorOutput } from './ErrorOutput';
import { bytes } from './format';
import { Guard } from './Guard';

const SHOWN_MAX = 200; // outputs of one run that become elements

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
        return <Guard key={`${key}.${o.version}`}><DataOutput item={o} /></Guard>;
      })}
    </>
  );
}

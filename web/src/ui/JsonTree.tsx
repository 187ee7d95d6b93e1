// JSON as a tree that opens; long lists show their beginning.
const MANY = 200;
const TEXT_MAX = 10_000;

function Leaf({ value }: { value: unknown }) {
  const kind = value === null ? 'null' : typeof value;
  const text = JSON.stringify(value) ?? String(value);
  const cut = text.length - TEXT_MAX;
  return <span class={`json-${kind}`}>{cut > 0 ? `${text.slice(0, TEXT_MAX)} [… ${cut} more characters]` : text}</span>;
}

export function JsonTree({ value, name, depth = 0 }: { value: unknown; name?: string; depth?: number }) {
  const label = name === undefined ? null : <span class="json-key">{name}: </span>;
  if (typeof value !== 'object' || value === null) return <div class="json">{label}<Leaf value={value} /></div>;
  const entries: [string, unknown][] = Object.entries(value);
  const sort = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return (
    <details class="json" open={depth < 1 && entries.length <= 50}>
      <summary>{label}<span class="json-sort">{sort}</span></summary>
      {entries.slice(0, MANY).map(([k, v]) => <JsonTree key={k} name={k} value={v} depth={depth + 1} />)}
      {entries.length > MANY && <div class="json hint">… {entries.length - MANY} more</div>}
    </details>
  );
}

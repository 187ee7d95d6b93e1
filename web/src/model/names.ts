// Names for new sessions that a person can say and tell apart.
const FIRST = ['amber', 'brisk', 'calm', 'clear', 'early', 'gentle', 'golden', 'green', 'late', 'mild', 'north', 'quiet', 'silver', 'still', 'warm', 'wide'];
const SECOND = ['bay', 'brook', 'cove', 'delta', 'dune', 'field', 'grove', 'harbour', 'hill', 'lake', 'meadow', 'orchard', 'ridge', 'river', 'shore', 'vale'];

export function freshName(taken: string[]): string {
  const pick = (list: string[]): string => list[Math.floor(Math.random() * list.length)] ?? '';
  for (let i = 0; i < 20; i += 1) {
    const name = `${pick(FIRST)} ${pick(SECOND)}`;
    if (!taken.includes(name)) return name;
  }
  return `session ${taken.length + 1}`;
}

/** As the gateway names forks, with the next number that is free. */
export function forkName(source: string, taken: readonly string[]): string {
  for (let n = 1; ; n += 1) {
    const name = `${source.slice(0, 110)}-fork-${n}`;
    if (!taken.includes(name)) return name;
  }
}

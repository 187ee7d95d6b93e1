// Two small lines: memory (filled) and processor time of a session over the last minutes.
import type { Sample } from '../model/app';

const W = 96;
const H = 24;

function line(values: number[], max: number): string {
  const step = W / Math.max(1, values.length - 1);
  return values.map((v, i) => `${i ? 'L' : 'M'}${(i * step).toFixed(1)} ${(H - 1 - (Math.min(v, max) / max) * (H - 2)).toFixed(1)}`).join('');
}

export function Sparkline({ samples, memoryMax }: { samples: Sample[]; memoryMax: number }) {
  if (samples.length < 2) return null;
  const memory = line(samples.map(s => s.memory), memoryMax);
  const last = samples[samples.length - 1];
  const label = `Memory ${Math.round((last?.memory ?? 0) / 1e6)} MB, processor ${Math.round((last?.cpu ?? 0) * 100)} %`;
  return (
    <svg class="spark" viewBox={`0 0 ${W} ${H}`} width={W} height={H} role="img" aria-label={label}>
      <title>{label}</title>
      <path class="spark-area" d={`${memory}L${W} ${H}L0 ${H}Z`} />
      <path class="spark-cpu" d={line(samples.map(s => s.cpu), 1)} />
    </svg>
  );
}

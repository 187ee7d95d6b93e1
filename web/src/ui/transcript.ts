// A written conversation that shows what a chat front-end on top of cellkeep looks like. No model is asked; the
// code is run for real.
import type { LiveSession } from '../model/live';
import { Cell, newId, type Voice } from '../model/doc';

type Turn = { voice: Voice; text: string } | { code: string };

const TURNS: Turn[] = [
  { voice: 'user', text: 'Here are the shop’s sales of last year. How did they develop?' },
  { voice: 'assistant', text: 'I will put them into a file first, then look at the total of each month.' },
  {
    code: `import numpy as np, pandas as pd
rng = np.random.default_rng(4)
months = pd.date_range("2025-01-01", periods=12, freq="MS")
sales = pd.DataFrame({"month": months, "sales": (90 + 6 * np.arange(12) + rng.normal(0, 9, 12)).round(1)})
sales.to_csv("sales.csv", index=False)
sales.describe().round(1)`,
  },
  { voice: 'assistant', text: 'They grow steadily. As a picture, which you can also download:' },
  {
    code: `import matplotlib.pyplot as plt
fig, ax = plt.subplots(figsize=(7, 3.4))
ax.plot(sales.month, sales.sales, marker="o", color="#0f766e")
ax.fill_between(sales.month, sales.sales, alpha=.12, color="#0f766e")
ax.set_title("Sales by month")
fig.tight_layout()
fig.savefig("chart.png", dpi=130)
plt.show()`,
  },
  { voice: 'user', text: 'Thank you! What would next month be if it goes on like this?' },
  { code: `slope, start = np.polyfit(np.arange(12), sales.sales, 1)
print(f"about {start + slope * 12:.0f}, growing by {slope:.1f} a month")` },
];

function finished(cell: Cell): Promise<void> {
  return new Promise(resolve => {
    const off = cell.subscribe(() => {
      if (cell.busy) return;
      off();
      resolve();
    });
  });
}

export async function play(live: LiveSession): Promise<void> {
  const { doc } = live;
  const empty = doc.cells.length === 1 && !doc.cells[0]?.source;
  if (empty) doc.cells = [];
  for (const turn of TURNS) {
    const cell = new Cell(newId(), 'code' in turn ? 'code' : 'markdown', 'code' in turn ? turn.code : turn.text);
    if ('voice' in turn) cell.voice = turn.voice;
    doc.insert(doc.cells.length, cell);
    live.edited();
    if (!('code' in turn)) continue;
    live.run(cell);
    if (cell.busy) await finished(cell);
    if (cell.run?.status !== 'ok') return;
  }
}

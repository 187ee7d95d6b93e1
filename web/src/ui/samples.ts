// Code to begin with, for who does not want to write any yet.
export const SAMPLES: { label: string; code: string }[] = [
  {
    label: 'Draw a chart',
    code: `import numpy as np
import matplotlib.pyplot as plt

x = np.linspace(0, 12, 400)
for phase in np.linspace(0, 1.5, 6):
    plt.plot(x, np.exp(-x / 6) * np.sin(x - phase))
plt.title("Damped waves")
plt.show()`,
  },
  {
    label: 'A table',
    code: `import pandas as pd

sales = pd.DataFrame({
    "month": ["Jan", "Feb", "Mar", "Apr"],
    "north": [120, 135, 149, 160],
    "south": [98, 110, 87, 121],
})
sales.assign(total=sales.north + sales.south)`,
  },
  {
    label: 'An interactive chart',
    code: `import numpy as np
import plotly.graph_objects as go

rng = np.random.default_rng(7)
x, y = rng.normal(size=(2, 300))
go.Figure(go.Scatter(x=x, y=y, mode="markers", marker={"color": x + y, "size": 9}))`,
  },
];

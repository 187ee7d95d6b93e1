// Charts of plotly, from their MIME type. The bundle is the one that builds no code at run time, as the page's
// policy forbids that; it is a file of its own, loaded with the first chart.
import plotlyFile from 'plotly.js-strict-dist-min?url';

interface Figure {
  data?: unknown[];
  layout?: Record<string, unknown>;
  config?: Record<string, unknown>;
}

interface PlotlyLibrary {
  newPlot(host: HTMLElement, data: unknown[], layout: Record<string, unknown>, config: Record<string, unknown>): Promise<unknown>;
  purge(host: HTMLElement): void;
}

let loading: Promise<PlotlyLibrary> | null = null;

function library(): Promise<PlotlyLibrary> {
  loading ??= new Promise<PlotlyLibrary>((resolve, reject) => {
    const script = document.createElement('script');
    script.src = plotlyFile;
    script.onload = () => resolve((window as unknown as { Plotly: PlotlyLibrary }).Plotly);
    script.onerror = () => {
      loading = null;
      reject(new Error('the chart library could not be loaded'));
    };
    document.head.append(script);
  });
  return loading;
}

const isDark = (): boolean => getComputedStyle(document.documentElement).colorScheme === 'dark';

export async function renderPlotly(host: HTMLElement, figure: Figure): Promise<() => void> {
  const plotly = await library();
  const plain = isDark() ? { paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(127,127,127,.08)', font: { color: '#c9d1d9' } } : {};
  const layout = { autosize: true, height: 420, margin: { l: 56, r: 24, t: 56, b: 48 }, ...figure.layout, ...plain };
  await plotly.newPlot(host, figure.data ?? [], layout, { responsive: true, displaylogo: false, ...figure.config, plotlyServerURL: '' });
  return () => plotly.purge(host);
}

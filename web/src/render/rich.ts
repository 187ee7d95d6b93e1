// HTML, Markdown, LaTeX and SVG by JupyterLab's rendermime, with KaTeX for formulas. Loaded with the first
// output that needs it. Everything is treated as untrusted: HTML goes through JupyterLab's sanitizer, SVG into
// an image, and script in either never runs here.
import { RenderMimeRegistry, standardRendererFactories, MimeModel } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import renderMath from 'katex/contrib/auto-render';
import { marked } from 'marked';
import 'katex/dist/katex.min.css';

const BLOCKS = [
  { left: '$$', right: '$$', display: true },
  { left: '\\[', right: '\\]', display: true },
  { left: '\\begin{equation}', right: '\\end{equation}', display: true },
  { left: '\\begin{align}', right: '\\end{align}', display: true },
  { left: '\\(', right: '\\)', display: false },
];
const SINGLE = { left: '$', right: '$', display: false };

/** rendermime typesets what is attached to a Lumino shell, which is never the case here. */
function typeset(element: HTMLElement, mime: string): void {
  if (mime === 'image/svg+xml') return;
  // In HTML a dollar is mostly money.
  const delimiters = mime === 'text/html' ? BLOCKS : [...BLOCKS, SINGLE];
  renderMath(element, { delimiters, throwOnError: false, trust: false, maxExpand: 1000 });
}

const markdownParser: IRenderMime.IMarkdownParser = {
  render: (content: string) => Promise.resolve(marked.parse(content, { gfm: true, async: false })),
};

const registry = new RenderMimeRegistry({
  initialFactories: standardRendererFactories,
  markdownParser,
});

/**
 * Nothing in an output takes this page's place: other addresses open beside it, whatever their target was. A link to
 * a heading scrolls (rendermime does) and never becomes this page's own address, which names the session.
 */
function tameLinks(element: HTMLElement): void {
  for (const link of element.querySelectorAll<HTMLElement>('a[href], area[href]')) {
    if (link.getAttribute('href')?.startsWith('#')) {
      link.addEventListener('click', e => e.preventDefault());
      continue;
    }
    link.setAttribute('target', '_blank');
    link.setAttribute('rel', 'noopener noreferrer');
  }
}

/** A new element that shows one MIME type of a bundle. */
export async function renderRich(mime: string, data: unknown, metadata: Record<string, unknown>): Promise<HTMLElement> {
  const safe = mime === 'image/svg+xml'; // becomes the source of an image, where nothing runs
  const model = new MimeModel({ trusted: safe, data: { [mime]: data as string }, metadata: metadata as never });
  const renderer = registry.createRenderer(mime);
  await renderer.renderModel(model);
  typeset(renderer.node, mime);
  tameLinks(renderer.node);
  for (const img of renderer.node.querySelectorAll('img:not([alt])')) img.setAttribute('alt', 'Output of a cell');
  for (const table of renderer.node.querySelectorAll('table')) wrapTable(table);
  return renderer.node;
}

/** A wide table scrolls by itself, also by keyboard; the page does not. */
function wrapTable(table: HTMLTableElement): void {
  const box = document.createElement('div');
  box.className = 'table-box';
  box.tabIndex = 0;
  box.setAttribute('role', 'region');
  box.setAttribute('aria-label', 'Table');
  table.removeAttribute('border');
  table.replaceWith(box);
  box.append(table);
}

// Text with terminal colours as spans. Knows what Python's tracebacks and common tools use: the 8 + 8 colours,
// the 256, RGB, bold, dim, italic, underline, inverse. Everything else of a terminal is dropped.

const ANY = /\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()*+][0-9A-Za-z]|[@-Z\\-_])/g;

export const stripAnsi = (text: string): string => text.replace(ANY, '');

interface Style {
  classes: Set<string>;
  fg: string;
  bg: string;
}

const NAMES = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'];
const FLAGS: Record<number, string> = { 1: 'bold', 2: 'dim', 3: 'italic', 4: 'underline', 7: 'inverse', 9: 'strike' };

function cube(n: number): string {
  if (n >= 232) return `rgb(${Array(3).fill(8 + (n - 232) * 10).join(',')})`;
  const level = (x: number): number => (x ? 55 + x * 40 : 0);
  const i = n - 16;
  return `rgb(${level(Math.floor(i / 36))},${level(Math.floor(i / 6) % 6)},${level(i % 6)})`;
}

/** Exact colours were chosen for one background; towards the text's own colour they can be read on both. */
const legible = (colour: string): string => `color-mix(in srgb, ${colour} 45%, currentcolor)`;

/** A colour of the extended forms; returns how many codes it took. */
function extended(codes: number[], at: number): [string, number] {
  if (codes[at + 1] === 5) {
    const n = codes[at + 2] ?? 0;
    return [n < 16 ? `var(--ansi-${n < 8 ? '' : 'bright-'}${NAMES[n % 8]})` : legible(cube(n)), 2];
  }
  if (codes[at + 1] === 2) return [legible(`rgb(${codes.slice(at + 2, at + 5).map(c => Math.min(255, c || 0)).join(',')})`), 4];
  return ['', 0];
}

function apply(style: Style, text: string): void {
  const codes = text ? text.split(';').map(Number) : [0];
  for (let i = 0; i < codes.length; i += 1) {
    const c = codes[i] ?? 0;
    if (c === 0) Object.assign(style, { classes: new Set<string>(), fg: '', bg: '' });
    else if (FLAGS[c]) style.classes.add(`ansi-${FLAGS[c]}`);
    else if (c === 22) ['ansi-bold', 'ansi-dim'].forEach(x => style.classes.delete(x));
    else if (FLAGS[c - 20]) style.classes.delete(`ansi-${FLAGS[c - 20]}`);
    else if (c >= 30 && c <= 37) style.fg = `var(--ansi-${NAMES[c - 30]})`;
    else if (c >= 90 && c <= 97) style.fg = `var(--ansi-bright-${NAMES[c - 90]})`;
    else if (c >= 40 && c <= 47) style.bg = `var(--ansi-${NAMES[c - 40]})`;
    else if (c >= 100 && c <= 107) style.bg = `var(--ansi-bright-${NAMES[c - 100]})`;
    else if (c === 39) style.fg = '';
    else if (c === 49) style.bg = '';
    else if (c === 38 || c === 48) {
      const [colour, used] = extended(codes, i);
      style[c === 38 ? 'fg' : 'bg'] = colour;
      i += used;
    }
  }
}

function span(text: string, style: Style): Node {
  if (!style.classes.size && !style.fg && !style.bg) return document.createTextNode(text);
  const el = document.createElement('span');
  el.className = [...style.classes].join(' ');
  if (style.fg) el.style.color = style.fg;
  if (style.bg) el.style.backgroundColor = `color-mix(in srgb, ${style.bg} 28%, transparent)`; // a tint: any text on it stays legible
  el.textContent = text;
  return el;
}

/** Colours go on from call to call when the same style is given again. */
export const freshStyle = (): Style => ({ classes: new Set(), fg: '', bg: '' });

export function ansiNodes(text: string, style: Style = freshStyle()): DocumentFragment {
  const out = document.createDocumentFragment();
  let at = 0;
  for (const m of text.matchAll(ANY)) {
    if (m.index > at) out.append(span(text.slice(at, m.index), style));
    at = m.index + m[0].length;
    const colours = /^\x1b\[([0-9;]*)m$/.exec(m[0]);
    if (colours) apply(style, colours[1] ?? '');
  }
  if (at < text.length) out.append(span(text.slice(at), style));
  return out;
}

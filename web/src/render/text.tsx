// The text of a stream. Short: all of it. Long: only the lines that are in sight exist as elements, so that
// a hundred thousand lines scroll as smoothly as ten.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { TextBuf } from '../model/textbuf';
import { ansiNodes, stripAnsi } from './ansi';

const VIRTUAL_FROM = 300; // lines
const ROW = 20; // px, as in the style sheet
const SHOWN = 18; // rows of a collapsed output
const OPEN = 34; // rows of an opened one
const WIDTH_MAX = 20_000; // characters of a line that are shown

function lineText(line: string): string {
  return line.length > WIDTH_MAX ? `${line.slice(0, WIDTH_MAX)} [… ${line.length - WIDTH_MAX} more characters]` : line;
}

function Plain({ buf, version }: { buf: TextBuf; version: number }) {
  const ref = useRef<HTMLPreElement>(null);
  useLayoutEffect(() => {
    ref.current?.replaceChildren(ansiNodes(buf.lines.map(lineText).join('\n')));
  }, [buf, version, buf.lines.length]);
  const cut = buf.lines.some(l => l.length > WIDTH_MAX);
  return (
    <>
      <pre ref={ref} class={`text ${cut ? 'cut' : ''}`} tabIndex={cut ? 0 : undefined} />
      {cut && <p class="hint cut-foot"><button class="link" onClick={() => saveText(buf)}>Save as text</button></p>}
    </>
  );
}

function Virtual({ buf, version }: { buf: TextBuf; version: number }) {
  const box = useRef<HTMLDivElement>(null);
  const rows = useRef<HTMLPreElement>(null);
  const [top, setTop] = useState(0);
  const [open, setOpen] = useState(false);
  const stick = useRef(true);
  const before = useRef(0);
  const count = buf.lines.length - (buf.lines[buf.lines.length - 1] === '' ? 1 : 0);
  const height = Math.min(count, open ? OPEN : SHOWN) * ROW;
  const first = Math.max(0, Math.floor(top / ROW) - 10);
  const last = Math.min(count, first + Math.ceil(height / ROW) + 20);

  useLayoutEffect(() => {
    const fragment = document.createDocumentFragment();
    for (let i = first; i < last; i += 1) {
      const row = document.createElement('div');
      row.append(ansiNodes(lineText(buf.lines[i] ?? '')));
      fragment.append(row);
    }
    rows.current?.replaceChildren(fragment);
  }, [buf, version, first, last]);

  useEffect(() => {
    if (stick.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [version, open]);

  const scrolled = (): void => {
    const el = box.current;
    if (!el) return;
    // Output that grew under it is no reason to let go of the end; a person who scrolls back is.
    if (el.scrollTop + el.clientHeight >= el.scrollHeight - ROW) stick.current = true;
    else if (el.scrollTop < before.current) stick.current = false;
    before.current = el.scrollTop;
    setTop(el.scrollTop);
  };

  return (
    <div class="long">
      <div ref={box} class="long-box" style={{ height: `${height}px` }} onScroll={scrolled} tabIndex={0} role="region" aria-label={`Output of ${count} lines`}>
        <div style={{ height: `${count * ROW}px` }}>
          <pre ref={rows} class="text rows" style={{ transform: `translateY(${first * ROW}px)` }} />
        </div>
      </div>
      <div class="long-foot">
        <span>
          {count.toLocaleString()} lines{buf.dropped ? `, ${buf.dropped.toLocaleString()} more were left out` : ''}
        </span>
        <button class="link" onClick={() => setOpen(!open)}>{open ? 'Less' : 'More'}</button>
        <button class="link" onClick={() => saveText(buf)}>Save as text</button>
      </div>
    </div>
  );
}

function saveText(buf: TextBuf): void {
  const a = document.createElement('a');
  a.href = URL.createObjectURL(new Blob([stripAnsi(buf.toString())], { type: 'text/plain' }));
  a.download = 'output.txt';
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
}

export function BufferedText({ buf, version }: { buf: TextBuf; version: number }) {
  return buf.lines.length > VIRTUAL_FROM ? <Virtual buf={buf} version={version} /> : <Plain buf={buf} version={version} />;
}

export function TextOutput({ buf, name, version }: { buf: TextBuf; name: string; version: number }) {
  return <div class={`out-stream ${name}`}><BufferedText buf={buf} version={version} /></div>;
}

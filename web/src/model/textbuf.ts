// The text of a stream as lines, as a terminal would show it: carriage returns write over the line,
// backspaces go back, "cursor up" goes up. Bounded: of very long output the middle is left out, and counted.

export const LINES_MAX = 200_000;
export const CHARS_MAX = 48 * 1024 * 1024;
const HEAD_KEPT = 2_000;
const REWRITTEN_MAX = 20_000; // characters of a line that is written over again and again
const CONTROL = /[\n\r\b]|\x1b\[(\d*)([ABCDGJK])/g;
const COLOUR = /\x1b\[[0-9;]*m/g;

export class TextBuf {
  lines: string[] = [''];
  /** Lines that were left out after the first `HEAD_KEPT`. */
  dropped = 0;
  private chars = 0;
  private row = 0;
  private overwrite = false;

  write(text: string): void {
    let at = 0;
    CONTROL.lastIndex = 0;
    for (let m = CONTROL.exec(text); m; m = CONTROL.exec(text)) {
      this.put(text.slice(at, m.index));
      at = m.index + m[0].length;
      this.control(m);
    }
    this.put(text.slice(at));
    this.bound();
  }

  toString(): string {
    if (!this.dropped) return this.lines.join('\n');
    const head = this.lines.slice(0, HEAD_KEPT);
    return [...head, `[… ${this.dropped} lines left out …]`, ...this.lines.slice(HEAD_KEPT)].join('\n');
  }

  private control(m: RegExpExecArray): void {
    const n = Number(m[1] || 1);
    if (m[0] === '\n') this.down(1);
    else if (m[0] === '\r' || m[2] === 'G') this.overwrite = true;
    else if (m[0] === '\b') this.lines[this.row] = (this.lines[this.row] ?? '').slice(0, -1);
    else if (m[2] === 'A') this.row = Math.max(0, this.row - n);
    else if (m[2] === 'B') this.down(n, this.lines.length - 1); // as a terminal: not below the last line
    else if (m[2] === 'K') this.erase();
  }

  /** Erases what is right of the cursor, or the whole line: after a carriage return that is the same. */
  private erase(): void {
    if (this.overwrite) this.lines[this.row] = '';
    this.overwrite = false;
  }

  private down(n: number, last = Infinity): void {
    if (this.row >= last) return;
    this.row = Math.min(this.row + n, last);
    this.overwrite = this.row < this.lines.length;
    while (this.lines.length <= this.row) this.lines.push('');
  }

  private put(text: string): void {
    if (!text) return;
    const old = this.lines[this.row] ?? '';
    if (!this.overwrite) this.lines[this.row] = old + text;
    else {
      const width = text.replace(COLOUR, '').length;
      const plain = old.length > REWRITTEN_MAX ? '' : old.replace(COLOUR, '');
      this.lines[this.row] = text + plain.slice(width);
    }
    this.overwrite = false;
    this.chars += text.length;
  }

  private bound(): void {
    if (this.lines.length <= LINES_MAX && this.chars <= CHARS_MAX) return;
    const gone = Math.floor((this.lines.length - HEAD_KEPT) / 4);
    if (gone > 0) {
      const cut = this.lines.splice(HEAD_KEPT, gone);
      this.dropped += gone;
      this.row = Math.max(0, this.row - gone);
      this.chars -= cut.reduce((sum, line) => sum + line.length, 0);
    } else if (this.lines.length <= HEAD_KEPT) {
      this.lines = this.lines.map(line => (line.length > 100_000 ? `${line.slice(0, 100_000)} […]` : line));
      this.chars = this.lines.reduce((sum, line) => sum + line.length, 0);
    }
  }
}

// The first rows of a CSV, quotes and all. The separator is the one of , ; and tab that the first line has most of.
export function parseCsv(text: string, rowsMax: number): string[][] {
  const head = text.slice(0, text.indexOf('\n') < 0 ? undefined : text.indexOf('\n'));
  const separator = [',', ';', '\t'].sort((a, b) => head.split(b).length - head.split(a).length)[0] ?? ',';
  const rows: string[][] = [];
  let row: string[] = [];
  let field = '';
  let quoted = false;
  for (let i = 0; i < text.length && rows.length < rowsMax; i += 1) {
    const c = text[i] ?? '';
    if (quoted) {
      if (c !== '"') field += c;
      else if (text[i + 1] === '"') field += text[(i += 1)];
      else quoted = false;
    } else if (c === '"' && !field) quoted = true;
    else if (c === separator) {
      row.push(field);
      field = '';
    } else if (c === '\n') {
      rows.push([...row, field.replace(/\r$/, '')]);
      row = [];
      field = '';
    }
    else field += c;
  }
  if ((field || row.length) && rows.length < rowsMax) rows.push([...row, field]);
  return rows;
}

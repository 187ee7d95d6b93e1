// The last step of the build: drops what the page does not load, compresses the rest beforehand (gzip, and
// Brotli where it is smaller), and holds what the first cell needs against its limit.
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const dist = new URL(`../${process.argv[2] ?? 'dist'}/`, import.meta.url);
const LIMIT = 300 * 1024;
const read = name => readFileSync(new URL(name, dist));

for (const name of readdirSync(new URL('assets/', dist)))
  if (/\.(ttf|woff|map)$/.test(name)) rmSync(new URL(`assets/${name}`, dist)); // every browser takes woff2

function compress(name) {
  const bytes = read(name);
  if (bytes.length < 600) return bytes.length;
  const quality = bytes.length > 2_000_000 ? 9 : 11;
  const gz = gzipSync(bytes, { level: 9 });
  const br = brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: quality, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length } });
  writeFileSync(new URL(`${name}.gz`, dist), gz);
  if (br.length < gz.length) writeFileSync(new URL(`${name}.br`, dist), br);
  return gz.length;
}

const gzipped = new Map();
for (const folder of ['', 'assets/'])
  for (const name of readdirSync(new URL(folder || './', dist)))
    if (/\.(js|css|svg)$/.test(name)) gzipped.set(folder + name, compress(folder + name));

const manifest = JSON.parse(read('manifest.json'));
const first = new Set();
(function add(key) {
  const chunk = manifest[key];
  if (first.has(chunk.file)) return;
  first.add(chunk.file);
  for (const css of chunk.css ?? []) first.add(css);
  for (const next of chunk.imports ?? []) add(next);
})('index.html');
rmSync(new URL('manifest.json', dist));

const kb = n => `${(n / 1024).toFixed(0)} KB`;
let sum = statSync(new URL('index.html', dist)).size;
for (const name of first) {
  const size = gzipped.get(name) ?? 0;
  sum += size;
  console.log(`first load: ${name} ${kb(size)} gzip`);
}
console.log(`first load in all: ${kb(sum)} gzip, of ${kb(LIMIT)} allowed`);
if (sum > LIMIT) {
  console.error('the first load is over its limit: load something of it later');
  process.exit(1);
}

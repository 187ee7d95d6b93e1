// Runs the browser tests one after another: main.mjs URL TOKEN SHOTS [WORD...]. One Chromium, a context of its own
// for each test. SCALE=n multiplies every deadline.
import { closeBrowser, Context, SCALE } from './lib.mjs';
import * as files from './files.mjs';
import * as first from './first.mjs';
import * as life from './life.mjs';
import * as look from './look.mjs';
import * as notebook from './notebook.mjs';
import * as readme from './readme.mjs';

/** Some of what a test asks the browser for has no deadline of its own. */
async function within(ms, work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${ms / 1000} s`)), ms);
  });
  await Promise.race([work, late]).finally(() => clearTimeout(timer));
}

const [url, token, shots, ...words] = process.argv.slice(2);
const pictures = words.includes('README'); // docs/images: shots is that folder then
const tests = (pictures ? [readme] : [first, notebook, files, look, life]).flatMap(file => Object.entries(file));
let failed = 0;

/** One try; "" when all of it held. */
async function attempt(key, test) {
  const context = new Context(url, token, shots);
  try {
    await within(240_000 * SCALE, test(context));
    return '';
  } catch (e) {
    await context.failed(key);
    for (const line of [String(e.stack), ...context.log.slice(-12)]) console.log(`  page: ${line}`);
    return String(e.message).split('\n')[0].slice(0, 300);
  } finally {
    await context.close();
  }
}

for (const [key, test] of tests) {
  const name = `web: ${key.replaceAll('_', ' ')}`;
  if (!pictures && words.length && !words.some(w => name.includes(w))) continue;
  const begun = Date.now();
  // A browser driven faster than any hand can lose a key between two frames: what fails once is tried a second
  // time, and the line says so. What is really broken fails twice.
  const before = await attempt(key, test);
  const why = before && !pictures ? await attempt(key, test) : before;
  const took = `${((Date.now() - begun) / 1000).toFixed(1)} s`;
  if (why) {
    failed += 1;
    console.log(`FAIL ${name} -- ${why}`);
  } else {
    console.log(`ok ${name} (${took}${before ? `, at the second try; the first: ${before}` : ''})`);
  }
}
await closeBrowser();
process.exit(failed ? 1 : 0);

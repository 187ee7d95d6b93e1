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
for (const [key, test] of tests) {
  const name = `web: ${key.replaceAll('_', ' ')}`;
  if (!pictures && words.length && !words.some(w => name.includes(w))) continue;
  const context = new Context(url, token, shots);
  const begun = Date.now();
  try {
    await within(240_000 * SCALE, test(context));
    console.log(`ok ${name} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
  } catch (e) {
    failed += 1;
    await context.failed(key);
    console.log(`FAIL ${name} -- ${String(e.message).split('\n')[0].slice(0, 300)}`);
    console.log(String(e.stack));
    for (const line of context.log.slice(-12)) console.log(`  page: ${line}`);
  } finally {
    await context.close();
  }
}
await closeBrowser();
process.exit(failed ? 1 : 0);

'use strict';
// The little that every driver needs: named checks that can fail, deadlines, one summary line.

const scale = Number(process.env.SCALE) || 6; // the guests of a machine without KVM are slow
let passed = 0;
let failed = 0;

function check(name, condition, detail) {
  if (condition) passed++;
  else failed++;
  console.log(`${condition ? 'ok  ' : 'FAIL'} ${name}${detail === undefined ? '' : `  (${detail})`}`);
}

const sleep = ms => new Promise(resolve => setTimeout(resolve, ms));

// The promise's value, or an error that names what was waited for.
function within(ms, what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing after ${ms * scale} ms: ${what}`)), ms * scale);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function until(ms, what, condition) {
  const end = Date.now() + ms * scale;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`nothing after ${ms * scale} ms: ${what}`);
    await sleep(20);
  }
}

// Runs steps in order. One that throws is a failed check; the ones after it still run.
async function steps(list) {
  for (const [name, body] of list) {
    const before = passed + failed;
    const t0 = Date.now();
    try {
      await body(name);
      if (passed + failed === before) check(name, false, 'checked nothing');
    } catch (e) {
      check(name, false, e && e.message);
    }
    if (process.env.TIMES) console.log(`     ${name}: ${Date.now() - t0} ms`);
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed ? 1 : 0);
}

module.exports = { check, sleep, within, until, steps, scale, failures: () => failed };

// What somebody sees who opens the printed address for the first time.
import { check, ended, equal, LONG, run, sessionOf, textOf } from './lib.mjs';

/** Opens the address, runs a cell, sees a chart, without having read anything. */
export async function ten_second_story(c) {
  const page = await c.page();
  await c.open(page);
  check(!page.url().includes('token'), 'the token is still in the address bar');
  equal(await page.evaluate(() => sessionStorage.getItem('cellkeep.token')), c.token, 'token in the session storage');
  equal(await page.evaluate(() => Object.keys(localStorage).filter(k => /token/.test(k))), [], 'tokens in the local storage');
  const cell = await run(page, 'print(6 * 7)\n"the result"');
  await ended(cell);
  check((await textOf(cell)).startsWith("42\n"), `output: ${await textOf(cell)}`);
  const chart = await run(page, 'import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.title("Three points")\nplt.show()');
  await chart.locator('.picture img').waitFor();
  await ended(chart);
  const wide = await chart.locator('.picture img').evaluate(img => img.complete && img.naturalWidth);
  check(wide > 100, `the chart is ${wide} pixels wide`);
  equal(c.log.filter(l => /^error/.test(l)), [], 'errors of the page');
}

export async function token_page(c) {
  const page = await c.page();
  await page.goto(`${c.url}/`);
  await page.waitForSelector('.token-card');
  await c.shot(page, 'token-light');
  await page.fill('input[name=token]', 'surely-wrong');
  await page.click('text=Open');
  await page.locator('text=not the right one').waitFor();
  await page.fill('input[name=token]', c.address());
  await page.click('text=Open');
  await page.waitForSelector('.cell .cm-content');
  c.made.push(sessionOf(page));
}

/** How the files are sent: compressed, with an ETag, under a policy without inline script or foreign hosts. */
export async function static_files(c) {
  const index = await fetch(`${c.url}/`);
  const policy = index.headers.get('content-security-policy');
  const scripts = /script-src ([^;]*)/.exec(policy)[1];
  equal(scripts, "'self'", 'script-src');
  check(!/https?:|\*/.test(policy), `a foreign host in ${policy}`);
  equal(index.headers.get('x-content-type-options'), 'nosniff', 'nosniff');
  const html = await index.text();
  check(!/<script>|onload=/.test(html), 'inline script in the page');
  const asset = /src="\.?\/?(assets\/[^"]+\.js)"/.exec(html)[1];
  for (const coding of ['gzip', 'br']) {
    const file = await fetch(`${c.url}/${asset}`, { headers: { 'Accept-Encoding': coding } });
    equal(file.headers.get('content-encoding'), coding, 'content-encoding');
    equal(file.headers.get('content-type'), 'text/javascript; charset=utf-8', 'type');
    const again = await fetch(`${c.url}/${asset}`, { headers: { 'Accept-Encoding': coding, 'If-None-Match': file.headers.get('etag') } });
    equal(again.status, 304, 'status with the ETag');
  }
  for (const path of ['assets/..%2f..%2fetc%2fpasswd', 'assets/nothing.js', 'assets/../index.html.gz'])
    equal((await fetch(`${c.url}/${path}`)).status, 404, path);
  equal((await fetch(`${c.url}/sandbox`)).headers.get('content-security-policy').startsWith('sandbox allow-scripts; default-src'), true, 'sandbox');
}

// How it looks and whom it serves: chat, embedding, a phone, assistive technology.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { check, ended, equal, run } from './lib.mjs';

const axeSource = await readFile(new URL('./node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

async function accessible(page, where) {
  await page.evaluate(axeSource);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const serious = found.violations.filter(v => v.impact === 'serious' || v.impact === 'critical');
  const words = serious.map(v => `${v.id}: ${v.nodes.slice(0, 3).map(n => `${n.target} ${n.any[0]?.message ?? ''}`).join(' | ')}`);
  equal(words, [], `serious findings of axe-core, ${where}`);
}

/** The sample conversation in the chat view; its output in another site's page; nothing serious for axe-core. */
export async function chat_embed_and_accessibility(c) {
  const page = await c.page();
  const id = await c.open(page);
  await accessible(page, 'empty notebook');
  await page.click('text=Chat');
  await page.click('text=Play a sample conversation');
  await page.locator('.turn.code').nth(2).locator('.out-stream:has-text("a month")').waitFor();
  await page.locator('.card:has-text("chart.png") img').waitFor();
  await page.locator('.turn.code').nth(1).locator('.picture img').scrollIntoViewIfNeeded();
  await c.shot(page, 'chat-light');
  await accessible(page, 'chat');
  await page.emulateMedia({ colorScheme: 'dark' });
  await accessible(page, 'chat, dark');
  await c.shot(page, 'chat-dark');
  await page.locator('.turn.code').nth(1).locator('.picture').click();
  await page.locator('.lightbox img').waitFor();
  await page.keyboard.press('Escape');
  await page.click('text=Notebook');
  await page.click('[aria-label=Files]');
  await page.locator('.tree >> text=chart.png').waitFor();
  await accessible(page, 'notebook with outputs and files, dark');
  await page.emulateMedia({ colorScheme: 'light' });
  await accessible(page, 'notebook with outputs and files');
  await embedded(c, page, id);
}

/** A page of another origin shows the cell in an iframe: with a token, and by handing the cell over. */
async function embedded(c, page, id) {
  const events = await c.api('GET', `/v1/sessions/${id}/files/var/tmp/cellkeep/notebook.ipynb`);
  const cell = events.json.cells.map(x => x.metadata.cellkeep?.run?.id).filter(x => x)[0];
  const html = `<iframe id=a src="${c.url}/embed#session=${id}&cell=${cell}" width=700 height=300></iframe><iframe id=b src="${c.url}/embed" width=700 height=100></iframe><p id=h></p>
<script>addEventListener("message", e => {
  if (e.data.type === "cellkeep:height") document.getElementById("h").textContent += " " + e.data.height;
  if (e.data.type !== "cellkeep:ready") return;
  var a = document.getElementById("a").contentWindow;
  if (e.source === a) a.postMessage({ type: "cellkeep:token", token: ${JSON.stringify(c.token)} }, "*");
  else e.source.postMessage({ type: "cellkeep:cell", cell: { stdout: "handed over", stderr: "", displays: [], result: null, error: null, artifacts: [] } }, "*");
})</script>`;
  const server = createServer((_, answer) => answer.setHeader('Content-Type', 'text/html').end(html));
  await new Promise(resolve => server.listen(0, 'localhost', resolve));
  const host = await c.page();
  await host.goto(`http://localhost:${server.address().port}/`);
  await host.frameLocator('#a').locator('table').waitFor();
  await host.frameLocator('#b').locator('text=handed over').waitFor();
  await host.waitForFunction(() => /\d/.test(document.getElementById('h').textContent));
  await c.shot(host, 'embed-light');
  server.close();
}

/** 390 pixels wide: everything fits, the list opens over the page, a cell runs. */
export async function phone(c) {
  const page = await c.page({ viewport: { width: 390, height: 780 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true });
  await c.open(page);
  const fits = async where => {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    check(wide <= 390, `${where} is ${wide} pixels wide`);
  };
  await ended(await run(page, 'import pandas as pd\npd.DataFrame({f"column {i}": [i, i * 1000] for i in range(12)})'));
  await page.locator('table').waitFor();
  await fits('the notebook');
  await c.shot(page, 'phone-notebook-light');
  await accessible(page, 'phone');
  await page.click('.rail-toggle button');
  await page.locator('.rail.open').waitFor();
  await page.waitForTimeout(300);
  await c.shot(page, 'phone-rail-light');
  await page.click('[aria-label="Close the list"]');
  await page.click('[aria-label=Files]');
  await page.locator('.panel').waitFor();
  await fits('the files');
  await page.click('[aria-label="Close the files"]');
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.click('[aria-label=View] >> button >> nth=1');
  await page.locator('.composer').waitFor();
  await fits('the chat');
  await c.shot(page, 'phone-chat-dark');
}

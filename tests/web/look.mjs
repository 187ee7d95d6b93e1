// How it looks and whom it serves: chat, embedding, a phone, assistive technology.
import { createServer } from 'node:http';
import { accessible, check, ended, equal, run } from './lib.mjs';

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

/** The rest of the page for axe-core, in both colour schemes: token page, list, its actions, checkpoints, menus, dialogs. */
export async function accessibility_of_lists_menus_and_dialogs(c) {
  const outside = await c.page();
  await outside.goto(`${c.url}/`);
  await outside.waitForSelector('.token-card');
  await inBoth(outside, 'token page');
  await outside.fill('input[name=token]', 'wrong');
  await outside.keyboard.press('Enter');
  await outside.locator('text=not the right one').waitFor();
  await inBoth(outside, 'token page, wrong token');
  const page = await c.page();
  await c.open(page);
  await ended(await run(page, 'open("a.csv", "w").write("x,y\\n1,2\\n")\n1 / 0'));
  await page.locator('.rail-item.current [aria-expanded]').click();
  await inBoth(page, 'actions of a session');
  await page.locator('.rail-actions >> text=Delete').click();
  await page.locator('text=Delete for good').waitFor();
  await accessible(page, 'the question before a session is deleted');
  await page.keyboard.press('Escape');
  await page.click('[aria-label=Checkpoints]');
  await page.fill('[aria-label="Name of the checkpoint"]', 'point');
  await page.click('text=Save now');
  await page.locator('.point-name:has-text("point")').waitFor();
  await inBoth(page, 'checkpoints');
  await page.click('[aria-label="Go back to point"]');
  await inBoth(page, 'the question before a rollback');
  await page.keyboard.press('Escape');
  await page.click('[aria-label=More]');
  await page.locator('[role=menu]').waitFor();
  await inBoth(page, 'menu');
  await page.click('[role=menuitem]:has-text("Keys")');
  await page.locator('dialog h2:has-text("Keys")').waitFor();
  await inBoth(page, 'keys');
  await page.keyboard.press('Escape');
  await page.click('[aria-label=Files]');
  await page.locator('.file-open:has-text("a.csv")').click();
  await page.locator('dialog td').first().waitFor();
  await inBoth(page, 'preview');
}

async function inBoth(page, where) {
  for (const colorScheme of ['dark', 'light']) {
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(200); // colours fade from one to the other
    await accessible(page, `${where}, ${colorScheme}`);
  }
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

// The browser, and what a person does with the page, in words.
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import { chromium } from 'playwright-core';

export const SCALE = Number(process.env.SCALE || 1);
export const LONG = 90_000 * SCALE; // under emulation and load a first figure takes its time
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

let browser = null;

/** One for all tests, with a new profile in a temporary folder (Playwright's own doing). */
async function theBrowser() {
  browser ??= await chromium.launch({ executablePath: '/usr/bin/chromium', args: FLAGS, timeout: LONG });
  return browser;
}

export async function closeBrowser() {
  await browser?.close();
}

const answers = createInterface({ input: process.stdin });
/** Asks run.py for something and waits until it is done. */
export function order(what) {
  return new Promise(resolve => {
    answers.once('line', resolve);
    console.log(`@${what}`);
  });
}

export function check(ok, message) {
  if (!ok) throw new Error(message);
}
export function equal(got, want, what) {
  check(JSON.stringify(got) === JSON.stringify(want), `${what}: expected ${JSON.stringify(want)}, got ${JSON.stringify(got)}`);
}

export class Context {
  log = [];
  pages = [];
  made = [];
  contexts = [];

  constructor(url, token, shots) {
    Object.assign(this, { url, token, shots });
  }

  address(hash = '') {
    return `${this.url}/?token=${encodeURIComponent(this.token)}${hash}`;
  }

  /** A browser context and a page of its own. */
  async page(options = {}) {
    const b = await theBrowser();
    const context = await b.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    this.contexts.push(context);
    return this.tab(context);
  }

  /** Another tab of the same browser context. */
  async tab(context) {
    const page = await context.newPage();
    page.setDefaultTimeout(LONG);
    page.on('console', m => this.log.push(`${m.type()}: ${m.text()}`));
    page.on('pageerror', e => this.log.push(`error: ${e.message}`));
    page.on('dialog', d => {
      this.log.push(`dialog: ${d.message()}`);
      void d.dismiss();
    });
    this.pages.push(page);
    return page;
  }

  /** Opens the printed address and waits for a session to work in. */
  async open(page, hash = '') {
    await page.goto(this.address(hash));
    await page.waitForSelector('.cell .cm-content');
    const id = sessionOf(page);
    if (!this.made.includes(id)) this.made.push(id);
    return id;
  }

  async api(method, path, body) {
    const response = await fetch(this.url + path, { method, headers: { Authorization: `Bearer ${this.token}` }, body });
    const text = await response.text();
    return { status: response.status, text, json: text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : null };
  }

  shot(page, name) {
    return page.screenshot({ path: join(this.shots, `${name}.png`) });
  }

  async failed(key) {
    for (const [i, page] of this.pages.entries()) await this.shot(page, `failed-${key}-${i}`).catch(() => undefined);
  }

  async close() {
    for (const context of this.contexts) await context.close().catch(() => undefined);
    for (const id of this.made) await this.api('DELETE', `/v1/sessions/${id}`).catch(() => undefined);
  }
}

export const sessionOf = page => new URL(page.url()).hash.slice(1).split('/')[0];

/** Writes into the last cell of the notebook and runs it; returns that cell. */
export async function run(page, code) {
  const cells = page.locator('.notebook .cell.code');
  const index = (await cells.count()) - 1;
  const cell = cells.nth(index);
  await cell.locator('.cm-content').click();
  await page.keyboard.insertText(code);
  await page.keyboard.press('Shift+Enter');
  const id = await cell.getAttribute('data-cell');
  return page.locator(`[data-cell="${id}"]`);
}

/** Waits until a cell's run has ended. */
export async function ended(cell) {
  await cell.and(cell.page().locator('[data-state=done], [data-state=lost]')).waitFor({ state: 'attached' });
  return cell;
}

/** Waits until a cell that another tab runs has shown exactly this. */
export async function shows(cell, text) {
  await cell.locator(`.outputs:has-text(${JSON.stringify(text)})`).waitFor();
  equal(await textOf(await ended(cell)), text, 'what the cell shows');
}

export const textOf = async cell => (await cell.locator('.outputs').innerText()).trim();

const axeSource = await readFile(new URL('./node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

/** No finding of axe-core that is serious or worse. */
export async function accessible(page, where) {
  await page.evaluate(axeSource);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const serious = found.violations.filter(v => v.impact === 'serious' || v.impact === 'critical');
  const words = serious.map(v => `${v.id}: ${v.nodes.slice(0, 3).map(n => `${n.target} ${n.any[0]?.message ?? ''}`).join(' | ')}`);
  equal(words, [], `serious findings of axe-core, ${where}`);
}

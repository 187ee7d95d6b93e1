// The two pictures of the README: a notebook in light, a conversation in dark. run.py README
import { ended, run } from './lib.mjs';

export async function picture_of_the_notebook(c) {
  const page = await c.page({ viewport: { width: 1180, height: 740 } });
  const id = await c.open(page);
  await c.api('PATCH', `/v1/sessions/${id}`, JSON.stringify({ name: 'sales review' }));
  await c.api('PUT', `/v1/sessions/${id}/files/home/user/sales.csv`, 'month,north,south\nJan,120,98\nFeb,135,110\nMar,149,87\nApr,160,121\nMay,171,133\n');
  await page.reload();
  await ended(await run(page, 'import pandas as pd\nsales = pd.read_csv("sales.csv", index_col="month")\nsales.tail(3)'));
  await c.api('POST', `/v1/sessions/${id}/checkpoints`, JSON.stringify({ name: 'data loaded' }));
  await ended(await run(page, 'ax = sales.plot.bar(figsize=(6.2, 2.5), rot=0, color=["#0f766e", "#99d5cc"], title="Sales by month")'));
  await c.api('POST', `/v1/sessions/${id}/checkpoints`, JSON.stringify({ name: 'first chart' }));
  await page.click('[aria-label=Checkpoints]');
  await page.locator('.point-name:has-text("first chart")').waitFor();
  await page.locator('.scroll').evaluate(e => e.scrollTo(0, 0));
  await page.waitForTimeout(7000); // some life in the little chart
  await c.shot(page, 'web-notebook');
}

export async function picture_of_the_chat(c) {
  const page = await c.page({ viewport: { width: 1180, height: 740 }, colorScheme: 'dark' });
  const id = await c.open(page);
  await c.api('PATCH', `/v1/sessions/${id}`, JSON.stringify({ name: 'shop assistant' }));
  await page.reload();
  await page.click('text=Chat');
  await page.click('text=Play a sample conversation');
  await page.locator('.turn.code').nth(2).locator('.out-stream:has-text("a month")').waitFor();
  await page.locator('.card:has-text("chart.png") img').waitFor();
  await page.locator('.scroll').evaluate(e => e.scrollTo(0, document.querySelectorAll('.turn.code')[1].offsetTop - 90));
  await c.shot(page, 'web-chat');
}

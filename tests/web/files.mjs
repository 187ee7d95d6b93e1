// Files and notebooks, in and out.
import { readFile } from 'node:fs/promises';
import { check, ended, equal, run, textOf } from './lib.mjs';

/** Drops files onto the page as a person would. */
async function drop(page, list) {
  const data = await page.evaluateHandle(files => {
    const transfer = new DataTransfer();
    for (const [name, text] of files) transfer.items.add(new File([text], name));
    return transfer;
  }, list);
  for (const type of ['dragenter', 'dragover', 'drop']) await page.dispatchEvent('.drop', type, { dataTransfer: data });
}

const saved = async (page, act) => {
  const [download] = await Promise.all([page.waitForEvent('download'), act()]);
  return { name: download.suggestedFilename(), bytes: await readFile(await download.path()) };
};

/** A dropped CSV is there for Python, shows its first rows, comes back, and goes away. */
export async function upload_preview_download_delete(c) {
  const page = await c.page();
  const id = await c.open(page);
  await drop(page, [['sales.csv', 'month,total\nJan,"1,200"\nFeb,900\n'], ['notes é.txt', 'hello']]);
  await page.locator('.tree >> text=sales.csv').waitFor();
  await page.locator('.tree >> text=notes é.txt').waitFor();
  equal(await textOf(await ended(await run(page, 'print(open("sales.csv").read().count("\\n"))'))), '3', 'lines that Python sees');
  const made = await ended(await run(page, 'import matplotlib.pyplot as plt\nplt.plot([3, 1, 2])\nplt.savefig("made.png")\nplt.close()'));
  await made.locator('.card:has-text("made.png") img').waitFor();
  await page.locator('.tree >> text=made.png').waitFor();
  await c.shot(page, 'files-light');
  await page.locator('.file-open:has-text("sales.csv")').click();
  await page.locator('dialog td:has-text("1,200")').waitFor();
  await c.shot(page, 'preview-light');
  const file = await saved(page, () => page.click('dialog >> text=Download'));
  equal([file.name, file.bytes.toString()], ['sales.csv', 'month,total\nJan,"1,200"\nFeb,900\n'], 'the download');
  await page.keyboard.press('Escape');
  await page.locator('.file-row:has-text("notes")').hover();
  await page.click('[aria-label="Delete notes é.txt"]');
  await page.locator('.file-row >> text=/^Delete$/').click();
  await page.locator('.tree >> text=notes é.txt').waitFor({ state: 'detached' });
  equal((await c.api('HEAD', `/v1/sessions/${id}/files/home/user/notes%20%C3%A9.txt`)).status, 404, 'the deleted file');
  await page.click('[aria-label=More]');
  const tar = await saved(page, () => page.click('text=Download all files'));
  check(tar.name.endsWith('.tar') && tar.bytes.includes('sales.csv'), 'the archive has the file');
}

/** A full disk refuses an upload with a sentence; so do a broken notebook and one of an old format. */
export async function refusals(c) {
  const page = await c.page();
  const id = await c.open(page);
  const fill = await c.api('POST', `/v1/sessions/${id}/commands`, JSON.stringify({
    cmd: 'fallocate -l $(( ($(df --output=avail -k . | tail -1) - 256) * 1024 )) fill && df --output=avail -k . | tail -1', timeout_s: 60,
  }));
  equal(fill.json.exit_code, 0, `filling the disk: ${fill.text}`);
  await drop(page, [['big.bin', 'x'.repeat(4_000_000)]]);
  await page.locator('.upload.failed .upload-why').waitFor();
  check(/No room on/.test(await page.locator('.upload-why').innerText()), `the sentence: ${await page.locator('.upload-why').innerText()}`);
  await c.shot(page, 'refused-light');
  for (const [text, words] of [['{not json', 'not JSON'], ['{"a": 1}', 'no cells'], ['{"nbformat": 3, "worksheets": []}', 'format 3'],
    ['{"nbformat": 4, "cells": [{"cell_type": "code", "source": 7}]}', 'Cell 1']]) {
    await drop(page, [['broken.ipynb', text]]);
    await page.locator(`.notice.bad:has-text("${words}")`).waitFor();
    await page.locator('.notice >> [aria-label=Dismiss]').click();
  }
  equal(await page.locator('.cell').count(), 1, 'cells after four broken notebooks');
}

/** What goes out as .ipynb comes in again, and other programs can read it. */
export async function notebook_import_and_export(c) {
  const page = await c.page();
  await c.open(page);
  const notebook = {
    nbformat: 4, nbformat_minor: 4, metadata: { kernelspec: { name: 'python3', display_name: 'Python 3' }, custom: 1 },
    cells: [
      { cell_type: 'markdown', metadata: {}, source: ['# From elsewhere\n', 'with text'] },
      { cell_type: 'code', metadata: { tags: ['x'] }, execution_count: 7, source: '40 + 2',
        outputs: [{ output_type: 'execute_result', execution_count: 7, metadata: {}, data: { 'text/plain': ['4', '2'] } }] },
    ],
  };
  await drop(page, [['there.ipynb', JSON.stringify(notebook)]]);
  await page.locator('h1:has-text("From elsewhere")').waitFor();
  const code = page.locator('.cell.code').first();
  equal(await textOf(code), '42', 'the output that it brought');
  await code.locator('[aria-label="Run this cell"]').click();
  await code.locator('.run-time:has-text("s")').waitFor();
  await ended(code);
  await page.click('[aria-label=More]');
  const file = await saved(page, () => page.click('text=Export as .ipynb'));
  const out = JSON.parse(file.bytes.toString());
  equal([out.nbformat, out.nbformat_minor, out.cells.length, out.metadata.custom], [4, 5, 2, 1], 'the export');
  equal([out.cells[1].outputs[0].data['text/plain'], out.cells[1].execution_count, out.cells[1].metadata], ['42', 1, { tags: ['x'] }], 'its cell');
  equal('cellkeep' in out.metadata, false, 'what is only for this page');
}

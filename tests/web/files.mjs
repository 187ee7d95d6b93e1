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

/** Names and contents that a hostile program chose: what is shown is what it is, and no name hides the others' buttons. */
export async function hostile_names_and_previews(c) {
  const page = await c.page();
  await c.open(page);
  await ended(await run(page, `open("x" * 250, "w").write("long")
open("<img src=x onerror=pwned=1>.txt", "w").write("<script>pwned = 2</script>")
open("photo_\\u202egnp.exe", "w").write("no photo")
open("drawing.svg", "w").write('<svg xmlns="http://www.w3.org/2000/svg" width="60" height="40" onload="pwned=3"><rect width="60" height="40"/></svg>')
open("fake.png", "w").write("no picture")
open("empty.csv", "w").close()
print("made")`));
  await page.click('[aria-label=Files]');
  await page.locator('.file-row:has-text("<img src=x")').waitFor();
  await page.locator('.file-row:has-text("photo_\ufffdgnp.exe")').waitFor();
  const [inside, outside] = await page.locator('.panel').evaluate(p => [p.scrollWidth, p.clientWidth]);
  check(inside <= outside, `the panel is ${outside} pixels wide, its contents ${inside}`);
  for (const row of await page.locator('.file-row').all()) {
    const box = await row.locator('[aria-label^=Delete]').boundingBox();
    check(box.x + box.width <= 1280, `the button of ${await row.innerText()} is out of sight`);
  }
  const shows = async (name, selector) => {
    await page.locator(`.file-open:has-text("${name}")`).click();
    await page.locator(`dialog >> ${selector}`).waitFor();
    await page.keyboard.press('Escape');
    await page.locator('dialog').waitFor({ state: 'detached' });
  };
  await shows('<img src=x', 'pre:has-text("<script>pwned = 2</script>")');
  await shows('drawing.svg', 'img.preview-picture');
  await shows('fake.png', 'text=This is no picture');
  await shows('empty.csv', 'text=This file is empty');
  equal(await page.evaluate(() => window.pwned ?? 'nothing ran'), 'nothing ran', 'script of a file in the page');
  for (const answer of ['Escape', 'Enter']) { // by keyboard: thinks again, then means it
    await page.locator('[aria-label="Delete fake.png"]').focus();
    await page.keyboard.press('Enter');
    await page.locator('.file-row button.danger:focus').waitFor();
    await page.keyboard.press(answer);
    await page.locator('.file-row button.danger').waitFor({ state: 'detached' });
  }
  await page.locator('.tree >> text=fake.png').waitFor({ state: 'detached' });
}

/** An upload over a slow line shows how far it is. */
export async function upload_progress(c) {
  const page = await c.page();
  await c.open(page);
  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Network.enable');
  await devtools.send('Network.emulateNetworkConditions', { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 500_000 });
  await page.evaluate(() => {
    window.seen = [];
    new MutationObserver(() => {
      const bar = document.querySelector('.upload progress');
      if (bar && window.seen.at(-1) !== bar.value) window.seen.push(bar.value);
    }).observe(document.body, { subtree: true, childList: true, attributes: true });
  });
  await drop(page, [['large.bin', 'x'.repeat(3_000_000)]]);
  await page.locator('.upload progress[aria-label="Upload of large.bin"]').waitFor();
  await page.waitForFunction(() => window.seen.some(v => v > 0 && v < 100));
  await c.shot(page, 'upload-light');
  await page.locator('.upload.done:has-text("large.bin")').waitFor();
  const seen = await page.evaluate(() => window.seen);
  equal(seen, [...seen].sort((a, b) => a - b), 'it only grows');
  await page.locator('.tree >> text=large.bin').waitFor();
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
  await page.locator('.notebook .cm-content').last().click();
  await page.keyboard.insertText(`# ${'a long line '.repeat(40_000)}`);
  await page.locator('.notice.bad:has-text("The notebook could not be saved")').waitFor();
  await page.locator('.notice >> [aria-label=Dismiss]').click();
  await page.locator('.notebook .cm-content').last().click();
  await page.keyboard.press('Control+a');
  await page.keyboard.press('Delete');
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
  await drop(page, [['other.ipynb', '{"nbformat":4,"cells":[{"cell_type":"code","source":"from_another"}]}']]);
  await page.locator('.notice:has-text("other.ipynb: 1 cell.")').waitFor();
  equal(await page.locator('.cell').count(), 1, 'cells of the other notebook');
  await page.click('text=Take my notebook back');
  await page.locator('h1:has-text("From elsewhere")').waitFor();
  equal(await textOf(page.locator('.cell.code').first()), '42', 'the output of the notebook that came back');
  await page.click('[aria-label=More]');
  const file = await saved(page, () => page.click('text=Export as .ipynb'));
  const out = JSON.parse(file.bytes.toString());
  equal([out.nbformat, out.nbformat_minor, out.cells.length, out.metadata.custom], [4, 5, 2, 1], 'the export');
  equal([out.cells[1].outputs[0].data['text/plain'], out.cells[1].execution_count, out.cells[1].metadata], ['42', 1, { tags: ['x'] }], 'its cell');
  equal('cellkeep' in out.metadata, false, 'what is only for this page');
}

/** The saved notebook lies where the session's code can write: whatever it holds, the page opens and works. */
export async function saved_notebook_of_a_hostile_session(c) {
  const page = await c.page();
  const id = await c.open(page);
  await ended(await run(page, 'print("first")'));
  const run1 = { id: 'x', state: 'done', artifacts: 7, status: 'nonsense', detail: { a: 1 }, input: 'x', wallMs: 'long' };
  const cell = (extra, outputs = []) => ({ cell_type: 'code', source: 'pass', metadata: { cellkeep: extra }, outputs, execution_count: null });
  const hostile = {
    nbformat: 4, nbformat_minor: 5, metadata: { cellkeep: { session: id, seq: 'x' }, kernelspec: 7 },
    cells: [cell({ run: run1 }), cell({ run: { ...run1, state: { a: 1 } } }), cell({ run: [1], voice: {} }),
      cell({ run: { ...run1, artifacts: [null, 7, { path: 1 }, { path: '/x', name: 'x', mime: 'image/png', size: 1 }] } },
        [null, 7, { output_type: 'error', ename: {}, traceback: 7 }, { output_type: 'display_data', data: [], metadata: 'x' }, { output_type: 'stream', text: 'kept' }])],
  };
  const texts = [JSON.stringify(hostile), 'not JSON', 'null', '{"nbformat":4,"cells":[null]}'];
  for (const [i, text] of texts.entries()) {
    check((await c.api('PUT', `/v1/sessions/${id}/files/var/tmp/cellkeep/notebook.ipynb`, text)).status < 300, 'the hostile notebook');
    const again = await c.page();
    await c.open(again, `#${id}`);
    for (const said of ['first', ...texts.slice(0, i).map((_, k) => `works ${k}`)]) await again.locator(`.out-stream:has-text("${said}")`).first().waitFor(); // the log is read
    await again.click('.add-row >> text=Code');
    await again.locator('.cell.selected .cm-content:focus').waitFor();
    equal(await textOf(await ended(await run(again, `print("works ${i}")`))), `works ${i}`, `a cell, after ${text.slice(0, 40)}`);
    await again.close();
  }
  equal(c.log.filter(l => /^error: (?!Failed to load resource)/.test(l)), [], 'errors of the page');
}

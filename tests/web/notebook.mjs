// What cells show, and what a person does in the notebook.
import { accessible, check, ended, equal, run, textOf } from './lib.mjs';

/** Tables, formulas, pictures, JSON, colours, a progress bar, an error: each as what it is. */
export async function outputs_of_every_kind(c) {
  const page = await c.page();
  await c.open(page);
  const table = await ended(await run(page, 'import pandas as pd\npd.DataFrame({"city": ["Oslo", "Rome"], "rain": [763, 799]})'));
  await table.locator('table td:has-text("Rome")').waitFor();
  const mixed = await ended(await run(page, `from IPython.display import Latex, Markdown, SVG, JSON, display
display(Latex(r"$\\int_0^1 x^2\\,dx = \\frac13$"), Markdown("**bold** words"), JSON({"deep": [1, {"er": True}]}))
display(SVG('<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><circle cx="20" cy="20" r="18" fill="teal"/></svg>'))
print("\\x1b[31mred\\x1b[0m")
for i in range(101): print(f"\\rprogress {i} %", end="")`));
  await mixed.locator('.katex').first().waitFor();
  await mixed.locator('strong:has-text("bold")').waitFor();
  await mixed.locator('.json-key:has-text("deep")').waitFor();
  await mixed.locator('img[src^="data:image/svg"]').waitFor();
  equal(await mixed.locator('.out-stream span').first().evaluate(e => e.style.color), 'var(--ansi-red)', 'colour');
  const lines = (await mixed.locator('.out-stream').innerText()).trim().split('\n');
  equal(lines, ['red', 'progress 100 %'], 'the progress bar rewrites its line');
  const display = await ended(await run(page, 'h = display("before", display_id=True)\nh.update("after")'));
  equal(await textOf(display), "'after'", 'updated display');
  const error = await ended(await run(page, 'def f():\n    return 1 / 0\n\nf()'));
  check((await error.locator('.error-head').innerText()).startsWith('ZeroDivisionError'), 'the error has its name');
  equal(await error.locator('.out-error .text').count(), 0, 'the traceback is folded');
  equal(await error.locator('.cm-line.error-line').innerText(), 'f()', 'the line is marked');
  await error.locator('text=Show the traceback').click();
  await error.locator('.out-error .text').waitFor();
  await accessible(page, 'an open traceback');
  await c.shot(page, 'notebook-light');
  await page.emulateMedia({ colorScheme: 'dark' });
  await accessible(page, 'an open traceback, dark');
  await c.shot(page, 'notebook-dark');
}

/** A chart by its MIME type, alive. */
export async function plotly_chart(c) {
  const page = await c.page();
  await c.open(page);
  const cell = await run(page, 'import plotly.graph_objects as go\ngo.Figure(go.Bar(x=["a", "b", "c"], y=[2, 3, 1]))');
  await cell.locator('.plotly-box .main-svg').first().waitFor();
  await ended(cell);
  check((await cell.locator('.bars .point').count()) === 3, 'three bars');
  const bar = await cell.locator('.bars .point').first().boundingBox();
  await page.mouse.move(bar.x + bar.width / 2, bar.y + bar.height / 2, { steps: 4 });
  await cell.locator('.hoverlayer .hovertext').first().waitFor();
  equal(await cell.locator('text=This output has scripts').count(), 0, "hints about plotly's own loader");
  await c.shot(page, 'plotly-light');
  equal(c.log.filter(l => /Content Security Policy/.test(l)), [], 'refusals of the policy');
}

/** HTML of a cell never runs with the page's rights; in the sandbox it runs, and reaches nothing. */
export async function hostile_output(c) {
  const page = await c.page();
  await c.open(page);
  const html = `<p id=said>harmless</p><script>window.pwned = 1</script><img src=x onerror="window.pwned = 2">
<svg onload="window.pwned = 3"></svg><a href="javascript:window.pwned=4">x</a><iframe src="javascript:parent.pwned=5"></iframe>
<script>
var out = []
try { out.push("token " + parent.sessionStorage.length) } catch (e) { out.push("no parent") }
try { sessionStorage.x = 1; out.push("storage") } catch (e) { out.push("no storage") }
fetch(document.referrer || "/v1/sessions").then(r => out.push("fetch"), e => out.push("no network")).then(() => { document.getElementById("said").textContent = out.join(", ") })
</script>`;
  const cell = await ended(await run(page, `from IPython.display import HTML, Javascript, SVG, Markdown, display
display(HTML(${JSON.stringify(html)}), Markdown("<img src=x onerror='window.pwned=6'>[x](javascript:window.pwned=7)"))
display(SVG('<svg xmlns="http://www.w3.org/2000/svg" onload="window.pwned=8"><script>window.pwned=9</script></svg>'))
display(Javascript("window.pwned = 10"))`));
  await cell.locator('text=Run them in a sandbox').waitFor();
  await cell.locator('text=harmless').first().waitFor();
  equal(await page.evaluate(() => window.pwned ?? 'nothing ran'), 'nothing ran', 'script of an output in the page');
  equal(await cell.locator('.rich script, .rich iframe, .rich [onerror], .rich [onload]').count(), 0, 'active elements');
  await cell.locator('text=Run them in a sandbox').click();
  const frame = page.frameLocator('iframe.sandbox');
  await frame.locator('#said:has-text("no")').waitFor();
  equal(await frame.locator('#said').innerText(), 'no parent, no storage, no network', 'what the sandbox could do');
  equal(await page.evaluate(() => window.pwned ?? 'nothing ran'), 'nothing ran', 'script of the sandbox in the page');
}

/** What an output draws and links stays where it is: nothing of the page is covered, left, or taken for another session. */
export async function output_stays_in_its_place(c) {
  const page = await c.page();
  await c.open(page);
  const html = `<a id=top href="https://elsewhere.example/" target=_top>out</a> <a href="#00000000-0000-4000-8000-000000000000">other session</a>
<div style="position:absolute;top:0;left:-900px;width:3000px;height:3000px;background:red;z-index:99999">over everything</div>
<div class="lightbox">like the page's own</div>`;
  const cell = await ended(await run(page, `from IPython.display import HTML\nHTML(${JSON.stringify(html)})`));
  await cell.locator('a:has-text("out")').waitFor();
  const link = cell.locator('a:has-text("out")');
  equal([await link.getAttribute('target'), await link.getAttribute('rel')], ['_blank', 'noopener noreferrer'], 'target and rel of a link');
  const address = page.url();
  await cell.locator('a:has-text("other session")').evaluate(a => a.click());
  await page.waitForTimeout(300);
  equal(page.url(), address, 'the address after a click on a link to a part of the page');
  const covered = await page.evaluate(() => ['.rail .brand', '.top .switch', '.notebook .cell:last-of-type .cm-content'].filter(selector => {
    const box = [...document.querySelectorAll(selector)].pop().getBoundingClientRect();
    return document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2)?.closest('.outputs');
  }));
  equal(covered, [], 'what the output covers');
  equal(await textOf(await ended(await run(page, 'print("still here")'))), 'still here', 'a cell below it');
}

/** Output that is made to choke a page: cursor movements, very long values, broken pictures, messages of no known form. */
export async function output_that_is_made_to_choke(c) {
  const page = await c.page();
  await c.open(page);
  const down = await ended(await run(page, 'print("above\\x1b[99999999999Bbelow")'));
  equal(await textOf(down), 'abovebelow', 'the cursor does not leave the text');
  const again = await ended(await run(page, 'print("z" * 400_000, end="")\nfor i in range(20_000): print("\\r.", end="")'));
  check((await textOf(again)).startsWith('.'), 'a long line that is written over many times');
  const long = await ended(await run(page, '"x" * 400_000'));
  await long.locator('text=more characters').waitFor();
  const { height } = await long.locator('.outputs').boundingBox();
  check(height < 600, `a long value is ${height} pixels high`);
  const broken = await ended(await run(page, 'from IPython.display import display\ndisplay({"image/png": "bm90IGEgcGljdHVyZQ=="}, raw=True)'));
  await broken.locator('text=A picture (image/png) that this browser cannot read').waitFor();
  const odd = await ended(await run(page, `k = get_ipython().kernel
def say(kind, content): k.session.send(k.iopub_socket, kind, content, parent=k.get_parent("shell"))
say("error", {"ename": {"a": 1}, "evalue": None, "traceback": 7})
say("error", {"traceback": [1, None, {}]})
say("display_data", {"data": "text", "metadata": [], "transient": 7})
say("display_data", {"data": {"text/plain": 7, "text/html": {"a": 1}, "image/png": []}, "metadata": {"image/png": "x"}, "transient": {"display_id": {}}})
say("update_display_data", {"data": 1, "transient": None})
say("stream", {"name": 7, "text": {"not": "text"}})
say("clear_output", None or {})
print("after all of it")`));
  await odd.locator('.out-stream:has-text("after all of it")').waitFor();
  equal(await textOf(await ended(await run(page, 'print("and on")'))), 'and on', 'the next cell');
  equal(c.log.filter(l => /^error: (?!Failed to load resource)/.test(l)), [], 'errors of the page');
}

/** A hundred thousand lines are a few hundred elements, and all of them can be reached. */
export async function very_long_output(c) {
  const page = await c.page();
  await c.open(page);
  const cell = await ended(await run(page, 'for i in range(100_000): print("line", i)'));
  await cell.locator('text=100,000 lines').waitFor();
  check((await cell.locator('.rows > div').count()) < 200, 'only rows in sight are elements');
  await cell.locator('.rows > div:has-text("line 99999")').waitFor();
  await cell.locator('.long-box').evaluate(box => box.scrollTo(0, 50_000 * 20));
  await cell.locator('.rows > div:has-text("line 50000")').first().waitFor();
}

/** input(), a password, an interrupt and a restart. */
export async function stdin_interrupt_restart(c) {
  const page = await c.page();
  await c.open(page);
  const ask = await run(page, 'name = input("Your name? ")\nprint("Hello", name)');
  await ask.locator('.stdin input').waitFor();
  await page.keyboard.type('Ada');
  await page.keyboard.press('Enter');
  await ended(ask);
  equal(await textOf(ask), 'Your name? Ada\nHello Ada', 'question, answer, output');
  const loop = await run(page, 'import time\nprint("going")\nwhile True: time.sleep(.1)');
  await loop.locator('.out-stream:has-text("going")').waitFor();
  await loop.locator('[aria-label=Interrupt]').click();
  await loop.locator('.error-head:has-text("KeyboardInterrupt")').waitFor();
  await ended(loop);
  equal(await textOf(await ended(await run(page, 'print(name)'))), 'Ada', 'variables after an interrupt');
  await page.click('[aria-label="Restart the kernel"]');
  await page.locator('.notice:has-text("fresh kernel")').waitFor();
  const gone = await ended(await run(page, 'name'));
  check((await gone.locator('.error-head').innerText()).startsWith('NameError'), 'variables after a restart');
  const exits = await ended(await run(page, 'import os\nos._exit(3)'));
  check(/kernel/i.test(await exits.locator('.ending').innerText()), 'a kernel that died has a sentence');
}

/** Everything by keyboard: modes, adding, deleting, taking back, text, completion. */
export async function keyboard_alone(c) {
  const page = await c.page();
  await c.open(page);
  const cells = page.locator('.notebook .cell');
  await page.keyboard.type('value = 12');
  await page.keyboard.press('Control+Enter');
  await ended(cells.first());
  await page.keyboard.press('Escape');
  await page.keyboard.press('b');
  await page.waitForFunction(() => document.querySelectorAll('.cell').length === 2);
  await page.keyboard.press('Enter');
  await page.keyboard.type('val');
  await page.keyboard.press('Tab');
  await page.locator('.cm-tooltip-autocomplete li:has-text("value")').first().waitFor();
  await page.waitForTimeout(200); // the list takes keys a moment after it is shown
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.querySelectorAll('.cm-content')[1]?.textContent === 'value');
  await page.keyboard.press('Control+Enter');
  await ended(cells.nth(1));
  equal(await textOf(cells.nth(1)), '12', 'result');
  await page.keyboard.press('Shift+Tab');
  await page.locator('.help-tip:has-text("int")').waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('d');
  await page.keyboard.press('d');
  await page.waitForFunction(() => document.querySelectorAll('.cell').length === 1);
  await page.keyboard.press('z');
  await page.waitForFunction(() => document.querySelectorAll('.cell').length === 2);
  await page.keyboard.press('Alt+ArrowUp');
  await page.waitForFunction(() => document.querySelector('.cell .cm-content')?.textContent === 'value');
  await page.keyboard.press('b');
  await page.waitForFunction(() => document.querySelectorAll('.cell').length === 3);
  await page.keyboard.press('m');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement?.closest('.cell') === document.querySelectorAll('.cell')[1]
    && document.activeElement.classList.contains('cm-content')); // the new editor is mounted a frame later
  await page.keyboard.type('# A heading');
  await page.keyboard.press('Shift+Enter');
  await page.locator('.cell h1:has-text("A heading")').waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('?');
  await page.locator('dialog h2:has-text("Keys")').waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
}

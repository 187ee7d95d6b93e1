// The life of a session, seen from the page: closed tabs, two tabs, a gateway that goes, checkpoints, endings.
import { accessible, check, ended, equal, order, run, sessionOf, shows, textOf } from './lib.mjs';

const counted = n => Array.from({ length: n }, (_, i) => String(i)).join('\n');
const COUNT = n => `import time\nfor i in range(${n}):\n    print(i)\n    time.sleep(.25)`;

/** A tab closed in the middle of output and opened again shows everything once; a second tab stays in step. */
export async function closed_tab_and_two_tabs(c) {
  const page = await c.page();
  const id = await c.open(page);
  const cell = await run(page, COUNT(40));
  await cell.locator('text=/^3$/m').waitFor();
  await page.close();
  const again = await c.tab(c.contexts[0]);
  await c.open(again, `#${id}`);
  const other = await c.tab(c.contexts[0]);
  await c.open(other, `#${id}`);
  for (const tab of [again, other]) {
    const first = await ended(tab.locator('.cell.code').first());
    equal(await textOf(first), counted(40), 'the output, once');
  }
  await run(again, 'x = "from the first tab"\nx');
  await shows(other.locator('.cell.code').nth(1), "'from the first tab'");
  equal(await other.locator('.cell.code').nth(1).locator('.cm-content').innerText(), 'x = "from the first tab"\nx', 'its code');
  await other.locator('.cell.code').nth(2).waitFor(); // the empty one below it, which tabs tell each other a moment later
  await run(other, 'print("and back")');
  await shows(again.locator('.cell.code').nth(2), 'and back');
  const foreign = await c.api('POST', `/v1/sessions/${id}/cells`, JSON.stringify({ code: 'print("by the API")' }));
  equal(foreign.json.status, 'ok', 'a cell of the API');
  for (const tab of [again, other]) await tab.locator('.cell.code:has-text("by the API") .out-stream').waitFor();
}

/** The gateway ends and comes back while a cell prints: the page says so, and nothing is lost or doubled. */
export async function gateway_restart(c) {
  const page = await c.page();
  await c.open(page);
  const cell = await run(page, COUNT(30));
  await cell.locator('text=/^2$/m').waitFor();
  await order('stop');
  await page.locator('.state-pill:has-text("reconnecting, nothing is lost")').waitFor();
  await page.locator('.banner:has-text("Reconnecting")').waitFor();
  await c.shot(page, 'reconnecting-light');
  const later = await run(page, 'print("written while the gateway was away")');
  await order('start');
  await ended(cell);
  equal(await textOf(cell), counted(30), 'the output, once');
  await ended(later);
  equal(await textOf(later), 'written while the gateway was away', 'the cell that waited for the gateway');
  await page.locator('.banner').waitFor({ state: 'detached' });
}

/** Checkpoint, rollback, fork, pause and resume, all by the page's buttons; the notebook goes along. */
export async function checkpoint_rollback_fork_pause(c) {
  const page = await c.page();
  const id = await c.open(page);
  await ended(await run(page, 'x = "before"'));
  await page.click('[aria-label=Checkpoints]');
  await page.fill('[aria-label="Name of the checkpoint"]', 'clean');
  await page.click('text=Save now');
  await page.locator('.point-name:has-text("clean")').waitFor();
  await ended(await run(page, 'x = "after"\nopen("late.txt", "w").write("x")'));
  await c.shot(page, 'timeline-light');
  await page.click('[aria-label="Go back to clean"]');
  await page.click('text=Go back here');
  await page.locator('.notice:has-text("as it was at")').waitFor();
  await page.waitForFunction(() => document.querySelectorAll('.cell.code').length === 2);
  const seen = await ended(await run(page, 'import os\nprint(x, os.path.exists("late.txt"))'));
  equal(await textOf(seen), 'before False', 'after the rollback');

  await page.click('.point.now >> text=Fork');
  await page.waitForFunction(old => location.hash.slice(1) !== old, id);
  const fork = sessionOf(page);
  c.made.push(fork);
  await page.locator('.cell.code:has-text("before False")').waitFor();
  equal(await textOf(await ended(await run(page, 'print(x, "in the fork")'))), 'before in the fork', 'the fork');

  await page.locator('.rail-open').nth(1).click(); // the source, older, is below its fork
  await page.waitForFunction(want => location.hash.slice(1) === want, id);
  await page.locator('.cell.code:has-text("before False")').waitFor();
  await run(page, 'import time\nx = "later"\ntime.sleep(8)\nx += ", undisturbed"');
  await page.locator('.state-pill:has-text("working")').waitFor();
  await page.click('[aria-label="Fork from clean"]');
  await page.waitForFunction(old => location.hash.slice(1) !== old, id);
  const early = sessionOf(page);
  c.made.push(early);
  equal(new Set((await c.api('GET', '/v1/sessions')).json.filter(s => c.made.includes(s.id)).map(s => s.name)).size, 3, 'names of a session and two forks');
  equal((await c.api('POST', `/v1/sessions/${early}/cells`, '{"code":"print(x)"}')).json.stdout, 'before\n', 'the fork of a checkpoint');
  equal((await c.api('POST', `/v1/sessions/${id}/cells`, '{"code":"print(x)"}')).json.stdout, 'later, undisturbed\n', 'its source, which went on');
  await page.locator(`.rail-open`).nth(1).click();
  await page.waitForFunction(want => location.hash.slice(1) === want, fork);
  await page.locator('.cell.code:has-text("in the fork")').waitFor();

  const item = page.locator('.rail-item.current');
  await item.locator('[aria-expanded]').click();
  await item.locator('text=Pause').click();
  await page.locator('.banner:has-text("Paused")').waitFor();
  await c.shot(page, 'paused-light');
  equal((await c.api('GET', `/v1/sessions/${fork}`)).json.state, 'paused', 'state');
  await page.locator('.banner >> text=Resume').click();
  await page.locator('.state-pill:has-text("ready")').waitFor();
  equal(await textOf(await ended(await run(page, 'print(x, "again")'))), 'before again', 'after the pause');
}

/** A new session of a template that was chosen; one that is gone by then is said where the person looks, with the reason. */
export async function new_session_from_a_template(c) {
  const page = await c.page();
  const real = (await c.api('GET', '/v1/templates')).json;
  check(real[0].name === 'default' && real[0].memory_mb.includes(512), `templates: ${JSON.stringify(real)}`);
  // A second template takes minutes to build; what the gateway says of one that was removed meanwhile is its own.
  await page.route('**/v1/templates', route => route.fulfill({ json: [...real, { name: 'removed', memory_mb: [1024] }] }));
  const id = await c.open(page);
  await page.selectOption('[aria-label="Template of a new session"]', 'removed, 1024 MB');
  await page.click('text=New session');
  await page.locator('.rail [role=alert]:has-text("there is no template")').waitFor();
  await accessible(page, 'a refused creation');
  await c.shot(page, 'create-refused-light');
  equal(sessionOf(page), id, 'the session that is open');
  await page.click('.rail [aria-label=Dismiss]');
  await page.selectOption('[aria-label="Template of a new session"]', 'default, 512 MB');
  await page.click('text=New session');
  await page.waitForFunction(old => location.hash.slice(1) !== old, id);
  const made = sessionOf(page);
  c.made.push(made);
  const session = (await c.api('GET', `/v1/sessions/${made}`)).json;
  equal([session.template, session.memory_mb], ['default', 512], 'what it is made of');
  await page.locator('.rail-item').nth(1).locator('.spark').waitFor(); // the other one is measured too
}

/** A session that is deleted elsewhere, and a VM that dies: a sentence each, and a way on. */
export async function deleted_elsewhere_and_dead_vm(c) {
  const page = await c.page();
  const id = await c.open(page);
  await ended(await run(page, 'print("still here")'));
  await order(`kill-vm ${id}`);
  await page.locator('.banner.bad:has-text("has ended")').waitFor();
  await c.shot(page, 'vm-died-light');
  check((await page.locator('.cell').first().innerText()).includes('still here'), 'what was shown stays');
  await page.locator('.banner >> text=Start one with these cells').click();
  await page.waitForFunction(old => location.hash.slice(1) !== old, id);
  const second = sessionOf(page);
  c.made.push(second);
  await page.locator('.cell:has-text("still here")').waitFor();
  await ended(await run(page, 'print("in the second")'));
  await c.api('DELETE', `/v1/sessions/${second}`);
  await page.locator('.banner.bad:has-text("was deleted")').waitFor();
  await page.locator('.banner >> text=Start a new session').waitFor();
  await c.shot(page, 'deleted-light');
}

// The MCP SDKs, driven as agent frameworks drive them: both generations of the library over HTTP, in
// both eras of the protocol, and `cellkeep mcp` over a pipe.
//   node mcp.mjs URL TOKEN CELLKEEP
// SCALE=n multiplies every deadline.
import check_ from './check.js';
import { Client as Client1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as Http1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StdioClientTransport as Stdio1 } from '@modelcontextprotocol/sdk/client/stdio.js';
import { Client as Client2, StreamableHTTPClientTransport as Http2 } from '@modelcontextprotocol/client';
import { StdioClientTransport as Stdio2 } from '@modelcontextprotocol/client/stdio';

const { check, sleep, within, steps } = check_;
const [, , url, token, program] = process.argv;
if (!url || !token || !program) {
  console.error('usage: mcp.mjs URL TOKEN CELLKEEP');
  process.exit(2);
}
const info = { name: 'cellkeep-clients', version: '1' };
const init = { requestInit: { headers: { Authorization: `Bearer ${token}` } } };
const args = { command: program, args: ['mcp', '--url', url, '--token', token] };
const auto = { versionNegotiation: { mode: 'auto' } };
const kinds = [
  ['SDK 1, HTTP', 1, {}, () => new Http1(new URL(`${url}/mcp`), init)],
  ['SDK 2, HTTP', 2, {}, () => new Http2(new URL(`${url}/mcp`), init)],
  ['SDK 2 modern, HTTP', 2, auto, () => new Http2(new URL(`${url}/mcp`), init)],
  ['SDK 1, stdio', 1, {}, () => new Stdio1(args)],
  ['SDK 2 modern, stdio', 2, auto, () => new Stdio2(args)]
];
const texts = r => r.content.filter(c => c.type === 'text').map(c => c.text);

async function drive(name, generation, options, transport) {
  const client = generation === 1 ? new Client1(info, options) : new Client2(info, options);
  const errors = [];
  client.onerror = e => errors.push(e.message);
  const t = transport();
  const call = (tool, a, o = {}) => {
    const request = { name: tool, arguments: a };
    const all = { timeout: 300000, ...o };
    return generation === 1 ? client.callTool(request, undefined, all) : client.callTool(request, all);
  };
  await within(20000, 'connect', client.connect(t));
  const { tools } = await client.listTools();
  check(`${name}: seven tools`, tools.length === 7);

  const first = await within(30000, 'a first cell', call('run_python', { code: 'x = 6 * 7\nx' }));
  check(`${name}: a result`, texts(first)[0] === '42', JSON.stringify(first.content));
  const session = first._meta['cellkeep/session'];
  const again = await call('run_python', { code: 'print(x)', session });
  check(`${name}: the session is kept`, texts(again)[0] === '42');

  const figure = await within(60000, 'a figure', call('run_python', {
    code: 'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\nopen("naïve.csv", "w").write("a\\n1\\n")',
    session
  }));
  const image = figure.content.find(c => c.type === 'image');
  check(`${name}: a figure is an image`, image && Buffer.from(image.data, 'base64').toString('latin1', 1, 4) === 'PNG');
  const link = figure.content.find(c => c.type === 'resource_link');
  const got = link && (await (await fetch(link.uri, { headers: init.requestInit.headers })).text());
  check(`${name}: a file is a link`, link && link.name === 'naïve.csv' && got === 'a\n1\n', link && link.uri);

  const failed = await call('run_python', { code: '1/0', session });
  check(`${name}: an exception is an error`, failed.isError === true && /ZeroDivisionError/.test(texts(failed)[0]));
  const command = await call('run_command', { command: 'wc -c < naïve.csv; exit 3', session });
  check(`${name}: a command`, command.isError === true && texts(command).join() === '4,exit code 3', texts(command).join());
  await call('write_file', { path: 'in.txt', content: 'grüße', session });
  const read = await call('read_file', { path: 'in.txt', session });
  check(`${name}: a file goes both ways`, texts(read)[0] === 'grüße');
  const list = await call('list_files', { session });
  check(`${name}: a folder`, /in\.txt/.test(texts(list)[0]));

  const progress = [];
  await within(30000, 'a long cell', call('run_python',
    { code: 'import time\nfor i in range(5):\n    print("step", i, flush=True)\n    time.sleep(0.5)', session },
    { onprogress: p => progress.push(p) }));
  const grows = progress.every((p, i) => !i || p.progress > progress[i - 1].progress);
  check(`${name}: progress`, progress.length >= 3 && grows && /step/.test(progress.at(-1).message), progress.length);

  const abort = new AbortController();
  setTimeout(() => abort.abort(), 1500);
  const begun = Date.now();
  let aborted = false;
  await call('run_python', { code: 'import time\ntime.sleep(600)', session }, { signal: abort.signal }).catch(() => { aborted = true; });
  const after = await within(20000, 'the cell after', call('run_python', { code: 'x', session }));
  check(`${name}: cancellation interrupts`, aborted && texts(after)[0] === '42' && Date.now() - begun < 300000);

  const closed = await call('close_session', { session });
  check(`${name}: closing`, closed.isError === false);
  if (t.terminateSession) await t.terminateSession();
  await client.close();
  await sleep(100);
  check(`${name}: no errors`, errors.filter(e => !/abort/i.test(e)).length === 0, errors.join('; '));
}

await steps(kinds.map(k => [k[0], () => drive(...k)]));

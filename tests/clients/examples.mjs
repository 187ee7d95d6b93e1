// The examples that need packages, or a client of MCP: docs/examples/mcp.json and docs/examples/ai-sdk.
//   node examples.mjs URL TOKEN CELLKEEP
import check_ from './check.js';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const { check, steps, within } = check_;
const [, , url, token, program] = process.argv;
if (!url || !token || !program) {
  console.error('usage: examples.mjs URL TOKEN CELLKEEP');
  process.exit(2);
}
const examples = join(dirname(fileURLToPath(import.meta.url)), '../../docs/examples');

// The configuration as it stands, with this gateway in the place of the example's.
async function configuration() {
  const text = readFileSync(join(examples, 'mcp.json'), 'utf8')
    .replaceAll('http://127.0.0.1:8888', url).replaceAll('TOKEN', token);
  for (const [name, server] of Object.entries(JSON.parse(text).mcpServers)) {
    const transport = server.type === 'http'
      ? new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers: server.headers } })
      : new StdioClientTransport({ ...server, command: server.command === 'cellkeep' ? program : server.command });
    const client = new Client({ name: 'example', version: '1' });
    await within(20000, `connect of ${name}`, client.connect(transport));
    const { tools } = await client.listTools();
    check(`configuration of an MCP client: ${name}`, tools.some(t => t.name === 'run_python'), tools.length);
    await client.close();
  }
}

const folder = join(examples, 'ai-sdk');
async function aiSdk() {
  const env = { ...process.env, CELLKEEP_URL: url, CELLKEEP_TOKEN: token };
  const run = promisify(execFile)(process.execPath, ['agent.mjs'], { cwd: folder, env });
  const { stdout } = await within(120000, 'the agent', run);
  const want = ['write_file: wrote /home/user/points.csv, 24 bytes', 'run_python: 7', 'run_python: image/png',
    'answer: They have 7 points together.'];
  check('Vercel AI SDK: an agent with tools of MCP', stdout.trim() === want.join('\n'), stdout);
}

const installed = existsSync(join(folder, 'node_modules'));
if (!installed) console.log('skip Vercel AI SDK -- npm could not fetch its packages (no network?)');
await steps([['configuration', configuration], ...(installed ? [['ai-sdk', aiSdk]] : [])]);

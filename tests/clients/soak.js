'use strict';
// Forced reconnects under continuous output: nothing is lost, nothing comes twice, nothing out of order.
//   node soak.js URL TOKEN [--cuts N] [--clients N] [--fake] [--seed N]
//
// Clients of @jupyterlab/services share a kernel that never stops talking (numbered lines and numbered
// comm messages); each of them asks for completions and runs cells too. Their connections go through
// cutter.js, which ends them at random bytes of either direction: on the way, by FIN, by RST and within the
// handshake, and by the client itself, by a clean close and by letting go of its socket. A witness whose connection is never cut writes down what the
// kernel said; afterwards every client must have seen exactly that.
//
// What nobody can know: whether the client got a message when the connection is cut on the way before its
// answer (a pong; it gives no other) has passed. To the gateway that is the same whether the message was cut
// off or the answer was, so it either loses or repeats in one of the two; it sends again, under the same
// msg_id. The proxy knows which messages those are: they are counted. One that the client *had* confirmed and
// that comes again is a fault. When the client itself ends the connection its answers arrive first: then
// what comes again is at most what it was handed in the instant before it had read the question behind it.
console.debug = console.warn = () => {}; // the library tells each reconnection
const WebSocket = require('ws');
const { KernelAPI, KernelManager, ServerConnection } = require('@jupyterlab/services');
const { check, sleep, until, within } = require('./check');
const { Cutter } = require('./cutter');

const [, , given, token, ...rest] = process.argv;
const url = given && given.replace(/\/*$/, '/');
if (!url || token === undefined) {
  console.error('usage: soak.js URL TOKEN [--cuts N] [--clients N] [--fake] [--seed N]');
  process.exit(2);
}
const option = (name, otherwise) => (rest.includes(name) ? Number(rest[rest.indexOf(name) + 1]) : otherwise);
const CUTS = option('--cuts', 200);
const CLIENTS = option('--clients', 4);
const FAKE = rest.includes('--fake');
let seed = option('--seed', Date.now() % 1000000);
console.log(`soak: ${CUTS} cuts, ${CLIENTS} clients, seed ${seed}`);

function random(n) { // xorshift: a run can be repeated
  seed ^= seed << 13; seed ^= seed >>> 17; seed ^= seed << 5;
  return (seed >>> 0) % n;
}

const settings = base => ServerConnection.makeSettings({
  baseUrl: base, wsUrl: base.replace(/^http/, 'ws'), token, appendToken: true
});

// Every message, in the order of its channel, as the client's library handed it on.
class Record {
  constructor(log) {
    this.log = log;
    this.seen = new Map(); // msg_id -> by which connection it came first
    this.iopub = [];
    this.replies = [];
    this.twice = { 'on the way': 0, 'by the client': 0 }; // who ended the connection by which it came first
  }

  take(msg) {
    const id = msg.header.msg_id;
    const first = this.seen.get(id);
    if (first) this.twice[/^(close|drop)/.test(first.how) ? 'by the client' : 'on the way']++;
    else this.seen.set(id, this.log.carrier.get(id) || {});
    if (first) return;
    if (msg.channel === 'iopub') this.iopub.push(id);
    else this.replies.push(msg.parent_header.msg_id);
  }
}

// A raw connection in v1 that answers nothing and drives the kernel.
class Witness {
  constructor(kernel) {
    this.session = 'witness';
    this.order = [];
    this.lines = '';
    this.comm = [];
    this.n = 0;
    this.ended = new Set();
    this.ws = new WebSocket(`${url.replace(/^http/, 'ws')}api/kernels/${kernel}/channels?session_id=witness&token=${token}`,
      { maxPayload: 0 });
    this.ws.on('message', data => this.message(JSON.parse(data)));
    this.open = new Promise((resolve, reject) => { this.ws.on('open', resolve); this.ws.on('error', reject); });
  }

  message(m) {
    if (m.channel !== 'iopub') return;
    this.order.push(m.header.msg_id);
    if (m.msg_type === 'status' && m.content.execution_state === 'idle') this.ended.add(m.parent_header.msg_id);
    if (m.msg_type === 'stream' && m.parent_header.session === this.session) this.lines += m.content.text;
    if (m.msg_type === 'comm_msg') this.comm.push(m.content.data.n);
    if (m.msg_type === 'error') this.error = m.content.evalue;
  }

  execute(code) {
    const id = `w${++this.n}`;
    const header = { msg_id: id, msg_type: 'execute_request', session: this.session, username: 'w', version: '5.3', date: '' };
    this.ws.send(JSON.stringify({
      header, parent_header: {}, metadata: {}, channel: 'shell',
      content: { code, silent: false, store_history: false, user_expressions: {}, allow_stdin: false, stop_on_error: false }
    }));
    return id;
  }

  async run(code) {
    const id = this.execute(code);
    await until(120000, `the end of ${code.slice(0, 30)}`, () => this.ended.has(id));
    if (this.error) throw new Error(`the kernel: ${this.error}`);
  }
}

const SETUP = `
import sys, time
from ipykernel.comm import Comm
_c = Comm(target_name="soak")
_n = 0
def _soak(count, pause):
    global _n
    for _ in range(count):
        print(_n, flush=True)
        if _n % 5 == 0:
            _c.send({"n": _n // 5})
        _n += 1
        time.sleep(pause)
`;

async function client(kernel, port, i, state) {
  const log = { confirmed: new Map(), repeated: [], carrier: new Map(), forwarded: new Set() };
  const me = { record: new Record(log), log, asked: [], answered: 0 };
  const plan = () => {
    if (!state.cutting) return null;
    const kind = random(50) === 0 ? 'handshake' : ['fin', 'rst', 'close', 'drop'][random(4)];
    const up = random(2) === 1;
    return { kind, up, bytes: 1 + random(up ? 3000 : 30000) };
  };
  me.cutter = new Cutter(port, plan, log, kind => (kind === 'close' ? me.kernel._ws.close() : me.kernel._ws.terminate()));
  const base = `http://127.0.0.1:${await me.cutter.listen()}/`;
  me.manager = new KernelManager({ serverSettings: settings(base), standby: 'never' });
  me.kernel = me.manager.connectTo({ model: { id: kernel, name: 'python3' } });
  me.kernel.handleComms = false;
  // What comes after its own close() a browser does not hand on, nor is a ping answered then.
  me.kernel.anyMessage.connect((_, a) => {
    if (a.direction === 'recv' && me.kernel._ws.readyState === WebSocket.OPEN) me.record.take(a.msg);
  });
  await within(60000, 'kernel_info', me.kernel.info);
  return me;
}

// One request after the other. One that was cut on its way to the gateway is the network's: the library
// does not send it again, so it is forgotten and the next one made.
async function ask(me, i, state) {
  for (let n = 0; state.asking; n++) {
    if (me.kernel.connectionStatus !== 'connected') {
      await sleep(5);
      continue;
    }
    const f = n % 3
      ? me.kernel.requestExecute({ code: FAKE ? `print:${i} ${n}` : `print("${i} ${n}")`, store_history: false }, false)
      : null;
    const id = f ? f.msg.header.msg_id : sendComplete(me.kernel);
    me.asked.push(id);
    const end = Date.now() + 20000;
    while (!me.record.replies.includes(id) && Date.now() < end) {
      await sleep(10);
      if (!me.log.forwarded.has(id) && me.kernel.connectionStatus !== 'connected') break;
    }
    if (f) f.dispose();
    me.answered += me.record.replies.includes(id);
    await sleep(random(100));
  }
}

function sendComplete(kernel) {
  let id;
  const listen = (_, a) => { if (a.direction === 'send' && a.msg.header.msg_type === 'complete_request') id = a.msg.header.msg_id; };
  kernel.anyMessage.connect(listen);
  kernel.requestComplete({ code: 'impo', cursor_pos: 4 }).catch(() => {});
  kernel.anyMessage.disconnect(listen);
  return id;
}

function verdict(me, i, witness) {
  const { record, log } = me;
  const first = witness.order.indexOf(record.iopub[0]);
  const want = witness.order.slice(first);
  const lost = want.filter(id => !record.seen.has(id)).length;
  const known = new Set(witness.order);
  const foreign = record.iopub.filter(id => !known.has(id)).length;
  const disorder = lost || foreign ? 0 : record.iopub.filter((id, k) => id !== want[k]).length;
  const owed = me.asked.filter(id => log.forwarded.has(id));
  const own = new Set(owed);
  const replies = record.replies.filter(id => own.has(id));
  const replied = new Set(replies);
  const answered = owed.filter(id => replied.has(id));
  const unanswered = owed.length - answered.length;
  const swapped = replies.filter((id, k) => id !== answered[k]).length;
  const text = `${record.iopub.length} iopub messages, ${owed.length} of ${me.asked.length} requests arrived, ` +
    `${me.cutter.total} cuts ${JSON.stringify(me.cutter.cuts)}, came again: ${JSON.stringify(record.twice)}`;
  check(`client ${i} lost nothing`, first >= 0 && lost === 0 && foreign === 0, `${lost} lost, ${foreign} unknown; ${text}`);
  check(`client ${i} saw nothing twice that it had confirmed`, log.repeated.length === 0,
    `${log.repeated.length} ${[...new Set(log.repeated)]}`);
  check(`client ${i} saw everything in order`, disorder === 0 && swapped === 0, `${disorder} iopub, ${swapped} replies`);
  check(`client ${i} has a reply to each request that arrived`, unanswered === 0, unanswered);
  return { cuts: me.cutter.total, way: record.twice['on the way'], own: record.twice['by the client'], messages: record.seen.size };
}

async function main() {
  const direct = settings(url);
  const { id } = await KernelAPI.startNew({ name: 'python3' }, direct);
  const witness = new Witness(id);
  await witness.open;
  if (!FAKE) await witness.run(SETUP);
  else await witness.run('print:ready');
  witness.lines = '';
  const port = Number(new URL(url).port);
  const state = { cutting: false, asking: true, talking: true };
  const clients = [];
  for (let i = 0; i < CLIENTS; i++) clients.push(await client(id, port, i, state));
  state.cutting = true;
  for (const me of clients) me.kernel._ws.terminate(); // from here on each connection has a plan
  const talk = (async () => {
    while (state.talking) await witness.run(FAKE ? 'count:50:4' : '_soak(40, 0.004)');
  })();
  const asking = clients.map((me, i) => ask(me, i, state));
  const total = () => clients.reduce((n, me) => n + me.cutter.total, 0);
  const begun = Date.now();
  let shown = begun;
  let stuck = { at: begun, n: 0 };
  while (total() < CUTS) {
    await sleep(50);
    const now = Date.now();
    if (total() > stuck.n) stuck = { at: now, n: total() };
    if (now - stuck.at > 120000) throw new Error(`no cut for two minutes after ${total()}`);
    if (now - shown > 30000) {
      shown = now;
      console.log(`soak: ${total()} cuts after ${Math.round((now - begun) / 1000)} s, ${witness.order.length} iopub messages`);
    }
  }
  const seconds = (Date.now() - begun) / 1000;
  state.cutting = false;
  state.asking = false;
  await Promise.all(asking);
  state.talking = false;
  await talk;
  for (const me of clients) await until(60000, 'reconnection', () => me.kernel.connectionStatus === 'connected');
  await sleep(500);
  await witness.run(FAKE ? 'print:the end' : 'print("the end")');
  for (const me of clients) {
    await until(30000, 'the last message', () => me.record.seen.has(witness.order[witness.order.length - 1])).catch(() => {});
  }
  const sums = clients.map((me, i) => verdict(me, i, witness));
  if (!FAKE) {
    const lines = witness.lines.split('\n').slice(0, -2);
    check('the kernel counted without a hole', lines.length && lines.every((l, k) => l === String(k)) && witness.comm.every((n, k) => n === k),
      `${lines.length} lines, ${witness.comm.length} comm messages`);
  }
  const sum = key => sums.reduce((n, s) => n + s[key], 0);
  console.log(`soak: ${sum('cuts')} cuts in ${seconds.toFixed(0)} s, ${sum('messages')} messages delivered; ` +
    `again under their msg_id: ${sum('way')} whose answer was cut off on the way, ${sum('own')} after the client's own ends`);
  for (const me of clients) {
    me.kernel.dispose();
    me.cutter.close();
  }
  witness.ws.terminate();
  await KernelAPI.shutdownKernel(id, direct);
}

process.on('unhandledRejection', e => { if (process.env.VERBOSE) console.error('unhandled', e && e.message); });
main().catch(e => check('the soak itself', false, e && e.stack)).finally(() => {
  const failed = require('./check').failures();
  console.log(`${failed} failed`);
  process.exit(failed ? 1 : 0);
});

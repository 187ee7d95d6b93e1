'use strict';
// A TCP proxy that ends WebSocket connections by force, at a byte of its choosing, and knows what
// passed: which messages the client got whole, which of them it had confirmed to the gateway before the
// end (pings and pongs), and which requests the gateway got whole. Everything else it only relays.
const net = require('net');

const PONG = 10;
const PING = 9;

// Frames of one direction, fed bytes as they pass. onFrame(op, payload) when the last byte of a message
// or control frame has passed.
class Frames {
  constructor(onFrame) {
    this.onFrame = onFrame;
    this.rest = Buffer.alloc(0);
    this.parts = [];
    this.op = 0;
  }

  feed(bytes) {
    this.rest = this.rest.length ? Buffer.concat([this.rest, bytes]) : bytes;
    for (;;) {
      const b = this.rest;
      if (b.length < 2) return;
      const masked = b[1] & 0x80;
      let n = b[1] & 0x7f;
      let at = 2;
      if (n === 126) {
        if (b.length < 4) return;
        n = b.readUInt16BE(2);
        at = 4;
      } else if (n === 127) {
        if (b.length < 10) return;
        n = Number(b.readBigUInt64BE(2));
        at = 10;
      }
      const mask = masked ? b.subarray(at, at + 4) : null;
      at += masked ? 4 : 0;
      if (b.length < at + n) return;
      const payload = Buffer.from(b.subarray(at, at + n));
      if (mask) for (let i = 0; i < n; i++) payload[i] ^= mask[i & 3];
      this.rest = b.subarray(at + n);
      this.frame(b[0] & 15, Boolean(b[0] & 0x80), payload);
    }
  }

  frame(op, fin, payload) {
    if (op >= 8) {
      this.onFrame(op, payload);
      return;
    }
    if (op) this.op = op;
    this.parts.push(payload);
    if (!fin) return;
    const whole = this.parts.length === 1 ? this.parts[0] : Buffer.concat(this.parts);
    this.parts = [];
    this.onFrame(this.op, whole);
  }

  get boundary() {
    return this.rest.length === 0;
  }

  // A pong of eight bytes has begun: enough for its reader to know what it answers.
  get pongBegun() {
    return this.rest.length >= 2 && (this.rest[0] & 15) === PONG && (this.rest[1] & 0x7f) === 8;
  }
}

// The header of a message in either dialect, or null.
function header(op, payload) {
  try {
    if (payload[0] === 0x7b) return JSON.parse(payload).header;
    if (op === 2 && payload.readUInt32BE(0) > 0 && payload.readUInt32BE(0) < 1000) {
      const end = payload.readUInt32BE(0) > 1 ? payload.readUInt32BE(8) : payload.length;
      return JSON.parse(payload.subarray(payload.readUInt32BE(4), end)).header;
    }
    const off = i => Number(payload.readBigUInt64LE(8 * (1 + i)));
    return JSON.parse(payload.subarray(off(1), off(2)));
  } catch {
    return null;
  }
}

// plan(): {kind: 'fin'|'rst'|'close'|'drop'|'handshake', up: bool, bytes: n} for a new WebSocket connection, or null.
// log, of message ids, shared by all connections: confirmed (Map; the gateway was told that the client has
// it, by which connection), repeated (sent although confirmed: how that connection ended), carrier (Map; the
// connection by which it last came whole to the client's host), forwarded (Set; requests).
class Cutter {
  constructor(port, plan, log, onOwn) {
    this.target = port;
    this.plan = plan;
    this.log = log;
    this.onOwn = onOwn; // 'close' or 'drop': the client is to end it, cleanly or by letting go of its socket
    this.cuts = { fin: 0, rst: 0, close: 0, drop: 0, handshake: 0 };
    this.server = net.createServer({ allowHalfOpen: true }, client => this.connection(client));
    this.live = new Set();
  }

  listen() {
    return new Promise(resolve => this.server.listen(0, '127.0.0.1', () => resolve(this.server.address().port)));
  }

  get total() {
    return Object.values(this.cuts).reduce((a, b) => a + b, 0);
  }

  close() {
    this.server.close();
    for (const s of this.live) s.destroy();
  }

  connection(client) {
    const up = net.connect({ port: this.target, host: '127.0.0.1', allowHalfOpen: true });
    client.setNoDelay(true);
    up.setNoDelay(true);
    const c = { client, up, cut: null, ended: false, unsure: [], waiting: new Map(), done: { up: 0, down: 0 } };
    for (const [from, to] of [[client, up], [up, client]]) {
      this.live.add(from);
      from.on('error', () => {});
      from.on('close', () => { this.live.delete(from); if (!c.ended) to.destroy(); });
      from.on('end', () => { if (!c.ended) to.end(); });
    }
    client.once('data', first => {
      const text = first.toString('latin1');
      if (/^upgrade: *websocket/im.test(text) && /\/channels/.test(text.split('\r\n')[0])) this.watch(c);
      up.write(first);
      client.on('data', d => this.pass(c, 'up', d));
    });
    up.on('data', d => this.pass(c, 'down', d));
  }

  watch(c) {
    c.cut = this.plan();
    c.head = true;
    c.frames = {
      down: new Frames((op, p) => {
        if (op === PING && p.length === 8) {
          c.waiting.set(p.toString('hex'), c.unsure);
          c.unsure = [];
        } else if (op < 8) {
          const h = header(op, p);
          if (h) {
            const before = this.log.confirmed.get(h.msg_id);
            if (before) this.log.repeated.push(before.how);
            c.unsure.push(h.msg_id);
            this.log.carrier.set(h.msg_id, c);
          }
        }
      }),
      up: new Frames((op, p) => {
        if (op === PONG) this.confirm(c, p.toString('hex'));
        const h = op < 8 ? header(op, p) : null;
        if (h) this.log.forwarded.add(h.msg_id);
      })
    };
  }

  // The gateway got the answer to this question, and so to all before it. No name: to the oldest.
  confirm(c, name) {
    for (const [key, ids] of c.waiting) {
      c.waiting.delete(key);
      for (const id of ids) this.log.confirmed.set(id, c);
      if (name === undefined || key === name) return;
    }
  }

  relay(c, way, bytes, then) {
    if (c.frames && !(way === 'down' && c.head)) c.frames[way].feed(bytes);
    const to = way === 'up' ? c.up : c.client;
    const from = way === 'up' ? c.client : c.up;
    const room = to.write(bytes, then);
    if (!room) {
      from.pause();
      to.once('drain', () => from.resume());
    }
  }

  pass(c, way, bytes) {
    if (c.ended) return;
    if (c.head && way === 'down') {
      const end = bytes.indexOf('\r\n\r\n');
      if (c.cut && c.cut.kind === 'handshake') {
        this.end(c, 'handshake', bytes.subarray(0, c.cut.bytes % bytes.length), 'down');
        return;
      }
      const n = end < 0 ? bytes.length : end + 4;
      this.relay(c, way, bytes.subarray(0, n));
      c.head = end < 0;
      bytes = bytes.subarray(n);
      if (!bytes.length) return;
    }
    const cut = c.cut;
    if (!cut || cut.kind === 'over' || c.head || (way === 'up') !== cut.up || c.done[way] + bytes.length < cut.bytes) {
      c.done[way] += bytes.length;
      this.relay(c, way, bytes);
      return;
    }
    const keep = bytes.subarray(0, cut.bytes - c.done[way]);
    if (cut.kind === 'close' || cut.kind === 'drop') {
      c.cut = { kind: 'over' };
      c.how = `${cut.kind} ${way}`;
      this.cuts[cut.kind]++;
      this.relay(c, way, bytes);
      this.onOwn(cut.kind);
    } else {
      this.end(c, cut.kind, keep, way);
    }
  }

  // The last bytes go out, then both sides are ended; nothing more is relayed.
  end(c, kind, keep, way) {
    c.ended = true;
    c.how = `${kind} ${way}`;
    this.cuts[kind]++;
    const over = () => setImmediate(() => {
      if (c.frames && c.frames.up.pongBegun) this.confirm(c);
      for (const s of [c.client, c.up]) {
        if (kind === 'rst') {
          s.resetAndDestroy();
        } else {
          s.end();
          s.resume();
          setTimeout(() => s.destroy(), 2000).unref();
        }
      }
    });
    if (keep.length) this.relay(c, way, keep, over);
    else over();
  }
}

module.exports = { Cutter };

// A client of the cell API in JavaScript: Node 18 or newer, no packages.
//
//   CELLKEEP_URL=http://127.0.0.1:8888 CELLKEEP_TOKEN=... node docs/examples/client.mjs
const base = process.env.CELLKEEP_URL ?? 'http://127.0.0.1:8888';
const token = process.env.CELLKEEP_TOKEN;

async function request(method, path, body, headers = {}) {
  const answer = await fetch(base + path, { method, body, headers: { Authorization: `Bearer ${token}`, ...headers } });
  if (!answer.ok) throw new Error(`${method} ${path}: ${(await answer.json()).message}`);
  return answer;
}

const json = async (method, path, body) => (await request(method, path, JSON.stringify(body))).json();

// The events of a cell as they happen: { type, data }. The last one is "done" with the finished cell.
async function* stream(session, cell) {
  const answer = await request('POST', `/v1/sessions/${session}/cells`, JSON.stringify(cell), { Accept: 'text/event-stream' });
  let text = '';
  const decoder = new TextDecoder();
  for await (const piece of answer.body) {
    text += decoder.decode(piece, { stream: true });
    let end;
    while ((end = text.indexOf('\n\n')) >= 0) {
      const lines = text.slice(0, end).split('\n');
      text = text.slice(end + 2);
      const field = name => lines.find(l => l.startsWith(`${name}:`))?.slice(name.length + 1).trim();
      if (field('data')) yield { type: field('event'), data: JSON.parse(field('data')) };
    }
  }
}

const { id } = await json('POST', '/v1/sessions', { name: 'node example' });
try {
  await request('PUT', `/v1/sessions/${id}/files/home/user/points.csv`, 'name,points\nada,3\nbob,4\n');
  const cell = await json('POST', `/v1/sessions/${id}/cells`, {
    code: 'import pandas as pd\ndf = pd.read_csv("points.csv")\ndf.points.sum()'
  });
  console.log('sum:', cell.result['text/plain']);

  for await (const event of stream(id, { code: 'for name in df.name:\n    print("hello", name, flush=True)' })) {
    if (event.type === 'stream') process.stdout.write(`live: ${event.data.content.text}`);
    if (event.type === 'done') console.log('ending:', event.data.status);
  }

  const chart = await json('POST', `/v1/sessions/${id}/cells`, { code: 'df.plot.bar(x="name").figure.savefig("chart.png")' });
  for (const artifact of chart.artifacts) {
    const bytes = await (await request('GET', artifact.url)).arrayBuffer();
    console.log('file:', artifact.name, artifact.mime, bytes.byteLength === artifact.size);
  }
} finally {
  await request('DELETE', `/v1/sessions/${id}`);
}

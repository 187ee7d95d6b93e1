// An agent of the Vercel AI SDK whose code interpreter is cellkeep, through MCP.
//
//   npm ci && CELLKEEP_URL=http://127.0.0.1:8888 CELLKEEP_TOKEN=... node agent.mjs
//
// The model is scripted, so that the example runs without one: put a real one in its place, for example
// `openai('gpt-…')` of @ai-sdk/openai. Everything else stays.
import { createMCPClient } from '@ai-sdk/mcp';
import { generateText, stepCountIs } from 'ai';
import { MockLanguageModelV3 } from 'ai/test';

const url = process.env.CELLKEEP_URL ?? 'http://127.0.0.1:8888';

// What the model "says", step by step: calls of tools, then its answer.
const script = [
  [{ toolName: 'write_file', input: { path: 'points.csv', content: 'name,points\nada,3\nbob,4\n' } }],
  [{ toolName: 'run_python', input: { code: 'import pandas as pd\ndf = pd.read_csv("points.csv")\ndf.points.sum()' } }],
  [{ toolName: 'run_python', input: { code: 'import matplotlib.pyplot as plt\nplt.bar(df.name, df.points)\nplt.show()' } }],
  'They have 7 points together.'
];
let step = 0;
const model = new MockLanguageModelV3({
  doGenerate: async () => {
    const say = script[step++];
    const calls = typeof say === 'string' ? [] : say;
    return {
      content: calls.length
        ? calls.map((c, i) => ({ type: 'tool-call', toolCallId: `${step}-${i}`, toolName: c.toolName, input: JSON.stringify(c.input) }))
        : [{ type: 'text', text: say }],
      finishReason: { unified: calls.length ? 'tool-calls' : 'stop' },
      usage: { inputTokens: {}, outputTokens: {} },
      warnings: []
    };
  }
});

const mcp = await createMCPClient({
  transport: { type: 'http', url: `${url}/mcp`, headers: { Authorization: `Bearer ${process.env.CELLKEEP_TOKEN}` } }
});
try {
  const result = await generateText({
    model,
    tools: await mcp.tools(),
    stopWhen: stepCountIs(10),
    prompt: 'How many points do they have together? Draw a chart, too.'
  });
  for (const { toolResults } of result.steps)
    for (const { toolName, output } of toolResults)
      console.log(`${toolName}:`, output.content.map(c => c.text ?? c.mimeType).join(', '));
  console.log('answer:', result.text);
} finally {
  await mcp.close(); // its session with cellkeep ends, and the files in it
}

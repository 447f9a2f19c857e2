// Chromium loads the bundle of the TypeScript client from a page of another origin, and uses it there.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline/promises';
import { chromium } from 'playwright-core';

const { CHROMIUM, BUNDLE, KEY } = process.env;
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const bundle = readFileSync(BUNDLE);
const server = createServer((request, response) => {
  const isBundle = request.url === '/skein.js';
  response.setHeader('content-type', isBundle ? 'text/javascript' : 'text/html');
  response.end(isBundle ? bundle : '<title>a page</title>');
});
await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
const origin = `http://127.0.0.1:${server.address().port}`;
console.log(JSON.stringify({ ask: { origin } }));
const baseUrl = (await lines.next()).value;

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
const page = await browser.newPage();
const problems = [];
page.on('pageerror', (error) => problems.push(String(error)));
await page.goto(origin);
const report = await page.evaluate(
  async ([baseUrl, apiKey]) => {
    const { connectHttp, SkeinError } = await import('/skein.js');
    const skein = connectHttp({ baseUrl, apiKey });
    await skein.remember('Anna prefers green tea');
    const { hits } = await skein.recall('tea', { minRelevance: 0 });
    let refused = '';
    try {
      await skein.memories.getMemory({ memoryId: crypto.randomUUID() });
    } catch (error) {
      if (error instanceof SkeinError) refused = `${error.reason} ${error.requestId !== ''}`;
    }
    return { hits: hits.map((hit) => hit.memory?.content), refused };
  },
  [baseUrl, KEY],
);
await browser.close();
server.close();
server.closeAllConnections();
console.log(JSON.stringify({ ...report, problems }));
lines.return?.();
process.stdin.destroy();

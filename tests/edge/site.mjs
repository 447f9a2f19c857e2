// Chromium searches the site of the documents while no other host can be reached, and says what it found and what it asked for.
import { chromium } from 'playwright-core';

const { CHROMIUM, ORIGIN, QUERY } = process.env;
const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });
const page = await browser.newPage();
const elsewhere = [];
await page.route('**', (route) => {
  if (route.request().url().startsWith(ORIGIN)) return route.continue();
  elsewhere.push(route.request().url());
  return route.abort();
});

await page.goto(`${ORIGIN}/index.html`);
await page.locator('input.md-search__input').fill(QUERY);
const first = page.locator('a.md-search-result__link').first();
await first.waitFor({ state: 'attached', timeout: 30000 });
const found = await first.getAttribute('href');
await browser.close();
console.log(JSON.stringify({ found, elsewhere }));

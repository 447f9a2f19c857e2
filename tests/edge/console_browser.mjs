// What the walks through the console share: a browser that notes what goes wrong, and looks at pages. It stands before
// each of them.
import { chromium } from 'playwright-core';
import { writeFile } from 'node:fs/promises';
import { createInterface } from 'node:readline/promises';

const { CHROMIUM, ORIGIN, EMAIL, PASSWORD, FOLDER } = process.env;
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const seen = { console: [], elsewhere: [], wide: [], faint: [], unnamed: [], small: [], told: {} };
const LARGE = { width: 1280, height: 900 };
const PHONE = { width: 360, height: 740 };

async function ask(question) {
  console.log(JSON.stringify({ ask: question }));
  return (await lines.next()).value;
}

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });

async function opened(name, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  // A busy machine is slow.
  page.setDefaultTimeout(90000);
  const note = (text) => seen.console.push(`${name}: ${text}`);
  page.on('console', (message) => message.type() === 'error' && note(`${message.text()} at ${page.url()}`));
  page.on('pageerror', (error) => note(error));
  page.on('dialog', (dialog) => note(`dialog ${dialog.message()}`));
  page.on('request', (request) => {
    if (!request.url().startsWith(`${ORIGIN}/`)) seen.elsewhere.push(`${name}: ${request.url()}`);
  });
  if (options.javaScriptEnabled !== false) {
    await page.addInitScript(() => {
      document.addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.blockedURI}`));
    });
  }
  return page;
}

async function look(page, name) {
  await page.evaluate(() => scrollTo(0, 0));
  const found = await page.evaluate(() => {
    const rgb = (text) => text.match(/[\d.]+/g).map(Number);
    const light = ([r, g, b]) => {
      const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const behind = (element) => {
      for (let at = element; at; at = at.parentElement) {
        const colour = rgb(getComputedStyle(at).backgroundColor);
        if (colour.length < 4 || colour[3] > 0) return colour;
      }
      return [255, 255, 255];
    };
    const faint = [];
    for (const element of document.querySelectorAll('body *:not(svg *)')) {
      if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
      if (!element.checkVisibility() || element.closest('.hidden, [disabled]')) continue;
      const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
      if ((a + 0.05) / (b + 0.05) < 4.5) faint.push(element.textContent.trim().slice(0, 40));
    }
    const fields = document.querySelectorAll('input:not([type=hidden]), select, textarea');
    const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
    return {
      width: document.documentElement.scrollWidth,
      height: document.documentElement.scrollHeight,
      inner: innerWidth,
      faint,
      unnamed: [...fields].filter((field) => !field.labels?.length).map((field) => field.name),
      twice: ids.filter((id, index) => ids.indexOf(id) !== index),
      small: [...document.querySelectorAll('button, .button, nav a')]
        .filter((one) => one.checkVisibility() && !one.classList.contains('link') && one.getBoundingClientRect().height < 24)
        .map((one) => one.textContent),
      headings: document.querySelectorAll('h1').length,
      levels: [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].filter((one) => one.checkVisibility()).map((one) => Number(one.tagName[1])),
      dangling: [...document.querySelectorAll('[aria-describedby], [aria-labelledby], [popovertarget]')]
        .flatMap((one) => [one.getAttribute('aria-describedby'), one.getAttribute('aria-labelledby'), one.getAttribute('popovertarget')])
        .filter((id) => id && !document.getElementById(id)),
      nameless: [...document.querySelectorAll('a, button, summary')].filter((one) => one.checkVisibility() && !one.textContent.trim() && !one.ariaLabel).length,
      main: document.querySelectorAll('main').length,
      lang: document.documentElement.lang,
      inline: document.querySelectorAll('[style], script:not([src])').length,
    };
  });
  // A long page's end looks like its middle.
  const clip = { x: 0, y: 0, width: found.inner, height: Math.min(found.height, found.inner > 600 ? 940 : 1300) };
  await page.screenshot({ path: `${FOLDER}/${name}.png`, fullPage: true, clip, caret: 'initial' });
  if (found.width > found.inner) seen.wide.push(`${name}: ${found.width}`);
  for (const kind of ['faint', 'unnamed', 'small']) seen[kind].push(...found[kind].map((text) => `${name}: ${text}`));
  const skipped = found.levels.findIndex((level, at) => level > (found.levels[at - 1] ?? 0) + 1);
  if (skipped >= 0) throw new Error(`${name} skips a level of headings: ${found.levels}`);
  if (found.dangling.length || found.nameless) throw new Error(`${name}: ${JSON.stringify(found)}`);
  if (found.twice.length) throw new Error(`${name} has ids twice: ${found.twice}`);
  if (found.headings !== 1 || found.main !== 1 || found.lang !== 'en' || found.inline) {
    throw new Error(`${name}: ${JSON.stringify(found)}`);
  }
}

async function signIn(page) {
  await page.goto(`${ORIGIN}/`);
  await page.getByLabel('E-mail address').fill(EMAIL);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('heading', { name: 'Recently changed memories' }).waitFor();
}

async function to(page, name) {
  const menu = page.getByRole('button', { name: 'Menu' });
  if (await menu.isVisible()) await menu.click();
  await page.getByRole('navigation', { name: 'Pages', exact: true }).getByRole('link', { name, exact: true }).click();
  await page.locator('h1', { hasText: name }).waitFor();
}

async function finish() {
  console.log(JSON.stringify({ ...seen, version: browser.version() }));
  await browser.close();
  process.exit(0);
}

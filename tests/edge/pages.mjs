// Chromium walks through the pages as people do: with keys and mouse, with a small screen, in the dark, without script. It
// asks for what only a client or a device can know by a line on its output ({"ask": …}), and says in the end what it saw.
import { chromium } from 'playwright-core';
import { createServer } from 'node:http';
import { createInterface } from 'node:readline/promises';

const { CHROMIUM, ORIGIN, EMAIL, PASSWORD, TENANT, OTHER_TENANT, FOLDER } = process.env;
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const seen = { console: [], wide: [], faint: [], unnamed: [], scripts: 0, told: {} };

async function ask(question) {
  console.log(JSON.stringify({ ask: question }));
  return (await lines.next()).value;
}

// The client that browsers are sent back to, and a site that means no good.
const client = createServer((request, response) => {
  response.setHeader('content-type', 'text/html');
  if (request.url === '/frame') return response.end(`<title>f</title><iframe src="${ORIGIN}/device"></iframe>`);
  if (request.url === '/forge') {
    return response.end(
      `<title>f</title><form method="post" action="${ORIGIN}/device"><input name="step" value="find">` +
        '<input name="user_code" value="BCDF-GHJK"><button>Win</button></form>',
    );
  }
  return response.end('<title>the client</title>');
});
await new Promise((ready) => client.listen(0, '127.0.0.1', ready));
const port = client.address().port;

const browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] });

async function opened(name, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on('console', (message) => message.type() === 'error' && seen.console.push(`${name}: ${message.text()}`));
  page.on('pageerror', (error) => seen.console.push(`${name}: ${error}`));
  return page;
}

async function look(page, name) {
  await page.screenshot({ path: `${FOLDER}/${name}.png`, fullPage: true });
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
    for (const element of document.querySelectorAll('main *')) {
      if (![...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim())) continue;
      const [a, b] = [light(rgb(getComputedStyle(element).color)), light(behind(element))].sort((x, y) => y - x);
      if ((a + 0.05) / (b + 0.05) < 4.5) faint.push(element.textContent.trim());
    }
    const fields = document.querySelectorAll('input:not([type=hidden]), select');
    return {
      width: document.documentElement.scrollWidth,
      inner: innerWidth,
      faint,
      unnamed: [...fields].filter((field) => !field.labels?.length).map((field) => field.name),
      scripts: document.scripts.length,
      headings: document.querySelectorAll('h1').length,
      lang: document.documentElement.lang,
    };
  });
  if (found.width > found.inner) seen.wide.push(`${name}: ${found.width}`);
  seen.faint.push(...found.faint.map((text) => `${name}: ${text}`));
  seen.unnamed.push(...found.unnamed.map((text) => `${name}: ${text}`));
  seen.scripts += found.scripts;
  if (found.headings !== 1 || found.lang !== 'en') throw new Error(`${name} has no heading or no language`);
}

async function signIn(page) {
  await page.getByLabel('E-mail address').fill(EMAIL);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

function told(page) {
  const url = new URL(page.url());
  if (url.port !== String(port)) throw new Error(`the browser is at ${url.origin}${url.pathname}`);
  return Object.fromEntries(url.searchParams);
}

// With keys alone: the first field has the focus, the order is that of the page.
const keys = await opened('keys', { viewport: { width: 1000, height: 800 } });
await keys.goto(await ask({ authorize: port }));
await look(keys, 'sign-in');
await keys.keyboard.type(EMAIL);
await keys.keyboard.press('Tab');
await keys.keyboard.type(PASSWORD);
await keys.keyboard.press('Enter');
await keys.waitForSelector('text=wants to act for you');
await look(keys, 'consent');
await keys.getByRole('radio', { name: TENANT }).focus();
await keys.keyboard.press('Space');
await keys.keyboard.press('Tab');
await keys.keyboard.press('Enter');
await keys.waitForURL(`http://127.0.0.1:${port}/**`);
seen.told.allowed = told(keys);

// A person who is signed in already says no.
await keys.goto(await ask({ authorize: port }));
await keys.getByRole('button', { name: 'Deny' }).click();
await keys.waitForURL(`http://127.0.0.1:${port}/**`);
seen.told.denied = told(keys);

// A small screen, in the dark.
const small = await opened('small', { viewport: { width: 320, height: 640 }, colorScheme: 'dark' });
await small.goto(await ask({ authorize: port }));
await look(small, 'small-sign-in');
await signIn(small);
await look(small, 'small-consent');
await small.getByLabel(OTHER_TENANT).check();
await small.getByRole('button', { name: 'Allow' }).click();
await small.waitForURL(`http://127.0.0.1:${port}/**`);
seen.told.small = told(small);

// A device, without script.
const device = JSON.parse(await ask({ device: true }));
const plain = await opened('plain', { viewport: { width: 320, height: 640 }, javaScriptEnabled: false });
await plain.goto(device.url);
await signIn(plain);
await plain.screenshot({ path: `${FOLDER}/device-code.png`, fullPage: true });
seen.told.prefilled = await plain.getByLabel('Code that the device shows').inputValue();
await plain.getByRole('button', { name: 'Continue' }).click();
await plain.screenshot({ path: `${FOLDER}/device-consent.png`, fullPage: true });
await plain.getByLabel(TENANT).check();
await plain.getByRole('button', { name: 'Allow' }).click();
await plain.getByRole('heading', { name: 'Done' }).waitFor();
await plain.screenshot({ path: `${FOLDER}/device-done.png`, fullPage: true });

// Pages that links in mails lead to.
for (const name of ['reset', 'verify', 'invitation']) {
  await small.context().clearCookies();
  await small.goto(`${ORIGIN}/account/${name}?token=none`);
  await look(small, name);
}

// What another site does with our pages: it may not frame them, nor send their forms.
const other = await browser.newPage();
await other.goto(`http://127.0.0.1:${port}/frame`);
seen.told.framed = (await other.frames()[1].content()).includes('Connect a device');
await other.goto(`http://127.0.0.1:${port}/forge`);
const [answer] = await Promise.all([
  other.waitForResponse((response) => response.url().startsWith(ORIGIN)),
  other.getByRole('button').click(),
]);
seen.told.forged = answer.status();

// A wrong password says so; browsers log the status of such an answer, so it comes last.
const wrong = await browser.newPage({ viewport: { width: 320, height: 640 } });
await wrong.goto(await ask({ authorize: port }));
await wrong.getByLabel('E-mail address').fill(EMAIL);
await wrong.getByLabel('Password').fill('not the password');
await wrong.getByRole('button', { name: 'Sign in' }).click();
seen.told.problem = await wrong.getByRole('alert').textContent();
await look(wrong, 'small-wrong');

console.log(JSON.stringify({ ...seen, version: browser.version() }));
await browser.close();
process.exit(0);

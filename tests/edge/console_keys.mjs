// Chromium goes through every page of the console by Tab alone.
const { TENANT, IDS } = process.env;
const ids = JSON.parse(IDS);
seen.keys = [];

// Tab goes to everything that a person can use, shows where it is, and comes out again.
async function walk(page, name) {
  const usable = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
  const count = await page.evaluate((selector) => {
    // From the top, whatever has the focus at first.
    document.body.tabIndex = -1;
    document.body.focus();
    document.body.removeAttribute('tabindex');
    window.toReach = [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.matches(':disabled'));
    // Tab stops at each part of a date.
    return window.toReach.reduce((sum, one) => sum + (one.type === 'datetime-local' ? 10 : 1), 0);
  }, usable);
  const unseen = [];
  for (let step = 0; step < count; step += 1) {
    await page.keyboard.press('Tab');
    const [found, left] = await page.evaluate(() => {
      const at = document.activeElement;
      // The script of the change log replaces a link.
      window.toReach = window.toReach.filter((one) => one !== at && one.isConnected);
      const style = getComputedStyle(at);
      const box = at.getBoundingClientRect();
      const shows = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2) || at.closest('svg');
      const isSeen = shows && box.width > 0 && box.bottom > 0 && box.top < innerHeight;
      return [isSeen ? '' : at.outerHTML.slice(0, 80), window.toReach.length];
    });
    if (found) unseen.push(found);
    if (!left) break;
  }
  const missed = await page.evaluate(() => window.toReach.map((one) => one.outerHTML.slice(0, 80)));
  seen.keys.push(...missed.map((text) => `${name} never reaches ${text}`), ...unseen.map((text) => `${name} hides ${text}`));
}

const page = await opened('keys', { viewport: LARGE, colorScheme: 'light' });
await page.goto(`${ORIGIN}/`);
await walk(page, 'sign-in');
await signIn(page);
const paths = [
  '', 'start', 'search?q=Anna', 'context?q=Anna', 'memories', `memory?id=${ids.memory}`, `edit?id=${ids.memory}`, `graph?id=${ids.memory}`,
  `lineage?id=${ids.memory}`, 'blocks',
  `block?id=${ids.block}`, 'sessions', 'session?id=kitchen-2026-04-02', 'conflicts', 'changes', 'webhooks', `webhook?id=${ids.webhook}`,
  'members', 'usage', 'policy', 'jobs', 'keys', 'certificates', 'receipts', `receipt?id=${ids.receipt}`,
  `difference?id=${ids.receipt}&other=${ids.other}`,
];
for (const path of paths) {
  await page.goto(`${ORIGIN}/console/${TENANT}/${path}`.replace(/\/$/, ''));
  await walk(page, path || 'overview');
}
seen.told.pages = paths.length + 1;

await finish();

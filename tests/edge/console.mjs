// Chromium walks through the console as people do: with keys and mouse, on a large and on a small screen, in light and dark,
// and without script. It asks for what only the test can do by a line on its output ({"ask": …}), and says in the end what
// it saw.
const { API_KEY, HOSTILE } = process.env;

async function toGraph(page) {
  await page.getByRole('link', { name: 'Graph of links' }).click();
  await page.locator('svg.graph').waitFor();
}

// A large screen, in light: from the sign-in to a conflict that is settled.
const large = await opened('large', { viewport: LARGE, colorScheme: 'light' });
await large.goto(`${ORIGIN}/`);
await look(large, 'sign-in');
await large.keyboard.type(EMAIL);
await large.keyboard.press('Tab');
await large.keyboard.type(PASSWORD);
await large.keyboard.press('Enter');
await large.getByRole('heading', { name: 'Recently changed memories' }).waitFor();
await look(large, 'overview');
await large.keyboard.press('Tab');
seen.told.skip = await large.evaluate(() => document.activeElement.textContent);

await large.getByRole('searchbox').fill('what does Anna drink?');
await large.keyboard.press('Enter');
await large.locator('.hit').first().waitFor();
await large.getByText('Why this result').first().click();
await look(large, 'search');
await large.getByText('Filters and time').click();
const field = large.getByLabel('As it was known on (UTC)');
const slider = large.getByLabel('Between the first entry and now');
await slider.focus();
await large.keyboard.press('Home');
seen.told.first = await field.inputValue();
seen.told.spoken = await slider.getAttribute('aria-valuetext');
await large.keyboard.press('End');
seen.told.now = await field.inputValue();
await field.fill(seen.told.first);
seen.told.moved = (await slider.inputValue()) === (await slider.getAttribute('min'));
await large.getByRole('button', { name: 'Search', exact: true }).last().click();
await large.locator('[role=status]', { hasText: 'As it was known on' }).waitFor();
await look(large, 'search-then');
seen.told.then = await large.locator('main [role=status]').textContent();
await large.goBack();
await large.locator('.hit').first().waitFor();
seen.told.hit = await large.locator('.hit h2').first().textContent();
seen.told.bar = await large.locator('.hit svg.score').first().getAttribute('aria-label');
await large.locator('.hit h2 a', { hasText: 'Anna drinks tea' }).click();
await large.getByRole('heading', { name: 'Scores', exact: true }).waitFor();
await look(large, 'memory');
await toGraph(large);
await look(large, 'graph');
const width = () => large.locator('svg.graph').evaluate((svg) => svg.clientWidth);
const before = await width();
await large.getByRole('link', { name: '200 %' }).click();
seen.told.zoomed = (await width()) / before;
await large.locator('[data-canvas]').focus();
await large.keyboard.press('0');
seen.told.back = (await width()) / before;
await large.getByLabel('Relation').selectOption('related');
await large.getByRole('button', { name: 'Show' }).click();
await large.waitForURL(/relation=related/);
seen.told.relations = await large.locator('svg.graph .edges path title').allTextContents();
// By keys alone to a neighbour, which stands in the middle then.
await large.locator('svg.graph a:not(.middle)').first().focus();
await look(large, 'graph-keys');
await large.keyboard.press('Enter');
await large.waitForURL((url) => !url.search.includes('relation'));

await to(large, 'Conflicts');
await large.locator('.conflict').first().waitFor();
seen.told.conflicts = await large.locator('.conflict').count();
await look(large, 'conflicts');
const wifi = large.locator('.conflict', { hasText: 'Same key' });
await wifi.getByLabel('Reason').fill('Moved there in spring.');
await wifi.getByRole('button', { name: 'B is right' }).click();
seen.told.done = await large.getByRole('status').textContent();
seen.told.left = await large.locator('.conflict').count();

await to(large, 'Changes');
await large.getByText('Live: new changes').waitFor();
await ask({ remember: 'The cat sleeps on the radiator.' });
await large.locator('.fresh', { hasText: 'The cat sleeps on the radiator.' }).waitFor();
await look(large, 'changes');
await to(large, 'Policy');
await look(large, 'policy');
await large.getByLabel('Snapshots to keep').fill('7');
await large.getByRole('button', { name: 'Save the policy' }).click();
seen.told.saved = await large.getByRole('status').textContent();
await to(large, 'API keys');
await large.getByLabel('Name', { exact: true }).fill('a key for the test');
await large.getByRole('button', { name: 'Create the key' }).click();
seen.told.secret = await large.getByLabel('Secret', { exact: true }).inputValue();
await large.getByLabel('Secret', { exact: true }).evaluate((field) => { field.value = 'skein_…'; });
await large.locator('pre').evaluateAll((all) => all.forEach((one) => { one.textContent = 'authorization: Bearer skein_…'; }));
await look(large, 'key-made');

// The same, in the dark; and hostile content shows as what it is.
const dark = await opened('dark', { viewport: LARGE, colorScheme: 'dark' });
await signIn(dark);
await look(dark, 'dark-overview');
for (const [name, path] of [['search', '/search?q=Anna+milk'], ['hostile', `/memory?id=${HOSTILE}`]]) {
  await dark.goto(dark.url().split('/').slice(0, 5).join('/') + path);
  await look(dark, `dark-${name}`);
}
seen.told.title = await dark.title();
await toGraph(dark);
await look(dark, 'dark-graph');
await to(dark, 'Conflicts');
await look(dark, 'dark-conflicts');

// A phone, in both.
for (const colorScheme of ['light', 'dark']) {
  const phone = await opened(`phone ${colorScheme}`, { viewport: PHONE, colorScheme, hasTouch: true, isMobile: true });
  await phone.goto(`${ORIGIN}/`);
  await look(phone, `phone-${colorScheme}-sign-in`);
  await signIn(phone);
  await look(phone, `phone-${colorScheme}-overview`);
  for (const name of ['Memories', 'Sessions', 'Conflicts', 'Changes', 'Policy', 'API keys']) {
    await to(phone, name);
    await look(phone, `phone-${colorScheme}-${name.toLowerCase().replace(' ', '-')}`);
  }
  await to(phone, 'Sessions');
  await phone.getByRole('link', { name: 'What did the doctor say' }).click();
  await phone.getByText('Cow').waitFor();
  await look(phone, `phone-${colorScheme}-session`);
  await phone.getByRole('searchbox').fill('what does Anna drink?');
  await phone.getByRole('button', { name: 'Search' }).click();
  await phone.getByText('Why this result').first().click();
  await look(phone, `phone-${colorScheme}-search`);
  await phone.locator('.hit h2 a', { hasText: 'Anna drinks tea' }).click();
  await phone.getByRole('heading', { name: 'Scores', exact: true }).waitFor();
  await look(phone, `phone-${colorScheme}-memory`);
  await toGraph(phone);
  await look(phone, `phone-${colorScheme}-graph`);
  await phone.goto(`${phone.url().split('/').slice(0, 5).join('/')}/memory?id=${HOSTILE}`);
  await look(phone, `phone-${colorScheme}-hostile`);
}

// Without script, with a key: search, graph, zoom, and the other conflict.
const plain = await opened('plain', { viewport: LARGE, javaScriptEnabled: false });
await plain.goto(`${ORIGIN}/`);
await plain.getByLabel('API key of a tenant').fill(API_KEY);
await plain.getByRole('button', { name: 'Sign in with the key' }).click();
await plain.getByRole('searchbox').fill('Milan');
await plain.keyboard.press('Enter');
await plain.locator('.hit h2 a', { hasText: 'Weekend in Milan' }).click();
await toGraph(plain);
const narrow = Number(await plain.locator('svg.graph').getAttribute('width'));
await plain.getByRole('link', { name: '200 %' }).click();
await plain.waitForURL(/zoom=200/);
seen.told.plainZoom = Number(await plain.locator('svg.graph').getAttribute('width')) / narrow;
await to(plain, 'Changes');
seen.told.plainChanges = await plain.locator('.log .line').count();
await to(plain, 'Conflicts');
await plain.getByRole('button', { name: 'A is right' }).first().click();
seen.told.plainDone = await plain.getByRole('status').textContent();
await plain.getByRole('button', { name: 'Sign out' }).click();
await plain.getByRole('heading', { name: 'Sign in' }).waitFor();
seen.told.left_for = new URL(plain.url()).pathname;

await finish();

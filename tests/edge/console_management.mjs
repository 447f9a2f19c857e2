// Chromium manages a tenant: from the first steps to members, on a large and on a small screen, in light and dark, and
// without script.
const { API_KEY, MEMORY } = process.env;

// A large screen without script: every form works.
const plain = await opened('plain', { viewport: LARGE, colorScheme: 'light', javaScriptEnabled: false });
const press = (name) => plain.getByRole('button', { name, exact: true }).click();
const status = () => plain.getByRole('status').textContent();
await plain.goto(`${ORIGIN}/`);
await plain.getByLabel('API key of a tenant').fill(API_KEY);
await press('Sign in with the key');
const console_ = plain.url().split('?')[0];
await to(plain, 'First steps');
await press('Make another key');
seen.told.key = (await plain.getByLabel('Secret', { exact: true }).inputValue()).slice(0, 6);
await plain.getByLabel('Text', { exact: true }).fill('Ben repairs clocks');
await press('Store another memory');
seen.told.remembered = await status();
await plain.getByLabel('Question').fill('who repairs clocks?');
await press('Recall');
seen.told.recalled = await plain.getByRole('list', { name: 'Hits' }).getByRole('link').first().textContent();
await plain.getByText('The same in a terminal').first().click();

await plain.goto(`${console_}/memory?id=${MEMORY}`);
await plain.getByRole('link', { name: 'Edit', exact: true }).click();
await plain.getByLabel('Text', { exact: true }).fill('Anna prefers green tea.\nNever after six.');
await ask({ change: 'Anna prefers black tea.' });
// Chromium notes the status of the page that shows both texts, at times after the page is there.
const noted = plain.waitForEvent('console', (message) => message.text().includes('status of 409'));
await press('Save the memory');
await noted;
seen.console = seen.console.filter((text) => !text.includes('status of 409'));
seen.told.conflict = await plain.getByRole('alert').textContent();
seen.told.marked = await plain.locator('mark').allTextContents();
await look(plain, 'edit-conflict');
await press('Save my changes over it');
seen.told.edited = await status();
// Saving what a browser sent back unchanged writes nothing: it keeps line breaks and times.
await plain.getByRole('link', { name: 'Edit', exact: true }).click();
await press('Save the memory');
seen.told.unchanged = await status();

// Why an answer was given: its receipt, replayed after a change, and compared with the answer of now.
await plain.goto(`${console_}/search?q=what+does+Anna+drink%3F`);
await plain.getByRole('link', { name: 'Why this answer' }).click();
const receipt = plain.url();
await ask({ change: 'Anna prefers black tea to coffee.' });
await press('Replay the answer');
seen.told.replayed = await status();
await plain.getByText('Why this result').first().click();
await look(plain, 'receipt-replayed');
await press('Compare with the answer now');
seen.told.difference = await status();
const difference = plain.url();
const other = new URL(difference).searchParams.get('other');
await plain.goto(receipt);
await plain.getByText('Compare with another receipt').click();
await plain.getByLabel('Id of the other receipt').fill(other);
await press('Compare with this one');
seen.told.compared = plain.url() === difference;
await plain.getByRole('link', { name: 'Earlier answer' }).click();
const [file] = await Promise.all([plain.waitForEvent('download'), plain.getByRole('link', { name: 'Download the receipt' }).click()]);
seen.told.file = file.suggestedFilename();
seen.told.receipt = new URL(receipt).searchParams.get('id');

await to(plain, 'Blocks');
await plain.getByLabel('Label', { exact: true }).last().fill('persona');
await plain.getByLabel('Text', { exact: true }).fill('You are kind.\nYou are brief.');
await plain.getByLabel('Attach to agent').fill('kitchen');
await press('Create the block');
seen.told.block = await status();
await plain.getByLabel('Text', { exact: true }).fill('You are kind.\nYou never guess.');
await press('Save the block');
await plain.getByText('Compare').click();
await look(plain, 'block-history');
seen.told.history = await plain.locator('mark').allTextContents();
const block = plain.url().replace(/&done=.*/, '');

await to(plain, 'Webhooks');
await plain.getByLabel('Name', { exact: true }).fill('till');
await plain.getByLabel('Address').fill('https://127.0.0.1/hook');
await press('Create the webhook');
seen.told.signing = (await plain.getByLabel('Signing key', { exact: true }).inputValue()).slice(0, 6);
await plain.getByRole('link', { name: 'till' }).click();
await ask({ deliver: plain.url().split('id=')[1] });
await plain.reload();
seen.told.failure = await plain.locator('.line strong').first().textContent();
await plain.getByRole('button', { name: 'Retry now' }).first().click();
seen.told.retried = await status();
const webhook = plain.url().replace(/&done=.*/, '');

await to(plain, 'Members');
await plain.getByLabel('E-mail address').fill('clara@example.org');
await press('Invite');
seen.told.link = new URL(await plain.getByLabel('Link', { exact: true }).inputValue()).pathname;
await plain.getByLabel('Link', { exact: true }).evaluate((field) => { field.value = `${location.origin}/account/invitation?token=…`; });
await look(plain, 'members-invited');
await plain.getByLabel('E-mail address').fill('dora@example.org');
await press('Invite');
await plain.getByRole('button', { name: 'Revoke the invitation of dora' }).click();
seen.told.invitations = await plain.getByText('clara@example.org', { exact: true }).count() + await plain.getByText('dora@example.org', { exact: true }).count();

// The same pages as a person sees them, by every kind of screen.
const pages = [
  ['start', `${console_}/start?q=who+repairs+clocks%3F`], ['edit', `${console_}/edit?id=${MEMORY}`], ['blocks', `${console_}/blocks`],
  ['block', block], ['webhooks', `${console_}/webhooks`], ['webhook', webhook], ['members', `${console_}/members`], ['usage', `${console_}/usage`],
  ['jobs', `${console_}/jobs`], ['certificates', `${console_}/certificates`],
  ['receipts', `${console_}/receipts`], ['receipt', receipt], ['difference', difference],
];
for (const [kind, options] of [
  ['light', { viewport: LARGE, colorScheme: 'light' }],
  ['dark', { viewport: LARGE, colorScheme: 'dark' }],
  ['phone-light', { viewport: PHONE, colorScheme: 'light', hasTouch: true, isMobile: true }],
  ['phone-dark', { viewport: PHONE, colorScheme: 'dark', hasTouch: true, isMobile: true }],
]) {
  const page = await opened(kind, options);
  await signIn(page);
  for (const [name, url] of pages) {
    await page.goto(url);
    await look(page, `${kind}-${name}`);
    if (kind.endsWith('dark')) continue;
    // What a person opens is as good as what is there at once.
    await page.locator('main details:not([open]) > summary').evaluateAll((all) => all.forEach((one) => one.click()));
    await look(page, `${kind}-${name}-open`);
  }
  if (kind === 'phone-light') {
    await page.keyboard.press('Tab');
    await page.getByRole('button', { name: 'Menu' }).focus();
    await page.keyboard.press('Enter');
    await look(page, 'phone-menu');
    seen.told.menu = await page.getByRole('navigation', { name: 'Pages', exact: true }).getByRole('link').count();
    await page.keyboard.press('Escape');
    seen.told.closed = !(await page.getByRole('link', { name: 'Overview', exact: true }).isVisible());
  }
}

await finish();

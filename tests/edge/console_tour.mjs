// Walks through the console as docs/guides/console.md does, and takes its pictures: of one size, in WebP.
const { MEMORY } = process.env;

async function picture(page, name) {
  const devtools = await page.context().newCDPSession(page);
  await page.evaluate(() => scrollTo(0, 0));
  const { data } = await devtools.send('Page.captureScreenshot', { format: 'webp', quality: 60 });
  await writeFile(`${FOLDER}/${name}.webp`, Buffer.from(data, 'base64'));
  await look(page, name);
}

const page = await opened('tour', { viewport: { width: 1200, height: 760 }, colorScheme: 'light' });
await signIn(page);
const base = page.url().split('/').slice(0, 5).join('/');
await picture(page, 'overview');
await page.getByRole('searchbox').fill('what does Anna drink?');
await page.keyboard.press('Enter');
await page.locator('.hit').first().waitFor();
await page.getByText('Why this result').first().click();
await picture(page, 'search');
await page.goto(`${base}/memory?id=${MEMORY}`);
await page.getByRole('heading', { name: 'Scores', exact: true }).waitFor();
await picture(page, 'memory');
await page.getByRole('link', { name: 'Graph of links' }).click();
await page.locator('svg.graph').waitFor();
await picture(page, 'graph');
// The link of the page counts what waits.
await page.goto(`${base}/approvals`);
await page.getByRole('heading', { name: 'Approvals', exact: true }).waitFor();
await picture(page, 'approvals');
await to(page, 'Conflicts');
await picture(page, 'conflicts');
await to(page, 'Usage');
await picture(page, 'usage');
await finish();

// The page in a browser, on a real daemon that real hosts use. Nothing is tried twice.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdirSync, readFileSync, renameSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { Daemon } from './array.mjs';

const MIB = 1 << 20;
const PASSWORD = 'a password of my own';
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

let array;
let browser;
let page;
const complaints = [];

/** What the page uses if the daemon has it. */
const OPTIONAL = ['/v1/stream', '/v1/tasks', '/v1/alerts', '/v1/schedules', '/v1/configuration'];
const missing = [];

/** Answers that are no fault: before one logs in the daemon does not know who asks. */
function isExpected(answer) {
  const { pathname } = new URL(answer.url());
  return (
    (answer.status() === 401 && pathname === '/v1/me') ||
    (answer.status() === 404 && missing.includes(pathname))
  );
}

function watch(opened, daemon = array) {
  opened.on('pageerror', (error) => complaints.push(`${error}`));
  opened.on('console', (message) => {
    const bad = ['error', 'warning'].includes(message.type());
    // The status of an answer is judged below, by its address.
    if (bad && !message.text().startsWith('Failed to load resource'))
      complaints.push(message.text());
  });
  opened.on('response', (answer) => {
    if (answer.status() >= 400 && !isExpected(answer))
      complaints.push(`${answer.status()} ${answer.url()}`);
  });
  opened.on('request', (request) => {
    const url = new URL(request.url());
    if (url.origin !== daemon.url && !['blob:', 'data:'].includes(url.protocol))
      complaints.push(`asked ${request.url()}`);
  });
}

before(async () => {
  array = await Daemon.start();
  for (const path of OPTIONAL)
    if ((await fetch(array.url + path)).status === 404) missing.push(path);
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox'],
  });
  const context = await browser.newContext({
    viewport: { width: 1440, height: 900 },
    colorScheme: 'light',
    locale: 'en-GB',
  });
  context.setDefaultTimeout(60_000);
  page = await context.newPage();
  watch(page);
});

after(async () => {
  await browser?.close();
  await array?.stop();
});

/** A refusal that was wanted is no complaint. */
const forget = (wanted) =>
  complaints.splice(0, complaints.length, ...complaints.filter((one) => !wanted.test(one)));

const button = (name) => page.getByRole('button', { name, exact: true });
const field = (name) => page.getByLabel(name, { exact: true });
const dialog = () => page.getByRole('dialog');
const heading = (name) => page.getByRole('heading', { name, level: 1, exact: true });

async function visit(path, title) {
  await page.goto(array.url + path);
  await heading(title).waitFor();
}

test('the first password must be replaced before anything else', async () => {
  await page.goto(`${array.url}/volumes`);
  await field('User').fill('admin');
  await field('Password').fill(array.password);
  await button('Log in').click();
  await heading('A password of your own').waitFor();
  await field('Password now').fill(array.password);
  await field('New password').fill('short');
  await page.getByText('At least 10 characters.').waitFor();
  assert.equal(await button('Change password').isDisabled(), true);
  await field('New password').fill(PASSWORD);
  await field('New password again').fill(PASSWORD);
  await button('Change password').click();
  await heading('Volumes').waitFor();
});

test('the set-up leads from nothing to a volume that a host uses', async () => {
  await visit('/', 'Overview');
  await page.getByRole('link', { name: 'Begin the set-up' }).click();
  await heading('Set-up').waitFor();
  await field('Name').fill('fast');
  await field('Path of the file').fill(`${array.folder}/fast.img`);
  await field('Size of each').fill('2 GiB');
  await button('Create pool').click();
  await page.getByRole('heading', { name: '2. A volume' }).waitFor();
  await field('Name').fill('vm1');
  await field('Size').fill('1 GiB');
  await button('Create volume').click();
  await page.getByRole('heading', { name: '3. Who uses it' }).waitFor();
  await button('Let every initiator use the volume').click();
  await button('Map').click();
  await page.getByText('fast/vm1 is LUN 0 for every initiator.').waitFor();
  await page.getByText('Linux', { exact: true }).click();
  await page.getByText('iscsiadm --mode discovery').waitFor();
  await array.host('fill', '--length', String(64 * MIB), await array.lun(0));
  const [volume] = await array.gantry('volume', 'list');
  assert.equal(volume.mapped_bytes, 64 * MIB);
});

test('a refusal is shown next to what caused it', async () => {
  await visit('/volumes', 'Volumes');
  await button('Create volume').click();
  await field('Name').fill('vm1');
  await field('Size').fill('1 GiB');
  await dialog().getByRole('button', { name: 'Create volume' }).click();
  await dialog().getByRole('alert').getByText('vm1').waitFor();
  forget(/^409 .*\/v1\/volumes$/);
  await field('Name').fill('vm2');
  await dialog().getByRole('button', { name: 'Create volume' }).click();
  await heading('fast/vm2').waitFor();
  await button('Map it to a host').click();
  await dialog().getByLabel('Host or group').selectOption('any');
  await dialog().getByRole('button', { name: 'Map', exact: true }).click();
  await page.getByText('Every initiator').waitFor();
});

test('a clone by a host appears in the ledger', async () => {
  await visit('/offload/ledger', 'Offload');
  await array.host('copy', '--length', String(32 * MIB), await array.lun(0), await array.lun(1));
  const row = page.getByRole('row').filter({ hasText: 'fast/vm2' });
  await row.getByText('32\u00a0MiB').first().waitFor();
  await row.getByRole('button', { name: /^Details/ }).click();
  await dialog().getByText('32\u00a0MiB of 32\u00a0MiB').waitFor();
  const ledger = await array.gantry('offload', 'list');
  const counted = ledger.rows.find((one) => one.volume === 'fast/vm2');
  assert.equal(counted.cloned_by_reference_bytes, 32 * MIB);
  await page.keyboard.press('Escape');
  await dialog().waitFor({ state: 'hidden' });
});

test('a pool that fills is warned of', async () => {
  await visit('/pools/fast', 'fast');
  await button('Thresholds').click();
  await field('Soft threshold, %').fill('10');
  await field('Hard threshold, %').fill('90');
  await button('Set thresholds').click();
  await dialog().waitFor({ state: 'hidden' });
  await visit('/', 'Overview');
  await array.host(
    'fill',
    '--offset',
    String(64 * MIB),
    '--length',
    String(256 * MIB),
    await array.lun(0),
  );
  await page
    .getByRole('link', { name: /Pool fast is at \d+ %, above its soft threshold/ })
    .waitFor();
  await visit('/events', 'Events');
  await page.getByRole('listitem').filter({ hasText: 'pool fast' }).first().waitFor();
});

test('a snapshot keeps what is written over, and revert brings it back', async () => {
  await visit('/volumes/fast/vm1', 'fast/vm1');
  await button('Take snapshot').click();
  await field('Name').fill('before');
  await dialog().getByRole('button', { name: 'Take snapshot' }).click();
  await button('Revert to before').waitFor();
  const lun = await array.lun(0);
  await array.host('fill', '--seed', '2', '--length', String(64 * MIB), lun);
  await array.host('check', '--seed', '2', '--length', String(64 * MIB), lun);
  await button('Revert to before').click();
  assert.equal(await dialog().getByRole('button', { name: 'Revert' }).isDisabled(), true);
  await dialog().getByRole('checkbox').check();
  await dialog().getByRole('button', { name: 'Revert' }).click();
  await page.getByText('vm1 is as it was in before').waitFor();
  await array.host('check', '--seed', '1', '--length', String(64 * MIB), lun);
});

test('deleting says what it frees and who uses the volume, and wants the name', async () => {
  await array.gantry('volume', 'clone', 'fast/before', 'scratch');
  await array.gantry('volume', 'map', 'fast/scratch', '--host', 'any');
  await visit('/volumes/fast/scratch', 'fast/scratch');
  await button('Delete').click();
  await dialog()
    .getByText(/mapped to any as LUN 2/)
    .waitFor();
  await dialog().getByText(/Frees/).waitFor();
  const remove = dialog().getByRole('button', { name: 'Unmap and delete' });
  assert.equal(await remove.isDisabled(), true);
  await field('Type scratch to confirm').fill('scratch');
  await remove.click();
  await heading('Volumes').waitFor();
  await page.getByRole('row').filter({ hasText: 'scratch' }).waitFor({ state: 'detached' });
});

/** What the notes at the edge of the page say. */
const said = (text) => page.getByText(text, { exact: true }).first().waitFor();

test('a snapshot on schedule is taken, and a locked one cannot be deleted', async () => {
  await visit('/settings/schedules', 'Settings');
  await button('Create schedule').click();
  await field('Name').fill('nightly');
  await dialog().getByLabel('fast/vm2', { exact: true }).check();
  await field('Every').selectOption('86400');
  await field('Keep the latest').fill('7');
  await dialog().getByText('Reaches back 7 d; 7 snapshots in all.').waitFor();
  await dialog().getByRole('button', { name: 'Create schedule' }).click();
  await said('Schedule nightly was saved');
  const [schedule] = await array.gantry('schedule', 'list');
  assert.deepEqual(
    [schedule.volumes, schedule.every_seconds, schedule.keep],
    [['fast/vm2'], 86400, 7],
  );
  await button('Change nightly').click();
  await field('Keep the latest').fill('14');
  await dialog().getByRole('button', { name: 'Change', exact: true }).click();
  await page
    .getByRole('row')
    .filter({ hasText: 'nightly' })
    .getByText('14', { exact: true })
    .waitFor();
  await button('Delete nightly').click();
  await dialog().getByRole('button', { name: 'Delete' }).click();
  await page.getByText('There is no schedule').waitFor();

  await array.gantry('snapshot', 'create', 'fast/vm2', 'audit');
  await visit('/volumes/fast/vm2', 'fast/vm2');
  await button('Lock snapshot audit').click();
  await dialog().getByLabel('1 day', { exact: true }).check({ force: true });
  await dialog().getByRole('button', { name: 'Lock', exact: true }).click();
  await page.getByText(/^locked, ends/).waitFor();
  await button('Delete snapshot audit').click();
  await dialog().getByRole('button', { name: 'Delete', exact: true }).click();
  await dialog()
    .getByRole('alert')
    .getByText(/locked until/)
    .waitFor();
  forget(/^409 .*snapshots/);
  await page.keyboard.press('Escape');
  const snapshots = await array.gantry('snapshot', 'list');
  assert.ok(
    snapshots.find((one) => one.name === 'audit').locked_until > Date.now() / 1000 + 80_000,
  );
});

test('who is told of events is set here, and a test arrives', async () => {
  const heard = [];
  const receiver = createServer((request, answer) => {
    let body = '';
    request.on('data', (part) => (body += part));
    request.on('end', () => {
      heard.push({ signature: request.headers['x-gantry-signature'], body: JSON.parse(body) });
      answer.end();
    });
  }).listen(0, '127.0.0.1');
  await once(receiver, 'listening');
  const url = `http://127.0.0.1:${receiver.address().port}/told`;
  await visit('/settings/alerts', 'Settings');
  await button('Add webhook').click();
  await field('Name').fill('chat');
  await field('Address').fill(url);
  await field('Of what').selectOption('error');
  await field('Sign messages').check();
  await field('Secret').fill('a key that nobody knows');
  await dialog().getByRole('button', { name: 'Add' }).click();
  await said('The alerts were changed');
  // What is not typed again stays.
  await button('Change chat').click();
  await field('Of what').selectOption('warning');
  await dialog().getByRole('button', { name: 'Change' }).click();
  await page
    .getByRole('row')
    .filter({ hasText: 'chat' })
    .getByText('Warnings and errors')
    .waitFor();
  // Under another name the daemon has no secret: no message may go out unsigned because of that.
  await button('Change chat').click();
  await field('Name').fill('talk');
  await dialog().getByText('Type it again').waitFor();
  assert.equal(await dialog().getByRole('button', { name: 'Change' }).isDisabled(), true);
  await field('Secret').fill('another key that nobody knows');
  await dialog().getByRole('button', { name: 'Change' }).click();
  await page.getByRole('row').filter({ hasText: 'talk' }).getByText('yes').waitFor();
  const { webhooks } = await array.gantry('alert', 'show');
  assert.deepEqual(
    webhooks.map((one) => [one.name, one.signed]),
    [['talk', true]],
  );
  await button('Send a test').click();
  await page.getByRole('row').filter({ hasText: 'webhook talk' }).getByText('delivered').waitFor();
  receiver.close();
  assert.match(heard[0].signature, /^sha256=[0-9a-f]{64}$/);
  assert.equal(heard[0].body.test, true);

  await button('Set up').click();
  await field('Relay').fill('127.0.0.1:1');
  await field('Encryption').selectOption('none');
  await field('User (may be empty)').fill('array');
  await field('Password (empty: stays)').fill('hush');
  await field('From').fill('array@example.org');
  await field('To').fill('ops@example.org');
  await dialog().getByRole('button', { name: 'Save' }).click();
  await dialog()
    .getByRole('alert')
    .getByText(/unencrypted/)
    .waitFor();
  forget(/^4\d\d .*\/v1\/alerts$/);
  await field('Encryption').selectOption('starttls');
  await dialog().getByRole('button', { name: 'Save' }).click();
  await page.getByText('ops@example.org').waitFor();
  const { mail } = await array.gantry('alert', 'show');
  assert.deepEqual([mail.tls, mail.user, mail.to], ['starttls', 'array', ['ops@example.org']]);
  assert.ok(!(await page.content()).includes('hush'));
  await button('Remove').click();
  await dialog().getByRole('button', { name: 'Remove' }).click();
  await page.getByText('No mail is sent').waitFor();
});

test('the configuration is saved as a file, changed and taken back', async () => {
  await visit('/settings/configuration', 'Settings');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    button('Save the configuration').click(),
  ]);
  const text = readFileSync(await download.path(), 'utf8');
  assert.match(download.suggestedFilename(), /^gantry-\d{4}-\d\d-\d\d\.json$/);
  assert.ok(!text.includes('key that nobody knows'));
  const file = (name, body) =>
    field('File').setInputFiles({ name, mimeType: 'application/json', buffer: Buffer.from(body) });
  await file('wrong.json', 'no JSON');
  await page.getByText('wrong.json is not a JSON file.').waitFor();
  await file('same.json', text);
  await button('See what would change').click();
  await page.getByText('Everything is as in same.json already.').waitFor();
  const configuration = JSON.parse(text);
  configuration.hosts.push({ name: 'esx9', initiators: ['iqn.2026-01.org.example:esx9'] });
  await file('more.json', JSON.stringify(configuration));
  await button('See what would change').click();
  await page.getByText('host esx9 is created').waitFor();
  assert.deepEqual(await array.gantry('host', 'list'), []);
  await button('Make these changes').click();
  await said('The configuration was imported');
  assert.deepEqual(
    (await array.gantry('host', 'list')).map((host) => host.name),
    ['esx9'],
  );
});

test('a token is shown once, works, and ends when it is deleted', async () => {
  await visit('/settings/tokens', 'Settings');
  await button('Create token').click();
  await field('Name').fill('monitoring');
  await dialog().getByRole('button', { name: 'Create token' }).click();
  await dialog().getByText('Take it now: it is not shown again.').waitFor();
  const secret = (await dialog().locator('pre').innerText()).trim();
  await button('I have it').click();
  await page.getByRole('row').filter({ hasText: 'monitoring' }).waitFor();
  await visit('/settings/tokens', 'Settings');
  await page.getByRole('row').filter({ hasText: 'monitoring' }).waitFor();
  assert.ok(!(await page.content()).includes(secret));
  const asks = async (method) =>
    (
      await fetch(`${array.url}/v1/volumes`, {
        method,
        headers: { Authorization: `Bearer ${secret}` },
      })
    ).status;
  assert.deepEqual([await asks('GET'), await asks('POST')], [200, 403]);
  await button('Delete token monitoring').click();
  await dialog().getByRole('button', { name: 'Delete' }).click();
  await page.getByText('There is no token').waitFor();
  assert.equal(await asks('GET'), 401);
});

test('objects are labelled and renamed, and what somebody else changed is not overwritten', async () => {
  const label = async (opener, text) => {
    await button(opener).click();
    await dialog().getByLabel('Labels', { exact: true }).fill(text);
    await dialog().getByRole('button', { name: 'Set labels' }).click();
    await dialog().waitFor({ state: 'hidden' });
  };
  const rename = async (opener, name) => {
    await button(opener).click();
    await dialog().getByLabel('New name').fill(name);
    await dialog().getByRole('button', { name: 'Rename' }).click();
    // The page behind it may tell the new name first.
    await dialog().waitFor({ state: 'hidden' });
  };
  await array.gantry('volume', 'create', 'fast/old', '--size', '64M');
  await array.gantry('snapshot', 'create', 'fast/old', 'kept');
  await visit('/volumes/fast/old', 'fast/old');
  await label('Labels', 'env=production\nnote=a=b\n');
  await page.getByText('env=production, note=a=b').waitFor();
  await label('Labels of snapshot kept', 'keep=yes');
  await page.getByText('keep=yes').waitFor();
  // Two administrators: the second one is told, and nothing is lost.
  await button('Labels').click();
  const lines = dialog().getByLabel('Labels', { exact: true });
  await lines.fill('no label');
  await dialog().getByText("'no label' is no label").waitFor();
  assert.ok(await dialog().getByRole('button', { name: 'Set labels' }).isDisabled());
  await lines.fill('env=test');
  await array.gantry('volume', 'tag', 'fast/old', 'owner=ann');
  await dialog().getByRole('button', { name: 'Set labels' }).click();
  await dialog().getByRole('alert').waitFor();
  await page.keyboard.press('Escape');
  forget(/^412 /);
  assert.deepEqual((await array.gantry('volume', 'show', 'fast/old')).tags, { owner: 'ann' });
  await rename('Rename snapshot kept', 'kept-2');
  await button('Rename snapshot kept-2').waitFor();
  await rename('Rename', 'new');
  await heading('fast/new').waitFor();
  await page.getByText('owner=ann').waitFor();
  await visit('/pools/fast', 'fast');
  await label('Labels', 'tier=1');
  await page.getByText('tier=1').waitFor();
  await array.gantry('group', 'set', 'cluster', '--host', 'esx9');
  await visit('/hosts', 'Hosts');
  await label('Labels of group cluster', 'site=north');
  await page.getByRole('row').filter({ hasText: 'cluster' }).getByText('site=north').waitFor();
  await visit('/hosts/esx9', 'esx9');
  await label('Labels', 'rack=7');
  await page.getByText('rack=7').waitFor();
  await array.gantry('group', 'delete', 'cluster');
  await array.gantry('snapshot', 'delete', 'fast/kept-2', '--yes');
  await array.gantry('volume', 'delete', 'fast/new');
});

test('primitives are turned off and on for a volume, a host and the array', async () => {
  const change = async (opener, name) => {
    await button(opener).click();
    assert.ok(await dialog().getByRole('button', { name: 'Change' }).isDisabled());
    await dialog().getByLabel(name).click();
    await dialog().getByRole('button', { name: 'Change' }).click();
    await dialog().waitFor({ state: 'hidden' });
  };
  const unmap = 'Unmap (Delete)';
  await visit('/volumes/fast/vm1', 'fast/vm1');
  await change('Primitives', unmap);
  await page.getByText('Unmap (Delete) off').waitFor();
  assert.equal((await array.gantry('volume', 'show', 'fast/vm1')).primitives.unmap, false);
  // Somebody else's change while the dialog is open stays.
  await button('Primitives').click();
  await array.gantry('volume', 'primitives', 'fast/vm1', '--off', 'write_same');
  await page.getByText('Write same (Block Zero), Unmap (Delete) off').waitFor();
  await dialog().getByLabel(unmap).click();
  await dialog().getByRole('button', { name: 'Change' }).click();
  await page.getByText('Write same (Block Zero) off').waitFor();
  await array.gantry('volume', 'primitives', 'fast/vm1', '--on', 'write_same');
  await visit('/hosts/esx9', 'esx9');
  await change('Primitives', 'Extended copy (Full Copy, ODX)');
  await page.getByText('Extended copy (Full Copy, ODX) off').waitFor();
  await change('Primitives', 'Extended copy (Full Copy, ODX)');
  await visit('/settings/primitives', 'Settings');
  await change('Change', unmap);
  await page.getByText('off', { exact: true }).waitFor();
  assert.equal((await array.gantry('target', 'primitives')).unmap, false);
  await change('Change', unmap);
  await page.getByText('off', { exact: true }).waitFor({ state: 'detached' });
  await visit('/events', 'Events');
  await page.getByText('extended_copy was turned off by admin').waitFor();
});

test('a mirror gets a spare, and a pool is imported without a member and under another name', async () => {
  const file = (name) => `file:${array.folder}/${name}.img`;
  await array.gantry(
    ...['pool', 'create', 'm', '--mirror', '2', file('m1'), file('m2'), '--size', '1G'],
  );
  await visit('/pools/m', 'm');
  await button('Add a spare').click();
  await dialog().getByLabel('Path').fill(`${array.folder}/s.img`);
  await dialog().getByLabel('Size').fill('1 GiB');
  await dialog().getByRole('button', { name: 'Add spare', exact: true }).click();
  await button(`Remove spare ${file('s')}`).click();
  assert.deepEqual((await array.gantry('pool', 'show', 'm')).spares, [file('s')]);
  await dialog().getByRole('button', { name: 'Remove spare', exact: true }).click();
  await button(`Remove spare ${file('s')}`).waitFor({ state: 'detached' });
  assert.deepEqual((await array.gantry('pool', 'show', 'm')).spares, []);

  // A page that shows a pool asks for it on and on.
  await visit('/pools', 'Pools');
  await array.gantry('pool', 'export', 'm');
  mkdirSync(`${array.folder}/found`);
  renameSync(`${array.folder}/m1.img`, `${array.folder}/found/m1.img`);
  await array.gantry('pool', 'create', 'm', file('other'), '--size', '1G');
  await button('Import pool').click();
  await field('Directory to look in').fill(`${array.folder}/found`);
  await button('Look').click();
  const found = dialog().getByRole('region', { name: 'What was found' });
  await found.getByText('Solved by: --rename NAME').waitFor();
  await found.getByText(/^missing: /).waitFor();
  assert.equal((await array.gantry('pool', 'list')).length, 2);
  await found.getByText(/it may have newer data/).waitFor();
  await field('Another name for it here').fill('mirrored');
  await field('Give up what only missing members of mirrors have').check();
  await found.waitFor({ state: 'detached' });
  await button('Look').click();
  await button('Import pool mirrored').click();
  await heading('mirrored').waitFor();
  await page.getByText('1 degraded').waitFor();
  await visit('/pools', 'Pools');
  await array.gantry('pool', 'delete', 'm');
  await array.gantry('pool', 'delete', 'mirrored');
});

test('a session is closed after a question, and not that of another initiator', async () => {
  const load = array
    .host('io', '--pattern', 'randread', '--seconds', '15', '--rate', '50', await array.lun(0))
    .catch(() => undefined);
  await visit('/sessions', 'Sessions');
  const row = page.getByRole('row').filter({ hasText: 'no host' });
  await row.first().waitFor();
  const [session] = await array.gantry('session', 'list');
  const close = page.getByRole('button', { name: `Close the session of ${session.initiator}` });
  await close.first().click();
  await dialog().getByText('It may log in again').waitFor();
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document));
  assert.deepEqual(
    violations.map((one) => one.id),
    [],
  );
  await dialog().getByRole('button', { name: 'Close session', exact: true }).click();
  await said('The session was closed');
  await array.until(async () => {
    const sessions = await array.gantry('session', 'list');
    return !sessions.some((one) => one.tsih === session.tsih && one.isid === session.isid);
  }, 'the session has ended');
  await load;
});

test('controllers are paired, a pool goes from one to the other and back, and one is forgotten', async () => {
  const { first, second } = await Daemon.two();
  const context = await browser.newContext({ locale: 'en-GB' });
  try {
    const page = await context.newPage();
    watch(page, first);
    const button = (name) => page.getByRole('button', { name, exact: true });
    const field = (name) => page.getByLabel(name, { exact: true });
    const confirm = (name) => page.getByRole('dialog').getByRole('button', { name }).click();
    const controller = (number) =>
      page.getByRole('table', { name: 'Controllers' }).getByRole('row').nth(number);
    const pool = page.getByRole('row').filter({ hasText: 'active-optimized' });
    const isServedBy = (number) =>
      pool.getByRole('cell').nth(number).getByText('active-optimized').waitFor();
    await page.goto(`${first.url}/controllers`);
    await field('User').fill('admin');
    await field('Password').fill(first.password);
    await button('Log in').click();
    await field('Password now').fill(first.password);
    await field('New password').fill(PASSWORD);
    await field('New password again').fill(PASSWORD);
    await button('Change password').click();
    await controller(2).getByText('Not paired').waitFor();

    await button('Pair').click();
    await confirm('Show a code');
    const code = await page.getByRole('dialog').locator('pre').innerText();
    await second.gantry('controller', 'join', code.trim());
    await confirm('Done');
    await controller(2).getByText('Heard').waitFor();

    await isServedBy(0);
    await pool.getByText('standby').waitFor();
    await button('Give pool p to another controller').click();
    await confirm('Give away');
    await isServedBy(1);
    assert.equal(await button('Give pool p to another controller').count(), 0);
    await second.gantry('controller', 'switch', 'p');
    await isServedBy(0);

    await button('Fail-back of pool p').click();
    await field('Controller that should have the pool (empty: any)').fill('1');
    await field('Give it back after seconds (empty: by hand)').fill('60');
    await confirm('Set');
    await pool.getByText('to 1 after 60 s').waitFor();

    await button('Begin maintenance').click();
    await confirm('Begin maintenance');
    await controller(1).getByText('Maintenance').waitFor();
    await isServedBy(1);
    await button('End maintenance').click();
    await confirm('End maintenance');
    await controller(1).getByText('Answers').waitFor();
    await isAccessible(page);

    await button('Forget controller 2').click();
    await confirm('Forget');
    await controller(2).getByText('Not paired').waitFor();
  } finally {
    await context.close();
    await second.stop();
    await first.stop();
  }
});

test('everything can be done with the keyboard', async () => {
  await visit('/', 'Overview');
  await page.evaluate(() => document.activeElement?.blur());
  const press = (key) => page.keyboard.press(key);
  const focused = () =>
    page.evaluate(
      () =>
        document.activeElement?.textContent?.trim() ||
        document.activeElement?.getAttribute('aria-label') ||
        '',
    );
  const tabTo = async (name) => {
    for (let steps = 0; steps < 60; steps += 1) {
      await press('Tab');
      if ((await focused()) === name) return;
    }
    assert.fail(`no way to ${name} with the Tab key`);
  };
  await tabTo('Volumes');
  await press('Enter');
  await heading('Volumes').waitFor();
  assert.equal(await focused(), 'Volumes', 'the heading of the new page has the focus');
  await tabTo('Create volume');
  await press('Enter');
  await dialog().waitFor();
  await press('Escape');
  await dialog().waitFor({ state: 'hidden' });
  assert.equal(await focused(), 'Create volume', 'the focus is back where it was');
  await press('Enter');
  await dialog().waitFor();
  await page.keyboard.press('Control+a');
  await page.keyboard.type('typed');
  await press('Tab');
  await page.keyboard.type('300 MiB');
  await press('Enter');
  await heading('fast/typed').waitFor();
});

const PLACES = [
  ['/', 'Overview'],
  ['/setup', 'Set-up'],
  ['/pools', 'Pools'],
  ['/pools/fast', 'fast'],
  ['/volumes', 'Volumes'],
  ['/volumes/fast/vm1', 'fast/vm1'],
  ['/volumes/fast/audit', 'fast/audit'],
  ['/hosts', 'Hosts'],
  ['/sessions', 'Sessions'],
  ['/offload', 'Offload'],
  ['/offload/ledger', 'Offload'],
  ['/offload/why', 'Offload'],
  ['/offload/locks', 'Offload'],
  ['/reclaim', 'Reclaim'],
  ['/events', 'Events'],
  ['/tasks', 'Tasks'],
  ['/controllers', 'Controllers'],
  ['/settings/users', 'Settings'],
  ['/settings/tokens', 'Settings'],
  ['/settings/portals', 'Settings'],
  ['/settings/primitives', 'Settings'],
  ['/settings/alerts', 'Settings'],
  ['/settings/schedules', 'Settings'],
  ['/settings/audit', 'Settings'],
  ['/settings/configuration', 'Settings'],
  ['/nowhere', 'There is no such page'],
];

/** What screen readers and keyboards need is there. */
async function isAccessible(opened) {
  if (!(await opened.evaluate(() => 'axe' in globalThis))) await opened.evaluate(axe);
  const { violations } = await opened.evaluate(() =>
    globalThis.axe.run(document, { resultTypes: ['violations'] }),
  );
  const told = violations.map(
    (one) => `${one.id}: ${one.nodes.map((node) => node.html).join(' ')}`,
  );
  assert.deepEqual(told, [], opened.url());
}

for (const [scheme, width] of [
  ['light', 1440],
  ['dark', 1440],
  ['light', 390],
  ['dark', 390],
]) {
  test(`every page is accessible and fits: ${scheme}, ${width} pixels`, async () => {
    await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
    await page.setViewportSize({ width, height: 900 });
    await page.goto(array.url);
    for (const [path, title] of PLACES) {
      await page.evaluate((to) => {
        history.pushState(null, '', to);
        dispatchEvent(new PopStateEvent('popstate'));
      }, path);
      await heading(title).waitFor();
      await page.locator('.waiting').first().waitFor({ state: 'detached' });
      await isAccessible(page);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${path} is ${wide} pixels too wide`);
    }
  });
}

test('an array that is silent is not called live, and nothing about it is in order', async () => {
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
  await page.setViewportSize({ width: 1440, height: 900 });
  await visit('/', 'Overview');
  const state = page.locator('.connected');
  await state.getByText('Live').waitFor();
  await page.locator('.health-word').waitFor();
  array.process.kill('SIGSTOP');
  try {
    await state.getByText('No answer', { exact: true }).waitFor({ timeout: 8_000 });
    await page.getByRole('alert').getByText('The array does not answer.').waitFor();
    await page.getByText('Unknown: the array does not answer').waitFor();
    assert.equal(await page.getByText('Everything is in order').count(), 0);
    await isAccessible(page);
  } finally {
    array.process.kill('SIGCONT');
  }
  await state.getByText('Live').waitFor();
  await page.getByRole('alert').waitFor({ state: 'detached' });
  assert.equal(await page.getByText('Unknown: the array does not answer').count(), 0);
});

test('a viewer is offered nothing that is refused', async () => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.evaluate(async (password) => {
    const me = await (await fetch('/v1/me')).json();
    const headers = { 'Content-Type': 'application/json', 'X-Gantry-Csrf': me.csrf };
    await fetch('/v1/users', {
      method: 'POST',
      headers,
      body: JSON.stringify({ name: 'eve', role: 'viewer', password }),
    });
  }, PASSWORD);
  // Logged out while answers are on their way: none of them is refused. The last test looks.
  await page.route('**/v1/volumes', async (route) => {
    await new Promise((resume) => setTimeout(resume, 300));
    await route.continue();
  });
  await page.getByRole('link', { name: 'Volumes', exact: true }).click();
  await button('Log out admin').click();
  await field('User').fill('eve');
  await field('Password').fill(PASSWORD);
  await page.unroute('**/v1/volumes');
  await button('Log in').click();
  await field('Password now').fill(PASSWORD);
  await field('New password').fill(`${PASSWORD} too`);
  await field('New password again').fill(`${PASSWORD} too`);
  await button('Change password').click();
  await page.getByRole('link', { name: 'Volumes', exact: true }).click();
  await page.getByRole('row').filter({ hasText: 'vm1' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Create volume' }).count(), 0);
  await visit('/volumes/fast/vm1', 'fast/vm1');
  await page.getByText('Snapshots and clones').waitFor();
  assert.equal(await page.getByRole('button', { name: /^(Labels|Rename|Primitives)/ }).count(), 0);
  await visit('/settings/primitives', 'Settings');
  await page.getByText('Extended copy (Full Copy, ODX)').waitFor();
  assert.equal(await button('Change').count(), 0);
  await visit('/settings/users', 'Settings');
  await page.getByText('This is for administrators').waitFor();
});

test('the browser had nothing to complain about, and asked nobody else', () => {
  assert.deepEqual(complaints, []);
});

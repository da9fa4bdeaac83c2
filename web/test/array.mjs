// A real daemon in a folder of its own, and hosts that use it.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const binaries = resolve(process.env.GANTRY_BIN_DIR ?? 'target/release');
const run = promisify(execFile);

async function freeAddress() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return `127.0.0.1:${port}`;
}

export class Daemon {
  static async start() {
    return new Daemon(await freeAddress()).started();
  }

  /** Two controllers of one array that are not paired; the first one has the pool 'p', of a file. */
  static async two() {
    const [first, second] = [new Daemon(await freeAddress()), new Daemon(await freeAddress())];
    const words = async (number, other) => [
      ...['--controller', `${number}`, '--peer-portal', `${3 - number}=${other.portal}`],
      ...['--link', await freeAddress()],
    ];
    await first.started(...(await words(1, second)));
    await first.gantry(
      'pool',
      'create',
      'p',
      '--device',
      `file:${first.folder}/p.img`,
      '--size',
      '1G',
    );
    mkdirSync(join(second.folder, 'data'));
    for (const name of readdirSync(join(first.folder, 'data')))
      if (name.endsWith('.json'))
        copyFileSync(join(first.folder, 'data', name), join(second.folder, 'data', name));
    await second.started(...(await words(2, first)));
    return { first, second };
  }

  constructor(portal) {
    this.folder = mkdtempSync(join(tmpdir(), 'gantry-web-'));
    this.portal = portal;
  }

  async started(...words) {
    this.http = await freeAddress();
    this.url = `http://${this.http}`;
    const options = [
      '--data',
      join(this.folder, 'data'),
      '--iscsi',
      this.portal,
      '--http',
      this.http,
      ...words,
    ];
    this.log = '';
    this.process = spawn(join(binaries, 'gantryd'), options, {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.process.stdout.on('data', (text) => (this.log += text));
    this.process.stderr.on('data', (text) => (this.log += text));
    await this.until(() => /ready/.test(this.log), 'the daemon is ready');
    this.password = /with the password (\S+)/.exec(this.log)?.[1];
    return this;
  }

  /** Waits for something, generously. */
  async until(condition, what) {
    for (let tries = 0; tries < 300; tries += 1) {
      if (await condition()) return;
      if (this.process.exitCode !== null) break;
      await new Promise((resume) => setTimeout(resume, 100));
    }
    throw new Error(`waited in vain until ${what}; the daemon's log:\n${this.log}`);
  }

  /** What the command line prints, as JSON. */
  async gantry(...words) {
    const { stdout } = await run(join(binaries, 'gantry'), [
      '--json',
      '--data',
      join(this.folder, 'data'),
      ...words,
    ]);
    return stdout === '' ? null : JSON.parse(stdout);
  }

  /** A LUN, as hosts name it. */
  async lun(number) {
    const { name } = await this.gantry('target', 'show');
    return `iscsi://${this.portal}/${name}/${number}`;
  }

  /** Lets a host do something. */
  async host(...words) {
    const folder = ['--state', join(this.folder, 'host')];
    return run(join(binaries, 'gantry-host'), [words[0], ...folder, ...words.slice(1)], {
      timeout: 60_000,
    });
  }

  async stop() {
    if (this.process.exitCode === null) {
      this.process.kill('SIGTERM');
      await once(this.process, 'exit');
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

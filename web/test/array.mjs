// A real daemon in a folder of its own, and hosts that use it.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

const binaries = resolve(process.env.GANTRY_BIN_DIR ?? 'target/release');
const run = promisify(execFile);

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

export class Daemon {
  static async start() {
    const array = new Daemon();
    array.folder = mkdtempSync(join(tmpdir(), 'gantry-web-'));
    array.portal = `127.0.0.1:${await freePort()}`;
    array.http = `127.0.0.1:${await freePort()}`;
    array.url = `http://${array.http}`;
    const options = [
      '--data',
      join(array.folder, 'data'),
      '--iscsi',
      array.portal,
      '--http',
      array.http,
    ];
    array.log = '';
    array.process = spawn(join(binaries, 'gantryd'), options, {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    array.process.stdout.on('data', (text) => (array.log += text));
    array.process.stderr.on('data', (text) => (array.log += text));
    await array.until(() => /ready/.test(array.log), 'the daemon is ready');
    array.password = /with the password (\S+)/.exec(array.log)?.[1];
    return array;
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

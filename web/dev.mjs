// Serves the page from its sources, rebuilt at every load, and hands /v1 to a running daemon:
// node dev.mjs [daemon's URL] [port]

import { readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { context } from 'esbuild';

const here = new URL('.', import.meta.url).pathname;
const daemon = new URL(process.argv[2] ?? 'http://127.0.0.1:8480');
const port = Number(process.argv[3] ?? 8481);

const bundles = await context({
  absWorkingDir: here,
  entryPoints: ['src/main.tsx', 'src/theme.ts', 'src/style/main.css'],
  entryNames: '[name]',
  bundle: true,
  format: 'esm',
  sourcemap: 'inline',
  jsx: 'automatic',
  jsxImportSource: 'preact',
  outdir: 'dev',
  write: false,
});

const types = { js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml', html: 'text/html' };

async function file(path) {
  if (path === '/icon.svg') return readFileSync(`${here}src/icon.svg`);
  const result = await bundles.rebuild();
  const built = result.outputFiles.find((output) => output.path.endsWith(`/dev${path}`));
  if (built) return Buffer.from(built.contents);
  const page = readFileSync(`${here}src/index.html`, 'utf8');
  const names = { theme: '/theme.js', gantry: '/main.js', style: '/main.css', icon: '/icon.svg' };
  return Buffer.from(page.replace(/\{(\w+)\}/g, (_, name) => names[name]));
}

function pass(from, to) {
  const headers = { ...from.headers, host: daemon.host };
  if (headers.origin) headers.origin = daemon.origin;
  const options = {
    host: daemon.hostname,
    port: daemon.port,
    method: from.method,
    path: from.url,
    headers,
  };
  const onward = request(options, (answer) => {
    to.writeHead(answer.statusCode, answer.headers);
    answer.pipe(to);
  });
  onward.on('error', (error) => to.writeHead(502).end(String(error)));
  to.on('close', () => onward.destroy());
  from.pipe(onward);
}

createServer(async (from, to) => {
  const path = new URL(from.url, 'http://localhost').pathname;
  if (path.startsWith('/v1/') || path === '/metrics') return pass(from, to);
  try {
    const bytes = await file(path);
    const type = types[path.split('.').pop()] ?? types.html;
    to.writeHead(200, { 'content-type': `${type}; charset=utf-8` }).end(bytes);
  } catch (error) {
    to.writeHead(500).end(String(error));
  }
}).listen(port, '127.0.0.1', () => console.log(`http://127.0.0.1:${port} → ${daemon.origin}`));

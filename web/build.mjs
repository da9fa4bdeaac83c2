// Builds web/dist from web/src. The same sources and packages always give the same bytes, which
// 'node build.mjs --compare' checks.
//
// web/dist is committed. So that the repository's history holds differences and not whole builds,
// files keep their names, and nothing is stored compressed: the daemon does that. What changes with
// the content is the address under which files.rs has the daemon serve a file.

import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';

const here = new URL('.', import.meta.url).pathname;
const dist = `${here}dist`;

/** All compressed script must stay below this. */
const SCRIPT_BYTES_MAX = 100_000;

const types = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  html: 'text/html; charset=utf-8',
};

async function bundle(entry, extension) {
  const result = await build({
    absWorkingDir: here,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: ['es2022', 'chrome123', 'firefox120', 'safari17.5'],
    jsx: 'automatic',
    jsxImportSource: 'preact',
    legalComments: 'none',
    charset: 'utf8',
    outdir: 'dist',
    logLevel: 'warning',
  });
  return Buffer.from(result.outputFiles.find((file) => file.path.endsWith(extension)).contents);
}

const hash = (bytes) => createHash('sha256').update(bytes).digest('hex').slice(0, 16);

/** Everything that the daemon serves: the name in web/dist, bytes, and the address. */
async function files() {
  const assets = {
    'assets/gantry.js': await bundle('src/main.tsx', '.js'),
    'assets/icon.svg': readFileSync(`${here}src/icon.svg`),
    'assets/style.css': await bundle('src/style/main.css', '.css'),
    'assets/theme.js': await bundle('src/theme.ts', '.js'),
  };
  const made = [];
  let page = readFileSync(`${here}src/index.html`, 'utf8');
  for (const [name, bytes] of Object.entries(assets)) {
    const [, word, extension] = /(\w+)\.(\w+)$/.exec(name);
    const address = `/assets/${word}-${hash(bytes)}.${extension}`;
    made.push({ name, bytes, address });
    page = page.replaceAll(`{${word}}`, address);
  }
  return [...made, { name: 'index.html', bytes: Buffer.from(page), address: '/index.html' }];
}

/** The list from which the daemon embeds the files. */
function list(made) {
  const row = ({ name, bytes, address }) => `    File {
        path: "${address}",
        content_type: "${types[name.split('.').pop()]}",
        etag: "W/\\"${hash(bytes)}\\"",
        identity: include_bytes!("${name}"),
        gzip: OnceLock::new(),
    },`;
  const rows = made.map(row).join('\n');
  return `// Written by 'cargo xtask web'.\nstatic FILES: [File; ${made.length}] = [\n${rows}\n];\n`;
}

function write(made) {
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(`${dist}/assets`, { recursive: true });
  let script = 0;
  for (const { name, bytes } of made) {
    const { length } = gzipSync(bytes, { level: 9 });
    writeFileSync(`${dist}/${name}`, bytes);
    if (name.endsWith('.js')) script += length;
    console.log(`${name}: ${bytes.length} bytes, gzip ${length}`);
  }
  writeFileSync(`${dist}/files.rs`, list(made));
  if (script >= SCRIPT_BYTES_MAX) throw new Error(`${script} bytes of compressed script: too many`);
  console.log(`script, gzip: ${script} bytes of at most ${SCRIPT_BYTES_MAX}`);
}

/** Fails unless web/dist is what the sources give. */
function compare(made) {
  const expected = new Map(made.map(({ name, bytes }) => [name, bytes]));
  expected.set('files.rs', Buffer.from(list(made)));
  const found = readdirSync(dist, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(dist.length + 1));
  const differs = (name) =>
    !found.includes(name) || !expected.get(name)?.equals(readFileSync(`${dist}/${name}`));
  const different = [...new Set([...expected.keys(), ...found])].filter(differs);
  if (different.length > 0) {
    const names = different.join(', ');
    console.error(`web/dist is not what web/src gives (${names}): run 'cargo xtask web'`);
    process.exit(1);
  }
  console.log('web/dist is what web/src gives');
}

const made = await files();
if (process.argv.includes('--compare')) compare(made);
else write(made);

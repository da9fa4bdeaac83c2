// Builds web/dist from web/src. The same sources and packages always give the same bytes, except
// for the compressed forms, which depend on node's compressors: 'node build.mjs --compare' looks at
// what they unpack to.
import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from 'node:zlib';

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

/** Everything that the daemon serves: path, bytes, and whether it never changes under that path. */
async function files() {
  const theme = await bundle('src/theme.ts', '.js');
  const script = await bundle('src/main.tsx', '.js');
  const style = await bundle('src/style/main.css', '.css');
  const icon = readFileSync(`${here}src/icon.svg`);
  const named = { theme: [theme, 'js'], gantry: [script, 'js'], style: [style, 'css'], icon: [icon, 'svg'] };
  const made = {};
  let page = readFileSync(`${here}src/index.html`, 'utf8');
  for (const [name, [bytes, extension]] of Object.entries(named)) {
    const path = `assets/${name}-${hash(bytes)}.${extension}`;
    made[path] = bytes;
    page = page.replaceAll(`{${name}}`, `/${path}`);
  }
  made['index.html'] = Buffer.from(page);
  return made;
}

function compressed(bytes) {
  const brotli = {
    [constants.BROTLI_PARAM_QUALITY]: 11,
    [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
  };
  return { br: brotliCompressSync(bytes, { params: brotli }), gz: gzipSync(bytes, { level: 9 }) };
}

/** The list from which the daemon embeds the files. */
function list(made) {
  const row = ([path, bytes]) => `    File {
        path: "/${path}",
        content_type: "${types[path.split('.').pop()]}",
        etag: "W/\\"${hash(bytes)}\\"",
        identity: include_bytes!("${path}"),
        gzip: include_bytes!("${path}.gz"),
        brotli: include_bytes!("${path}.br"),
    },`;
  const rows = Object.entries(made).sort(([a], [b]) => (a < b ? -1 : 1)).map(row).join('\n');
  return `// Written by 'cargo xtask web'.\n[\n${rows}\n]\n`;
}

function write(made) {
  rmSync(dist, { recursive: true, force: true });
  mkdirSync(`${dist}/assets`, { recursive: true });
  let script = 0;
  for (const [path, bytes] of Object.entries(made)) {
    const { br, gz } = compressed(bytes);
    writeFileSync(`${dist}/${path}`, bytes);
    writeFileSync(`${dist}/${path}.br`, br);
    writeFileSync(`${dist}/${path}.gz`, gz);
    if (path.endsWith('.js')) script += gz.length;
    console.log(`${path}: ${bytes.length} bytes, gzip ${gz.length}, brotli ${br.length}`);
  }
  writeFileSync(`${dist}/files.rs`, list(made));
  if (script >= SCRIPT_BYTES_MAX) throw new Error(`${script} bytes of compressed script: too many`);
  console.log(`script, gzip: ${script} bytes of at most ${SCRIPT_BYTES_MAX}`);
}

/** Fails unless web/dist is what the sources give. */
function compare(made) {
  const expected = { 'files.rs': Buffer.from(list(made)) };
  for (const [path, bytes] of Object.entries(made)) {
    Object.assign(expected, { [path]: bytes, [`${path}.br`]: bytes, [`${path}.gz`]: bytes });
  }
  const found = readdirSync(dist, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(dist.length + 1));
  const unpack = { br: brotliDecompressSync, gz: gunzipSync };
  const differs = (path) => {
    if (!found.includes(path) || !(path in expected)) return true;
    const bytes = readFileSync(`${dist}/${path}`);
    const plain = unpack[path.split('.').pop()]?.(bytes) ?? bytes;
    return !plain.equals(expected[path]);
  };
  const different = [...new Set([...Object.keys(expected), ...found])].filter(differs);
  if (different.length > 0) {
    console.error(`web/dist is not what web/src gives (${different.join(', ')}): run 'cargo xtask web'`);
    process.exit(1);
  }
  console.log('web/dist is what web/src gives');
}

const made = await files();
if (process.argv.includes('--compare')) compare(made);
else write(made);

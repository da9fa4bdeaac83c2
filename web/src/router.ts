// Real addresses without page loads.
import { Changes } from './data/changes';

const changes = new Changes();

/** Goes to another page; `replace` leaves no way back to this one. */
export function go(path: string, replace = false): void {
  if (replace) history.replaceState(null, '', path);
  else history.pushState(null, '', path);
  scrollTo(0, 0);
  changes.tell();
}

/** Sets one parameter of the address, or removes it, without a step in the history. */
export function setParameter(name: string, value: string): void {
  const url = new URL(location.href);
  if (value) url.searchParams.set(name, value);
  else url.searchParams.delete(name);
  history.replaceState(null, '', url);
  changes.tell();
}

/** The path of the address, and its parameters. */
export function useLocation(): { path: string; parameters: URLSearchParams } {
  changes.use();
  return { path: location.pathname, parameters: new URLSearchParams(location.search) };
}

/** Values of the `:names` in a pattern, if the path fits. */
export function match(pattern: string, path: string): Record<string, string> | null {
  const wanted = pattern.split('/');
  const found = path.replace(/\/+$/, '').split('/');
  if (wanted.length !== Math.max(found.length, pattern === '/' ? 2 : 1)) return null;
  const values: Record<string, string> = {};
  for (const [index, part] of wanted.entries()) {
    const actual = found[index] ?? '';
    if (part.startsWith(':')) values[part.slice(1)] = decode(actual);
    else if (part !== actual) return null;
  }
  return values;
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

addEventListener('popstate', () => changes.tell());

// Links within the page do not load it anew.
document.addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = (event.target as Element | null)?.closest?.('a');
  if (!link || link.target || link.hasAttribute('download')) return;
  if (link.origin !== location.origin || link.pathname.startsWith('/v1/') || link.hash) return;
  event.preventDefault();
  go(link.pathname + link.search);
});

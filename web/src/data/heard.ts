// Staleness: after three seconds without a word from the array, what the page shows counts as old.
import { Changes } from './changes';

/** Silence after which the array counts as not answering, in milliseconds. */
const SILENCE = 3000;
/** Silence after which the page asks for a sign of life, in milliseconds. */
const PATIENCE = 1000;

let last = Date.now();
/** Since when the page has been visible: a hidden page asks nothing, so its silence means nothing. */
let visible = last;
let silent = false;
const changes = new Changes();

const quiet = () => Date.now() - Math.max(last, visible);

/** The array has just answered, or said something by itself. */
export function heard(): void {
  last = Date.now();
  if (!silent) return;
  silent = false;
  changes.tell();
}

/** Whether it is time to ask for a sign of life. */
export function isQuiet(): boolean {
  return !document.hidden && quiet() > PATIENCE;
}

/** When the array was heard last, in milliseconds since 1970, if that is too long ago; else null. */
export function useSilence(): number | null {
  changes.use();
  return silent ? last : null;
}

document.addEventListener('visibilitychange', () => {
  if (!document.hidden) visible = Date.now();
});

setInterval(() => {
  if (silent || document.hidden || quiet() <= SILENCE) return;
  silent = true;
  changes.tell();
}, 250);

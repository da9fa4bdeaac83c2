// What the page knows of the array: each answer once, however many places show it, and fresh.
import { useLayoutEffect, useState } from 'preact/hooks';
import type { Problem } from './client';
import { ask, problemFrom } from './client';

/** An answer, or why there is none (yet). Old data stay while newer are on their way. */
export interface Resource<T> {
  data: T | undefined;
  problem: Problem | undefined;
  /** Asks again, now. */
  refresh: () => Promise<void>;
}

class Entry {
  data: unknown;
  problem: Problem | undefined;
  text = '';
  asked = 0;
  loaded = 0;
  readonly listeners = new Map<() => void, number>();
  private under: Promise<void> | null = null;
  private again = false;

  constructor(readonly path: string) {}

  /** Milliseconds after which those who watch want it again. */
  get period(): number {
    return Math.min(...this.listeners.values());
  }

  /** Waits for the answer that is on its way. */
  settled(): Promise<void> {
    this.again = false;
    return this.under ?? Promise.resolve();
  }

  load(): Promise<void> {
    if (paused) return Promise.resolve();
    if ([...leaving].some((path) => isBelow(this.path, path))) return Promise.resolve();
    if (this.under) {
      this.again = true;
      return this.under;
    }
    this.asked = Date.now();
    this.under = this.once().finally(() => {
      this.under = null;
      if (this.again) {
        this.again = false;
        void this.load();
      }
    });
    return this.under;
  }

  private async once(): Promise<void> {
    try {
      this.set(await ask<unknown>('GET', this.path));
    } catch (error) {
      const problem = problemFrom(error);
      if (this.problem?.detail === problem.detail && this.problem.status === problem.status) return;
      this.problem = problem;
      this.tell();
    }
  }

  set(data: unknown): void {
    const text = JSON.stringify(data);
    this.loaded = Date.now();
    if (text === this.text && !this.problem) return;
    this.text = text;
    this.data = data;
    this.problem = undefined;
    this.tell();
  }

  tell(): void {
    for (const listener of [...this.listeners.keys()]) listener();
  }
}

const entries = new Map<string, Entry>();

function entry(path: string): Entry {
  let found = entries.get(path);
  if (!found) {
    found = new Entry(path);
    entries.set(path, found);
  }
  return found;
}

/** How often something is asked for that changes by itself, in milliseconds. */
export const OFTEN = 3000;
/** How often something is asked for that people change. */
export const SELDOM = 10000;

/** Watches what a path answers; null watches nothing. */
export function useResource<T>(path: string | null, period: number = SELDOM): Resource<T> {
  const [, redraw] = useState(0);
  // Before anything else can happen: an answer that comes in between would not be drawn.
  useLayoutEffect(() => {
    if (path === null) return;
    const watched = entry(path);
    const listener = () => redraw((count) => count + 1);
    watched.listeners.set(listener, period);
    if (Date.now() - watched.asked > Math.min(period, 1000)) void watched.load();
    return () => void watched.listeners.delete(listener);
  }, [path, period]);
  const known = path === null ? undefined : entry(path);
  return {
    data: known?.data as T | undefined,
    problem: known?.problem,
    refresh: async () => known?.load(),
  };
}

/** Something was changed: asks again for everything on screen whose path begins with one of these. */
export async function refresh(...prefixes: string[]): Promise<void> {
  const wanted = [...entries.values()].filter((one) =>
    prefixes.some(
      (prefix) =>
        one.path === prefix ||
        one.path.startsWith(`${prefix}/`) ||
        one.path.startsWith(`${prefix}?`),
    ),
  );
  for (const one of wanted) if (one.listeners.size === 0) entries.delete(one.path);
  await Promise.all(wanted.filter((one) => one.listeners.size > 0).map((one) => one.load()));
}

const isBelow = (one: string, path: string) => one === path || one.startsWith(`${path}/`);

/** Paths of objects that are being deleted. */
const leaving = new Set<string>();

/** Deletes an object: from then on nothing below its path is asked for, unless it could not be
 * deleted. The daemon may tell of the change before it answers the request. */
export async function deleting(path: string, work: () => Promise<unknown>): Promise<void> {
  leaving.add(path);
  try {
    await Promise.all(
      [...entries.values()].filter((one) => isBelow(one.path, path)).map((one) => one.settled()),
    );
    await work();
    for (const one of [...entries.keys()]) if (isBelow(one, path)) entries.delete(one);
  } finally {
    leaving.delete(path);
  }
}

/** Whether nothing is asked for. */
let paused = false;
/** How long answers are waited for that are on their way, in milliseconds. */
const PAUSE_PATIENCE = 3000;

/** Asks for nothing any more, and waits for what is on its way. */
export async function pause(): Promise<void> {
  paused = true;
  const settled = Promise.all([...entries.values()].map((one) => one.settled()));
  const patience = new Promise((resolve) => setTimeout(resolve, PAUSE_PATIENCE));
  await Promise.race([settled, patience]);
}

/** Asks again. */
export function goOn(): void {
  paused = false;
}

/** Puts in what came without being asked for. */
export function put(path: string, data: unknown): void {
  entry(path).set(data);
}

/** Forgets everything, for another user. */
export function forget(): void {
  for (const one of entries.values()) {
    one.data = undefined;
    one.problem = undefined;
    one.text = '';
    one.asked = 0;
  }
}

/** Asks again for what is on screen and out of date. */
function tick(): void {
  if (document.hidden) return;
  const now = Date.now();
  for (const one of entries.values()) {
    if (one.listeners.size > 0 && now - one.asked >= one.period) void one.load();
  }
}

setInterval(tick, 500);
document.addEventListener('visibilitychange', tick);

// What happens now: by server-sent events, or by asking when there are none.

import type { Event as ArrayEvent, Live } from '../generated/api';
import { Changes } from './changes';
import { heard, isQuiet, useSilence } from './heard';
import { put, refresh, useResource } from './store';

const LIVE = '/v1/statistics/live';

/** How the page hears of changes: by the stream, by asking, not until it is connected again, or not
 * since the array fell silent. */
export type Connection = 'stream' | 'polling' | 'lost' | 'silent';

let connection: Connection = 'polling';
let source: EventSource | null = null;
const changes = new Changes();

function become(next: Connection): void {
  if (next === connection) return;
  connection = next;
  changes.tell();
}

let wanted = false;

/** Begins to listen. Where the daemon has no stream, everything is polled. */
export function listen(): void {
  wanted = true;
  open();
}

/** Ends listening. */
export function stop(): void {
  wanted = false;
  close();
}

// A browser opens few connections to one place, and hidden windows must not take them all.
document.addEventListener('visibilitychange', () => {
  if (document.hidden) close();
  else if (wanted) open();
});

function open(): void {
  close();
  if (document.hidden) return;
  const opened = new EventSource('/v1/stream');
  source = opened;
  opened.addEventListener('open', () => become('stream'));
  opened.addEventListener('live', (event) => {
    heard();
    put(LIVE, JSON.parse((event as MessageEvent<string>).data));
  });
  opened.addEventListener('events', () => {
    heard();
    void refresh('/v1/events');
  });
  opened.addEventListener('changed', (event) => {
    heard();
    const names = JSON.parse((event as MessageEvent<string>).data) as string[];
    void refresh(...names.map((name) => `/v1/${name}`));
  });
  opened.addEventListener('error', () => {
    // Closed: the daemon refused, which it does when it has no such route or forgot us.
    become(opened.readyState === EventSource.CLOSED ? 'polling' : 'lost');
  });
}

function close(): void {
  source?.close();
  source = null;
  become('polling');
}

/** How the page hears of changes, now. */
export function useConnection(): Connection {
  changes.use();
  return useSilence() === null ? connection : 'silent';
}

/** What is asked for a sign of life: the frame shows it on every page. */
export const TARGET = '/v1/target';

setInterval(() => {
  if (wanted && isQuiet()) void refresh(TARGET);
}, 500);

/** Rates of the last second. */
export function useLive(): Live | undefined {
  const period = useConnection() === 'stream' ? 3600_000 : 1500;
  return useResource<Live>(LIVE, period).data;
}

/** What happened, newest first. */
export function useEvents(): {
  events: ArrayEvent[] | undefined;
  problem: ReturnType<typeof useResource>['problem'];
} {
  const { data, problem } = useResource<ArrayEvent[]>('/v1/events', 5000);
  return { events: data && [...data].sort((a, b) => b.number - a.number), problem };
}

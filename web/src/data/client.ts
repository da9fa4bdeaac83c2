// Asks the daemon.
import type { Problem as Answered } from '../generated/api';
import { heard } from './heard';

/** What the page shows of a refusal. */
export type Problem = Pick<Answered, 'status' | 'title' | 'detail'>;

/** Why the daemon refused, or that it could not be reached (status 0). */
export class Refused extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
  }
}

/** How long a question may go without an answer, in milliseconds. A change may take long. */
const QUESTION_PATIENCE = 10_000;

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

let csrf: string | null = null;
let onUnauthorized: () => void = () => {};

/** The token that every change sends along when a cookie says who we are. */
export function setCsrf(token: string | null | undefined): void {
  csrf = token ?? null;
}

/** What happens when the daemon does not know us any more. */
export function setUnauthorized(handler: () => void): void {
  onUnauthorized = handler;
}

/** Sends a request; throws [`Refused`]. */
export async function ask<T>(
  method: Method,
  path: string,
  body?: unknown,
  ifMatch?: string | null,
): Promise<T> {
  return (await exchange<T>(method, path, body, ifMatch)).data;
}

/** An object with its version, which a change can name: it is refused then if somebody else changed
 * the object meanwhile. */
export function askWithVersion<T>(path: string): Promise<{ data: T; etag: string | null }> {
  return exchange<T>('GET', path);
}

/** Replaces an object by what `change` makes of it as it is now; refused if somebody else changes it
 * in between. */
export async function edit<T>(path: string, change: (now: T) => T): Promise<void> {
  const { data, etag } = await exchange<T>('GET', path);
  await exchange('PUT', path, change(data), etag);
}

async function exchange<T>(
  method: Method,
  path: string,
  body?: unknown,
  ifMatch?: string | null,
): Promise<{ data: T; etag: string | null }> {
  const headers: Record<string, string> = { Accept: 'application/json' };
  if (ifMatch) headers['If-Match'] = ifMatch;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (csrf && method !== 'GET') headers['X-Gantry-Csrf'] = csrf;
  if (method === 'POST')
    headers['Idempotency-Key'] = crypto.getRandomValues(new Uint32Array(4)).join('-');
  const signal = method === 'GET' ? AbortSignal.timeout(QUESTION_PATIENCE) : null;
  const answer = await send(path, {
    method,
    headers,
    signal,
    body: body === undefined ? null : JSON.stringify(body),
  });
  if (answer.status < 500) heard();
  if (answer.ok) return { data: (await parse(answer)) as T, etag: answer.headers.get('ETag') };
  const problem = await problemOf(answer);
  if (problem.status === 401 && path !== '/v1/login') onUnauthorized();
  throw new Refused(problem);
}

async function send(path: string, request: RequestInit): Promise<Response> {
  try {
    return await fetch(path, { ...request, cache: 'no-cache', credentials: 'same-origin' });
  } catch {
    throw noAnswer();
  }
}

function noAnswer(): Refused {
  const detail =
    'The daemon does not answer. The page tries again by itself; see whether gantryd runs.';
  return new Refused({ status: 0, title: 'No answer', detail });
}

async function parse(answer: Response): Promise<unknown> {
  const text = await answer.text().catch(() => {
    throw noAnswer();
  });
  return text === '' ? null : JSON.parse(text);
}

async function problemOf(answer: Response): Promise<Problem> {
  try {
    const problem = (await answer.json()) as Partial<Problem>;
    const { title = answer.statusText, detail = `The daemon answered ${answer.status}.` } = problem;
    return { status: answer.status, title, detail: sentence(detail) };
  } catch {
    return {
      status: answer.status,
      title: answer.statusText,
      detail: `The daemon answered ${answer.status}.`,
    };
  }
}

/** Problems begin in lower case and end without a stop, to fit behind others' words. */
function sentence(text: string): string {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : `${begun}.`;
}

/** What to tell a person about anything that was thrown. */
export function problemFrom(error: unknown): Problem {
  if (error instanceof Refused) return error.problem;
  return { status: -1, title: 'Something is wrong with this page', detail: String(error) };
}

/** A field that a form cannot be sent without. */
export function given<T>(value: T | null): T {
  if (value === null) throw new Error('a field is empty');
  return value;
}

/** Parts of a path, each of which may hold any character. */
export function path(...parts: string[]): string {
  return `/v1/${parts.map(encodeURIComponent).join('/')}`;
}

/** The path of a volume or snapshot that is named POOL/NAME. */
export function objectPath(kind: 'volumes' | 'snapshots', name: string, ...more: string[]): string {
  const [pool = '', own = ''] = name.split('/');
  return path(kind, pool, own, ...more);
}

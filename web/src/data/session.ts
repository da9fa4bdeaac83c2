// Who uses this page.

import type { ChangePassword, Login, Me, Role } from '../generated/api';
import { Changes } from './changes';
import { ask, problemFrom, setCsrf, setUnauthorized } from './client';
import { listen, stop } from './live';
import { forget, goOn, pause } from './store';

export type State =
  | { is: 'asking' }
  | { is: 'out' }
  | { is: 'unreachable'; detail: string }
  | { is: 'in'; me: Me };

let state: State = { is: 'asking' };
const changes = new Changes();

function become(next: State): void {
  state = next;
  if (next.is === 'in') setCsrf(next.me.csrf);
  if (next.is === 'in') goOn();
  if (next.is === 'in' && !next.me.must_change_password) listen();
  else stop();
  changes.tell();
}

/** A daemon without users lets everybody who reaches it do everything. */
const EVERYBODY: Me = { user: '', role: 'admin', csrf: null, must_change_password: false };

/** Asks the daemon who we are. */
export async function begin(): Promise<void> {
  setUnauthorized(() => {
    forget();
    become({ is: 'out' });
  });
  try {
    become({ is: 'in', me: await ask<Me>('GET', '/v1/me') });
  } catch (error) {
    const problem = problemFrom(error);
    if (problem.status === 404) become({ is: 'in', me: EVERYBODY });
    else if (problem.status === 401) become({ is: 'out' });
    else become({ is: 'unreachable', detail: problem.detail });
  }
}

export async function login(user: string, password: string): Promise<void> {
  const me = await ask<Me>('POST', '/v1/login', { user, password } satisfies Login);
  forget();
  become({ is: 'in', me });
}

/** Ends the session, after what is being asked was answered: a question that came after the end would
 * be refused. */
export async function logout(): Promise<void> {
  stop();
  await pause();
  await ask('POST', '/v1/logout').catch(() => undefined);
  forget();
  become({ is: 'out' });
}

/** Changes the own password; afterwards everything is allowed that the role allows. */
export async function changePassword(old: string, fresh: string): Promise<void> {
  await ask('PUT', '/v1/me/password', { old, new: fresh } satisfies ChangePassword);
  await begin();
}

export function useSession(): State {
  changes.use();
  return state;
}

const RANK: Record<Role, number> = { viewer: 0, operator: 1, admin: 2 };

/** Whether the user may do what needs a role. */
export function may(role: Role): boolean {
  return state.is === 'in' && RANK[state.me.role] >= RANK[role];
}

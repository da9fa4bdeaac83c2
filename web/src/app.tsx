// The frame around every page: who is using it, where one can go, and what is shown.
import type { ComponentChild } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useSilence } from './data/heard';
import { TARGET, useConnection } from './data/live';
import { begin, logout, useSession } from './data/session';
import { useResource } from './data/store';
import type { Me, Target } from './generated/api';
import { ControllersPage } from './pages/controllers';
import { EventsPage } from './pages/events';
import { HostPage } from './pages/host';
import { HostsPage } from './pages/hosts';
import { LoginPage, NewPasswordPage } from './pages/login';
import { OffloadPage } from './pages/offload';
import { OverviewPage } from './pages/overview';
import { PoolPage } from './pages/pool';
import { PoolsPage } from './pages/pools';
import { ReclaimPage } from './pages/reclaim';
import { SessionsPage } from './pages/sessions';
import { SettingsPage } from './pages/settings';
import { SetupPage } from './pages/setup';
import { TasksPage } from './pages/tasks';
import { VolumePage } from './pages/volume';
import { VolumesPage } from './pages/volumes';
import { match, useLocation } from './router';
import { Button, ButtonLink, Empty, Page } from './ui/basic';
import type { IconName } from './ui/icons';
import { Icon, Logo } from './ui/icons';
import { Toasts } from './ui/toast';
import { exact } from './units';

type Values = Record<string, string>;

const PAGES: [string, (values: Values) => ComponentChild][] = [
  ['/', () => <OverviewPage />],
  ['/setup', () => <SetupPage />],
  ['/pools', () => <PoolsPage />],
  ['/pools/:pool', ({ pool }) => <PoolPage key={pool} name={pool!} />],
  ['/volumes', () => <VolumesPage />],
  [
    '/volumes/:pool/:volume',
    ({ pool, volume }) => <VolumePage key={`${pool}/${volume}`} pool={pool!} name={volume!} />,
  ],
  ['/hosts', () => <HostsPage />],
  ['/hosts/:host', ({ host }) => <HostPage key={host} name={host!} />],
  ['/sessions', () => <SessionsPage />],
  ['/offload', () => <OffloadPage tab="rates" />],
  ['/offload/:tab', ({ tab }) => <OffloadPage tab={tab!} />],
  ['/reclaim', () => <ReclaimPage />],
  ['/events', () => <EventsPage />],
  ['/tasks', () => <TasksPage />],
  ['/controllers', () => <ControllersPage />],
  ['/settings', () => <SettingsPage tab="users" />],
  ['/settings/:tab', ({ tab }) => <SettingsPage tab={tab!} />],
];

const PLACES: [string, [string, string, IconName][]][] = [
  ['', [['/', 'Overview', 'overview']]],
  [
    'Storage',
    [
      ['/pools', 'Pools', 'pool'],
      ['/volumes', 'Volumes', 'volume'],
      ['/reclaim', 'Reclaim', 'reclaim'],
    ],
  ],
  [
    'Access',
    [
      ['/hosts', 'Hosts', 'host'],
      ['/sessions', 'Sessions', 'session'],
    ],
  ],
  [
    'Activity',
    [
      ['/offload', 'Offload', 'offload'],
      ['/events', 'Events', 'event'],
      ['/tasks', 'Tasks', 'task'],
    ],
  ],
  [
    'System',
    [
      ['/controllers', 'Controllers', 'link'],
      ['/settings', 'Settings', 'settings'],
    ],
  ],
];

export function App() {
  const session = useSession();
  if (session.is === 'asking') return <main class="alone" aria-busy="true" />;
  if (session.is === 'unreachable') return <Unreachable detail={session.detail} />;
  if (session.is === 'out') return <LoginPage />;
  if (session.me.must_change_password) return <NewPasswordPage user={session.me.user} />;
  return <Frame me={session.me} />;
}

function Unreachable({ detail }: { detail: string }) {
  useEffect(() => {
    const timer = setInterval(() => void begin(), 3000);
    return () => clearInterval(timer);
  }, []);
  return (
    <main class="alone">
      <div class="login">
        <Empty
          icon="alert"
          title="The array does not answer"
          action={<Button onClick={() => void begin()}>Try again</Button>}
        >
          {detail}
        </Empty>
      </div>
    </main>
  );
}

function Frame({ me }: { me: Me }) {
  const { path } = useLocation();
  const [open, setOpen] = useState(false);
  const silent = useSilence() !== null;
  useEffect(() => setOpen(false), [path]);
  useEffect(() => {
    const close = (event: KeyboardEvent) => event.key === 'Escape' && setOpen(false);
    addEventListener('keydown', close);
    return () => removeEventListener('keydown', close);
  }, []);
  return (
    <div class={open ? 'frame open' : 'frame'}>
      {/* biome-ignore lint/a11y/useValidAnchor: without the click it is a link all the same. */}
      <a class="skip" href="#content" onClick={skip}>
        Skip to content
      </a>
      <header class="top">
        <button
          type="button"
          class="icon-button"
          aria-expanded={open}
          aria-controls="places"
          onClick={() => setOpen(!open)}
          aria-label="Menu"
        >
          <Icon name={open ? 'close' : 'menu'} />
        </button>
        <a class="brand" href="/" aria-label="Gantry, overview">
          <Logo />
          <span>Gantry</span>
        </a>
      </header>
      <aside class="side" id="places">
        <a class="brand" href="/" aria-label="Gantry, overview">
          <Logo />
          <span>Gantry</span>
        </a>
        <Places path={path} />
        <div class="side-foot">
          <Connected />
          <ThemeChoice />
          {me.user && <Who me={me} />}
        </div>
      </aside>
      {/* biome-ignore-start lint/a11y: Escape and the menu's button do the same by keyboard. */}
      <div class="shade" onClick={() => setOpen(false)} />
      {/* biome-ignore-end lint/a11y: see above. */}
      <main id="content" tabIndex={-1} class={silent ? 'stale' : undefined}>
        <Lost />
        {shown(path)}
      </main>
      <Toasts />
    </div>
  );
}

function skip(event: Event): void {
  event.preventDefault();
  document.getElementById('content')?.focus();
}

function shown(path: string): ComponentChild {
  for (const [pattern, page] of PAGES) {
    const values = match(pattern, path);
    if (values) return page(values);
  }
  return (
    <Page title="There is no such page">
      <Empty icon="search" title={path} action={<ButtonLink href="/">To the overview</ButtonLink>}>
        Perhaps something was renamed or deleted.
      </Empty>
    </Page>
  );
}

function Places({ path }: { path: string }) {
  const here = (href: string) =>
    href === '/' ? path === '/' : path === href || path.startsWith(`${href}/`);
  return (
    <nav aria-label="Main">
      {PLACES.map(([group, places]) => (
        <div class="places" key={group}>
          {group && (
            <p class="places-group" id={`group-${group}`}>
              {group}
            </p>
          )}
          <ul aria-labelledby={group ? `group-${group}` : undefined}>
            {places.map(([href, name, icon]) => (
              <li key={href}>
                <a href={href} aria-current={here(href) ? 'page' : undefined}>
                  <Icon name={icon} />
                  <span>{name}</span>
                </a>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </nav>
  );
}

const CONNECTED = {
  stream: 'Live',
  polling: 'Live, by polling',
  lost: 'Connecting again',
  silent: 'No answer',
};

function Connected() {
  const target = useResource<Target>(TARGET, 5000);
  const state = useConnection();
  return (
    <p class={`connected ${state}`} title={target.data?.name}>
      <i />
      <span>{CONNECTED[state]}</span>
    </p>
  );
}

function Lost() {
  const since = useSilence();
  if (since === null) return null;
  return (
    <div class="lost" role="alert">
      <Icon name="alert" /> The array does not answer. What you see is from {exact(since / 1000)}.
    </div>
  );
}

type Theme = 'auto' | 'light' | 'dark';
const NEXT: Record<Theme, Theme> = { auto: 'light', light: 'dark', dark: 'auto' };
const THEME_ICON: Record<Theme, IconName> = { auto: 'auto', light: 'sun', dark: 'moon' };

function ThemeChoice() {
  const [theme, set] = useState<Theme>(
    (document.documentElement.dataset.theme as Theme | undefined) ?? 'auto',
  );
  const change = () => {
    const next = NEXT[theme];
    set(next);
    if (next === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem('gantry-theme', next);
    } catch {
      // The choice then lasts as long as the page.
    }
  };
  return (
    <button
      type="button"
      class="side-button"
      onClick={change}
      aria-label={`Theme: ${theme}. Change to ${NEXT[theme]}`}
    >
      <Icon name={THEME_ICON[theme]} />
      <span>Theme: {theme}</span>
    </button>
  );
}

function Who({ me }: { me: Me }) {
  return (
    <button
      type="button"
      class="side-button"
      onClick={() => void logout()}
      aria-label={`Log out ${me.user}`}
    >
      <Icon name="logout" />
      <span>
        Log out <b>{me.user}</b>
      </span>
    </button>
  );
}

// Line icons on a grid of 20.

const PATHS = {
  overview: 'M3 10.5 10 4l7 6.5M5 9v7h10V9M8.5 16v-4h3v4',
  pool: 'M3.5 5.5c0-1.4 2.9-2.5 6.5-2.5s6.5 1.1 6.5 2.5S13.6 8 10 8 3.5 6.9 3.5 5.5Zm0 0v9c0 1.4 2.9 2.5 6.5 2.5s6.5-1.1 6.5-2.5v-9M3.5 10c0 1.4 2.9 2.5 6.5 2.5s6.5-1.1 6.5-2.5',
  volume: 'M3 6.5 10 3l7 3.5v7L10 17l-7-3.5v-7ZM3 6.5l7 3.5 7-3.5M10 10v7',
  host: 'M4 3.5h12v5H4zM4 11.5h12v5H4zM7 6h.01M7 14h.01M10 6h3M10 14h3',
  session: 'M6 4 3 7l3 3M3 7h11M14 10l3 3-3 3M17 13H6',
  offload: 'M11 2.5 4.5 11.5H10L9 17.5l6.5-9H10l1-6Z',
  reclaim: 'M16 6.5A7 7 0 1 0 17 10M16.5 3v3.8h-3.8',
  event:
    'M10 3a4.5 4.5 0 0 0-4.5 4.5c0 4-1.5 5.5-1.5 5.5h12s-1.5-1.5-1.5-5.5A4.5 4.5 0 0 0 10 3ZM8.5 16a1.7 1.7 0 0 0 3 0',
  task: 'M4 5.5l1.5 1.5L8 4M4 13l1.5 1.5L8 11.5M11 6h6M11 13.5h6',
  settings: 'M3 6h8M15 6h2M3 14h2M9 14h8M13 4v4M7 12v4',
  plus: 'M10 4v12M4 10h12',
  check: 'm4 10.5 4 4 8-9',
  copy: 'M7 7h9.5v9.5H7zM4 13V3.5h9.5',
  close: 'm5 5 10 10M15 5 5 15',
  alert: 'M10 3 2.5 16.5h15L10 3ZM10 8v4M10 14.3v.01',
  info: 'M10 2.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15ZM10 9v5M10 6.2v.01',
  menu: 'M3 6h14M3 10h14M3 14h14',
  sun: 'M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7ZM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M4.3 15.7l1.1-1.1M14.6 5.4l1.1-1.1',
  moon: 'M16.5 11.8A6.8 6.8 0 0 1 8.2 3.5a6.8 6.8 0 1 0 8.3 8.3Z',
  auto: 'M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM10 3v14M10 6h4.5M10 10h7M10 14h4.5',
  logout: 'M8 4H4v12h4M12.5 6.5 16 10l-3.5 3.5M16 10H8',
  trash: 'M4 6h12M8 6V3.5h4V6M5.5 6l.8 10.5h7.4L14.5 6',
  snapshot: 'M3 6.5h3L7.5 4h5L14 6.5h3v9.5H3zM10 8.5a2.7 2.7 0 1 0 0 5.4 2.7 2.7 0 0 0 0-5.4Z',
  clone: 'M3.5 3.5h9v9h-9zM7.5 12.5v4h9v-9h-4',
  resize: 'M11 3.5h5.5V9M16.5 3.5 11 9M9 16.5H3.5V11M3.5 16.5 9 11',
  link: 'M8 12l4-4M9 5.5l1.5-1.5a3.5 3.5 0 0 1 5 5L14 10.5M11 14.5 9.5 16a3.5 3.5 0 0 1-5-5L6 9.5',
  revert: 'M4 8h8a4.5 4.5 0 0 1 0 9H7M4 8l3.5-3.5M4 8l3.5 3.5',
  lock: 'M5 9h10v8H5zM7 9V6.5a3 3 0 0 1 6 0V9',
  search: 'M9 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11ZM13 13l4 4',
  right: 'm8 5 5 5-5 5',
  user: 'M10 3.5a3.2 3.2 0 1 0 0 6.4 3.2 3.2 0 0 0 0-6.4ZM3.5 17c.5-3.5 3-5 6.5-5s6 1.5 6.5 5',
  up: 'm5 12 5-5 5 5',
  down: 'm5 8 5 5 5-5',
} as const;

export type IconName = keyof typeof PATHS;

/** Decoration: what it stands for is said in words beside it. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg
      class="icon"
      viewBox="0 0 20 20"
      width="18"
      height="18"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} />
    </svg>
  );
}

/** The sign of the house. */
export function Logo() {
  return (
    <svg
      class="logo"
      viewBox="0 0 32 32"
      width="28"
      height="28"
      aria-hidden="true"
      focusable="false"
    >
      <rect width="32" height="32" rx="7" />
      <path d="M6.5 25V9.5h19V25M16 9.5v4.2" />
      <rect class="load" x="11.2" y="14.6" width="9.6" height="7" rx="1.6" />
    </svg>
  );
}

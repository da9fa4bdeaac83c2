// Numbers as people read them.

const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** Three digits, as far as they mean something. */
function digits(value: number): string {
  if (value === 0) return '0';
  const places = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return Number(value.toFixed(places)).toString();
}

/** '1.5 GiB'. */
export function bytes(value: number): string {
  let unit = 0;
  let scaled = value;
  while (Math.abs(scaled) >= 1000 && unit < BINARY.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${digits(scaled)}\u00a0${BINARY[unit]}`;
}

/** '120 MiB/s'. */
export const rate = (value: number): string => `${bytes(value)}/s`;

/** '12.3 k': a count, or a rate of commands. */
export function count(value: number): string {
  if (Math.abs(value) >= 1e9) return `${digits(value / 1e9)}\u00a0G`;
  if (Math.abs(value) >= 1e6) return `${digits(value / 1e6)}\u00a0M`;
  if (Math.abs(value) >= 1e4) return `${digits(value / 1e3)}\u00a0k`;
  return value >= 100 || Number.isInteger(value) ? Math.round(value).toString() : digits(value);
}

/** Microseconds: '210 µs', '1.2 ms'. */
export function latency(us: number): string {
  if (us >= 1e6) return `${digits(us / 1e6)}\u00a0s`;
  if (us >= 1000) return `${digits(us / 1000)}\u00a0ms`;
  return `${Math.round(us)}\u00a0µs`;
}

/** '34 %'; never 0 or 100 for something that is not. */
export function percent(part: number, whole: number): string {
  if (whole <= 0) return '–';
  const exact = (100 * part) / whole;
  if (exact > 0 && exact < 1) return '<\u00a01\u00a0%';
  if (exact > 99 && exact < 100) return '>\u00a099\u00a0%';
  return `${Math.round(exact)}\u00a0%`;
}

/** '3 volumes', '1 volume'. */
export function plural(number: number, noun: string, many = `${noun}s`): string {
  return `${number}\u00a0${number === 1 ? noun : many}`;
}

/** Seconds as the two largest units: '2 d 4 h'. */
export function duration(seconds: number): string {
  const units: [number, string][] = [
    [86400, 'd'],
    [3600, 'h'],
    [60, 'min'],
    [1, 's'],
  ];
  const first = units.findIndex(([size]) => seconds >= size);
  if (first < 0) return '0 s';
  const [size, name] = units[first]!;
  const head = `${Math.floor(seconds / size)}\u00a0${name}`;
  const next = units[first + 1];
  const rest = next ? Math.floor((seconds % size) / next[0]) : 0;
  return next && rest > 0 && seconds / size < 10 ? `${head} ${rest}\u00a0${next[1]}` : head;
}

/** '5 min ago', 'in 2 h', 'now'; seconds since 1970. */
export function relative(time: number, now: number): string {
  const away = Math.abs(now - time);
  if (away < 5) return 'now';
  const units: [number, string][] = [
    [86400, 'd'],
    [3600, 'h'],
    [60, 'min'],
    [1, 's'],
  ];
  const [size, name] = units.find(([unit]) => away >= unit)!;
  const text = `${Math.floor(away / size)}\u00a0${name}`;
  return time > now ? `in ${text}` : `${text} ago`;
}

/** Date and time to the second, in the reader's zone. */
export function exact(time: number): string {
  const format: Intl.DateTimeFormatOptions = { dateStyle: 'medium', timeStyle: 'medium' };
  return new Date(time * 1000).toLocaleString(undefined, format);
}

const SUFFIX: Record<string, number> = {
  '': 1,
  b: 1,
  k: 2 ** 10,
  m: 2 ** 20,
  g: 2 ** 30,
  t: 2 ** 40,
  p: 2 ** 50,
};

/** Reads '500 GiB', '1.5T', '10g' as bytes; null if it is no size. A bare number means GiB. */
export function parseBytes(text: string): number | null {
  const found = /^\s*(\d+(?:[.,]\d+)?)\s*([kmgtpb]?)(?:i?b)?\s*$/i.exec(text);
  if (!found) return null;
  const number = Number(found[1]!.replace(',', '.'));
  const unit = found[2]!.toLowerCase() || 'g';
  const value = Math.round(number * SUFFIX[unit]!);
  return Number.isSafeInteger(value) ? value : null;
}

/** A size as the field for sizes takes it back: '1.5 GiB'. */
export function sizeText(value: number): string {
  for (const [index, unit] of [...BINARY.entries()].reverse()) {
    const scaled = value / 1024 ** index;
    if (scaled >= 1 && Number.isInteger(scaled * 100)) return `${scaled} ${unit}`;
  }
  return `${value} B`;
}

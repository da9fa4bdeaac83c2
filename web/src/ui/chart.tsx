// Charts over time, drawn by uPlot in the page's colours.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import type { Problem } from '../data/client';
import { useResource } from '../data/store';
import type { SeriesHistory, SeriesName } from '../generated/api';
import { bytes, rate } from '../units';
import { ProblemBox, Segmented } from './basic';

export interface Line {
  name: string;
  /** A custom property of the style sheet, for example --c1. */
  colour: string;
  /** Values from the columns of a history. */
  of: (columns: Record<string, number[]>) => (number | null)[] | undefined;
  /** Drawn as an area. */
  fill?: boolean;
  dash?: boolean;
}

/** Steps of the axis of time, in seconds; none is shorter than what its labels tell. */
const TIME_STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800];

/** Steps of an axis that are round in bytes: 1, 2, 5, …, 500 KiB and so on. */
const BYTE_STEPS = Array.from({ length: 6 }, (_, unit) =>
  [1, 2, 5, 10, 20, 50, 100, 200, 500].map((step) => step * 1024 ** unit),
).flat();

/** How far back, with names. */
export const RANGES: [number, string][] = [
  [300, '5 min'],
  [3600, '1 h'],
  [43200, '12 h'],
  [604800, '7 d'],
];

export function RangeChoice(props: { value: number; onChange: (seconds: number) => void }) {
  return (
    <Segmented label="Time range" value={props.value} options={RANGES} onChange={props.onChange} />
  );
}

/** Sum of columns; those that are not there count nothing. */
export function sum(...names: string[]) {
  return (columns: Record<string, number[]>): number[] | undefined => {
    const found = names.map((name) => columns[name]).filter((column) => column !== undefined);
    if (found.length === 0) return undefined;
    return found[0]!.map((_, index) =>
      found.reduce((total, column) => total + (column[index] ?? 0), 0),
    );
  };
}

/** A mean that says nothing where nothing happened. */
export function mean(name: string) {
  return (columns: Record<string, number[]>): (number | null)[] | undefined =>
    columns[name]?.map((value) => (value > 0 ? value : null));
}

/** The history of a series, once it has one. */
export function useHistory(series: string, seconds: number) {
  const known = useResource<SeriesName[]>('/v1/statistics/series', 5000).data?.some(
    (one) => one.series === series,
  );
  const period = seconds <= 300 ? 2000 : 10000;
  return useResource<SeriesHistory>(
    !known
      ? null
      : `/v1/statistics/history?series=${encodeURIComponent(series)}&seconds=${seconds}`,
    period,
  );
}

/** One history as lines, with a legend that says the latest values. */
export function HistoryChart(props: {
  title: string;
  series: string;
  seconds: number;
  lines: Line[];
  format: (value: number) => string;
  height?: number;
  top?: number;
}) {
  const history = useHistory(props.series, props.seconds);
  return <Chart {...props} history={history.data} problem={history.problem} />;
}

/** What is read, written and offloaded by the array, one of its hosts or one of its volumes. */
export function ThroughputChart(props: {
  of: string;
  series: string;
  seconds: number;
  height: number;
}) {
  return (
    <HistoryChart
      title={`Throughput of ${props.of}`}
      series={props.series}
      seconds={props.seconds}
      format={rate}
      top={1 << 20}
      height={props.height}
      lines={[
        { name: 'Read', colour: '--c1', of: sum('read_bytes'), fill: true },
        { name: 'Written', colour: '--c2', of: sum('write_bytes'), fill: true },
        {
          name: 'Offloaded',
          colour: '--c3',
          of: sum('extended_copy_bytes', 'write_same_bytes', 'token_bytes'),
        },
      ]}
    />
  );
}

interface ChartProperties {
  title: string;
  lines: Line[];
  format: (value: number) => string;
  height?: number;
  top?: number;
  seconds: number;
  history: SeriesHistory | undefined;
  problem?: Problem | undefined;
}

type Columns = [number[], ...(number | null)[][]];

function columnsOf(history: SeriesHistory | undefined, lines: Line[], seconds: number): Columns {
  const length = Object.values(history?.columns ?? {})[0]?.length ?? 0;
  if (!history || length === 0) {
    const now = Math.floor(Date.now() / 1000);
    return [[now - seconds, now], ...lines.map(() => [null, null])] as Columns;
  }
  const times = Array.from({ length }, (_, index) => history.start + index * history.step);
  return [times, ...lines.map((line) => line.of(history.columns) ?? times.map(() => 0))];
}

/** Lines over time. What they show is said in the legend too, and changes with the cursor. */
export function Chart(props: ChartProperties) {
  const room = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const theme = useTheme();
  const data = useMemo(
    () => columnsOf(props.history, props.lines, props.seconds),
    [props.history, props.seconds],
  );
  const height = props.height ?? 200;

  useEffect(() => {
    const element = room.current!;
    const made = new uPlot(
      options(props, element, height, setAt),
      data as uPlot.AlignedData,
      element,
    );
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [theme, height, props.lines.map((line) => line.name).join()]);

  useEffect(() => plot.current?.setData(data as uPlot.AlignedData), [data]);

  const index = at ?? data[0].length - 1;
  const values = props.lines.map((_, line) => data[line + 1]?.[index] ?? null);
  return (
    <figure class="chart">
      <ProblemBox problem={props.problem} />
      <div
        class="plot"
        ref={room}
        style={{ height: `${height}px` }}
        role="img"
        aria-label={`${props.title}: ${summary(props, data)}`}
      />
      <figcaption class="legend">
        {props.lines.map((line, place) => (
          <span key={line.name}>
            <i class={line.dash ? 'dash' : ''} style={{ '--swatch': `var(${line.colour})` }} />
            {line.name} <b>{values[place] === null ? '–' : props.format(values[place]!)}</b>
          </span>
        ))}
        <span class="legend-time">{at === null ? '' : clock(data[0][index]!)}</span>
      </figcaption>
    </figure>
  );
}

function summary(props: ChartProperties, data: Columns): string {
  return props.lines
    .map((line, place) => {
      const known = (data[place + 1] ?? []).filter((value) => value !== null);
      if (known.length === 0) return `${line.name}: nothing yet`;
      return `${line.name}: now ${props.format(known.at(-1)!)}, at most ${props.format(Math.max(...known))}`;
    })
    .join('; ');
}

const clock = (time: number) =>
  new Date(time * 1000).toLocaleTimeString(undefined, { timeStyle: 'medium' });

/** A colour of the style sheet as the browser has worked it out for the theme. */
function colour(element: Element, name: string): string {
  const probe = element.appendChild(document.createElement('i'));
  probe.style.color = `var(${name})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function options(
  props: ChartProperties,
  element: HTMLElement,
  height: number,
  onCursor: (index: number | null) => void,
): uPlot.Options {
  const faint = colour(element, '--text-faint');
  const grid = { stroke: colour(element, '--grid'), width: 1 };
  const axis = { stroke: faint, grid, ticks: { show: false }, font: '11px system-ui, sans-serif' };
  return {
    width: Math.max(element.clientWidth, 100),
    height,
    padding: [8, 16, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    scales: {
      x: { range: (_, __, last) => [last - props.seconds, last] },
      y: { range: (_, __, most) => [0, Math.max(most * 1.08, props.top ?? 0, 1)] },
    },
    axes: [
      {
        ...axis,
        space: 56,
        size: 26,
        gap: 4,
        incrs: TIME_STEPS,
        values: (_, ticks) => ticks.map((tick) => tickText(tick, props.seconds)),
      },
      {
        ...axis,
        size: 68,
        space: 36,
        gap: 6,
        ...(props.format === bytes || props.format === rate ? { incrs: BYTE_STEPS } : {}),
        values: (_, ticks) => ticks.map((tick) => props.format(tick)),
      },
    ],
    series: [{}, ...props.lines.map((line) => drawn(line, element))],
    hooks: { setCursor: [(chart) => onCursor(chart.cursor.idx ?? null)] },
  };
}

function drawn(line: Line, element: Element): uPlot.Series {
  const stroke = colour(element, line.colour);
  return {
    label: line.name,
    stroke,
    width: 1.75,
    points: { show: false },
    spanGaps: true,
    ...(line.fill ? { fill: `color-mix(in srgb, ${stroke} 14%, transparent)` } : {}),
    ...(line.dash ? { dash: [5, 4] } : {}),
  };
}

function tickText(time: number, seconds: number): string {
  const date = new Date(time * 1000);
  if (seconds > 86400)
    return date.toLocaleDateString(undefined, { weekday: 'short', day: 'numeric' });
  return date.toLocaleTimeString(undefined, { hour: '2-digit', minute: '2-digit', hour12: false });
}

/** Changes whenever the page's colours do. */
function useTheme(): string {
  const read = () =>
    `${document.documentElement.dataset.theme ?? ''}${matchMedia('(prefers-color-scheme: dark)').matches}`;
  const [theme, set] = useState(read);
  useEffect(() => {
    const changed = () => set(read());
    const media = matchMedia('(prefers-color-scheme: dark)');
    const watch = new MutationObserver(changed);
    media.addEventListener('change', changed);
    watch.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => {
      media.removeEventListener('change', changed);
      watch.disconnect();
    };
  }, []);
  return theme;
}

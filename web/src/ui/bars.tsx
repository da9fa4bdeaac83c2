// Where space went, as bars.
import type { ComponentChildren } from 'preact';
import type { Space, Thresholds } from '../generated/api';
import { bytes, percent } from '../units';

export interface Part {
  name: string;
  value: number;
  colour: string;
  hint?: string;
}

/** Parts of a whole, with a legend. */
export function PartsBar(props: {
  label: string;
  parts: Part[];
  marks?: { at: number; name: string }[];
  note?: ComponentChildren;
}) {
  const total = props.parts.reduce((sum, part) => sum + part.value, 0);
  const text = props.parts.map((part) => `${part.name} ${bytes(part.value)}`).join(', ');
  return (
    <div class="parts">
      <div class="parts-bar" role="img" aria-label={`${props.label}: ${text}`}>
        {props.parts.map((part) => (
          <span
            key={part.name}
            title={`${part.name}: ${bytes(part.value)}`}
            style={{
              '--swatch': `var(${part.colour})`,
              flexGrow: total > 0 ? part.value / total : 0,
            }}
            class={part.value > 0 ? '' : 'none'}
          />
        ))}
        {props.marks?.map((mark) => (
          <i key={mark.name} class="mark" style={{ left: `${mark.at}%` }} title={mark.name} />
        ))}
      </div>
      <ul class="parts-legend">
        {props.parts.map((part) => (
          <li key={part.name} title={part.hint}>
            <i style={{ '--swatch': `var(${part.colour})` }} />
            <span>{part.name}</span> <b>{bytes(part.value)}</b>
          </li>
        ))}
        {props.note}
      </ul>
    </div>
  );
}

/** The parts of a pool's space; they add up to all of it. */
export function spaceParts(space: Space): Part[] {
  const promised = Math.min(space.promised_bytes, space.free_bytes);
  return [
    {
      name: 'Data',
      value: space.data_bytes,
      colour: '--c-used',
      hint: 'What volumes and snapshots hold',
    },
    { name: 'Map', value: space.metadata_bytes, colour: '--c-map', hint: 'Where which block lies' },
    {
      name: 'Pending',
      value: space.pending_bytes,
      colour: '--c-pending',
      hint: 'Freed; usable after the next checkpoint',
    },
    {
      name: 'Reserve',
      value: space.reserve_bytes,
      colour: '--c-reserve',
      hint: 'Kept back so that UNMAP and delete always work, and hosts can lock and change the metadata of their file systems',
    },
    {
      name: 'Without space below',
      value: space.unbacked_bytes,
      colour: '--c-unbacked',
      hint: 'Not in use, but the file system under the pool has no space for it',
    },
    {
      name: 'Promised',
      value: promised,
      colour: '--c-promised',
      hint: 'Free, but set aside for thick volumes',
    },
    { name: 'Free', value: space.free_bytes - promised, colour: '--c-free', hint: 'For new data' },
  ];
}

export function SpaceBar({
  space,
  thresholds,
  label,
}: {
  space: Space;
  thresholds?: Thresholds;
  label: string;
}) {
  const unusable = space.reserve_bytes + space.unbacked_bytes;
  const usable = space.total_bytes > 0 ? 1 - unusable / space.total_bytes : 1;
  const marks = thresholds && [
    { at: thresholds.soft_percent * usable, name: `Soft threshold, ${thresholds.soft_percent} %` },
    { at: thresholds.hard_percent * usable, name: `Hard threshold, ${thresholds.hard_percent} %` },
  ];
  const saved = (
    <li class="saved" title="What volumes and snapshots map, less the data that there is">
      <span>Saved by sharing</span> <b>{bytes(space.shared_bytes)}</b>
    </li>
  );
  return <PartsBar label={label} parts={spaceParts(space)} marks={marks ?? []} note={saved} />;
}

/** How much of a whole, as a small bar with a number. */
export function Meter(props: {
  value: number;
  whole: number;
  label: string;
  tone?: 'good' | 'warn' | 'bad';
  text?: string;
}) {
  const share = props.whole > 0 ? Math.min(1, props.value / props.whole) : 0;
  return (
    <span class="meter-room">
      <span
        class={`meter ${props.tone ?? 'good'}`}
        role="img"
        aria-label={`${props.label}: ${percent(props.value, props.whole)}`}
      >
        <span style={{ width: `${100 * share}%` }} />
      </span>
      <span class="meter-text">{props.text ?? percent(props.value, props.whole)}</span>
    </span>
  );
}

// How the array does, at a glance.
import { useState } from 'preact/hooks';
import { useSilence } from '../data/heard';
import { TARGET, useEvents, useLive } from '../data/live';
import { bytesOf, commandsOf, latencyOf, offloadShare } from '../data/rates';
import { OFTEN, useResource } from '../data/store';
import type {
  Finding,
  Forecast,
  OffloadLedger,
  Pool,
  Session,
  Target,
  Volume,
} from '../generated/api';
import { SpaceBar } from '../ui/bars';
import { Badge, ButtonLink, Card, Empty, FillBadge, Page, StateBadge, Waiting } from '../ui/basic';
import { RangeChoice, ThroughputChart } from '../ui/chart';
import { Icon } from '../ui/icons';
import { bytes, count, duration, exact, latency, percent, plural, rate } from '../units';
import { EventList } from './events';

export function OverviewPage() {
  const pools = useResource<Pool[]>('/v1/pools', OFTEN);
  if (pools.data?.length === 0) return <Welcome />;
  return (
    <Page title="Overview">
      <Health pools={pools.data} />
      <div class="grid two">
        <Throughput />
        <OffloadShare />
      </div>
      <Capacity pools={pools.data} />
      <Latest />
    </Page>
  );
}

function Welcome() {
  return (
    <Page title="Overview">
      <Card title="Welcome">
        <Empty
          icon="pool"
          title="This array has no space yet"
          action={
            <ButtonLink href="/setup" kind="primary">
              Begin the set-up
            </ButtonLink>
          }
        >
          Four short steps lead to a volume that a host can use: a pool, a volume, a host, and what
          to type there.
        </Empty>
      </Card>
    </Page>
  );
}

type Trouble = { tone: 'warn' | 'bad'; text: string; href: string };

function troubles(
  pools: Pool[],
  findings: Finding[],
  volumes: Volume[],
  unsavedSince: number | null,
): Trouble[] {
  const found: Trouble[] = [];
  if (unsavedSince !== null)
    found.push({
      tone: 'bad',
      href: '/events',
      text: `Changes cannot be saved since ${exact(unsavedSince)}: the data directory is full, damaged or does not answer`,
    });
  for (const pool of pools) {
    const href = `/pools/${pool.name}`;
    if (pool.state !== 'ready')
      found.push({
        tone: 'bad',
        href,
        text: `Pool ${pool.name} is ${pool.state}${pool.reason ? `: ${pool.reason}` : ''}${pool.journal_loss ? ` (found ${exact(pool.journal_loss.since)})` : ''}`,
      });
    if (pool.backing_state === 'full')
      found.push({
        tone: 'bad',
        href,
        text: `Pool ${pool.name} refuses new data: ${pool.backing_message}`,
      });
    if (pool.fill === 'hard')
      found.push({
        tone: 'bad',
        href,
        text: `Pool ${pool.name} is at ${pool.space?.used_percent} %, above its hard threshold`,
      });
    if (pool.fill === 'soft')
      found.push({
        tone: 'warn',
        href,
        text: `Pool ${pool.name} is at ${pool.space?.used_percent} %, above its soft threshold`,
      });
  }
  for (const volume of volumes) {
    if (volume.fill !== 'normal')
      found.push({
        tone: volume.fill === 'hard' ? 'bad' : 'warn',
        href: `/volumes/${volume.pool}/${volume.name}`,
        text: `Volume ${volume.pool}/${volume.name} is above its ${volume.fill} threshold`,
      });
  }
  const fresh = findings.filter((finding) => finding.last > Date.now() / 1000 - 3600);
  if (fresh.length > 0)
    found.push({
      tone: 'warn',
      href: '/offload/why',
      text: `${plural(fresh.length, 'finding')} in the last hour: hosts did work that the array could have done, or were refused`,
    });
  return found;
}

function Health({ pools }: { pools: Pool[] | undefined }) {
  const findings = useResource<Finding[]>('/v1/offload/explain').data;
  const volumes = useResource<Volume[]>('/v1/volumes', OFTEN).data;
  const sessions = useResource<Session[]>('/v1/sessions', OFTEN).data;
  const silent = useSilence() !== null;
  const unsavedSince = useResource<Target>(TARGET, 5000).data?.configuration_unsaved_since ?? null;
  if (!pools || !findings || !volumes)
    return (
      <div class="card health">
        <Waiting lines={1} />
      </div>
    );
  const found = troubles(pools, findings, volumes, unsavedSince);
  const worst = silent
    ? 'unknown'
    : found.some((one) => one.tone === 'bad')
      ? 'bad'
      : found.length > 0
        ? 'warn'
        : 'good';
  const words = {
    good: 'Everything is in order',
    warn: 'Worth a look',
    bad: 'Needs attention',
    unknown: 'Unknown: the array does not answer',
  };
  return (
    <section class={`card health ${worst}`} aria-label="Health">
      <div class="health-head">
        <span class="health-sign">
          <Icon name={worst === 'good' ? 'check' : 'alert'} />
        </span>
        <div>
          <p class="health-word">{words[worst]}</p>
          <p class="faint">
            <a href="/pools">{plural(pools.length, 'pool')}</a> ·{' '}
            <a href="/volumes">{plural(volumes.length, 'volume')}</a> ·{' '}
            <a href="/sessions">{plural(sessions?.length ?? 0, 'session')}</a>
          </p>
        </div>
      </div>
      {found.length > 0 && (
        <ul class="troubles">
          {found.slice(0, 5).map((one) => (
            <li key={one.text}>
              <Badge tone={one.tone}>{one.tone === 'bad' ? 'Error' : 'Warning'}</Badge>{' '}
              <a href={one.href}>{one.text}</a>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

function Throughput() {
  const [seconds, setSeconds] = useState(300);
  const live = useLive();
  const delay = live && latencyOf(live.total);
  return (
    <Card title="Throughput" actions={<RangeChoice value={seconds} onChange={setSeconds} />}>
      <div class="figures">
        <Figure name="Host data" value={live ? rate(bytesOf(live.total, 'read', 'write')) : '–'} />
        <Figure
          name="Offloaded"
          value={live ? rate(bytesOf(live.total, 'extended_copy', 'write_same', 'token')) : '–'}
        />
        <Figure name="Commands" value={live ? `${count(commandsOf(live.total))}/s` : '–'} />
        <Figure name="Latency" value={delay ? latency(delay) : '–'} />
      </div>
      <ThroughputChart of="the array" series="total" seconds={seconds} height={170} />
    </Card>
  );
}

export function Figure(props: { name: string; value: string; hint?: string }) {
  return (
    <div class="figure" title={props.hint}>
      <span class="figure-name">{props.name}</span>
      <span class="figure-value">{props.value}</span>
    </div>
  );
}

function OffloadShare() {
  const ledger = useResource<OffloadLedger>('/v1/offload', OFTEN);
  const findings = useResource<Finding[]>('/v1/offload/explain').data;
  const share = offloadShare(ledger.data?.rows ?? []);
  const work = share.offloaded + share.byHosts;
  return (
    <Card
      title="Offload"
      actions={
        <a class="more" href="/offload">
          Details
          <Icon name="right" />
        </a>
      }
    >
      {!ledger.data ? (
        <Waiting lines={5} />
      ) : work === 0 ? (
        <Empty icon="offload" title="No host has cloned or zeroed anything yet">
          The moment one does, its share of work done by the array is shown here.
        </Empty>
      ) : (
        <>
          <div class="share">
            <Ring part={share.offloaded} whole={work} />
            <dl class="share-facts">
              <div>
                <dt>
                  <i style={{ '--swatch': 'var(--c3)' }} />
                  Cloned by the array
                </dt>
                <dd>{bytes(share.cloned)}</dd>
              </div>
              <div>
                <dt>
                  <i style={{ '--swatch': 'var(--c4)' }} />
                  Zeroed by the array
                </dt>
                <dd>{bytes(share.zeroed)}</dd>
              </div>
              <div>
                <dt>
                  <i style={{ '--swatch': 'var(--c-bad)' }} />
                  Copied by hosts
                </dt>
                <dd>
                  {share.hostCopied > 0 ? '≈ ' : ''}
                  {bytes(share.hostCopied)}
                </dd>
              </div>
              <div>
                <dt>
                  <i style={{ '--swatch': 'var(--c-warn)' }} />
                  Zeroed by hosts
                </dt>
                <dd>{bytes(share.hostZeroed)}</dd>
              </div>
            </dl>
          </div>
          {findings && findings.length > 0 && (
            <p class="why-line">
              <Icon name="info" />
              <span>
                {findings[0]!.host}: {findings[0]!.reason}.{' '}
                <a href="/offload/why">Why, and what to do</a>
              </span>
            </p>
          )}
        </>
      )}
    </Card>
  );
}

const AROUND = 2 * Math.PI * 42;

function Ring({ part, whole }: { part: number; whole: number }) {
  const share = whole > 0 ? part / whole : 0;
  return (
    <svg
      class="ring"
      viewBox="0 0 100 100"
      width="132"
      height="132"
      role="img"
      aria-label={`${percent(part, whole)} of copying and zeroing was done by the array`}
    >
      <circle cx="50" cy="50" r="42" class="ring-rest" />
      <circle
        cx="50"
        cy="50"
        r="42"
        class="ring-part"
        stroke-dasharray={`${AROUND * share} ${AROUND}`}
        transform="rotate(-90 50 50)"
      />
      <text x="50" y="51">
        {percent(part, whole)}
      </text>
      <text x="50" y="65" class="ring-name">
        offloaded
      </text>
    </svg>
  );
}

const TEN_YEARS = 10 * 365 * 86400;

/** When a pool will be full, in words. */
export function ForecastText({ forecast }: { forecast: Forecast | undefined }) {
  if (!forecast || forecast.bytes_per_second == null)
    return <span class="faint">Too little is known for a forecast</span>;
  const left = forecast.seconds_until_full ?? Infinity;
  if (left > TEN_YEARS) return <span class="faint">Not filling up</span>;
  return (
    <span
      class={left < 7 * 86400 ? 'soon' : ''}
      title={`Grows by ${rate(forecast.bytes_per_second)}, as seen over ${duration(forecast.window_seconds ?? 0)}`}
    >
      Full in about <b>{duration(left)}</b>{' '}
      <span class="faint">at {rate(forecast.bytes_per_second)}</span>
    </span>
  );
}

function Capacity({ pools }: { pools: Pool[] | undefined }) {
  const forecasts = useResource<Forecast[]>('/v1/forecast').data;
  return (
    <Card
      title="Capacity"
      actions={
        <a class="more" href="/pools">
          Pools
          <Icon name="right" />
        </a>
      }
    >
      {!pools ? (
        <Waiting lines={3} />
      ) : (
        pools.map((pool) => (
          <div class="pool-row" key={pool.name}>
            <div class="pool-row-head">
              <a href={`/pools/${pool.name}`}>
                <b>{pool.name}</b>
              </a>
              {pool.state === 'ready' ? (
                <FillBadge fill={pool.fill} />
              ) : (
                <StateBadge state={pool.state} reason={pool.reason} />
              )}
              <span class="faint">
                {pool.space
                  ? `${bytes(pool.space.free_bytes)} free of ${bytes(pool.space.total_bytes)}`
                  : pool.reason}
              </span>
              <span class="push">
                <ForecastText forecast={forecasts?.find((one) => one.pool === pool.name)} />
              </span>
            </div>
            {pool.space && (
              <SpaceBar
                label={`Space of pool ${pool.name}`}
                space={pool.space}
                thresholds={pool.thresholds}
              />
            )}
          </div>
        ))
      )}
    </Card>
  );
}

function Latest() {
  const { events } = useEvents();
  return (
    <Card
      title="Latest events"
      actions={
        <a class="more" href="/events">
          All events
          <Icon name="right" />
        </a>
      }
    >
      {!events ? (
        <Waiting lines={3} />
      ) : events.length === 0 ? (
        <Empty icon="event" title="Nothing happened yet">
          Thresholds, scrubs and trouble with devices will appear here.
        </Empty>
      ) : (
        <EventList events={events.slice(0, 6)} />
      )}
    </Card>
  );
}

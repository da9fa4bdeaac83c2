// What hosts had the array do, what they did themselves, and why.
import { useState } from 'preact/hooks';
import { useLive } from '../data/live';
import type { Primitive } from '../data/rates';
import { FINDING_NAME, offloadShare, PRIMITIVES } from '../data/rates';
import { OFTEN, useResource } from '../data/store';
import type {
  Asked,
  Finding,
  LockMap,
  OffloadLedger,
  OffloadRow,
  SeriesName,
} from '../generated/api';
import { setParameter, useLocation } from '../router';
import { PartsBar } from '../ui/bars';
import { Badge, Card, Copyable, Empty, Facts, Loaded, Page, Tabs, Time } from '../ui/basic';
import { HistoryChart, mean, RangeChoice, sum } from '../ui/chart';
import { Dialog } from '../ui/form';
import { Icon } from '../ui/icons';
import { SearchBox } from '../ui/search';
import { Table } from '../ui/table';
import { bytes, count, latency, percent, rate } from '../units';
import { LockMaps } from './locks';

export function OffloadPage({ tab }: { tab: string }) {
  const findings = useResource<Finding[]>('/v1/offload/explain', OFTEN);
  const locks = useResource<LockMap[]>('/v1/locks', tab === 'locks' ? 1500 : 10000);
  const at = tab === 'rates' ? '/offload' : `/offload/${tab}`;
  return (
    <Page
      title="Offload"
      lead="Cloning, zeroing, deleting and locking that hosts hand to the array, and what they did themselves."
    >
      <Tabs
        label="Offload"
        at={at}
        tabs={[
          ['/offload', 'Rates'],
          ['/offload/ledger', 'Ledger'],
          ['/offload/why', 'Why not offloaded', findings.data?.length ?? 0],
          ['/offload/locks', 'Locks'],
        ]}
      />
      {tab === 'rates' && <RatesTab />}
      {tab === 'ledger' && <LedgerTab />}
      {tab === 'why' && <Loaded of={findings}>{(all) => <Findings findings={all} />}</Loaded>}
      {tab === 'locks' && <Loaded of={locks}>{(all) => <LockMaps maps={all} />}</Loaded>}
    </Page>
  );
}

const SHOWN: Primitive[] = [
  'read',
  'write',
  'extended_copy',
  'write_same',
  'unmap',
  'compare_and_write',
  'token',
];

function RatesTab() {
  const { parameters } = useLocation();
  const series = parameters.get('series') ?? 'total';
  const all = useResource<SeriesName[]>('/v1/statistics/series', 10000).data ?? [];
  const [seconds, setSeconds] = useState(300);
  const named = all.map((one) => one.series).filter((name) => !name.startsWith('pool:'));
  if (!named.includes(series)) named.unshift(series);
  return (
    <>
      <div class="filters">
        <label class="inline-field">
          <span>Of</span>
          <select
            value={series}
            onChange={(event) =>
              setParameter(
                'series',
                event.currentTarget.value === 'total' ? '' : event.currentTarget.value,
              )
            }
          >
            {named.map((name) => (
              <option key={name} value={name}>
                {name === 'total' ? 'the whole array' : name.replace(':', ' ')}
              </option>
            ))}
          </select>
        </label>
        <RangeChoice value={seconds} onChange={setSeconds} />
      </div>
      <div class="grid two">
        <Card title="Done by the array" hint="bytes of work per second, no data on the wire">
          <HistoryChart
            title="Offloaded work"
            series={series}
            seconds={seconds}
            format={rate}
            top={1 << 20}
            lines={[
              {
                name: 'Clone',
                colour: '--c3',
                of: sum('extended_copy_bytes', 'token_bytes'),
                fill: true,
              },
              { name: 'Zero', colour: '--c4', of: sum('write_same_bytes') },
              { name: 'Delete', colour: '--c5', of: sum('unmap_bytes') },
            ]}
          />
        </Card>
        <Card title="Host data" hint="bytes per second over the wire">
          <HistoryChart
            title="Host data"
            series={series}
            seconds={seconds}
            format={rate}
            top={1 << 20}
            lines={[
              { name: 'Read', colour: '--c1', of: sum('read_bytes'), fill: true },
              { name: 'Written', colour: '--c2', of: sum('write_bytes'), fill: true },
            ]}
          />
        </Card>
        <Card title="Commands" hint="per second">
          <HistoryChart
            title="Commands per second"
            series={series}
            seconds={seconds}
            format={count}
            top={10}
            lines={SHOWN.map((one) => ({
              name: PRIMITIVES[one].name,
              colour: PRIMITIVES[one].colour,
              of: sum(`${one}_commands`),
            }))}
          />
        </Card>
        <Card title="Latency" hint="mean per command">
          <HistoryChart
            title="Latency"
            series={series}
            seconds={seconds}
            format={latency}
            top={200}
            lines={SHOWN.filter((one) => one !== 'token').map((one) => ({
              name: PRIMITIVES[one].name,
              colour: PRIMITIVES[one].colour,
              of: mean(`${one}_latency_us`),
            }))}
          />
        </Card>
      </div>
      {series === 'total' && <NowTable />}
    </>
  );
}

function NowTable() {
  const live = useLive();
  const rows = live?.rows ?? [];
  const cell = (rates: (typeof rows)[number]['rates'], one: Primitive) =>
    rates[one] ? rate(rates[one]!.bytes) : null;
  return (
    <Card title="Now" hint="by host and LUN">
      <Table
        caption="Rates by host and LUN"
        rows={rows}
        id={(row) => `${row.host} ${row.volume}`}
        empty={<Empty icon="offload" title="No host does anything at the moment" />}
        columns={[
          { name: 'Host', head: true, sort: (row) => row.host, cell: (row) => row.host },
          {
            name: 'Volume',
            sort: (row) => row.volume,
            cell: (row) => (
              <>
                {row.volume}
                {row.lun != null && <span class="faint"> LUN {row.lun}</span>}
              </>
            ),
          },
          ...(['read', 'write', 'extended_copy', 'write_same', 'unmap'] as Primitive[]).map(
            (one) => ({
              name: PRIMITIVES[one].name,
              number: true,
              cell: (row: (typeof rows)[number]) => cell(row.rates, one),
            }),
          ),
          {
            name: 'Locks',
            number: true,
            cell: (row) =>
              row.rates.compare_and_write
                ? `${count(row.rates.compare_and_write.commands)}/s`
                : null,
          },
        ]}
      />
    </Card>
  );
}

function LedgerTab() {
  const ledger = useResource<OffloadLedger>('/v1/offload', OFTEN);
  const [shown, show] = useState<string | null>(null);
  const [search, setSearch] = useState('');
  const id = (row: OffloadRow) => `${row.host} ${row.volume}`;
  return (
    <Loaded of={ledger} lines={8}>
      {(data) => {
        const row = data.rows.find((one) => id(one) === shown);
        return (
          <>
            <Totals rows={data.rows} />
            <Card
              title="Ledger"
              hint={
                <>
                  by host and LUN, since <Time at={data.since} />
                </>
              }
              actions={
                data.rows.length > 8 && (
                  <SearchBox label="Filter by host or volume" value={search} onChange={setSearch} />
                )
              }
            >
              <Table
                caption="Offload ledger by host and LUN"
                rows={data.rows.filter((one) =>
                  id(one).toLowerCase().includes(search.toLowerCase()),
                )}
                id={id}
                empty={
                  <Empty icon="offload" title="No host has used a volume yet">
                    Every host and LUN that meet get a line here: bytes cloned, zeroed and deleted
                    by the array, and what was refused.
                  </Empty>
                }
                columns={[
                  {
                    name: 'Host',
                    head: true,
                    sort: (one) => one.host,
                    cell: (one) => <span class="breakable">{one.host}</span>,
                  },
                  {
                    name: 'Volume',
                    sort: (one) => one.volume,
                    cell: (one) => (
                      <>
                        {one.volume}
                        {one.lun != null && <span class="faint"> LUN {one.lun}</span>}
                      </>
                    ),
                  },
                  {
                    name: 'Cloned',
                    number: true,
                    sort: (one) => one.clone.done_bytes,
                    cell: (one) => done(one.clone),
                  },
                  {
                    name: 'By reference',
                    number: true,
                    sort: (one) => one.cloned_by_reference_bytes,
                    cell: (one) =>
                      one.clone.done_bytes > 0
                        ? percent(
                            one.cloned_by_reference_bytes,
                            one.cloned_by_reference_bytes + one.copied_bytes,
                          )
                        : null,
                  },
                  {
                    name: 'Zeroed',
                    number: true,
                    sort: (one) => one.zero.done_bytes,
                    cell: (one) => done(one.zero),
                  },
                  {
                    name: 'Deleted',
                    number: true,
                    sort: (one) => one.unmap.done_bytes,
                    cell: (one) => done(one.unmap),
                  },
                  {
                    name: 'Locks',
                    number: true,
                    sort: (one) => one.compare_and_write.commands,
                    cell: (one) =>
                      one.compare_and_write.commands > 0
                        ? count(one.compare_and_write.commands)
                        : null,
                  },
                  {
                    name: 'By the host',
                    number: true,
                    sort: (one) => one.host_copied_bytes + one.host_zeroed_bytes,
                    cell: (one) =>
                      one.host_copied_bytes + one.host_zeroed_bytes > 0 ? (
                        <span class="loss">
                          {one.host_copied_bytes > 0 ? '≈ ' : ''}
                          {bytes(one.host_copied_bytes + one.host_zeroed_bytes)}
                        </span>
                      ) : null,
                  },
                  {
                    name: 'Details',
                    silent: true,
                    cell: (one) => (
                      <button
                        type="button"
                        class="button plain small"
                        onClick={() => show(id(one))}
                        aria-label={`Details of ${one.host} on ${one.volume}`}
                      >
                        Details
                      </button>
                    ),
                  },
                ]}
              />
            </Card>
            {row && <RowDialog row={row} onClose={() => show(null)} />}
          </>
        );
      }}
    </Loaded>
  );
}

function done(asked: Asked) {
  if (asked.commands === 0) return null;
  return (
    <span title={`${count(asked.commands)} commands, ${bytes(asked.asked_bytes)} asked`}>
      {bytes(asked.done_bytes)}
      {asked.refused > 0 && (
        <>
          {' '}
          <Badge tone="warn">{count(asked.refused)} refused</Badge>
        </>
      )}
    </span>
  );
}

function Totals({ rows }: { rows: OffloadRow[] }) {
  const share = offloadShare(rows);
  if (share.offloaded + share.byHosts === 0) return null;
  return (
    <Card
      title="Copying and zeroing"
      hint={`${percent(share.offloaded, share.offloaded + share.byHosts)} done by the array`}
    >
      <PartsBar
        label="Copying and zeroing"
        parts={[
          { name: 'Cloned by the array', value: share.cloned, colour: '--c3' },
          { name: 'Zeroed by the array', value: share.zeroed, colour: '--c4' },
          { name: 'Copied by hosts (estimate)', value: share.hostCopied, colour: '--c-bad' },
          { name: 'Zeroed by hosts', value: share.hostZeroed, colour: '--c-warn' },
        ]}
      />
    </Card>
  );
}

function RowDialog({ row, onClose }: { row: OffloadRow; onClose: () => void }) {
  const line = (name: string, asked: Asked): [string, preact.ComponentChildren] => [
    name,
    asked.commands === 0 ? (
      <span class="faint">never asked</span>
    ) : (
      `${bytes(asked.done_bytes)} of ${bytes(asked.asked_bytes)} in ${count(asked.commands)} commands${asked.refused ? `, ${count(asked.refused)} refused` : ''}`
    ),
  ];
  return (
    <Dialog title={`${row.host} on ${row.volume}`} onClose={onClose} wide>
      <Facts
        rows={[
          line('Clone (EXTENDED COPY)', row.clone),
          ['by reference', bytes(row.cloned_by_reference_bytes)],
          ['read and written', bytes(row.copied_bytes)],
          ['copied from here', bytes(row.clone_source_bytes)],
          line('Zero (WRITE SAME)', row.zero),
          line('Delete (UNMAP)', row.unmap),
          line('Token', row.token),
          line('Lock (COMPARE AND WRITE)', row.compare_and_write),
          ['miscompares', count(row.miscompares)],
          ['Read by the host', bytes(row.read_bytes)],
          ['Written by the host', bytes(row.written_bytes)],
          [
            'Copied by the host',
            row.host_copied_bytes > 0 ? `about ${bytes(row.host_copied_bytes)}` : 'nothing',
          ],
          ['Zeros over the wire', bytes(row.host_zeroed_bytes)],
        ]}
      />
      <h3>Refused</h3>
      {row.refusals.length === 0 ? (
        <p class="faint">Nothing was refused.</p>
      ) : (
        <Table
          caption="Refusals"
          rows={row.refusals}
          id={(one) => `${one.command} ${one.sense ?? one.status}`}
          columns={[
            { name: 'Command', head: true, cell: (one) => one.command },
            {
              name: 'Why',
              cell: (one) => (
                <>
                  {one.reason} <span class="faint">{one.sense ?? one.status}</span>
                </>
              ),
            },
            { name: 'Count', number: true, cell: (one) => count(one.count) },
            { name: 'Last', cell: (one) => <Time at={one.last} /> },
          ]}
        />
      )}
    </Dialog>
  );
}

function Findings({ findings }: { findings: Finding[] }) {
  if (findings.length === 0) {
    return (
      <Card title="Why not offloaded">
        <Empty icon="check" title="Nothing was done by hosts that the array could have done">
          When a host copies or zeroes by itself, or is refused, the likely reason and what to do
          about it are shown here.
        </Empty>
      </Card>
    );
  }
  return (
    <ul class="findings">
      {findings.map((finding) => (
        <li
          class="card finding"
          key={`${finding.kind} ${finding.host} ${finding.volume} ${finding.source} ${finding.code}`}
        >
          <div class="finding-head">
            <Badge tone={finding.kind === 'refused' ? 'bad' : 'warn'}>
              {FINDING_NAME[finding.kind]}
            </Badge>
            <b>{finding.host}</b>
            <span class="route">
              {finding.source && (
                <>
                  {finding.source} <Icon name="right" />{' '}
                </>
              )}
              {finding.volume}
            </span>
            {finding.bytes > 0 && (
              <span class="finding-bytes">
                {finding.estimated ? '≈ ' : ''}
                {bytes(finding.bytes)}
              </span>
            )}
            <span class="push faint">
              <Time at={finding.last} />
            </span>
          </div>
          <p class="finding-reason">{sentence(finding.reason)}</p>
          <Advice text={finding.advice} />
        </li>
      ))}
    </ul>
  );
}

const sentence = (text: string) =>
  `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}`;

/** Commands in an advice can be taken along. */
function Advice({ text }: { text: string }) {
  const command = /esxcli [^,(;]+?(?=\s*(?:\(|,|;|$))/.exec(text)?.[0];
  return (
    <div class="advice">
      <p>
        <b>What to do.</b> {sentence(text)}
      </p>
      {command && <Copyable text={command} label="command" />}
    </div>
  );
}

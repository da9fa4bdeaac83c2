// One pool: its space, devices, thresholds and scrub.
import { useState } from 'preact/hooks';
import { ask, given, path } from '../data/client';
import { deviceKind, deviceName } from '../data/devices';
import { may } from '../data/session';
import { deleting, OFTEN, refresh, useResource } from '../data/store';
import type {
  AddDevice as AddDeviceBody,
  Device,
  Forecast,
  Mirror,
  Pool,
  ResizePool,
  ResumePool,
  Scrub,
  SetSnapshotDeletion,
  StartScrub,
  Thresholds,
  Volume,
} from '../generated/api';
import { go } from '../router';
import { Meter, SpaceBar } from '../ui/bars';
import {
  Badge,
  Button,
  Card,
  Copyable,
  Empty,
  Facts,
  FillBadge,
  Loaded,
  labels,
  Note,
  Page,
  ProblemBox,
  StateBadge,
  Time,
} from '../ui/basic';
import { HistoryChart, RangeChoice, sum } from '../ui/chart';
import { DeviceFields, deviceOf, NO_DEVICE } from '../ui/device_fields';
import {
  CheckField,
  Confirm,
  FormDialog,
  NumberField,
  SizeField,
  TextField,
  useSubmit,
} from '../ui/form';
import { Table } from '../ui/table';
import { bytes, count, parseBytes, percent, plural, rate, sizeText } from '../units';
import { DepartureCard, RemoveDialog } from './departure';
import { LabelsDialog } from './labels';
import { MirrorsCard } from './mirrors';
import { ForecastText } from './overview';

type Open =
  | 'thresholds'
  | 'labels'
  | 'device'
  | 'delete'
  | { extend: Device }
  | { remove: Device }
  | null;

export function PoolPage({ name }: { name: string }) {
  const pool = useResource<Pool>(path('pools', name), OFTEN);
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  const actions = may('admin') && pool.data && (
    <>
      <Button icon="plus" onClick={() => setOpen('device')}>
        Add device
      </Button>
      <Button icon="settings" onClick={() => setOpen('thresholds')}>
        Thresholds
      </Button>
      <Button onClick={() => setOpen('labels')}>Labels</Button>
      <Button icon="trash" onClick={() => setOpen('delete')}>
        Delete
      </Button>
    </>
  );
  return (
    <Page title={name} kind="Pool" actions={actions}>
      <Loaded of={pool} lines={6}>
        {(data) => (
          <>
            <SpaceCard pool={data} />
            <div class="grid two">
              <DevicesCard
                pool={data}
                onExtend={(extend) => setOpen({ extend })}
                onRemove={(remove) => setOpen({ remove })}
              />
              <ScrubCard pool={name} />
            </div>
            <DepartureCard pool={data} />
            <MirrorsCard pool={data} />
            <FillCard pool={data} />
            {open === 'thresholds' && (
              <ThresholdsDialog
                title={`Thresholds of pool ${name}`}
                path={path('pools', name, 'thresholds')}
                value={data.thresholds}
                deletion={{
                  path: path('pools', name, 'snapshot-deletion'),
                  value: data.delete_scheduled_snapshots,
                }}
                onClose={close}
              />
            )}
            {open === 'labels' && (
              <LabelsDialog
                name={name}
                at={path('pools', name)}
                shownBy={['/v1/pools']}
                onClose={close}
              />
            )}
            {open === 'device' && <AddDevice pool={data} onClose={close} />}
            {open === 'delete' && <DeletePool pool={data} onClose={close} />}
            {typeof open === 'object' && open && 'extend' in open && (
              <ExtendDevice pool={data} device={open.extend} onClose={close} />
            )}
            {typeof open === 'object' && open && 'remove' in open && (
              <RemoveDialog
                pool={name}
                number={open.remove.index}
                name={open.remove.device}
                onClose={close}
              />
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function SpaceCard({ pool }: { pool: Pool }) {
  const forecast = useResource<Forecast[]>('/v1/forecast').data?.find(
    (one) => one.pool === pool.name,
  );
  const badge =
    pool.state === 'ready' ? (
      <FillBadge fill={pool.fill} />
    ) : (
      <StateBadge state={pool.state} reason={pool.reason} />
    );
  return (
    <Card title="Space" hint={badge} actions={<ForecastText forecast={forecast} />}>
      {pool.reason && (
        <Note tone="bad">
          {pool.reason}
          {pool.journal_loss && (
            <>
              {' '}
              (found <Time at={pool.journal_loss.since} />)
            </>
          )}
        </Note>
      )}
      {pool.backing_message && (
        <Note tone={pool.backing_state === 'full' ? 'bad' : 'warn'}>{pool.backing_message}</Note>
      )}
      {pool.state === 'read-only' && may('admin') && <Resume pool={pool.name} />}
      {pool.space && 2 * pool.space.metadata_left_bytes < pool.space.metadata_reserve_bytes && (
        <Note tone="bad">
          The pool is full, and less than half of its metadata reserve is left: delete something,
          unmap, or extend the pool before hosts lose their locks.
        </Note>
      )}
      {pool.space && (
        <SpaceBar
          label={`Space of pool ${pool.name}`}
          space={pool.space}
          thresholds={pool.thresholds}
        />
      )}
      {pool.space && (
        <Facts
          rows={[
            ['Used or promised', `${pool.space.used_percent} % of what is backed and not reserve`],
            ['Told at', `${pool.thresholds.soft_percent} % and ${pool.thresholds.hard_percent} %`],
            [
              'At the hard threshold',
              pool.delete_scheduled_snapshots
                ? 'The oldest unlocked scheduled snapshots are deleted'
                : 'No snapshot is deleted',
            ],
            [
              'Metadata reserve',
              `${bytes(pool.space.metadata_left_bytes)} of ${bytes(pool.space.metadata_reserve_bytes)} left for locks and metadata of hosts`,
            ],
            [
              'Provisioned',
              `${bytes(pool.space.provisioned_bytes)} to ${plural(pool.volumes, 'volume')} (${percent(pool.space.provisioned_bytes, pool.space.total_bytes)} of the pool)`,
            ],
            ['Snapshots', pool.snapshots],
            ['Cloned by reference', bytes(pool.counters.bytes_cloned ?? 0)],
            ['Memory for maps', `up to ${bytes(pool.memory_bytes)}`],
            ['Identity', <Copyable text={pool.uuid} label="identity" />],
            ...labels(pool.tags),
          ]}
        />
      )}
    </Card>
  );
}

/** Goes on with a pool that stopped taking writes. */
function Resume({ pool }: { pool: string }) {
  const resume = useSubmit(async () => {
    await ask('POST', path('pools', pool, 'resume'), {} satisfies ResumePool);
    await refresh(path('pools', pool), '/v1/pools');
  });
  return (
    <>
      <ProblemBox problem={resume.problem} />
      <Button icon="check" busy={resume.busy} onClick={() => void resume.submit()}>
        Check the devices and go on
      </Button>
    </>
  );
}

function FillCard({ pool }: { pool: Pool }) {
  const [seconds, setSeconds] = useState(3600);
  return (
    <Card title="Space over time" actions={<RangeChoice value={seconds} onChange={setSeconds} />}>
      <HistoryChart
        title={`Space of pool ${pool.name}`}
        series={`pool:${pool.name}`}
        seconds={seconds}
        format={bytes}
        lines={[
          { name: 'Used', colour: '--c1', of: sum('used_bytes'), fill: true },
          { name: 'Saved by sharing', colour: '--c3', of: sum('shared_bytes') },
          { name: 'Total', colour: '--c8', of: sum('total_bytes'), dash: true },
        ]}
      />
    </Card>
  );
}

function DevicesCard({
  pool,
  onExtend,
  onRemove,
}: {
  pool: Pool;
  onExtend: (device: Device) => void;
  onRemove: (device: Device) => void;
}) {
  const counters = pool.counters;
  // A mirror leaves as a whole, and the journal is on the first device.
  const mayLeave = (device: Device) =>
    pool.mirrors.length === 0 && !pool.departure && device.index > 0;
  return (
    <Card title="Devices" hint={plural(pool.devices.length, 'device')}>
      <Table
        caption={`Devices of pool ${pool.name}`}
        rows={pool.devices}
        id={(device) => String(device.index)}
        columns={[
          {
            name: 'Device',
            head: true,
            cell: (device) => <code class="breakable">{device.device}</code>,
          },
          { name: 'Size', number: true, cell: (device) => bytes(device.size_bytes) },
          {
            name: 'Actions',
            silent: true,
            cell: (device) =>
              may('admin') && (
                <>
                  <Button
                    small
                    icon="resize"
                    onClick={() => onExtend(device)}
                    aria-label={`Extend ${device.device}`}
                  >
                    Extend
                  </Button>
                  {mayLeave(device) && (
                    <Button
                      small
                      onClick={() => onRemove(device)}
                      aria-label={`Remove ${device.device}`}
                    >
                      Remove
                    </Button>
                  )}
                </>
              ),
          },
        ]}
      />
      <Facts
        rows={[
          [
            'Read',
            `${bytes(counters.device_bytes_read ?? 0)} in ${count(counters.device_reads ?? 0)} operations`,
          ],
          ...pool.backing.map((system): [string, string] => [
            system.file_system,
            `${bytes(system.free_bytes)} free of ${bytes(system.size_bytes)}${system.shared_with.length > 0 ? `, shared with ${system.shared_with.join(', ')}` : ''}`,
          ]),
          [
            'Written',
            `${bytes(counters.device_bytes_written ?? 0)} in ${count(counters.device_writes ?? 0)} operations, ${count(counters.device_flushes ?? 0)} flushes`,
          ],
        ]}
      />
    </Card>
  );
}

function ScrubCard({ pool }: { pool: string }) {
  const at = path('pools', pool, 'scrub');
  const scrub = useResource<Scrub>(at, OFTEN);
  const start = useSubmit(async () => {
    await ask('PUT', at, {} satisfies StartScrub);
    await refresh(at, '/v1/tasks');
  });
  const stop = useSubmit(async () => {
    await ask('DELETE', at);
    await refresh(at, '/v1/tasks');
  });
  const running = scrub.data?.running ?? false;
  const button =
    may('operator') &&
    (running ? (
      <Button small busy={stop.busy} onClick={() => void stop.submit()}>
        Stop
      </Button>
    ) : (
      <Button small busy={start.busy} onClick={() => void start.submit()}>
        Start scrub
      </Button>
    ));
  return (
    <Card title="Scrub" hint={scrub.data && <ScrubBadge scrub={scrub.data} />} actions={button}>
      <p class="faint">
        Reads everything that the pool holds and compares it with its checksums, in the background.
      </p>
      <ProblemBox problem={start.problem ?? stop.problem} />
      <Loaded of={scrub}>{(data) => <ScrubState scrub={data} />}</Loaded>
    </Card>
  );
}

function ScrubBadge({ scrub }: { scrub: Scrub }) {
  const bad = scrub.bad_blocks + scrub.bad_pages;
  if (bad > 0) return <Badge tone="bad">{plural(bad, 'bad block')}</Badge>;
  if (scrub.running) return <Badge tone="info">Under way</Badge>;
  if (scrub.complete) return <Badge tone="good">All intact</Badge>;
  return <Badge tone="none">Not run</Badge>;
}

function ScrubState({ scrub }: { scrub: Scrub }) {
  return (
    <>
      {(scrub.running || scrub.complete) && (
        <Meter
          label="Scrubbed"
          value={scrub.scanned_bytes}
          whole={Math.max(scrub.total_bytes, scrub.scanned_bytes)}
        />
      )}
      <Facts
        rows={[
          ['Compared', `${bytes(scrub.scanned_bytes)} of ${bytes(scrub.total_bytes)}`],
          ['At most', rate(scrub.rate_bytes)],
          [
            'Bad',
            `${plural(scrub.bad_blocks, 'block')}, ${plural(scrub.bad_pages, 'page')} of the map (${scrub.repaired_pages} repaired)`,
          ],
        ]}
      />
      {scrub.bad.length > 0 && (
        <Table
          caption="Bad places"
          rows={scrub.bad}
          id={(bad) => `${bad.volume} ${bad.lba}`}
          columns={[
            { name: 'Volume', head: true, cell: (bad) => bad.volume },
            { name: 'LBA', number: true, cell: (bad) => bad.lba },
            { name: 'Blocks', number: true, cell: (bad) => bad.blocks },
          ]}
        />
      )}
    </>
  );
}

export function ThresholdsDialog(props: {
  title: string;
  path: string;
  value: { soft_percent: number; hard_percent: number };
  deletion?: { path: string; value: boolean };
  onClose: () => void;
}) {
  const [deletes, setDeletes] = useState(props.deletion?.value ?? false);
  const [soft, setSoft] = useState<number | null>(props.value.soft_percent);
  const [hard, setHard] = useState<number | null>(props.value.hard_percent);
  const set = async () => {
    await ask('PUT', props.path, {
      soft_percent: given(soft),
      hard_percent: given(hard),
    } satisfies Thresholds);
    if (props.deletion && props.deletion.value !== deletes)
      await ask('PUT', props.deletion.path, {
        delete_scheduled_snapshots: deletes,
      } satisfies SetSnapshotDeletion);
    await refresh('/v1/pools', '/v1/volumes', '/v1/events');
  };
  return (
    <FormDialog
      title={props.title}
      action="Set thresholds"
      said="The thresholds were set"
      disabled={soft === null || hard === null}
      onSubmit={set}
      onClose={props.onClose}
    >
      <p class="faint">Hosts and events tell when as much is used.</p>
      <NumberField
        label="Soft threshold, %"
        value={soft}
        onChange={setSoft}
        min={1}
        max={100}
        required
        hint="A warning."
      />
      <NumberField
        label="Hard threshold, %"
        value={hard}
        onChange={setHard}
        min={1}
        max={100}
        required
        hint="An alarm; not below the soft one."
      />
      {props.deletion && (
        <CheckField
          label="Delete scheduled snapshots at the hard threshold"
          checked={deletes}
          onChange={setDeletes}
          hint="The oldest first, one after the other, until less is used. Locked and mapped ones stay, those made by hand, and the newest of each schedule."
        />
      )}
    </FormDialog>
  );
}

function AddDevice({ pool, onClose }: { pool: Pool; onClose: () => void }) {
  const [draft, setDraft] = useState(NO_DEVICE);
  const [others, setOthers] = useState(['', '']);
  const kind = deviceKind(draft.prefix);
  const isMirror = pool.mirrors.length > 0;
  const add = async () => {
    const paths = kind.path ? others.filter((other) => other.trim()) : [''];
    await ask('POST', path('pools', pool.name, 'devices'), {
      ...deviceOf(draft),
      ...(isMirror ? { mirrored_by: paths.map((other) => deviceName(kind, other)) } : {}),
    } satisfies AddDeviceBody);
    await refresh('/v1/pools');
  };
  return (
    <FormDialog
      title={`Add a ${isMirror ? 'mirror' : 'device'} to pool ${pool.name}`}
      action={isMirror ? 'Add mirror' : 'Add device'}
      said={isMirror ? 'The mirror joined' : 'The device joined'}
      onSubmit={add}
      onClose={onClose}
    >
      <p class="faint">
        {isMirror
          ? 'Its devices hold the same blocks. It joins at once, while hosts write, and cannot leave again.'
          : 'It joins at once, while hosts write. It cannot leave again.'}
      </p>
      <DeviceFields value={draft} onChange={setDraft} />
      {isMirror &&
        kind.path &&
        others.map((other, at) => (
          <TextField
            key={['second', 'third'][at]}
            label={at === 0 ? 'Path of the second copy' : 'Path of a third copy (may be empty)'}
            value={other}
            onChange={(value) => setOthers(others.map((old, i) => (i === at ? value : old)))}
            mono
            required={at === 0}
          />
        ))}
    </FormDialog>
  );
}

// The number by which a pool knows a device: its mirror's, if it is a member of one.
function numberOf(pool: Pool, device: Device): number {
  const isMember = (one: Device) => (mirror: Mirror) =>
    mirror.members.some((member) => member.device === one.device);
  const mirror = pool.mirrors.find(isMember(device));
  if (mirror) return mirror.index;
  const plain = pool.devices.filter((one) => !pool.mirrors.some(isMember(one)));
  const taken = new Set(pool.mirrors.map((one) => one.index));
  const free = Array.from({ length: plain.length + taken.size }, (_, number) => number);
  return free.filter((number) => !taken.has(number))[plain.indexOf(device)] ?? device.index;
}

function ExtendDevice({
  pool,
  device,
  onClose,
}: {
  pool: Pool;
  device: Device;
  onClose: () => void;
}) {
  const [size, setSize] = useState(sizeText(device.size_bytes));
  const number = numberOf(pool, device);
  const mirror = pool.mirrors.find((one) => one.index === number);
  const what = mirror ? `mirror ${number}` : `device ${device.index}`;
  const extend = async () => {
    await ask('PATCH', path('pools', pool.name), {
      device: number,
      size_bytes: given(parseBytes(size)),
    } satisfies ResizePool);
    await refresh('/v1/pools', '/v1/forecast');
  };
  return (
    <FormDialog
      title={`Extend ${what} of pool ${pool.name}`}
      action="Extend"
      said={`The ${mirror ? 'mirror' : 'device'} was extended`}
      disabled={parseBytes(size) === null}
      onSubmit={extend}
      onClose={onClose}
    >
      <p>
        <code class="breakable">{device.device}</code> has {bytes(device.size_bytes)}. It can only
        grow.
        {mirror && ' Each smaller device of its mirror is made as large.'}
      </p>
      <SizeField label="New size" value={size} onChange={setSize} required />
    </FormDialog>
  );
}

function DeletePool({ pool, onClose }: { pool: Pool; onClose: () => void }) {
  const volumes =
    useResource<Volume[]>('/v1/volumes').data?.filter((volume) => volume.pool === pool.name) ?? [];
  const closed = pool.state === 'unavailable' || pool.state === 'opening';
  const remove = async () => {
    const at = path('pools', pool.name);
    await deleting(at, () => ask('DELETE', closed ? `${at}?force=true` : at));
    go('/pools');
    await refresh('/v1/pools', '/v1/forecast');
  };
  const full = pool.volumes + pool.snapshots > 0;
  return (
    <Confirm
      title={`Delete pool ${pool.name}?`}
      action="Delete pool"
      retype={pool.name}
      disabled={full}
      said={`Pool ${pool.name} was deleted`}
      onConfirm={remove}
      onClose={onClose}
    >
      {full ? (
        <Note tone="warn">
          It still holds {plural(pool.volumes, 'volume')} and {plural(pool.snapshots, 'snapshot')}
          {volumes.length > 0 &&
            `: ${volumes
              .slice(0, 5)
              .map((volume) => volume.name)
              .join(', ')}${volumes.length > 5 ? ', …' : ''}`}
          . Delete these first.
        </Note>
      ) : closed ? (
        <Note tone="warn">
          The pool is not open, so nobody knows all it holds. The array forgets it: hosts lose its
          LUNs for good. Its files and devices are left where they are. Otherwise it opens by itself
          when its devices come.
        </Note>
      ) : (
        <Empty icon="pool" title="The pool is empty">
          The array forgets it. Its files and devices are left where they are.
        </Empty>
      )}
    </Confirm>
  );
}

// One volume: who sees it, what it holds, its snapshots and clones.
import { useState } from 'preact/hooks';
import { path } from '../data/client';
import { may } from '../data/session';
import { OFTEN, useResource } from '../data/store';
import type { Group, Host, Reclaim, Session, Snapshot, Volume } from '../generated/api';
import { go } from '../router';
import { PartsBar } from '../ui/bars';
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
  Page,
  Time,
} from '../ui/basic';
import { HistoryChart, mean, RangeChoice, ThroughputChart } from '../ui/chart';
import { Table } from '../ui/table';
import { bytes, latency, plural } from '../units';
import { LabelsDialog, RenameDialog } from './labels';
import { ThresholdsDialog } from './pool';
import { PrimitivesDialog, primitivesText } from './primitives';
import { limitsText, RateLimitsDialog } from './rate_limits';
import { SnapshotTree } from './snapshot_tree';
import {
  CloneDialog,
  DeleteSnapshot,
  DeleteVolume,
  LockSnapshot,
  MapDialog,
  ResizeDialog,
  RevertDialog,
  SnapshotDialog,
  UnmapDialog,
} from './volume_dialogs';
import { volumeLink } from './volumes';

export type Open =
  | 'map'
  | 'resize'
  | 'snapshot'
  | 'clone'
  | 'delete'
  | 'thresholds'
  | 'rename'
  | 'labels'
  | 'primitives'
  | 'limits'
  | { unmap: string }
  | { revert: Snapshot }
  | { cloneOf: Snapshot }
  | { remove: Snapshot }
  | { lock: Snapshot }
  | { rename: Snapshot }
  | { label: Snapshot }
  | null;

export function VolumePage({ pool, name }: { pool: string; name: string }) {
  const volume = useResource<Volume>(path('volumes', pool, name), OFTEN);
  const [open, setOpen] = useState<Open>(null);
  const actions = may('operator') && volume.data && (
    <>
      <Button kind="primary" icon="link" onClick={() => setOpen('map')}>
        Map
      </Button>
      <Button icon="snapshot" onClick={() => setOpen('snapshot')}>
        Snapshot
      </Button>
      <Button icon="clone" onClick={() => setOpen('clone')}>
        Clone
      </Button>
      <Button icon="resize" onClick={() => setOpen('resize')}>
        Resize
      </Button>
      <Button onClick={() => setOpen('rename')}>Rename</Button>
      <Button onClick={() => setOpen('labels')}>Labels</Button>
      <Button onClick={() => setOpen('primitives')}>Primitives</Button>
      <Button onClick={() => setOpen('limits')}>Limits</Button>
      <Button icon="trash" onClick={() => setOpen('delete')}>
        Delete
      </Button>
    </>
  );
  return (
    <Page title={`${pool}/${name}`} kind="Volume" actions={actions}>
      <Loaded of={volume} lines={8}>
        {(data) => (
          <>
            <div class="grid two">
              <AboutCard volume={data} onThresholds={() => setOpen('thresholds')} />
              <MapsCard volume={data} open={setOpen} />
            </div>
            <TreeCard volume={data} open={setOpen} />
            <ActivityCard name={`${pool}/${name}`} />
            <Dialogs volume={data} open={open} onClose={() => setOpen(null)} />
          </>
        )}
      </Loaded>
    </Page>
  );
}

function Dialogs({ volume, open, onClose }: { volume: Volume; open: Open; onClose: () => void }) {
  if (open === null) return null;
  const properties = { volume, onClose };
  if (open === 'map') return <MapDialog {...properties} />;
  if (open === 'resize') return <ResizeDialog {...properties} />;
  if (open === 'snapshot') return <SnapshotDialog {...properties} />;
  if (open === 'clone')
    return (
      <CloneDialog pool={volume.pool} of={volume.name} size={volume.size_bytes} onClose={onClose} />
    );
  if (open === 'delete') return <DeleteVolume {...properties} />;
  if (open === 'thresholds')
    return (
      <ThresholdsDialog
        title={`Thresholds of ${volume.name}`}
        path={path('volumes', volume.pool, volume.name, 'thresholds')}
        value={volume.thresholds}
        onClose={onClose}
      />
    );
  if (open === 'rename')
    return (
      <RenameDialog
        kind="volumes"
        pool={volume.pool}
        name={volume.name}
        onDone={(name) => go(volumeLink(`${volume.pool}/${name}`))}
        onClose={onClose}
      />
    );
  if (open === 'primitives')
    return (
      <PrimitivesDialog
        title={`Primitives of ${volume.name}`}
        at={path('volumes', volume.pool, volume.name, 'primitives')}
        shownBy={['/v1/volumes']}
        value={volume.primitives}
        onClose={onClose}
      />
    );
  if (open === 'limits')
    return (
      <RateLimitsDialog
        title={`Limits of ${volume.name}`}
        at={path('volumes', volume.pool, volume.name, 'limits')}
        shownBy={['/v1/volumes']}
        value={volume.limits}
        onClose={onClose}
      />
    );
  if (open === 'labels') return <LabelsOf kind="volumes" of={volume} onClose={onClose} />;
  if ('unmap' in open) return <UnmapDialog {...properties} host={open.unmap} />;
  if ('revert' in open) return <RevertDialog {...properties} snapshot={open.revert} />;
  if ('cloneOf' in open)
    return (
      <CloneDialog
        pool={volume.pool}
        of={open.cloneOf.name}
        size={open.cloneOf.size_bytes}
        onClose={onClose}
      />
    );
  if ('rename' in open)
    return (
      <RenameDialog kind="snapshots" pool={volume.pool} name={open.rename.name} onClose={onClose} />
    );
  if ('label' in open) return <LabelsOf kind="snapshots" of={open.label} onClose={onClose} />;
  if ('lock' in open) return <LockSnapshot snapshot={open.lock} onClose={onClose} />;
  return <DeleteSnapshot snapshot={open.remove} onClose={onClose} />;
}

function LabelsOf(props: {
  kind: 'volumes' | 'snapshots';
  of: Volume | Snapshot;
  onClose: () => void;
}) {
  const { pool, name } = props.of;
  return (
    <LabelsDialog
      name={name}
      at={path(props.kind, pool, name)}
      shownBy={[`/v1/${props.kind}`]}
      onClose={props.onClose}
    />
  );
}

/** What a volume holds alone, what it may share, and what it never wrote. */
export function volumeParts(volume: {
  size_bytes: number;
  mapped_bytes: number;
  shared_bytes: number;
}) {
  return [
    {
      name: 'Own data',
      value: volume.mapped_bytes - volume.shared_bytes,
      colour: '--c-used',
      hint: 'Deleting the volume frees this much at least',
    },
    {
      name: 'Shared',
      value: volume.shared_bytes,
      colour: '--c-shared',
      hint: 'Perhaps also held by other volumes, snapshots or clones',
    },
    {
      name: 'Unwritten',
      value: Math.max(0, volume.size_bytes - volume.mapped_bytes),
      colour: '--c-free',
      hint: 'Reads as zeroes, takes no space',
    },
  ];
}

function AboutCard({ volume, onThresholds }: { volume: Volume; onThresholds: () => void }) {
  const reclaim = useResource<Reclaim[]>('/v1/reclaim').data?.find(
    (one) => one.volume === `${volume.pool}/${volume.name}`,
  );
  return (
    <Card
      title="Space"
      hint={<FillBadge fill={volume.fill} />}
      actions={
        may('operator') && (
          <Button small icon="settings" onClick={onThresholds}>
            Thresholds
          </Button>
        )
      }
    >
      <PartsBar label={`Space of ${volume.name}`} parts={volumeParts(volume)} />
      <Facts
        rows={[
          ['Size', bytes(volume.size_bytes)],
          ['Holds data', bytes(volume.mapped_bytes)],
          ['Provisioning', volume.thick ? 'thick (all of its space is set aside)' : 'thin'],
          [
            'Blocks that hosts see',
            volume.block_size === '512e'
              ? '512 bytes, 4,096 preferred'
              : `${Number(volume.block_size).toLocaleString('en')} bytes`,
          ],
          [
            'Told at',
            `${volume.thresholds.soft_percent} % and ${volume.thresholds.hard_percent} %`,
          ],
          ...(reclaim && reclaim.asked_bytes > 0
            ? [
                [
                  'Reclaimed',
                  <a href="/reclaim">
                    {bytes(reclaim.freed_bytes)} of {bytes(reclaim.unmapped_bytes)}
                  </a>,
                ] as [string, preact.ComponentChildren],
              ]
            : []),
          ['Primitives', primitivesText(volume.primitives)],
          ['Limits', limitsText(volume.limits)],
          ['Created', <Time at={volume.created} />],
          ['NAA', <Copyable text={volume.naa} label="NAA identifier" />],
          ...(volume.origin ? [['Clone of', volume.origin] as [string, string]] : []),
          ...labels(volume.tags),
        ]}
      />
    </Card>
  );
}

/** Sessions that see a volume, by one of its maps or all. Hosts have numbers of their own, so the number alone does not tell. */
export function usersOf(
  volume: Volume,
  sessions: Session[] | undefined,
  groups: Group[],
  host?: string,
): Session[] {
  const isOf = (name: string, session: Session) =>
    name === 'any' ||
    name === session.host ||
    groups.some((group) => group.name === name && group.hosts.includes(session.host ?? ''));
  const maps = volume.maps.filter((map) => !host || map.host === host);
  return (sessions ?? []).filter((session) =>
    maps.some((map) => isOf(map.host, session) && session.luns.includes(map.lun)),
  );
}

/** The number by which hosts see a volume, or that they have several. */
export function lunOf(volume: Volume): string {
  const numbers = [...new Set(volume.maps.map((map) => map.lun))];
  return numbers.length === 0
    ? ''
    : numbers.length === 1
      ? `LUN ${numbers[0]}`
      : `LUN ${numbers.join(', ')}, by host`;
}

function MapsCard({ volume, open }: { volume: Volume; open: (open: Open) => void }) {
  const sessions = useResource<Session[]>('/v1/sessions', OFTEN).data;
  const hosts = useResource<Host[]>('/v1/hosts').data ?? [];
  const groups = useResource<Group[]>('/v1/groups').data ?? [];
  const users = usersOf(volume, sessions, groups);
  const isHost = (name: string) => hosts.some((host) => host.name === name);
  return (
    <Card title="Hosts" hint={lunOf(volume)}>
      <Table
        caption="Hosts that see this volume"
        rows={volume.hosts}
        id={(host) => host}
        empty={
          <Empty
            icon="host"
            title="No host sees this volume"
            action={
              may('operator') && (
                <Button kind="primary" icon="link" onClick={() => open('map')}>
                  Map it to a host
                </Button>
              )
            }
          >
            Until then nobody can read or write it.
          </Empty>
        }
        columns={[
          {
            name: 'Host',
            head: true,
            cell: (host) =>
              host === 'any' ? (
                'Every initiator'
              ) : isHost(host) ? (
                <a href={`/hosts/${encodeURIComponent(host)}`}>{host}</a>
              ) : (
                <>
                  {host} <Badge tone="none">group</Badge>
                </>
              ),
          },
          {
            name: 'LUN',
            number: true,
            cell: (host) => volume.maps.find((map) => map.host === host)?.lun,
          },
          {
            name: 'May',
            cell: (host) => (volume.read_only_hosts.includes(host) ? 'read' : 'read and write'),
          },
          {
            name: 'Actions',
            silent: true,
            cell: (host) =>
              may('operator') && (
                <Button
                  small
                  onClick={() => open({ unmap: host })}
                  aria-label={`Unmap from ${host}`}
                >
                  Unmap
                </Button>
              ),
          },
        ]}
      />
      {volume.hosts.length > 0 && (
        <p class="faint small">
          {users.length === 0 ? (
            'Nobody who sees it is logged in.'
          ) : (
            <>
              Logged in: {plural(users.length, 'session')} of{' '}
              {[...new Set(users.map((session) => session.host ?? session.initiator))].join(', ')}.
            </>
          )}
        </p>
      )}
    </Card>
  );
}

function TreeCard({ volume, open }: { volume: Volume; open: (open: Open) => void }) {
  const volumes = useResource<Volume[]>('/v1/volumes', OFTEN);
  const snapshots = useResource<Snapshot[]>('/v1/snapshots', OFTEN);
  return (
    <Card
      title="Snapshots and clones"
      actions={
        may('operator') && (
          <Button small icon="snapshot" onClick={() => open('snapshot')}>
            Take snapshot
          </Button>
        )
      }
    >
      <Loaded of={snapshots}>
        {(all) => (
          <SnapshotTree
            volume={volume}
            volumes={volumes.data ?? [volume]}
            snapshots={all}
            open={open}
          />
        )}
      </Loaded>
    </Card>
  );
}

function ActivityCard({ name }: { name: string }) {
  const [seconds, setSeconds] = useState(300);
  const series = `volume:${name}`;
  return (
    <Card title="Activity" actions={<RangeChoice value={seconds} onChange={setSeconds} />}>
      <div class="grid two inner">
        <ThroughputChart of={name} series={series} seconds={seconds} height={160} />
        <HistoryChart
          title={`Latency of ${name}`}
          series={series}
          seconds={seconds}
          format={latency}
          top={200}
          height={160}
          lines={[
            { name: 'Read', colour: '--c1', of: mean('read_latency_us') },
            { name: 'Write', colour: '--c2', of: mean('write_latency_us') },
          ]}
        />
      </div>
    </Card>
  );
}

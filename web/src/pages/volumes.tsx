// All volumes, and new ones.
import { useState } from 'preact/hooks';
import { ask, given } from '../data/client';
import { useLive } from '../data/live';
import { bytesOf, commandsOf } from '../data/rates';
import { may } from '../data/session';
import { OFTEN, refresh, useResource } from '../data/store';
import type {
  BlockSize,
  CreateSnapshots,
  CreateVolume as CreateVolumeBody,
  Live,
  Pool,
  Volume,
} from '../generated/api';
import { go, setParameter, useLocation } from '../router';
import { Meter } from '../ui/bars';
import { Badge, Button, ButtonLink, Card, Empty, FillBadge, Loaded, Note, Page } from '../ui/basic';
import { CheckField, FormDialog, SelectField, SizeField, TextField } from '../ui/form';
import { SearchBox } from '../ui/search';
import type { Column } from '../ui/table';
import { Table } from '../ui/table';
import { bytes, count, parseBytes, plural, rate } from '../units';

const full = (volume: Volume) => `${volume.pool}/${volume.name}`;
export const volumeLink = (name: string) =>
  `/volumes/${name.split('/').map(encodeURIComponent).join('/')}`;

export function VolumesPage() {
  const volumes = useResource<Volume[]>('/v1/volumes', OFTEN);
  const { parameters } = useLocation();
  const search = parameters.get('search') ?? '';
  const [chosen, setChosen] = useState<string[]>([]);
  const [open, setOpen] = useState<'create' | 'snapshot' | null>(null);
  const live = useLive();
  const create = may('operator') && (
    <Button kind="primary" icon="plus" onClick={() => setOpen('create')}>
      Create volume
    </Button>
  );
  const fits = (volume: Volume) => {
    const text =
      `${full(volume)} ${volume.hosts.join(' ')} ${volume.naa} ${volume.lun ?? ''}`.toLowerCase();
    return search
      .toLowerCase()
      .split(/\s+/)
      .every((word) => text.includes(word));
  };
  return (
    <Page
      title="Volumes"
      lead="What hosts see as LUNs. Thin: they take space as they are written."
      actions={create}
    >
      <Loaded of={volumes} lines={8}>
        {(all) =>
          all.length === 0 ? (
            <Card title="Volumes">
              <NoVolumes create={create} />
            </Card>
          ) : (
            <>
              <div class="filters">
                <SearchBox
                  label="Filter by name, host, LUN or NAA"
                  value={search}
                  onChange={(value) => setParameter('search', value)}
                />
                {may('operator') && (
                  <Button
                    icon="snapshot"
                    disabled={chosen.length === 0}
                    onClick={() => setOpen('snapshot')}
                  >
                    Snapshot {chosen.length > 0 ? plural(chosen.length, 'volume') : 'chosen'}
                  </Button>
                )}
              </div>
              <Card title="Volumes" hint={`${all.filter(fits).length} of ${all.length}`}>
                <Table
                  caption="Volumes"
                  id={full}
                  rows={all.filter(fits)}
                  columns={columns(live, chosen, setChosen)}
                  empty={
                    <Empty icon="search" title="No volume fits this filter">
                      Try fewer letters.
                    </Empty>
                  }
                />
              </Card>
            </>
          )
        }
      </Loaded>
      {open === 'create' && (
        <CreateVolume onClose={() => setOpen(null)} onCreated={(name) => go(volumeLink(name))} />
      )}
      {open === 'snapshot' && (
        <SnapshotSeveral
          volumes={chosen}
          onClose={() => setOpen(null)}
          onDone={() => setChosen([])}
        />
      )}
    </Page>
  );
}

function NoVolumes({ create }: { create: preact.ComponentChildren }) {
  const pools = useResource<Pool[]>('/v1/pools').data;
  if (pools?.length === 0) {
    return (
      <Empty
        icon="volume"
        title="There is no volume yet"
        action={
          <ButtonLink href="/setup" kind="primary">
            Begin the set-up
          </ButtonLink>
        }
      >
        Volumes lie in a pool, and there is none either.
      </Empty>
    );
  }
  return (
    <Empty icon="volume" title="There is no volume yet" action={create}>
      Create one, map it to a host, and the host sees it as a LUN after a rescan.
    </Empty>
  );
}

function columns(
  live: Live | undefined,
  chosen: string[],
  setChosen: (names: string[]) => void,
): Column<Volume>[] {
  const rates = (volume: Volume) =>
    live?.volumes.find((one) => one.name === full(volume))?.rates ?? {};
  const toggle = (name: string) =>
    setChosen(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name]);
  const choice: Column<Volume> = {
    name: 'Choose',
    silent: true,
    cell: (volume) => (
      <input
        type="checkbox"
        aria-label={`Choose ${full(volume)}`}
        checked={chosen.includes(full(volume))}
        onChange={() => toggle(full(volume))}
      />
    ),
  };
  return [
    ...(may('operator') ? [choice] : []),
    {
      name: 'Volume',
      head: true,
      sort: full,
      cell: (volume) => (
        <>
          <a href={volumeLink(full(volume))}>
            <span class="faint">{volume.pool}/</span>
            <b>{volume.name}</b>
          </a>
          {volume.origin && (
            <>
              {' '}
              <Badge tone="none" title={`Clone of ${volume.origin}`}>
                clone
              </Badge>
            </>
          )}
          {volume.fill !== 'normal' && (
            <>
              {' '}
              <FillBadge fill={volume.fill} />
            </>
          )}
        </>
      ),
    },
    {
      name: 'LUN',
      number: true,
      sort: (volume) => volume.lun ?? 99999,
      cell: (volume) => volume.lun ?? <span class="faint">–</span>,
    },
    {
      name: 'Hosts',
      sort: (volume) => volume.hosts.join(),
      cell: (volume) => <HostNames volume={volume} />,
    },
    {
      name: 'Size',
      number: true,
      sort: (volume) => volume.size_bytes,
      cell: (volume) => bytes(volume.size_bytes),
    },
    {
      name: 'Written',
      sort: (volume) => volume.mapped_bytes,
      cell: (volume) => (
        <Meter
          label={`Written of ${full(volume)}`}
          value={volume.mapped_bytes}
          whole={volume.size_bytes}
          text={bytes(volume.mapped_bytes)}
        />
      ),
    },
    {
      name: 'Shared',
      number: true,
      extra: true,
      sort: (volume) => volume.shared_bytes,
      cell: (volume) => bytes(volume.shared_bytes),
    },
    {
      name: 'Data',
      number: true,
      sort: (volume) => bytesOf(rates(volume), 'read', 'write'),
      cell: (volume) => rate(bytesOf(rates(volume), 'read', 'write')),
    },
    {
      name: 'Commands',
      number: true,
      extra: true,
      sort: (volume) => commandsOf(rates(volume)),
      cell: (volume) => `${count(commandsOf(rates(volume)))}/s`,
    },
  ];
}

export function HostNames({ volume }: { volume: { hosts: string[] } }) {
  if (volume.hosts.length === 0) return <span class="faint">not mapped</span>;
  return (
    <>
      {volume.hosts.map((host, index) => (
        <span key={host}>
          {index > 0 && ', '}
          {host === 'any' ? 'any host' : host}
        </span>
      ))}
    </>
  );
}

const BLOCK_SIZES: [BlockSize, string][] = [
  ['512', '512 bytes (every host can use it)'],
  ['512e', '512 bytes, 4,096 preferred (512e)'],
  ['4096', '4,096 bytes (4Kn; not every host can use it)'],
];

/** Fields of a new volume; the set-up uses them too. */
export function useVolumeFields(pools: Pool[], fixedPool?: string) {
  const [chosenPool, setPool] = useState(fixedPool ?? '');
  const [name, setName] = useState('vol1');
  const [size, setSize] = useState('100 GiB');
  const [blockSize, setBlockSize] = useState<BlockSize>('512');
  const [thick, setThick] = useState(false);
  const pool = chosenPool || pools[0]?.name || '';
  const space = pools.find((one) => one.name === pool)?.space;
  const wanted = parseBytes(size);
  const body = (): CreateVolumeBody => ({
    pool,
    name,
    size_bytes: given(wanted),
    thick,
    block_size: blockSize,
  });
  const complete = pool !== '' && name !== '' && wanted !== null;
  const fields = (
    <>
      {!fixedPool && (
        <SelectField
          label="Pool"
          value={pool}
          onChange={setPool}
          options={pools.map((one) => [
            one.name,
            `${one.name}${one.space ? ` (${bytes(one.space.free_bytes)} free)` : ''}`,
          ])}
        />
      )}
      <TextField
        label="Name"
        value={name}
        onChange={setName}
        required
        first
        hint="Letters, digits, '-', '_' and '.'."
      />
      <SizeField label="Size" value={size} onChange={setSize} required />
      {space && wanted !== null && !thick && wanted > space.free_bytes && (
        <Note tone="info">
          Larger than what is free in the pool ({bytes(space.free_bytes)}). That is fine for a thin
          volume, as long as someone watches the pool.
        </Note>
      )}
      <details class="more-fields">
        <summary>More</summary>
        <SelectField
          label="Blocks that hosts see"
          value={blockSize}
          onChange={setBlockSize}
          options={BLOCK_SIZES}
          hint="Cannot be changed later."
        />
        <CheckField
          label="Thick: set all of its space aside"
          hint="So that it never runs out of space."
          checked={thick}
          onChange={setThick}
        />
      </details>
    </>
  );
  return { full: `${pool}/${name}`, body, complete, fields };
}

function CreateVolume(props: { onClose: () => void; onCreated: (name: string) => void }) {
  const pools = useResource<Pool[]>('/v1/pools').data ?? [];
  const { full: name, body, complete, fields } = useVolumeFields(pools);
  const create = async () => {
    await ask('POST', '/v1/volumes', body());
    await refresh('/v1/volumes', '/v1/pools');
  };
  return (
    <FormDialog
      title="Create volume"
      action="Create volume"
      disabled={!complete}
      said={`Volume ${name} was created`}
      onSubmit={create}
      onClose={props.onClose}
      onDone={() => props.onCreated(name)}
    >
      {fields}
    </FormDialog>
  );
}

const stamp = () => new Date().toISOString().slice(0, 16).replace(/[-:]/g, '').replace('T', '-');

/** Snapshots of several volumes at one moment. */
function SnapshotSeveral(props: { volumes: string[]; onClose: () => void; onDone: () => void }) {
  const [suffix, setSuffix] = useState(stamp());
  const pools = [...new Set(props.volumes.map((name) => name.split('/')[0]!))];
  const create = async () => {
    for (const pool of pools) {
      const own = props.volumes
        .filter((name) => name.startsWith(`${pool}/`))
        .map((name) => name.slice(pool.length + 1));
      await ask('POST', '/v1/snapshots', {
        pool,
        snapshots: own.map((volume) => ({ volume, name: `${volume}.${suffix}` })),
      } satisfies CreateSnapshots);
    }
    await refresh('/v1/snapshots', '/v1/volumes', '/v1/pools');
    props.onDone();
  };
  return (
    <FormDialog
      title={`Snapshot ${plural(props.volumes.length, 'volume')}`}
      action="Take snapshots"
      said="The snapshots were taken"
      disabled={suffix === ''}
      onSubmit={create}
      onClose={props.onClose}
    >
      <p class="faint">
        {pools.length === 1
          ? 'All of the same moment: a consistency group.'
          : 'Those of one pool are of the same moment; the pools follow each other.'}
      </p>
      <TextField
        label="Name"
        value={suffix}
        onChange={setSuffix}
        required
        first
        hint={`Each is called VOLUME.${suffix}.`}
      />
      <p class="small">{props.volumes.join(', ')}</p>
    </FormDialog>
  );
}

// All pools, and a new one.
import { useState } from 'preact/hooks';
import { ask } from '../data/client';
import { deviceKind, deviceKinds, deviceName, FIRST_KIND } from '../data/devices';
import { may } from '../data/session';
import { OFTEN, refresh, useResource } from '../data/store';
import type { CreatePool as CreatePoolBody, Forecast, Pool } from '../generated/api';
import { go } from '../router';
import { SpaceBar } from '../ui/bars';
import { Button, Card, Empty, FillBadge, Loaded, Page, StateBadge } from '../ui/basic';
import { FormDialog, LinesField, SelectField, SizeField, TextField } from '../ui/form';
import { bytes, parseBytes, plural } from '../units';
import { ImportPool } from './import_pool';
import { ForecastText } from './overview';

export function PoolsPage() {
  const pools = useResource<Pool[]>('/v1/pools', OFTEN);
  const forecasts = useResource<Forecast[]>('/v1/forecast').data;
  const [open, setOpen] = useState<'create' | 'import' | null>(null);
  const close = () => setOpen(null);
  const create = may('admin') && (
    <>
      <Button onClick={() => setOpen('import')}>Import pool</Button>
      <Button kind="primary" icon="plus" onClick={() => setOpen('create')}>
        Create pool
      </Button>
    </>
  );
  return (
    <Page title="Pools" lead="Space on files or block devices that volumes share." actions={create}>
      <Loaded of={pools} lines={5}>
        {(all) =>
          all.length === 0 ? (
            <Card title="Pools">
              <Empty icon="pool" title="There is no pool yet" action={create}>
                A pool is where the bytes of volumes rest. One file is enough to begin with; devices
                can join later while hosts write.
              </Empty>
            </Card>
          ) : (
            <div class="grid">
              {all.map((pool) => (
                <PoolCard
                  key={pool.name}
                  pool={pool}
                  forecast={forecasts?.find((one) => one.pool === pool.name)}
                />
              ))}
            </div>
          )
        }
      </Loaded>
      {open === 'create' && (
        <CreatePool onClose={close} onCreated={(name) => go(`/pools/${name}`)} />
      )}
      {open === 'import' && (
        <ImportPool onClose={close} onImported={(name) => go(`/pools/${name}`)} />
      )}
    </Page>
  );
}

function PoolCard({ pool, forecast }: { pool: Pool; forecast: Forecast | undefined }) {
  return (
    <section class="card" aria-label={`Pool ${pool.name}`}>
      <div class="pool-row-head">
        <a href={`/pools/${pool.name}`} class="big-link">
          {pool.name}
        </a>
        {pool.state === 'ready' ? (
          <FillBadge fill={pool.fill} />
        ) : (
          <StateBadge state={pool.state} reason={pool.reason} />
        )}
        <span class="faint">
          {plural(pool.devices.length, 'device')} · {plural(pool.volumes, 'volume')} ·{' '}
          {plural(pool.snapshots, 'snapshot')}
        </span>
        <span class="push">
          <ForecastText forecast={forecast} />
        </span>
      </div>
      {pool.reason && <p class="problem-line">{pool.reason}</p>}
      {pool.space && (
        <>
          <SpaceBar
            label={`Space of pool ${pool.name}`}
            space={pool.space}
            thresholds={pool.thresholds}
          />
          <p class="faint small">
            {bytes(pool.space.provisioned_bytes)} provisioned on {bytes(pool.space.total_bytes)}
          </p>
        </>
      )}
    </section>
  );
}

/** Fields of a new pool, and what they mean for the daemon; the set-up uses them too. */
export function usePoolFields() {
  const [name, setName] = useState('pool1');
  const [prefix, setPrefix] = useState(FIRST_KIND);
  const [paths, setPaths] = useState('/var/lib/gantry/pool1.img');
  const [size, setSize] = useState('100 GiB');
  const lines = paths
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const kind = deviceKind(prefix);
  const wholeDevices = kind.sized && size.trim() === '';
  const body = (): CreatePoolBody => ({
    name,
    devices: (kind.path ? lines : ['']).map((line) => deviceName(kind, line)),
    ...(wholeDevices ? {} : { size_bytes: parseBytes(size) }),
  });
  const complete =
    name !== '' && (!kind.path || lines.length > 0) && (parseBytes(size) !== null || wholeDevices);
  const change = (next: string) => {
    setPrefix(next);
    const { path, sized } = deviceKind(next);
    if (path?.start) setPaths(path.start);
    if (sized) {
      setSize('');
    } else if (size === '') setSize('100 GiB');
  };
  const fields = (
    <>
      <TextField
        label="Name"
        value={name}
        onChange={setName}
        hint="Letters, digits, '-', '_' and '.'."
        required
        first
      />
      <SelectField
        label="Where its bytes rest"
        value={prefix}
        onChange={change}
        options={deviceKinds(true)}
      />
      {kind.path && (
        <LinesField
          label={kind.path.label}
          value={paths}
          onChange={setPaths}
          rows={2}
          hint={`${kind.path.hint} One per line, up to 32.`}
        />
      )}
      <SizeField
        label={kind.sized ? 'Size of each (empty: the whole device)' : 'Size of each'}
        value={size}
        onChange={setSize}
      />
    </>
  );
  return { name, body, complete, fields };
}

export function CreatePool(props: { onClose: () => void; onCreated: (name: string) => void }) {
  const { name, body, complete, fields } = usePoolFields();
  const create = async () => {
    await ask('POST', '/v1/pools', body());
    await refresh('/v1/pools', '/v1/forecast');
  };
  return (
    <FormDialog
      title="Create pool"
      action="Create pool"
      disabled={!complete}
      said={`Pool ${name} was created`}
      onSubmit={create}
      onClose={props.onClose}
      onDone={() => props.onCreated(name)}
    >
      {fields}
    </FormDialog>
  );
}

// The controllers of the array: who is heard, who has which pool, and giving one to another.
import { useState } from 'preact/hooks';
import { ask, path } from '../data/client';
import { may } from '../data/session';
import { OFTEN, refresh, useResource } from '../data/store';
import type {
  Controller,
  JoinController,
  Maintenance,
  PairController,
  PairingCode,
  PathState,
  Pool,
  PoolStanding,
} from '../generated/api';
import {
  Badge,
  Button,
  Card,
  Copyable,
  Empty,
  Loaded,
  Note,
  Page,
  Time,
  type Tone,
} from '../ui/basic';
import { Confirm, Dialog, Form, FormDialog, TextField } from '../ui/form';
import { Table } from '../ui/table';
import { exact } from '../units';
import { FailBackDialog } from './fail_back';

const CONTROLLERS = '/v1/controllers';

type Open =
  | 'pair'
  | 'join'
  | { maintenance: boolean }
  | { forget: Controller }
  | { give: string }
  | { failBack: Pool }
  | null;

export function ControllersPage() {
  const controllers = useResource<Controller[]>(CONTROLLERS, OFTEN);
  const pools = useResource<Pool[]>('/v1/pools', OFTEN).data ?? [];
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  const own = controllers.data?.find((one) => one.is_this);
  const actions = may('admin') && own && (
    <>
      <Button onClick={() => setOpen({ maintenance: !own.maintenance })}>
        {own.maintenance ? 'End maintenance' : 'Begin maintenance'}
      </Button>
      <Button onClick={() => setOpen('join')}>Join</Button>
      <Button icon="link" onClick={() => setOpen('pair')}>
        Pair
      </Button>
    </>
  );
  return (
    <Page
      title="Controllers"
      lead="Daemons that present one target. Each pool is served by one of them at a time."
      actions={actions}
    >
      <Loaded of={controllers} lines={4}>
        {(all) => (
          <>
            <ControllersCard all={all} onForget={(forget) => setOpen({ forget })} />
            <StandingCard
              all={all}
              pools={pools}
              onGive={(give) => setOpen({ give })}
              onFailBack={(failBack) => setOpen({ failBack })}
            />
          </>
        )}
      </Loaded>
      {open === 'pair' && <Pair onClose={close} />}
      {open === 'join' && <Join onClose={close} />}
      {open && typeof open === 'object' && 'maintenance' in open && (
        <MaintenanceDialog on={open.maintenance} onClose={close} />
      )}
      {open && typeof open === 'object' && 'forget' in open && (
        <Forget controller={open.forget} onClose={close} />
      )}
      {open && typeof open === 'object' && 'give' in open && (
        <Give pool={open.give} onClose={close} />
      )}
      {open && typeof open === 'object' && 'failBack' in open && (
        <FailBackDialog pool={open.failBack} onClose={close} />
      )}
    </Page>
  );
}

function ControllersCard(props: { all: Controller[]; onForget: (controller: Controller) => void }) {
  const { all, onForget } = props;
  return (
    <Card title="Controllers" hint="As the one that serves this page knows them">
      <Table
        caption="Controllers"
        rows={all}
        id={(controller) => String(controller.number)}
        columns={[
          {
            name: 'Number',
            head: true,
            cell: ({ number, is_this }) => (
              <>
                {number} {is_this && <span class="faint">(this one)</span>}
              </>
            ),
          },
          { name: 'State', cell: (controller) => <Heard controller={controller} /> },
          {
            name: 'Portals',
            cell: ({ portals }) => (
              <code class="breakable">{portals.join(', ') || 'not told yet'}</code>
            ),
          },
          {
            name: 'Link',
            extra: true,
            cell: ({ link }) => (link ? <code>{link}</code> : <span class="faint">–</span>),
          },
          {
            name: 'Version',
            extra: true,
            cell: ({ version }) => version ?? <span class="faint">–</span>,
          },
          {
            name: 'Takes over after',
            extra: true,
            cell: ({ is_this, take_over_after }) =>
              take_over_after === null ? (
                <span class="faint">{is_this ? 'off' : '–'}</span>
              ) : (
                `${take_over_after} s`
              ),
          },
          {
            name: 'Actions',
            silent: true,
            cell: (controller) =>
              may('admin') &&
              !controller.is_this &&
              controller.paired && (
                <Button
                  small
                  onClick={() => onForget(controller)}
                  aria-label={`Forget controller ${controller.number}`}
                >
                  Forget
                </Button>
              ),
          },
        ]}
      />
      {all.length === 1 && (
        <Empty icon="link" title="There is one controller">
          A second daemon that reaches the same devices, started with --controller 2 and --link,
          takes the pools over when this one is gone. Start it, and pair the two.
        </Empty>
      )}
    </Card>
  );
}

/** Whether a controller is heard, and what it is about. */
function Heard({ controller }: { controller: Controller }) {
  const { is_this, paired, reachable, ended, maintenance, heard_at, problem } = controller;
  if (maintenance) return <Badge tone="warn">Maintenance</Badge>;
  if (is_this) return <Badge tone="good">Answers</Badge>;
  if (!paired) return <Badge tone="none">Not paired</Badge>;
  if (reachable) return <Badge tone="good">Heard</Badge>;
  return (
    <>
      <Badge tone="bad">{ended ? 'Ended' : 'Silent'}</Badge>{' '}
      <span class="faint">
        {heard_at === null ? 'not heard yet' : <Time at={heard_at} />}
        {problem && `: ${problem}`}
      </span>
    </>
  );
}

const STATE_TONE: Record<PathState, Tone> = {
  'active-optimized': 'good',
  'active-non-optimized': 'good',
  standby: 'none',
  transitioning: 'info',
  unavailable: 'bad',
};

/** How one pool is served by each controller. */
interface Row {
  pool: string;
  standings: Map<number, PoolStanding>;
}

function rowsOf(all: Controller[]): Row[] {
  const rows = new Map<string, Row>();
  for (const { number, pools } of all)
    for (const standing of pools) {
      const row = rows.get(standing.pool) ?? { pool: standing.pool, standings: new Map() };
      row.standings.set(number, standing);
      rows.set(standing.pool, row);
    }
  return [...rows.values()].sort((a, b) => a.pool.localeCompare(b.pool));
}

function StandingCard(props: {
  all: Controller[];
  pools: Pool[];
  onGive: (pool: string) => void;
  onFailBack: (pool: Pool) => void;
}) {
  const { all, pools, onGive, onFailBack } = props;
  const own = all.find((one) => one.is_this);
  const isHere = (row: Row) =>
    row.standings.get(own?.number ?? 0)?.state?.startsWith('active-') ?? false;
  return (
    <Card title="Who has which pool" hint="What hosts are told of its paths (ALUA)">
      <Table
        caption="Pools by controller"
        rows={rowsOf(all)}
        id={(row) => row.pool}
        empty={<Empty icon="pool" title="There is no pool yet" />}
        columns={[
          {
            name: 'Pool',
            head: true,
            cell: (row) => <a href={`/pools/${row.pool}`}>{row.pool}</a>,
          },
          ...all.map(({ number }) => ({
            name: `Controller ${number}`,
            cell: (row: Row) => <Standing standing={row.standings.get(number)} />,
          })),
          {
            name: 'Fail-back',
            extra: true,
            cell: (row) => <FailBack pool={pools.find((pool) => pool.name === row.pool)} />,
          },
          {
            name: 'Actions',
            silent: true,
            cell: (row) => {
              const pool = pools.find((one) => one.name === row.pool);
              return (
                may('admin') &&
                isHere(row) &&
                all.length > 1 && (
                  <span class="row-actions">
                    <Button
                      small
                      onClick={() => onGive(row.pool)}
                      aria-label={`Give pool ${row.pool} to another controller`}
                    >
                      Give away
                    </Button>
                    {pool && (
                      <Button
                        small
                        onClick={() => onFailBack(pool)}
                        aria-label={`Fail-back of pool ${row.pool}`}
                      >
                        Fail-back
                      </Button>
                    )}
                  </span>
                )
              );
            },
          },
        ]}
      />
    </Card>
  );
}

function Standing({ standing }: { standing: PoolStanding | undefined }) {
  if (!standing) return <span class="faint">not known there</span>;
  const { state, preferred } = standing;
  return (
    <>
      {state ? <Badge tone={STATE_TONE[state]}>{state}</Badge> : <Badge tone="warn">unknown</Badge>}
      {preferred && <span class="faint"> preferred</span>}
    </>
  );
}

function FailBack({ pool }: { pool: Pool | undefined }) {
  if (!pool || pool.fail_back_seconds === null || pool.preferred_controller === null)
    return <span class="faint">off</span>;
  return (
    <span title={pool.fail_back_waits_for ?? ''}>
      to {pool.preferred_controller} after {pool.fail_back_seconds} s
    </span>
  );
}

function Pair({ onClose }: { onClose: () => void }) {
  const [address, setAddress] = useState('');
  const [code, setCode] = useState<PairingCode | null>(null);
  const pair = async () => {
    const body = (address ? { address } : {}) satisfies PairController;
    setCode(await ask<PairingCode>('POST', `${CONTROLLERS}/pair`, body));
  };
  return (
    <Dialog title="Pair with another controller" onClose={onClose}>
      {code ? (
        <>
          <p>
            Give this code to the other controller, with Join on its page or{' '}
            <code>gantry controller join</code>. It works once, until {exact(code.expires)}.
          </p>
          <Copyable text={code.code} label="Pairing code" block />
          <Note tone="warn">
            Whoever has the code can become a controller of this array, as long as it lasts.
          </Note>
          <div class="form-actions">
            <Button kind="primary" onClick={onClose}>
              Done
            </Button>
          </div>
        </>
      ) : (
        <Form action="Show a code" onSubmit={pair} onCancel={onClose}>
          <TextField
            label="Address of this controller's link (empty: as it was started)"
            value={address}
            onChange={setAddress}
            mono
            placeholder="192.0.2.1:3262"
            hint="Where the other one finds it: host and TCP port."
          />
        </Form>
      )}
    </Dialog>
  );
}

function Join({ onClose }: { onClose: () => void }) {
  const [code, setCode] = useState('');
  const join = async () => {
    await ask('POST', `${CONTROLLERS}/join`, { code: code.trim() } satisfies JoinController);
    await refresh(CONTROLLERS);
  };
  return (
    <FormDialog
      title="Join another controller"
      action="Join"
      said="The two controllers know each other"
      disabled={code.trim() === ''}
      onSubmit={join}
      onClose={onClose}
    >
      <TextField
        label="Code"
        value={code}
        onChange={setCode}
        mono
        required
        first
        hint="The other controller shows it: Pair on its page, or 'gantry controller pair'."
      />
    </FormDialog>
  );
}

function MaintenanceDialog({ on, onClose }: { on: boolean; onClose: () => void }) {
  const set = async () => {
    await ask('PUT', `${CONTROLLERS}/maintenance`, { on } satisfies Maintenance);
    await refresh(CONTROLLERS, '/v1/pools');
  };
  return (
    <Confirm
      title={on ? 'Begin maintenance of this controller?' : 'End maintenance of this controller?'}
      action={on ? 'Begin maintenance' : 'End maintenance'}
      said={on ? 'Its pools are given to others' : 'Maintenance has ended'}
      onConfirm={set}
      onClose={onClose}
    >
      <p>
        {on
          ? 'It gives its pools to controllers that are heard and standby, and takes none until maintenance or its daemon ends. Hosts with a path to each controller go on.'
          : 'It takes pools again that others let go or lose. What it gave away stays where it is, unless fail-back is set.'}
      </p>
    </Confirm>
  );
}

function Give({ pool, onClose }: { pool: string; onClose: () => void }) {
  const give = async () => {
    await ask('POST', path('pools', pool, 'switch'));
    await refresh(CONTROLLERS, '/v1/pools');
  };
  return (
    <Confirm
      title={`Give pool ${pool} to another controller?`}
      action="Give away"
      said={`Pool ${pool} is given away`}
      onConfirm={give}
      onClose={onClose}
    >
      <p>
        Hosts wait some tenths of a second and go on through the other controller. If none takes the
        pool within 10 seconds it is opened here again.
      </p>
    </Confirm>
  );
}

function Forget({ controller, onClose }: { controller: Controller; onClose: () => void }) {
  const { number } = controller;
  const forget = async () => {
    await ask('DELETE', path('controllers', String(number)));
    await refresh(CONTROLLERS);
  };
  return (
    <Confirm
      title={`Forget controller ${number}?`}
      action="Forget"
      said={`Controller ${number} was forgotten`}
      onConfirm={forget}
      onClose={onClose}
    >
      <Note tone="warn">
        It is not heard any more, and neither takes pools from this one by itself nor gives any back
        to it. Forget this one there, too. They can be paired again.
      </Note>
    </Confirm>
  );
}

// Where hosts find the target.
import { useState } from 'preact/hooks';
import { ask, given, path } from '../data/client';
import { may } from '../data/session';
import { refresh, useResource } from '../data/store';
import type {
  CreatePortal as CreatePortalBody,
  PathState,
  Portal,
  Session,
  SetPathState,
  Target,
} from '../generated/api';
import { Badge, Button, Card, Copyable, Empty, Loaded, Note } from '../ui/basic';
import { Confirm, FormDialog, NumberField, SelectField, TextField } from '../ui/form';
import { Table } from '../ui/table';
import { plural } from '../units';

const STATES: [PathState, string][] = [
  ['active-optimized', 'Active, optimized: as well as can be'],
  ['active-non-optimized', 'Active, non-optimized: hosts should prefer other paths'],
  ['standby', 'Standby: no data'],
  ['unavailable', 'Unavailable: no data'],
  ['transitioning', 'Transitioning: no data; hosts wait for another state'],
];

type Open = 'create' | { state: Portal } | { remove: Portal } | null;

export function PortalsTab() {
  const target = useResource<Target>('/v1/target');
  const portals = useResource<Portal[]>('/v1/portals');
  const [open, setOpen] = useState<Open>(null);
  const admin = may('admin');
  return (
    <>
      <Card title="Target">
        <Loaded of={target} lines={1}>
          {(data) => (
            <p>
              Hosts find the array as <Copyable text={data.name} label="iSCSI name" />
            </p>
          )}
        </Loaded>
      </Card>
      <Card
        title="Portals"
        hint="Addresses that the target listens on"
        actions={
          admin && (
            <Button kind="primary" icon="plus" onClick={() => setOpen('create')}>
              Add portal
            </Button>
          )
        }
      >
        <Loaded of={portals}>
          {(all) => (
            <Table
              caption="Portals"
              rows={all}
              id={(portal) => portal.address}
              empty={
                <Empty icon="session" title="There is no portal">
                  Without one no host can log in.
                </Empty>
              }
              columns={[
                { name: 'Address', head: true, cell: (portal) => <code>{portal.address}</code> },
                { name: 'Group', number: true, cell: (portal) => portal.target_portal_group_tag },
                {
                  name: 'State',
                  cell: (portal) => (
                    <Badge tone={portal.state === 'active-optimized' ? 'good' : 'warn'}>
                      {portal.state}
                    </Badge>
                  ),
                },
                {
                  name: 'Sends to',
                  cell: (portal) => portal.redirect ?? <span class="faint">–</span>,
                },
                {
                  name: 'Actions',
                  silent: true,
                  cell: (portal) =>
                    admin && (
                      <span class="row-actions">
                        <Button
                          small
                          onClick={() => setOpen({ state: portal })}
                          aria-label={`State of group ${portal.target_portal_group_tag}`}
                        >
                          State
                        </Button>
                        <Button
                          small
                          icon="trash"
                          disabled={portal.fixed}
                          title={portal.fixed ? 'Given to the daemon at its start' : ''}
                          onClick={() => setOpen({ remove: portal })}
                          aria-label={`Delete portal ${portal.address}`}
                        />
                      </span>
                    ),
                },
              ]}
            />
          )}
        </Loaded>
      </Card>
      {open === 'create' && <CreatePortal onClose={() => setOpen(null)} />}
      {typeof open === 'object' && open && 'state' in open && (
        <StateDialog portal={open.state} onClose={() => setOpen(null)} />
      )}
      {typeof open === 'object' && open && 'remove' in open && (
        <DeletePortal portal={open.remove} onClose={() => setOpen(null)} />
      )}
    </>
  );
}

function CreatePortal({ onClose }: { onClose: () => void }) {
  const [address, setAddress] = useState('');
  const [tag, setTag] = useState<number | null>(1);
  const [redirect, setRedirect] = useState('');
  const create = async () => {
    await ask('POST', '/v1/portals', {
      address,
      target_portal_group_tag: given(tag),
      ...(redirect ? { redirect } : {}),
    } satisfies CreatePortalBody);
    await refresh('/v1/portals', '/v1/target');
  };
  return (
    <FormDialog
      title="Add portal"
      action="Add portal"
      said={`The target listens on ${address}`}
      disabled={address === '' || tag === null}
      onSubmit={create}
      onClose={onClose}
    >
      <TextField
        label="Address"
        value={address}
        onChange={setAddress}
        mono
        required
        first
        placeholder="192.0.2.10:3260"
        hint="IP address and TCP port of this machine, an IPv6 address in brackets."
      />
      <NumberField
        label="Target portal group"
        value={tag}
        onChange={setTag}
        min={1}
        max={65535}
        required
        hint="Paths of one group change their state together."
      />
      <TextField
        label="Send initiators elsewhere (empty: let them in)"
        value={redirect}
        onChange={setRedirect}
        mono
        placeholder="192.0.2.11:3260"
      />
    </FormDialog>
  );
}

function StateDialog({ portal, onClose }: { portal: Portal; onClose: () => void }) {
  const [state, setState] = useState<PathState>(portal.state ?? 'active-optimized');
  const set = async () => {
    await ask('PUT', path('portal-groups', String(portal.target_portal_group_tag), 'state'), {
      state,
    } satisfies SetPathState);
    await refresh('/v1/portals', '/v1/target');
  };
  const stops = !state.startsWith('active-');
  return (
    <FormDialog
      title={`State of portal group ${portal.target_portal_group_tag}`}
      action="Set state"
      danger={stops}
      said="The state was set"
      onSubmit={set}
      onClose={onClose}
    >
      <SelectField
        label="State"
        value={state}
        onChange={setState}
        options={STATES}
        hint="Hosts are told (ALUA)."
      />
      {stops && (
        <Note tone="warn">
          No data pass on the paths of this group from then on. Hosts without another path wait.
        </Note>
      )}
    </FormDialog>
  );
}

function DeletePortal({ portal, onClose }: { portal: Portal; onClose: () => void }) {
  const sessions =
    useResource<Session[]>('/v1/sessions').data?.filter(
      (session) => session.portal === portal.address,
    ) ?? [];
  const remove = async () => {
    await ask('DELETE', path('portals', portal.address));
    await refresh('/v1/portals', '/v1/target', '/v1/sessions');
  };
  return (
    <Confirm
      title={`Delete portal ${portal.address}?`}
      action="Delete"
      said={`Portal ${portal.address} was deleted`}
      onConfirm={remove}
      onClose={onClose}
    >
      <p>
        {sessions.length === 0
          ? 'Nobody is logged in through it.'
          : `${plural(sessions.length, 'session')} of ${[...new Set(sessions.map((session) => session.host ?? session.initiator))].join(', ')} are asked to log out.`}
      </p>
    </Confirm>
  );
}

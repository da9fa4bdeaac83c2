// Hosts, groups of hosts, and who may ask for the target.
import { useState } from 'preact/hooks';
import { ask, path } from '../data/client';
import { may } from '../data/session';
import { OFTEN, refresh, useResource } from '../data/store';
import type {
  Chap,
  CreateHost as CreateHostBody,
  Discovery,
  Group,
  Host,
  Session,
  SetGroup,
  Volume,
} from '../generated/api';
import { go } from '../router';
import { Badge, Button, Card, Empty, Loaded, Note, Page } from '../ui/basic';
import { CheckField, ChoicesField, Confirm, FormDialog, LinesField, TextField } from '../ui/form';
import { Table } from '../ui/table';
import { plural } from '../units';
import { LabelsDialog, writeLabels } from './labels';

type Open =
  | 'host'
  | 'group'
  | 'discovery'
  | { group: Group }
  | { label: Group }
  | { remove: Group }
  | null;

export function HostsPage() {
  const hosts = useResource<Host[]>('/v1/hosts', OFTEN);
  const [open, setOpen] = useState<Open>(null);
  const create = may('operator') && (
    <Button kind="primary" icon="plus" onClick={() => setOpen('host')}>
      Create host
    </Button>
  );
  return (
    <Page title="Hosts" lead="Initiators that belong together see the same LUNs." actions={create}>
      <Card title="Hosts" hint={hosts.data && plural(hosts.data.length, 'host')}>
        <Loaded of={hosts} lines={5}>
          {(all) => <HostTable hosts={all} create={create} />}
        </Loaded>
      </Card>
      <Groups open={setOpen} hosts={hosts.data ?? []} />
      {may('admin') && <DiscoveryCard open={() => setOpen('discovery')} />}
      {open === 'host' && <CreateHost onClose={() => setOpen(null)} />}
      {open === 'group' && <GroupDialog hosts={hosts.data ?? []} onClose={() => setOpen(null)} />}
      {open === 'discovery' && <DiscoveryChap onClose={() => setOpen(null)} />}
      {typeof open === 'object' && open && 'group' in open && (
        <GroupDialog hosts={hosts.data ?? []} group={open.group} onClose={() => setOpen(null)} />
      )}
      {typeof open === 'object' && open && 'label' in open && (
        <LabelsDialog
          name={open.label.name}
          at={path('groups', open.label.name)}
          shownBy={['/v1/groups']}
          onClose={() => setOpen(null)}
        />
      )}
      {typeof open === 'object' && open && 'remove' in open && (
        <DeleteGroup group={open.remove} onClose={() => setOpen(null)} />
      )}
    </Page>
  );
}

/** Volumes that a host sees: its own, its groups' and everybody's. */
export function volumesOf(host: string, volumes: Volume[], groups: Group[]): Volume[] {
  const names = [
    host,
    'any',
    ...groups.filter((group) => group.hosts.includes(host)).map((group) => group.name),
  ];
  return volumes.filter((volume) => volume.hosts.some((name) => names.includes(name)));
}

function HostTable({ hosts, create }: { hosts: Host[]; create: preact.ComponentChildren }) {
  const sessions = useResource<Session[]>('/v1/sessions', OFTEN).data ?? [];
  const volumes = useResource<Volume[]>('/v1/volumes', OFTEN).data ?? [];
  const groups = useResource<Group[]>('/v1/groups').data ?? [];
  const loggedIn = (host: Host) => sessions.filter((session) => session.host === host.name).length;
  return (
    <Table
      caption="Hosts"
      rows={hosts}
      id={(host) => host.name}
      empty={
        <Empty icon="host" title="There is no host yet" action={create}>
          A host is a name and the iSCSI names of its initiators. Without one, only volumes that are
          mapped to every initiator can be used.
        </Empty>
      }
      columns={[
        {
          name: 'Host',
          head: true,
          sort: (host) => host.name,
          cell: (host) => (
            <a href={`/hosts/${encodeURIComponent(host.name)}`}>
              <b>{host.name}</b>
            </a>
          ),
        },
        {
          name: 'Logged in',
          sort: loggedIn,
          cell: (host) =>
            loggedIn(host) > 0 ? (
              <Badge tone="good">{plural(loggedIn(host), 'session')}</Badge>
            ) : (
              <Badge tone="none">no</Badge>
            ),
        },
        {
          name: 'Sees',
          sort: (host) => volumesOf(host.name, volumes, groups).length,
          cell: (host) => plural(volumesOf(host.name, volumes, groups).length, 'volume'),
        },
        {
          name: 'Groups',
          extra: true,
          cell: (host) =>
            groups
              .filter((group) => group.hosts.includes(host.name))
              .map((group) => group.name)
              .join(', ') || <span class="faint">–</span>,
        },
        {
          name: 'CHAP',
          cell: (host) =>
            host.chap_user ? (
              <Badge tone="good">{host.mutual_chap ? 'mutual' : 'one-way'}</Badge>
            ) : (
              <span class="faint">none</span>
            ),
        },
        {
          name: 'Initiators',
          cell: (host) => (
            <span class="stack">
              {host.initiators.map((name) => (
                <code key={name} class="breakable">
                  {name}
                </code>
              ))}
            </span>
          ),
        },
      ]}
    />
  );
}

function Groups({ open, hosts }: { open: (open: Open) => void; hosts: Host[] }) {
  const groups = useResource<Group[]>('/v1/groups');
  const create = may('operator') && (
    <Button small icon="plus" disabled={hosts.length === 0} onClick={() => open('group')}>
      Create group
    </Button>
  );
  return (
    <Card
      title="Groups"
      hint="A volume that is mapped to a group is seen by all of its hosts"
      actions={create}
    >
      <Loaded of={groups}>
        {(all) => (
          <Table
            caption="Groups of hosts"
            rows={all}
            id={(group) => group.name}
            empty={
              <Empty icon="host" title="There is no group">
                The hosts of a cluster belong in one: map a datastore once, and all of them see it.
              </Empty>
            }
            columns={[
              { name: 'Group', head: true, cell: (group) => <b>{group.name}</b> },
              { name: 'Hosts', cell: (group) => group.hosts.join(', ') },
              {
                name: 'Labels',
                extra: true,
                cell: (group) =>
                  writeLabels(group.tags).replaceAll('\n', ', ') || <span class="faint">–</span>,
              },
              {
                name: 'Actions',
                silent: true,
                cell: (group) =>
                  may('operator') && (
                    <span class="row-actions">
                      <Button
                        small
                        onClick={() => open({ group })}
                        aria-label={`Change group ${group.name}`}
                      >
                        Change
                      </Button>
                      <Button
                        small
                        onClick={() => open({ label: group })}
                        aria-label={`Labels of group ${group.name}`}
                      >
                        Labels
                      </Button>
                      <Button
                        small
                        icon="trash"
                        onClick={() => open({ remove: group })}
                        aria-label={`Delete group ${group.name}`}
                      />
                    </span>
                  ),
              },
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}

function DiscoveryCard({ open }: { open: () => void }) {
  const discovery = useResource<Discovery>('/v1/discovery/chap');
  return (
    <Card
      title="Discovery"
      hint="Who may ask for the target's name"
      actions={
        <Button small icon="lock" onClick={open}>
          Set CHAP account
        </Button>
      }
    >
      <Loaded of={discovery}>
        {({ chap_user: user, mutual }) =>
          user == null ? (
            <p class="faint">
              Without an account everybody who reaches a portal may ask. What a host sees then is
              still decided by its maps.
            </p>
          ) : (
            <p>
              Whoever asks must log in as <code>{user}</code>
              {mutual && ', and the target proves itself too'}.
            </p>
          )
        }
      </Loaded>
    </Card>
  );
}

export interface ChapText {
  user: string;
  secret: string;
  mutualUser: string;
  mutualSecret: string;
}
export const NO_CHAP: ChapText = { user: '', secret: '', mutualUser: '', mutualSecret: '' };

/** The account as the daemon wants it. */
export function chapBody(chap: ChapText): Chap {
  const mutual = chap.mutualUser
    ? { mutual_user: chap.mutualUser, mutual_secret: chap.mutualSecret }
    : {};
  return { user: chap.user, secret: chap.secret, ...mutual };
}

export function ChapFields({
  chap,
  onChange,
}: {
  chap: ChapText;
  onChange: (chap: ChapText) => void;
}) {
  const set = (part: Partial<ChapText>) => onChange({ ...chap, ...part });
  return (
    <>
      <TextField
        label="CHAP name"
        value={chap.user}
        onChange={(user) => set({ user })}
        mono
        required
      />
      <TextField
        label="Secret"
        type="password"
        autocomplete="new-password"
        value={chap.secret}
        onChange={(secret) => set({ secret })}
        hint="12 to 255 characters; many initiators take 12 to 16. It cannot be shown again."
        required
      />
      <details class="more-fields">
        <summary>The target proves itself too (mutual)</summary>
        <TextField
          label="Name that the target gives"
          value={chap.mutualUser}
          onChange={(mutualUser) => set({ mutualUser })}
          mono
        />
        <TextField
          label="The target's secret"
          type="password"
          autocomplete="new-password"
          value={chap.mutualSecret}
          onChange={(mutualSecret) => set({ mutualSecret })}
          hint="Different from the initiator's."
        />
      </details>
    </>
  );
}

/** Initiators that are logged in and belong to no host. */
export function useStrangers(): string[] {
  const sessions = useResource<Session[]>('/v1/sessions', OFTEN).data ?? [];
  return [
    ...new Set(
      sessions.filter((session) => session.host == null).map((session) => session.initiator),
    ),
  ];
}

/** Fields of a new host; the set-up uses them too. */
export function useHostFields() {
  const [name, setName] = useState('');
  const [initiators, setInitiators] = useState('');
  const [protect, setProtect] = useState(false);
  const [chap, setChap] = useState(NO_CHAP);
  const strangers = useStrangers();
  const names = initiators.split(/[\s,]+/).filter((one) => one !== '');
  const body = (): CreateHostBody => ({
    name,
    initiators: names,
    ...(protect ? { chap: chapBody(chap) } : {}),
  });
  const fields = (
    <>
      <TextField
        label="Name"
        value={name}
        onChange={setName}
        required
        first
        hint="Letters, digits, '-', '_' and '.'."
      />
      <LinesField
        label="iSCSI names of its initiators"
        value={initiators}
        onChange={setInitiators}
        rows={2}
        placeholder="iqn.1998-01.com.vmware:esx1-4f2a01bc"
        hint="One per line. ESXi shows it under Storage adapters, Linux in /etc/iscsi/initiatorname.iscsi, Windows in the iSCSI Initiator under Configuration."
      />
      {strangers.length > 0 && (
        <div class="suggestions">
          <span class="faint small">Logged in and without a host:</span>
          {strangers.slice(0, 5).map((stranger) => (
            <Button
              small
              key={stranger}
              icon="plus"
              onClick={() => setInitiators(initiators ? `${initiators}\n${stranger}` : stranger)}
            >
              {stranger}
            </Button>
          ))}
        </div>
      )}
      <CheckField
        label="It must prove who it is (CHAP)"
        checked={protect}
        onChange={setProtect}
        hint="Recommended where others can reach the portals."
      />
      {protect && <ChapFields chap={chap} onChange={setChap} />}
    </>
  );
  return { name, body, complete: name !== '' && names.length > 0, fields };
}

function CreateHost({ onClose }: { onClose: () => void }) {
  const { name, body, complete, fields } = useHostFields();
  const create = async () => {
    await ask('POST', '/v1/hosts', body());
    await refresh('/v1/hosts', '/v1/sessions');
    go(`/hosts/${encodeURIComponent(name)}`);
  };
  return (
    <FormDialog
      title="Create host"
      action="Create host"
      disabled={!complete}
      said={`Host ${name} was created`}
      onSubmit={create}
      onClose={onClose}
    >
      {fields}
    </FormDialog>
  );
}

function GroupDialog({
  hosts,
  group,
  onClose,
}: {
  hosts: Host[];
  group?: Group;
  onClose: () => void;
}) {
  const [name, setName] = useState(group?.name ?? '');
  const [members, setMembers] = useState(group?.hosts ?? []);
  const set = async () => {
    await ask('PUT', path('groups', name), { hosts: members } satisfies SetGroup);
    await refresh('/v1/groups', '/v1/volumes', '/v1/sessions');
  };
  const left = (group?.hosts ?? []).filter((host) => !members.includes(host));
  return (
    <FormDialog
      title={group ? `Change group ${group.name}` : 'Create group'}
      action={group ? 'Change' : 'Create group'}
      said={`Group ${name} has ${members.length} hosts`}
      disabled={name === ''}
      onSubmit={set}
      onClose={onClose}
    >
      {!group && (
        <TextField
          label="Name"
          value={name}
          onChange={setName}
          required
          first
          hint="Unlike those of all hosts."
        />
      )}
      <ChoicesField
        label="Hosts"
        options={hosts.map((host) => host.name)}
        chosen={members}
        onChange={setMembers}
      />
      {left.length > 0 && (
        <Note tone="warn">
          {left.join(', ')} will no longer see the volumes that are mapped to this group.
        </Note>
      )}
    </FormDialog>
  );
}

function DeleteGroup({ group, onClose }: { group: Group; onClose: () => void }) {
  const volumes =
    useResource<Volume[]>('/v1/volumes').data?.filter((volume) =>
      volume.hosts.includes(group.name),
    ) ?? [];
  const remove = async () => {
    await ask('DELETE', path('groups', group.name));
    await refresh('/v1/groups');
  };
  return (
    <Confirm
      title={`Delete group ${group.name}?`}
      action="Delete"
      disabled={volumes.length > 0}
      said={`Group ${group.name} was deleted`}
      onConfirm={remove}
      onClose={onClose}
    >
      <p>Its hosts ({group.hosts.join(', ') || 'none'}) stay.</p>
      {volumes.length > 0 && (
        <Note tone="warn">
          {volumes.map((volume) => `${volume.pool}/${volume.name}`).join(', ')}{' '}
          {volumes.length === 1 ? 'is' : 'are'} mapped to it: unmap{' '}
          {volumes.length === 1 ? 'it' : 'them'} first.
        </Note>
      )}
    </Confirm>
  );
}

function DiscoveryChap({ onClose }: { onClose: () => void }) {
  const [none, setNone] = useState(false);
  const [chap, setChap] = useState(NO_CHAP);
  const set = async () => {
    await (none
      ? ask('DELETE', '/v1/discovery/chap')
      : ask('PUT', '/v1/discovery/chap', chapBody(chap)));
    await refresh('/v1/discovery/chap');
  };
  return (
    <FormDialog
      title="CHAP for discovery"
      action="Set"
      said="Discovery was changed"
      onSubmit={set}
      onClose={onClose}
    >
      <CheckField label="No proof: everybody may ask" checked={none} onChange={setNone} />
      {!none && <ChapFields chap={chap} onChange={setChap} />}
    </FormDialog>
  );
}

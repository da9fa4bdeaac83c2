// What can be done to a volume and its snapshots.
import { useState } from 'preact/hooks';
import { ask, given, path } from '../data/client';
import { deleting, OFTEN, refresh, useResource } from '../data/store';
import type {
  CloneVolume,
  CreateSnapshots,
  Group,
  Host,
  LockSnapshot as LockSnapshotBody,
  MapVolume,
  ResizeVolume,
  RevertVolume,
  Session,
  Snapshot,
  Volume,
} from '../generated/api';
import { go } from '../router';
import { PartsBar } from '../ui/bars';
import { Note, Segmented, Time } from '../ui/basic';
import {
  CheckField,
  Confirm,
  FormDialog,
  NumberField,
  SelectField,
  SizeField,
  TextField,
} from '../ui/form';
import { bytes, parseBytes, plural, sizeText } from '../units';
import { lunOf, usersOf, volumeParts } from './volume';
import { volumeLink } from './volumes';

interface OfVolume {
  volume: Volume;
  onClose: () => void;
}

const changed = () =>
  refresh('/v1/volumes', '/v1/snapshots', '/v1/pools', '/v1/hosts', '/v1/tasks', '/v1/sessions');
const own = (volume: Volume, ...more: string[]) =>
  path('volumes', volume.pool, volume.name, ...more);

/** Hosts, groups and everybody, as choices. */
export function useMapChoices(): [string, string][] {
  const hosts = useResource<Host[]>('/v1/hosts').data ?? [];
  const groups = useResource<Group[]>('/v1/groups').data ?? [];
  return [
    ...hosts.map((host): [string, string] => [host.name, host.name]),
    ...groups.map((group): [string, string] => [
      group.name,
      `${group.name} (group of ${plural(group.hosts.length, 'host')})`,
    ]),
    ['any', 'every initiator'],
  ];
}

export function MapDialog({ volume, onClose }: OfVolume) {
  const choices = useMapChoices().filter(([name]) => !volume.hosts.includes(name));
  const [chosen, setHost] = useState('');
  const [lun, setLun] = useState<number | null>(null);
  const [readOnly, setReadOnly] = useState(false);
  const host = chosen || choices[0]?.[0] || '';
  const map = async () => {
    await ask('PUT', own(volume, 'maps', host), {
      ...(lun === null ? {} : { lun }),
      read_only: readOnly,
    } satisfies MapVolume);
    await changed();
  };
  return (
    <FormDialog
      title={`Map ${volume.name} to a host`}
      action="Map"
      said={`${volume.name} was mapped to ${host}`}
      disabled={host === ''}
      onSubmit={map}
      onClose={onClose}
    >
      <SelectField
        label="Host or group"
        value={host}
        onChange={setHost}
        options={choices}
        hint={
          host === 'any' ? (
            'Whoever reaches the portal may use it: for tests and networks that you trust.'
          ) : (
            <>
              Not in the list? <a href="/hosts">Create the host</a> first.
            </>
          )
        }
      />
      <NumberField
        label="LUN"
        value={lun}
        onChange={setLun}
        min={0}
        max={16383}
        placeholder={volume.lun == null ? 'lowest free' : `${volume.lun} if that is free`}
        hint="The number by which this host sees the volume."
      />
      <CheckField label="The host may only read" checked={readOnly} onChange={setReadOnly} />
    </FormDialog>
  );
}

/** Sessions that a change would hurt. */
function InUse({ volume, host }: { volume: Volume; host?: string }) {
  const sessions = useResource<Session[]>('/v1/sessions', OFTEN).data;
  const groups = useResource<Group[]>('/v1/groups').data ?? [];
  const users = usersOf(volume, sessions, groups, host);
  if (users.length === 0) return <Note tone="info">Nobody who sees it is logged in now.</Note>;
  const busy = users.reduce((sum, session) => sum + session.commands_under_way, 0);
  return (
    <Note tone="warn">
      In use: {plural(users.length, 'session')} of{' '}
      {[...new Set(users.map((session) => session.host ?? session.initiator))].join(', ')}
      {busy > 0 ? `, with ${plural(busy, 'command')} under way` : ''}. Let the host go of it first
      (unmount its datastore or file system), or its programs see I/O errors.
    </Note>
  );
}

export function UnmapDialog({ volume, host, onClose }: OfVolume & { host: string }) {
  const unmap = async () => {
    await ask('DELETE', own(volume, 'maps', host));
    await changed();
  };
  return (
    <Confirm
      title={`Unmap ${volume.name} from ${host}?`}
      action="Unmap"
      said={`${volume.name} was unmapped from ${host}`}
      onConfirm={unmap}
      onClose={onClose}
    >
      <p>No data are lost: the volume stays, and can be mapped again under the same LUN.</p>
      <InUse volume={volume} host={host} />
    </Confirm>
  );
}

export function ResizeDialog({ volume, onClose }: OfVolume) {
  const [size, setSize] = useState(sizeText(volume.size_bytes));
  const wanted = parseBytes(size);
  const [sure, setSure] = useState(false);
  const shrinks = wanted !== null && wanted < volume.size_bytes;
  const resize = async () => {
    await ask('PATCH', own(volume), {
      size_bytes: given(wanted),
      shrink: shrinks,
    } satisfies ResizeVolume);
    await changed();
  };
  return (
    <FormDialog
      title={`Resize ${volume.name}`}
      action={shrinks ? 'Shrink' : 'Resize'}
      danger={shrinks}
      said={`${volume.name} was resized`}
      disabled={wanted === null || wanted === volume.size_bytes || (shrinks && !sure)}
      onSubmit={resize}
      onClose={onClose}
    >
      <SizeField
        label="New size"
        value={size}
        onChange={setSize}
        required
        hint={`Now ${bytes(volume.size_bytes)}. Rescan on the hosts afterwards.`}
      />
      {shrinks && (
        <>
          <Note tone="bad">
            What lies beyond {bytes(wanted)} is destroyed: {bytes(volume.size_bytes - wanted)} of
            addresses.
          </Note>
          <InUse volume={volume} />
          <CheckField
            label="The file system on it was made smaller before"
            checked={sure}
            onChange={setSure}
          />
        </>
      )}
    </FormDialog>
  );
}

const stamp = () => new Date().toISOString().slice(0, 16).replace(/[-:]/g, '').replace('T', '-');

export function SnapshotDialog({ volume, onClose }: OfVolume) {
  const [name, setName] = useState(`${volume.name}.${stamp()}`);
  const take = async () => {
    await ask('POST', '/v1/snapshots', {
      pool: volume.pool,
      snapshots: [{ volume: volume.name, name }],
    } satisfies CreateSnapshots);
    await changed();
  };
  return (
    <FormDialog
      title={`Take a snapshot of ${volume.name}`}
      action="Take snapshot"
      said={`Snapshot ${name} was taken`}
      disabled={name === ''}
      onSubmit={take}
      onClose={onClose}
    >
      <p class="faint">
        At once, whatever the size. It takes no space until something is overwritten.
      </p>
      <TextField
        label="Name"
        value={name}
        onChange={setName}
        required
        first
        hint="Unlike those of all volumes and snapshots of the pool."
      />
    </FormDialog>
  );
}

export function CloneDialog({
  pool,
  of,
  size,
  onClose,
}: {
  pool: string;
  of: string;
  size: number;
  onClose: () => void;
}) {
  const [name, setName] = useState(`${of}-clone`);
  const [thick, setThick] = useState(false);
  const clone = async () => {
    await ask('POST', path('volumes', pool, of, 'clones'), { name, thick } satisfies CloneVolume);
    await changed();
    go(volumeLink(`${pool}/${name}`));
  };
  return (
    <FormDialog
      title={`Clone ${of}`}
      action="Clone"
      said={`${name} is a clone of ${of}`}
      disabled={name === ''}
      onSubmit={clone}
      onClose={onClose}
    >
      <p class="faint">
        A new, writable volume of {bytes(size)} with the content of this moment. It shares all data
        and takes space only as either is overwritten.
      </p>
      <TextField label="Name of the clone" value={name} onChange={setName} required first />
      <CheckField
        label="Thick: set all of its space aside"
        hint={`So that it never runs out: ${bytes(size)}.`}
        checked={thick}
        onChange={setThick}
      />
    </FormDialog>
  );
}

export function RevertDialog({ volume, snapshot, onClose }: OfVolume & { snapshot: Snapshot }) {
  const mapped = volume.hosts.length > 0;
  const [sure, setSure] = useState(false);
  const revert = async () => {
    await ask('POST', own(volume, 'revert'), {
      snapshot: snapshot.name,
      force: mapped,
    } satisfies RevertVolume);
    await changed();
  };
  return (
    <Confirm
      title={`Revert ${volume.name} to ${snapshot.name}?`}
      action="Revert"
      disabled={mapped && !sure}
      said={`${volume.name} is as it was in ${snapshot.name}`}
      onConfirm={revert}
      onClose={onClose}
    >
      <p>
        The volume takes back the content and the size ({bytes(snapshot.size_bytes)}) that it had{' '}
        <Time at={snapshot.created} />. <b>Everything written since is lost</b>, unless another
        snapshot keeps it.
      </p>
      {mapped && <InUse volume={volume} />}
      {mapped && (
        <CheckField
          label="No host has it in use: it is unmounted, its machines are off"
          checked={sure}
          onChange={setSure}
        />
      )}
    </Confirm>
  );
}

export function DeleteVolume({ volume, onClose }: OfVolume) {
  const least = volume.mapped_bytes - volume.shared_bytes;
  const mapped = volume.hosts.length > 0;
  const remove = async () => {
    for (const host of volume.hosts) await ask('DELETE', own(volume, 'maps', host));
    await deleting(own(volume), () => ask('DELETE', own(volume)));
    go('/volumes');
    await changed();
  };
  return (
    <Confirm
      title={`Delete ${volume.name}?`}
      action={mapped ? 'Unmap and delete' : 'Delete'}
      retype={volume.name}
      said={`${volume.name} was deleted`}
      onConfirm={remove}
      onClose={onClose}
    >
      <PartsBar label="What it holds" parts={volumeParts(volume)} />
      <p>
        Frees{' '}
        {least === volume.mapped_bytes ? (
          <b>{bytes(least)}</b>
        ) : (
          <>
            <b>at least {bytes(least)}</b>; the other {bytes(volume.shared_bytes)} may stay in use
            by snapshots or clones
          </>
        )}
        . There is no way back.
      </p>
      {volume.snapshots > 0 && (
        <Note tone="info">
          {volume.snapshots === 1 ? 'Its snapshot stays' : `Its ${volume.snapshots} snapshots stay`}
          , with all that is held there.
        </Note>
      )}
      {mapped && (
        <Note tone="warn">
          It is mapped to {volume.hosts.join(', ')} as {lunOf(volume)}, and is unmapped there first.
        </Note>
      )}
      {mapped && <InUse volume={volume} />}
    </Confirm>
  );
}

export function DeleteSnapshot({ snapshot, onClose }: { snapshot: Snapshot; onClose: () => void }) {
  const remove = async () => {
    await ask('DELETE', path('snapshots', snapshot.pool, snapshot.name));
    await changed();
  };
  const least = snapshot.mapped_bytes - snapshot.shared_bytes;
  return (
    <Confirm
      title={`Delete snapshot ${snapshot.name}?`}
      action="Delete"
      said={`Snapshot ${snapshot.name} was deleted`}
      onConfirm={remove}
      onClose={onClose}
    >
      <p>
        Made <Time at={snapshot.created} />. Frees{' '}
        <b>{least > 0 ? `at least ${bytes(least)}` : 'little or nothing'}</b>:{' '}
        {bytes(snapshot.shared_bytes)} are shared with the volume or clones.
      </p>
      {snapshot.hosts.length > 0 && (
        <Note tone="warn">It is mapped to {snapshot.hosts.join(', ')}: unmap it first.</Note>
      )}
    </Confirm>
  );
}

const LOCKS: [string, string][] = [
  ['1', '1 day'],
  ['7', '7 days'],
  ['30', '30 days'],
  ['365', '1 year'],
];

export function LockSnapshot({ snapshot, onClose }: { snapshot: Snapshot; onClose: () => void }) {
  const [days, setDays] = useState('7');
  const lock = async () => {
    const until = Math.floor(Date.now() / 1000) + Number(days) * 86400;
    await ask('PUT', path('pools', snapshot.pool, 'snapshots', snapshot.name, 'lock'), {
      until,
    } satisfies LockSnapshotBody);
    await changed();
  };
  return (
    <FormDialog
      title={`Lock snapshot ${snapshot.name}`}
      action="Lock"
      said={`Snapshot ${snapshot.name} is locked`}
      onSubmit={lock}
      onClose={onClose}
    >
      <Segmented label="For how long" value={days} options={LOCKS} onChange={setDays} />
      <Note tone="warn">
        Until then nobody can delete it, administrators included. The date can be moved later, never
        earlier.
      </Note>
    </FormDialog>
  );
}

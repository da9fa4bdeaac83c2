// Taking over a pool that this array does not know: where it is looked for, what it would bring, what
// collides, and the choices that solve that.
import { useState } from 'preact/hooks';
import { ask } from '../data/client';
import { deviceKind, deviceName } from '../data/devices';
import { refresh } from '../data/store';
import type { ImportPool as Body, FoundMember, FoundMirror, PoolImport } from '../generated/api';
import { Badge, Facts, Note } from '../ui/basic';
import { CheckField, Dialog, Form, LinesField, TextField } from '../ui/form';
import { Table } from '../ui/table';
import { bytes, plural } from '../units';

/** Choices that are yes or no, and what they mean. */
const CHOICES = [
  ['adopt_target_name', 'Adopt the target name that the pool’s hosts know'],
  ['keep_target_name', 'Keep this array’s target name; the pool’s hosts log in to that'],
  ['existing_hosts', 'Leave hosts and groups as they are that this array has already'],
  ['skip_hosts', 'Take no hosts, groups and LUN maps'],
  ['new_luns', 'Give other LUN numbers where they are taken'],
  ['skip_schedules', 'Take no schedules'],
  ['degraded', 'Give up what only missing members of mirrors have'],
  ['force', 'The array that used the pool last is gone for good'],
] as const;

type Choice = (typeof CHOICES)[number][0];

const TONES = {
  current: 'good',
  resilvering: 'warn',
  absent: 'bad',
  witness: 'good',
  'witness-absent': 'warn',
} as const;

export function ImportPool(props: { onClose: () => void; onImported: (name: string) => void }) {
  const [devices, setDevices] = useState('');
  const [scan, setScan] = useState('');
  const [pool, setPool] = useState('');
  const [rename, setRename] = useState('');
  const [key, setKey] = useState('');
  const [chosen, setChosen] = useState<Partial<Record<Choice, boolean>>>({});
  const [found, setFound] = useState<PoolImport | null>(null);
  /** What was looked at is not what is asked for any more. */
  const changing =
    <T,>(set: (value: T) => void) =>
    (value: T) => {
      setFound(null);
      set(value);
    };
  const body = (dry_run: boolean): Body => ({
    devices: devices
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '')
      .map((line) => deviceName(deviceKind(line.startsWith('/dev/') ? 'block' : 'file'), line)),
    ...(scan.trim() ? { scan: scan.trim() } : {}),
    ...(pool.trim() ? { pool: pool.trim() } : {}),
    ...(rename.trim() ? { rename: rename.trim() } : {}),
    ...(key.trim() ? { recovery_key: key.trim() } : {}),
    ...chosen,
    dry_run,
  });
  const ready = found !== null && found.collisions.length === 0;
  const submit = async () => {
    if (!ready) {
      setFound(await ask<PoolImport>('POST', '/v1/pool-imports', body(true)));
      return;
    }
    const imported = await ask<PoolImport>('POST', '/v1/pool-imports', body(false));
    await refresh('/v1/pools', '/v1/forecast', '/v1/volumes', '/v1/hosts');
    props.onClose();
    props.onImported(imported.pool);
  };
  return (
    <Dialog title="Import a pool" onClose={props.onClose} wide>
      <Form
        action={ready ? `Import pool ${found.pool}` : 'Look'}
        disabled={devices.trim() === '' && scan.trim() === ''}
        onSubmit={submit}
        onCancel={props.onClose}
      >
        <TextField
          label="Directory to look in"
          value={scan}
          onChange={changing(setScan)}
          placeholder="/srv/gantry"
          hint="Its files and block devices are looked through for devices of pools."
          mono
          first
        />
        <LinesField
          label="Devices"
          value={devices}
          onChange={changing(setDevices)}
          rows={2}
          hint="Files or block devices by name, one per line, in any order."
        />
        <TextField
          label="Which pool (if several are found)"
          value={pool}
          onChange={changing(setPool)}
          hint="Its name or its identity."
        />
        <TextField label="Another name for it here" value={rename} onChange={changing(setRename)} />
        <TextField
          label="Recovery key"
          value={key}
          onChange={changing(setKey)}
          type="password"
          hint="Of the array that used the pool last: CHAP secrets come with it."
        />
        <fieldset>
          <legend>About what collides</legend>
          {CHOICES.map(([name, label]) => (
            <CheckField
              key={name}
              label={label}
              checked={chosen[name] ?? false}
              onChange={changing((checked) => setChosen({ ...chosen, [name]: checked }))}
            />
          ))}
        </fieldset>
        {found && <Found found={found} />}
      </Form>
    </Dialog>
  );
}

function Found({ found }: { found: PoolImport }) {
  return (
    <section aria-label="What was found">
      <Facts
        rows={[
          ['Pool', `${found.pool} (${found.uuid})`],
          [
            'Last used by',
            `${found.last_target_name || 'unknown'}${found.exported ? ', which exported it' : ''}`,
          ],
          ['Target name here', found.target_name],
          ['Devices', found.devices.join(', ')],
        ]}
      />
      {found.mirrors.map((mirror) => (
        <MirrorFound key={mirror.index} mirror={mirror} />
      ))}
      {found.collisions.length > 0 && (
        <Note tone="bad">
          {plural(found.collisions.length, 'collision')}; nothing is imported until these are
          solved:
          <ul>
            {found.collisions.map((one) => (
              <li key={one.what}>
                {one.what}. <span class="faint">Solved by: {one.solution}</span>
              </li>
            ))}
          </ul>
        </Note>
      )}
      {found.missing.length > 0 && (
        <Note tone="warn">
          Missing afterwards:
          <ul>
            {found.missing.map((one) => (
              <li key={one}>{one}</li>
            ))}
          </ul>
        </Note>
      )}
      <p>It brings:</p>
      <ul>
        {found.changes.map((one) => (
          <li key={one}>{one}</li>
        ))}
      </ul>
    </section>
  );
}

function MirrorFound({ mirror }: { mirror: FoundMirror }) {
  return (
    <Table
      caption={`Mirror ${mirror.index}`}
      rows={mirror.members}
      id={(member) => member.uuid}
      columns={[
        {
          name: `Mirror ${mirror.index}`,
          head: true,
          cell: (member) => <code class="breakable">{member.device ?? missing(member)}</code>,
        },
        { name: 'Size', number: true, cell: (member) => bytes(member.size_bytes) },
        {
          name: 'State',
          cell: (member) => <Badge tone={TONES[member.state]}>{member.state}</Badge>,
        },
        { name: 'List', number: true, cell: (member) => member.generation ?? '–' },
      ]}
    />
  );
}

function missing(member: FoundMember): string {
  const last = member.last_device ? `, last at ${member.last_device}` : '';
  return `missing: ${member.uuid}${last}`;
}

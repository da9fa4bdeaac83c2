// Snapshots that take themselves.
import { useState } from 'preact/hooks';
import { ask, given, path } from '../data/client';
import { may } from '../data/session';
import { refresh, useResource } from '../data/store';
import type { Schedule, SetSchedule, Volume } from '../generated/api';
import { Badge, Button, Card, Empty, Loaded, Note, Time } from '../ui/basic';
import {
  CheckField,
  ChoicesField,
  Confirm,
  FormDialog,
  NumberField,
  SelectField,
  TextField,
} from '../ui/form';
import { Table } from '../ui/table';
import { duration, plural } from '../units';
import { Missing } from './missing';

type Open = 'create' | { change: Schedule } | { remove: Schedule } | null;

export function SchedulesTab() {
  const schedules = useResource<Schedule[]>('/v1/schedules', 5000);
  const [open, setOpen] = useState<Open>(null);
  if (schedules.problem?.status === 404) return <Missing what="schedules" />;
  const operator = may('operator');
  return (
    <Card
      title="Schedules"
      hint="Snapshots that take and remove themselves"
      actions={
        operator && (
          <Button kind="primary" icon="plus" onClick={() => setOpen('create')}>
            Create schedule
          </Button>
        )
      }
    >
      <Loaded of={schedules}>
        {(all) => (
          <Table
            caption="Schedules"
            rows={all}
            id={(one) => one.name}
            empty={
              <Empty icon="snapshot" title="There is no schedule">
                For example: a snapshot of every datastore each hour, the latest 24 kept.
              </Empty>
            }
            columns={[
              {
                name: 'Schedule',
                head: true,
                cell: (one) => (
                  <>
                    <b>{one.name}</b> {!one.enabled && <Badge tone="none">off</Badge>}
                  </>
                ),
              },
              { name: 'Volumes', cell: (one) => one.volumes.join(', ') },
              { name: 'Every', cell: (one) => duration(one.every_seconds) },
              { name: 'Keeps', number: true, cell: (one) => one.keep },
              { name: 'Snapshots', number: true, cell: (one) => one.snapshots },
              {
                name: 'Locked for',
                cell: (one) =>
                  one.lock_seconds ? duration(one.lock_seconds) : <span class="faint">–</span>,
              },
              { name: 'Last', cell: (one) => <Time at={one.last} /> },
              {
                name: 'Next',
                cell: (one) =>
                  one.problem ? (
                    <Badge tone="bad" title={one.problem}>
                      {one.problem}
                    </Badge>
                  ) : (
                    <Time at={one.next} />
                  ),
              },
              {
                name: 'Actions',
                silent: true,
                cell: (one) =>
                  operator && (
                    <span class="row-actions">
                      <Button
                        small
                        onClick={() => setOpen({ change: one })}
                        aria-label={`Change ${one.name}`}
                      >
                        Change
                      </Button>
                      <Button
                        small
                        icon="trash"
                        onClick={() => setOpen({ remove: one })}
                        aria-label={`Delete ${one.name}`}
                      />
                    </span>
                  ),
              },
            ]}
          />
        )}
      </Loaded>
      {open === 'create' && <ScheduleDialog onClose={() => setOpen(null)} />}
      {typeof open === 'object' && open && 'change' in open && (
        <ScheduleDialog schedule={open.change} onClose={() => setOpen(null)} />
      )}
      {typeof open === 'object' && open && 'remove' in open && (
        <Confirm
          title={`Delete schedule ${open.remove.name}?`}
          action="Delete"
          said={`Schedule ${open.remove.name} was deleted`}
          onClose={() => setOpen(null)}
          onConfirm={async () => {
            await ask('DELETE', path('schedules', open.remove.name));
            await refresh('/v1/schedules');
          }}
        >
          <p>The snapshots that it took stay.</p>
        </Confirm>
      )}
    </Card>
  );
}

const EVERY: [string, string][] = [
  ['900', '15 minutes'],
  ['3600', 'hour'],
  ['14400', '4 hours'],
  ['86400', 'day'],
  ['604800', 'week'],
];

function ScheduleDialog({ schedule, onClose }: { schedule?: Schedule; onClose: () => void }) {
  const volumes = useResource<Volume[]>('/v1/volumes').data ?? [];
  const [name, setName] = useState(schedule?.name ?? 'hourly');
  const [chosen, setChosen] = useState(schedule?.volumes ?? []);
  const [every, setEvery] = useState(String(schedule?.every_seconds ?? 3600));
  const [keep, setKeep] = useState<number | null>(schedule?.keep ?? 24);
  const [lock, setLock] = useState<number | null>(
    schedule?.lock_seconds ? schedule.lock_seconds / 3600 : null,
  );
  const [enabled, setEnabled] = useState(schedule?.enabled ?? true);
  const options = EVERY.some(([seconds]) => seconds === every)
    ? EVERY
    : [...EVERY, [every, duration(Number(every))] as [string, string]];
  const send = async () => {
    const body = {
      volumes: chosen,
      every_seconds: Number(every),
      offset_seconds: schedule?.offset_seconds ?? 0,
      keep: given(keep),
      enabled,
      ...(lock ? { lock_seconds: Math.round(lock * 3600) } : {}),
    } satisfies SetSchedule;
    await ask('PUT', path('schedules', name), body);
    await refresh('/v1/schedules', '/v1/snapshots');
  };
  return (
    <FormDialog
      title={schedule ? `Change ${schedule.name}` : 'Create schedule'}
      action={schedule ? 'Change' : 'Create schedule'}
      said={`Schedule ${name} was saved`}
      disabled={name === '' || chosen.length === 0 || keep === null}
      onSubmit={send}
      onClose={onClose}
    >
      {!schedule && <TextField label="Name" value={name} onChange={setName} required first />}
      <ChoicesField
        label="Volumes"
        hint="Of one pool. Their snapshots are of one moment."
        options={volumes
          .filter((volume) => !volume.snapshot)
          .map((volume) => `${volume.pool}/${volume.name}`)}
        chosen={chosen}
        onChange={setChosen}
      />
      <SelectField label="Every" value={every} onChange={setEvery} options={options} />
      <NumberField
        label="Keep the latest"
        value={keep}
        onChange={setKeep}
        min={1}
        required
        hint={
          keep
            ? `Reaches back ${duration(Number(every) * keep)}; ${plural(keep * Math.max(chosen.length, 1), 'snapshot')} in all.`
            : undefined
        }
      />
      <NumberField label="Locked for hours (empty: not)" value={lock} onChange={setLock} min={1} />
      {lock !== null && (
        <Note tone="warn">
          Nobody can delete a snapshot for that long, administrators included.
        </Note>
      )}
      <CheckField label="It runs" checked={enabled} onChange={setEnabled} />
    </FormDialog>
  );
}

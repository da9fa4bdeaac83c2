// A device that leaves a pool, or a mirror with all of its devices: how far it is, what an administrator
// does with it, and how one begins to leave.
import { useState } from 'preact/hooks';
import { ask, path } from '../data/client';
import { may } from '../data/session';
import { refresh } from '../data/store';
import type { ControlDeparture, DepartureAction, Pool, RemoveDevice } from '../generated/api';
import { Meter } from '../ui/bars';
import { Button, Card, Note, ProblemBox } from '../ui/basic';
import { FormDialog, SizeField, useSubmit } from '../ui/form';
import { bytes, duration, parseBytes, plural } from '../units';

/** What leaves the pool, if something does. */
export function DepartureCard({ pool }: { pool: Pool }) {
  const departure = pool.departure;
  if (!departure) return null;
  const left = departure.left_bytes;
  const said = [
    departure.paused ? 'paused' : '',
    departure.waits_for_space ? 'waits for space on the other devices' : '',
    departure.remaining_seconds != null && !departure.paused
      ? `about ${duration(departure.remaining_seconds)} left`
      : '',
    departure.rate_bytes != null ? `at most ${bytes(departure.rate_bytes)}/s` : '',
  ].filter((part) => part !== '');
  return (
    <Card
      title={`Device ${departure.device} is leaving`}
      hint={said.join(', ')}
      actions={may('admin') && <Hold pool={pool.name} paused={departure.paused} />}
    >
      <p class="breakable">
        What is on {departure.devices.join(', ')} moves to the other devices while hosts go on.
      </p>
      <Meter label="Moved" value={departure.copied_bytes} whole={departure.copied_bytes + left} />
      <p class="faint">
        {bytes(left)} left, {bytes(departure.copied_bytes)} copied.
      </p>
      {departure.unreadable_blocks > 0 && (
        <Note tone="bad">
          {plural(departure.unreadable_blocks, 'block')} of it cannot be read: it leaves when what
          uses them is overwritten or deleted. A scrub names it.
        </Note>
      )}
    </Card>
  );
}

function Hold({ pool, paused }: { pool: string; paused: boolean }) {
  const change = (action: DepartureAction) => async () => {
    await ask('POST', path('pools', pool, 'departure'), { action } satisfies ControlDeparture);
    await refresh(path('pools', pool), '/v1/pools', '/v1/tasks');
  };
  const hold = useSubmit(change(paused ? 'resume' : 'pause'));
  const cancel = useSubmit(change('cancel'));
  return (
    <>
      <ProblemBox problem={hold.problem ?? cancel.problem} />
      <Button small busy={hold.busy} onClick={() => void hold.submit()}>
        {paused ? 'Resume' : 'Pause'}
      </Button>
      <Button small busy={cancel.busy} onClick={() => void cancel.submit()}>
        Cancel
      </Button>
    </>
  );
}

/** Lets a device or mirror leave. */
export function RemoveDialog({
  pool,
  number,
  name,
  onClose,
}: {
  pool: string;
  number: number;
  name: string;
  onClose: () => void;
}) {
  const [limit, setLimit] = useState('');
  const remove = async () => {
    const rate_bytes = limit.trim() === '' ? null : parseBytes(limit);
    await ask('POST', path('pools', pool, 'devices', String(number), 'remove'), {
      rate_bytes,
    } satisfies RemoveDevice);
    await refresh(path('pools', pool), '/v1/pools', '/v1/tasks');
  };
  return (
    <FormDialog
      title={`Remove ${name}?`}
      action="Remove"
      said="The device is leaving"
      onSubmit={remove}
      onClose={onClose}
    >
      <p class="faint">
        What is on it moves to the other devices while hosts go on; it may be used for anything else
        when it has left.
      </p>
      <SizeField
        label="Per second at most (empty: as much as hosts leave it)"
        value={limit}
        onChange={setLimit}
        placeholder="100 MiB"
      />
    </FormDialog>
  );
}

// Which controller should have a pool, and whether others give it back to that one.
import { useState } from 'preact/hooks';
import { ask, path } from '../data/client';
import { refresh } from '../data/store';
import type { Pool, SetFailBack } from '../generated/api';
import { Note } from '../ui/basic';
import { FormDialog, NumberField } from '../ui/form';

export function FailBackDialog({ pool, onClose }: { pool: Pool; onClose: () => void }) {
  const [preferred, setPreferred] = useState<number | null>(pool.preferred_controller);
  const [seconds, setSeconds] = useState<number | null>(pool.fail_back_seconds);
  const set = async () => {
    await ask('PUT', path('pools', pool.name, 'fail-back'), {
      preferred_controller: preferred,
      fail_back_seconds: seconds,
    } satisfies SetFailBack);
    await refresh('/v1/pools', '/v1/controllers');
  };
  return (
    <FormDialog
      title={`Fail-back of pool ${pool.name}`}
      action="Set"
      said="Fail-back was set"
      onSubmit={set}
      onClose={onClose}
    >
      <NumberField
        label="Controller that should have the pool (empty: any)"
        value={preferred}
        onChange={setPreferred}
        min={1}
        max={256}
      />
      <NumberField
        label="Give it back after seconds (empty: by hand)"
        value={seconds}
        onChange={setSeconds}
        min={10}
        max={86400}
        hint="For so long that controller must have been heard and ready without a break."
      />
      {pool.fail_back_waits_for && <Note tone="info">{pool.fail_back_waits_for}</Note>}
    </FormDialog>
  );
}

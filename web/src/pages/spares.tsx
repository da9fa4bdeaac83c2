// Spares of a pool with mirrors: which there are, a new one, and one that is given up.
import { useState } from 'preact/hooks';
import { ask, path } from '../data/client';
import { may } from '../data/session';
import { refresh } from '../data/store';
import type { Pool, SetSpares } from '../generated/api';
import { Button, Note } from '../ui/basic';
import { DeviceFields, deviceOf, NO_DEVICE } from '../ui/device_fields';
import { Confirm, FormDialog } from '../ui/form';
import { Table } from '../ui/table';

type Open = 'add' | { remove: string } | null;

/** Sets all spares of a pool. */
async function setSpares(pool: string, body: SetSpares) {
  await ask('PUT', path('pools', pool, 'spares'), body);
  await refresh(path('pools', pool), '/v1/pools');
}

export function Spares({ pool }: { pool: Pool }) {
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  return (
    <>
      {pool.spares.length > 0 && (
        <Table
          caption={`Spares of pool ${pool.name}`}
          rows={pool.spares.map((device) => ({ device }))}
          id={(spare) => spare.device}
          columns={[
            {
              name: 'Spare',
              head: true,
              cell: (spare) => <code class="breakable">{spare.device}</code>,
            },
            {
              name: 'Actions',
              silent: true,
              cell: (spare) =>
                may('admin') && (
                  <Button
                    small
                    onClick={() => setOpen({ remove: spare.device })}
                    aria-label={`Remove spare ${spare.device}`}
                  >
                    Remove
                  </Button>
                ),
            },
          ]}
        />
      )}
      {may('admin') && (
        <Button small icon="plus" onClick={() => setOpen('add')}>
          Add a spare
        </Button>
      )}
      {open === 'add' && <AddSpare pool={pool} onClose={close} />}
      {open && open !== 'add' && <RemoveSpare pool={pool} device={open.remove} onClose={close} />}
    </>
  );
}

function AddSpare({ pool, onClose }: { pool: Pool; onClose: () => void }) {
  const [draft, setDraft] = useState(NO_DEVICE);
  const add = () => {
    const { device, ...size } = deviceOf(draft);
    return setSpares(pool.name, { devices: [...pool.spares, device], ...size });
  };
  return (
    <FormDialog
      title={`Add a spare to pool ${pool.name}`}
      action="Add spare"
      said="The spare was added"
      onSubmit={add}
      onClose={onClose}
    >
      <p class="faint">
        It steps in by itself for a device that stays away for 10 seconds, if it is as large as the
        mirror. Everything on it is lost then.
      </p>
      <DeviceFields value={draft} onChange={setDraft} />
    </FormDialog>
  );
}

function RemoveSpare(props: { pool: Pool; device: string; onClose: () => void }) {
  const { pool, device, onClose } = props;
  return (
    <Confirm
      title={`Remove spare ${device}?`}
      action="Remove spare"
      said="The spare was removed"
      onConfirm={() =>
        setSpares(pool.name, { devices: pool.spares.filter((spare) => spare !== device) })
      }
      onClose={onClose}
    >
      <Note tone="warn">
        Nothing steps in for a device that fails if this is the last one. The file stays.
      </Note>
    </Confirm>
  );
}

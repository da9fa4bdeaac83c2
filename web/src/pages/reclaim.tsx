// What became of the space that volumes gave up.
import { OFTEN, useResource } from '../data/store';
import type { Reclaim } from '../generated/api';
import { PartsBar } from '../ui/bars';
import { Card, Empty, Loaded, Note, Page } from '../ui/basic';
import { bytes, percent } from '../units';
import { volumeLink } from './volumes';

const KIND: Record<string, string> = {
  snapshot: 'its youngest snapshot',
  clone: 'its youngest clone',
  origin: 'what it was cloned from',
  copies: 'copies by EXTENDED COPY',
};

export function ReclaimPage() {
  const reclaim = useResource<Reclaim[]>('/v1/reclaim', OFTEN);
  return (
    <Page
      title="Reclaim"
      lead="What hosts gave up by UNMAP or zeroes since the pool was opened: what returned to the pool, and who still holds the rest."
    >
      <Loaded of={reclaim} lines={6}>
        {(all) => {
          const asked = all.filter((one) => one.asked_bytes > 0);
          if (asked.length === 0)
            return (
              <Card title="Reclaim">
                <Empty icon="reclaim" title="No host has given up any space yet">
                  ESXi does it by itself on VMFS-6 datastores; on Linux run fstrim, on Windows
                  Optimize-Volume.
                </Empty>
              </Card>
            );
          return (
            <>
              {asked.length > 1 && <TotalCard all={asked} />}
              {asked.map((one) => (
                <VolumeCard key={one.volume} reclaim={one} />
              ))}
            </>
          );
        }}
      </Loaded>
    </Page>
  );
}

function parts(reclaim: Pick<Reclaim, 'freed_bytes' | 'held_bytes' | 'already_free_bytes'>) {
  return [
    { name: 'Freed', value: reclaim.freed_bytes, colour: '--c-good', hint: 'Returned to the pool' },
    {
      name: 'Held elsewhere',
      value: reclaim.held_bytes,
      colour: '--c-warn',
      hint: 'Still in use by snapshots, clones or copies',
    },
    {
      name: 'Was free already',
      value: reclaim.already_free_bytes,
      colour: '--c-free',
      hint: 'Held nothing',
    },
  ];
}

function TotalCard({ all }: { all: Reclaim[] }) {
  const add = (of: (one: Reclaim) => number) => all.reduce((sum, one) => sum + of(one), 0);
  const total = {
    freed_bytes: add((one) => one.freed_bytes),
    held_bytes: add((one) => one.held_bytes),
    already_free_bytes: add((one) => one.already_free_bytes),
  };
  return (
    <Card title="All volumes" hint={`${bytes(add((one) => one.asked_bytes))} asked`}>
      <PartsBar label="Reclaim of all volumes" parts={parts(total)} />
    </Card>
  );
}

function VolumeCard({ reclaim }: { reclaim: Reclaim }) {
  const isName = reclaim.volume.includes('/');
  return (
    <Card
      title={reclaim.volume}
      hint={`${bytes(reclaim.asked_bytes)} asked, ${percent(reclaim.freed_bytes, reclaim.unmapped_bytes)} of what held data is free`}
      actions={
        isName && (
          <a class="more" href={volumeLink(reclaim.volume)}>
            Volume
          </a>
        )
      }
    >
      <PartsBar label={`Reclaim of ${reclaim.volume}`} parts={parts(reclaim)} />
      {reclaim.held_by.length > 0 && (
        <Note tone="info">
          Held by{' '}
          {reclaim.held_by.map((holder, index) => (
            <span key={`${holder.kind} ${holder.name}`}>
              {index > 0 && ', '}
              {holder.name ? <b>{holder.name}</b> : null}{' '}
              {holder.name
                ? `(${KIND[holder.kind] ?? holder.kind})`
                : (KIND[holder.kind] ?? holder.kind)}
              : {bytes(holder.bytes)}
            </span>
          ))}
          . At most as much returns to the pool when that is deleted.
        </Note>
      )}
    </Card>
  );
}

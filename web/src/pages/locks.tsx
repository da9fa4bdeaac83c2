// Who contends for which blocks by COMPARE AND WRITE (ATS).
import { useState } from 'preact/hooks';
import type { LockMap, LockRange } from '../generated/api';
import { Badge, Card, Empty, Time } from '../ui/basic';
import { Table } from '../ui/table';
import { count, percent } from '../units';

export function LockMaps({ maps }: { maps: LockMap[] }) {
  if (maps.length === 0) {
    return (
      <Card title="Locks">
        <Empty icon="lock" title="No host has locked anything yet">
          Cluster file systems such as VMFS lock by COMPARE AND WRITE. Which blocks they lock, and
          where hosts get in each other's way, is shown here.
        </Empty>
      </Card>
    );
  }
  return (
    <>
      {maps.map((map) => (
        <LockCard key={map.volume} map={map} />
      ))}
    </>
  );
}

function LockCard({ map }: { map: LockMap }) {
  const [chosen, choose] = useState<number | null>(null);
  const recent = chosen === null ? map.recent : map.recent.filter((one) => one.lba === chosen);
  return (
    <Card
      title={map.volume}
      hint={`${count(map.attempts)} attempts, ${count(map.miscompares)} miscompares (${percent(map.miscompares, map.attempts)})`}
    >
      <Heat ranges={map.contended} chosen={chosen} choose={choose} />
      <div class="grid two inner">
        <div>
          <h3>Most contended</h3>
          <Table
            caption={`Contended blocks of ${map.volume}`}
            rows={map.contended.slice(0, 8)}
            id={(one) => `${one.lba}`}
            columns={[
              { name: 'LBA', head: true, number: true, cell: (one) => one.lba },
              { name: 'Attempts', number: true, cell: (one) => count(one.attempts) },
              {
                name: 'Miscompares',
                number: true,
                cell: (one) =>
                  one.miscompares > 0 ? <span class="loss">{count(one.miscompares)}</span> : 0,
              },
              {
                name: 'Hosts',
                cell: (one) => <span class="breakable">{one.hosts.join(', ')}</span>,
              },
              { name: 'Last', cell: (one) => <Time at={one.last} /> },
            ]}
          />
        </div>
        <div>
          <h3>Latest{chosen === null ? '' : ` on LBA ${chosen}`}</h3>
          <Table
            caption={`Latest locks of ${map.volume}`}
            rows={recent.slice(0, 8)}
            id={(one) => `${one.time} ${one.host} ${one.lba}`}
            empty={<Empty title="None among the latest 64" />}
            columns={[
              {
                name: 'Host',
                head: true,
                cell: (one) => <span class="breakable">{one.host}</span>,
              },
              { name: 'LBA', number: true, cell: (one) => one.lba },
              {
                name: 'Outcome',
                cell: (one) => (
                  <Badge
                    tone={
                      one.outcome === 'done'
                        ? 'good'
                        : one.outcome === 'miscompare'
                          ? 'warn'
                          : 'bad'
                    }
                  >
                    {one.outcome}
                  </Badge>
                ),
              },
              { name: 'When', cell: (one) => <Time at={one.time} /> },
            ]}
          />
        </div>
      </div>
    </Card>
  );
}

/** One square per block range in the order of addresses: the busier the fuller, the more contended the redder. */
function Heat(props: {
  ranges: LockRange[];
  chosen: number | null;
  choose: (lba: number | null) => void;
}) {
  const most = Math.max(...props.ranges.map((one) => one.attempts), 1);
  const ordered = [...props.ranges].sort((a, b) => a.lba - b.lba);
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for a form.
    <div class="heat" role="group" aria-label="Locked blocks in the order of their addresses">
      {ordered.map((one) => {
        const text = `LBA ${one.lba}: ${count(one.attempts)} attempts, ${count(one.miscompares)} miscompares, ${one.hosts.join(', ')}`;
        const busy = 0.25 + 0.75 * Math.sqrt(one.attempts / most);
        const hot = Math.min(1, (4 * one.miscompares) / Math.max(one.attempts, 1));
        const pressed = props.chosen === one.lba;
        return (
          <button
            key={one.lba}
            type="button"
            aria-pressed={pressed}
            aria-label={text}
            title={text}
            style={{ '--busy': `${100 * busy}%`, '--hot': `${100 * hot}%` }}
            onClick={() => props.choose(pressed ? null : one.lba)}
          />
        );
      })}
    </div>
  );
}

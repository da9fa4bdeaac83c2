// Who is logged in.
import { useState } from 'preact/hooks';
import { OFTEN, useResource } from '../data/store';
import type { Session } from '../generated/api';
import { setParameter, useLocation } from '../router';
import { Badge, Button, Card, Empty, Facts, Loaded, Page } from '../ui/basic';
import { Dialog } from '../ui/form';
import { SearchBox } from '../ui/search';
import { Table } from '../ui/table';
import { bytes, count, plural, rate } from '../units';

export function SessionsPage() {
  const sessions = useResource<Session[]>('/v1/sessions', OFTEN);
  const { parameters } = useLocation();
  const search = parameters.get('search') ?? '';
  const fits = (session: Session) =>
    `${session.host ?? ''} ${session.initiator} ${session.address} ${session.portal}`
      .toLowerCase()
      .includes(search.toLowerCase());
  return (
    <Page title="Sessions" lead="Initiators that are logged in.">
      <Loaded of={sessions} lines={6}>
        {(all) =>
          all.length === 0 ? (
            <Card title="Sessions">
              <Empty icon="session" title="Nobody is logged in">
                Open a host to see what to type there. Its session appears here as soon as it logs
                in.
              </Empty>
            </Card>
          ) : (
            <>
              <div class="filters">
                <SearchBox
                  label="Filter by host, initiator or address"
                  value={search}
                  onChange={(value) => setParameter('search', value)}
                />
              </div>
              <Card title="Sessions" hint={`${all.filter(fits).length} of ${all.length}`}>
                <SessionTable sessions={all.filter(fits)} />
              </Card>
            </>
          )
        }
      </Loaded>
    </Page>
  );
}

export function SessionTable({ sessions }: { sessions: Session[] }) {
  const [shown, show] = useState<Session | null>(null);
  return (
    <>
      <Table
        caption="Sessions"
        rows={sessions}
        id={(session) => `${session.isid} ${session.tsih}`}
        empty={<Empty icon="search" title="No session fits this filter" />}
        columns={[
          {
            name: 'Host',
            head: true,
            sort: (session) => session.host ?? session.initiator,
            cell: (session) =>
              session.host ? (
                <a href={`/hosts/${encodeURIComponent(session.host)}`}>
                  <b>{session.host}</b>
                </a>
              ) : (
                <Badge tone="warn" title="It sees only volumes that are mapped to every initiator">
                  no host
                </Badge>
              ),
          },
          {
            name: 'Initiator',
            cell: (session) => <code class="breakable">{session.initiator}</code>,
          },
          { name: 'From', cell: (session) => <code>{session.address}</code> },
          { name: 'Portal', extra: true, cell: (session) => <code>{session.portal}</code> },
          {
            name: 'LUNs',
            cell: (session) =>
              session.luns.length > 6
                ? plural(session.luns.length, 'LUN')
                : session.luns.join(', ') || <span class="faint">none</span>,
          },
          {
            name: 'Commands',
            number: true,
            sort: (session) => session.rates.commands,
            cell: (session) => `${count(session.rates.commands)}/s`,
          },
          {
            name: 'Data',
            number: true,
            sort: (session) => session.rates.bytes_received + session.rates.bytes_sent,
            cell: (session) => rate(session.rates.bytes_received + session.rates.bytes_sent),
          },
          {
            name: 'Details',
            silent: true,
            cell: (session) => (
              <Button
                small
                onClick={() => show(session)}
                aria-label={`Details of the session of ${session.host ?? session.initiator}`}
              >
                Details
              </Button>
            ),
          },
        ]}
      />
      {shown && <SessionDialog session={shown} onClose={() => show(null)} />}
    </>
  );
}

function SessionDialog({ session, onClose }: { session: Session; onClose: () => void }) {
  return (
    <Dialog title={`Session of ${session.host ?? 'an unknown host'}`} onClose={onClose} wide>
      <Facts
        rows={[
          ['Initiator', <code class="breakable">{session.initiator}</code>],
          ['From', `${session.address} to ${session.portal}`],
          ['Proved itself by', session.authentication],
          ['Identifier', `ISID ${session.isid}, TSIH ${session.tsih}`],
          ['Connections', session.connections],
          ['Under way', plural(session.commands_under_way, 'command')],
          ['Read only', session.read_only_luns.join(', ') || 'no LUN'],
          [
            'Since login',
            `${count(session.commands)} commands, ${bytes(session.bytes_received)} received, ${bytes(session.bytes_sent)} sent`,
          ],
        ]}
      />
      <h3>Negotiated</h3>
      <Facts class="keys" rows={Object.entries(session.keys)} />
    </Dialog>
  );
}

// Who is logged in.
import { useState } from 'preact/hooks';
import { ask, path, Refused } from '../data/client';
import { may } from '../data/session';
import { OFTEN, refresh, useResource } from '../data/store';
import type { Session } from '../generated/api';
import { setParameter, useLocation } from '../router';
import { Badge, Button, Card, Empty, Facts, Loaded, Page } from '../ui/basic';
import { Confirm, Dialog } from '../ui/form';
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
  const [closing, close] = useState<Session | null>(null);
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
              <span class="row-actions">
                <Button
                  small
                  onClick={() => show(session)}
                  aria-label={`Details of the session of ${session.host ?? session.initiator}`}
                >
                  Details
                </Button>
                {may('operator') && (
                  <Button
                    small
                    icon="close"
                    onClick={() => close(session)}
                    aria-label={`Close the session of ${session.host ?? session.initiator}`}
                  />
                )}
              </span>
            ),
          },
        ]}
      />
      {shown && <SessionDialog session={shown} onClose={() => show(null)} />}
      {closing && <CloseSession session={closing} onClose={() => close(null)} />}
    </>
  );
}

function CloseSession({ session, onClose }: { session: Session; onClose: () => void }) {
  const at = path('sessions', String(session.tsih));
  const close = async () => {
    // The handle may be another session's by now.
    const now = await ask<Session>('GET', at);
    if (now.initiator !== session.initiator || now.isid !== session.isid)
      throw new Refused({ status: 404, title: 'Not found', detail: 'This session has ended.' });
    await ask('DELETE', at);
    await refresh('/v1/sessions');
  };
  return (
    <Confirm
      title={`Close the session of ${session.host ?? session.initiator}?`}
      action="Close session"
      said="The session was closed"
      onConfirm={close}
      onClose={onClose}
    >
      <p>
        <code class="breakable">{session.initiator}</code> from <code>{session.address}</code> is
        asked to log out; after 2 s its connections are closed.
      </p>
      <p>
        {session.commands_under_way > 0 &&
          `${plural(session.commands_under_way, 'command')} under way may end with an error. `}
        It may log in again, and most hosts do so at once. To keep it out, unmap its volumes or
        change its host.
      </p>
    </Confirm>
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

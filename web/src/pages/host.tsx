// One host: what it sees, whether it is there, and what to type on it.
import { useState } from 'preact/hooks';
import { ask, path } from '../data/client';
import { may } from '../data/session';
import { OFTEN, refresh, useResource } from '../data/store';
import type { ChangeHost, Group, Host, Session, Volume } from '../generated/api';
import { go } from '../router';
import {
  Badge,
  Button,
  Card,
  Copyable,
  Empty,
  Facts,
  labels,
  Note,
  Page,
  ProblemBox,
  Waiting,
} from '../ui/basic';
import { RangeChoice, ThroughputChart } from '../ui/chart';
import { CheckField, Confirm, FormDialog, LinesField } from '../ui/form';
import { Table } from '../ui/table';
import { bytes } from '../units';
import { Connect } from './connect';
import { ChapFields, chapBody, NO_CHAP, volumesOf } from './hosts';
import { LabelsDialog } from './labels';
import { PrimitivesDialog, primitivesText } from './primitives';
import { limitsText, RateLimitsDialog } from './rate_limits';
import { SessionTable } from './sessions';
import { volumeLink } from './volumes';

type Open = 'initiators' | 'chap' | 'labels' | 'primitives' | 'limits' | 'delete' | null;

export function HostPage({ name }: { name: string }) {
  const hosts = useResource<Host[]>('/v1/hosts', OFTEN);
  const [open, setOpen] = useState<Open>(null);
  const host = hosts.data?.find((one) => one.name === name);
  const actions = may('operator') && host && (
    <>
      <Button icon="settings" onClick={() => setOpen('initiators')}>
        Initiators
      </Button>
      <Button icon="lock" onClick={() => setOpen('chap')}>
        CHAP
      </Button>
      <Button onClick={() => setOpen('labels')}>Labels</Button>
      <Button onClick={() => setOpen('primitives')}>Primitives</Button>
      <Button onClick={() => setOpen('limits')}>Limits</Button>
      <Button icon="trash" onClick={() => setOpen('delete')}>
        Delete
      </Button>
    </>
  );
  return (
    <Page title={name} kind="Host" actions={actions}>
      {!hosts.data ? (
        hosts.problem ? (
          <ProblemBox problem={hosts.problem} />
        ) : (
          <Waiting lines={6} />
        )
      ) : !host ? (
        <Card title="Host">
          <Empty icon="host" title={`There is no host ${name}`}>
            It may have been deleted. An initiator without a host sees only volumes that are mapped
            to every initiator.
          </Empty>
        </Card>
      ) : (
        <HostCards host={host} />
      )}
      {host && open === 'initiators' && (
        <InitiatorsDialog host={host} onClose={() => setOpen(null)} />
      )}
      {host && open === 'chap' && <ChapDialog host={host} onClose={() => setOpen(null)} />}
      {host && open === 'labels' && (
        <LabelsDialog
          name={name}
          at={path('hosts', name)}
          shownBy={['/v1/hosts']}
          onClose={() => setOpen(null)}
        />
      )}
      {host && open === 'primitives' && (
        <PrimitivesDialog
          title={`Primitives of ${name}`}
          at={path('hosts', name, 'primitives')}
          shownBy={['/v1/hosts']}
          value={host.primitives}
          onClose={() => setOpen(null)}
        />
      )}
      {host && open === 'limits' && (
        <RateLimitsDialog
          title={`Limits of ${name}`}
          at={path('hosts', name, 'limits')}
          shownBy={['/v1/hosts']}
          value={host.limits}
          share={host.share}
          onClose={() => setOpen(null)}
        />
      )}
      {host && open === 'delete' && <DeleteHost host={host} onClose={() => setOpen(null)} />}
    </Page>
  );
}

function HostCards({ host }: { host: Host }) {
  const sessions = useResource<Session[]>('/v1/sessions', OFTEN);
  const volumes = useResource<Volume[]>('/v1/volumes', OFTEN).data ?? [];
  const groups = useResource<Group[]>('/v1/groups').data ?? [];
  const [seconds, setSeconds] = useState(300);
  const own = sessions.data?.filter((session) => session.host === host.name) ?? [];
  const seen = volumesOf(host.name, volumes, groups);
  return (
    <>
      <div class="grid two">
        <Card title="About">
          <Facts
            rows={[
              [
                'Logged in',
                own.length > 0 ? <Badge tone="good">yes</Badge> : <Badge tone="none">no</Badge>,
              ],
              [
                'Initiators',
                <span class="stack">
                  {host.initiators.map((name) => (
                    <Copyable key={name} text={name} label="iSCSI name" />
                  ))}
                </span>,
              ],
              [
                'CHAP',
                host.chap_user
                  ? `as ${host.chap_user}${host.mutual_chap ? ', mutual' : ''}`
                  : 'none: it need not prove who it is',
              ],
              [
                'Groups',
                groups
                  .filter((group) => group.hosts.includes(host.name))
                  .map((group) => group.name)
                  .join(', ') || '–',
              ],
              ['Primitives', primitivesText(host.primitives)],
              ['Limits', limitsText(host.limits, host.share)],
              ...labels(host.tags),
            ]}
          />
        </Card>
        <Card title="Volumes" hint={`${seen.length} seen`}>
          <Table
            caption={`Volumes that ${host.name} sees`}
            rows={seen}
            id={(volume) => volume.naa}
            empty={
              <Empty icon="volume" title="It sees no volume">
                Open a volume and map it to {host.name}.
              </Empty>
            }
            columns={[
              {
                name: 'Volume',
                head: true,
                cell: (volume) => (
                  <a href={volumeLink(`${volume.pool}/${volume.name}`)}>
                    {volume.pool}/{volume.name}
                  </a>
                ),
              },
              {
                name: 'LUN',
                number: true,
                cell: (volume) =>
                  volume.maps.find(
                    (map) =>
                      map.host === host.name ||
                      map.host === 'any' ||
                      groups.some(
                        (group) => group.name === map.host && group.hosts.includes(host.name),
                      ),
                  )?.lun,
              },
              {
                name: 'By',
                cell: (volume) =>
                  volume.hosts
                    .filter(
                      (one) =>
                        one === host.name ||
                        one === 'any' ||
                        groups.some(
                          (group) => group.name === one && group.hosts.includes(host.name),
                        ),
                    )
                    .join(', '),
              },
              { name: 'Size', number: true, cell: (volume) => bytes(volume.size_bytes) },
            ]}
          />
        </Card>
      </div>
      {own.length > 0 && (
        <Card title="Sessions">
          <SessionTable sessions={own} />
        </Card>
      )}
      <Card title="Activity" actions={<RangeChoice value={seconds} onChange={setSeconds} />}>
        <ThroughputChart
          of={host.name}
          series={`host:${host.name}`}
          seconds={seconds}
          height={160}
        />
      </Card>
      <Card title={`What to type on ${host.name}`}>
        <Connect chap={host.chap_user ?? null} />
      </Card>
    </>
  );
}

function InitiatorsDialog({ host, onClose }: { host: Host; onClose: () => void }) {
  const [text, setText] = useState(host.initiators.join('\n'));
  const names = text.split(/[\s,]+/).filter((one) => one !== '');
  const gone = host.initiators.filter((name) => !names.includes(name));
  const change = async () => {
    await ask('PATCH', path('hosts', host.name), { initiators: names } satisfies ChangeHost);
    await refresh('/v1/hosts', '/v1/sessions');
  };
  return (
    <FormDialog
      title={`Initiators of ${host.name}`}
      action="Change"
      said="The initiators were changed"
      disabled={names.length === 0}
      onSubmit={change}
      onClose={onClose}
    >
      <LinesField
        label="iSCSI names"
        value={text}
        onChange={setText}
        rows={4}
        hint="One per line."
      />
      {gone.length > 0 && (
        <Note tone="warn">
          {gone.join(', ')} will no longer see the volumes of {host.name}.
        </Note>
      )}
    </FormDialog>
  );
}

function ChapDialog({ host, onClose }: { host: Host; onClose: () => void }) {
  const [none, setNone] = useState(false);
  const [chap, setChap] = useState({ ...NO_CHAP, user: host.chap_user ?? '' });
  const change = async () => {
    await ask(
      'PATCH',
      path('hosts', host.name),
      (none ? { no_chap: true } : { chap: chapBody(chap) }) satisfies ChangeHost,
    );
    await refresh('/v1/hosts');
  };
  return (
    <FormDialog
      title={`CHAP of ${host.name}`}
      action="Set"
      said="The CHAP account was changed"
      onSubmit={change}
      onClose={onClose}
    >
      {host.chap_user && (
        <CheckField
          label="No CHAP: it need not prove who it is"
          checked={none}
          onChange={setNone}
        />
      )}
      {!none && <ChapFields chap={chap} onChange={setChap} />}
      <Note tone="info">Counts from the next login on. Set the same on the host.</Note>
    </FormDialog>
  );
}

function DeleteHost({ host, onClose }: { host: Host; onClose: () => void }) {
  const volumes =
    useResource<Volume[]>('/v1/volumes').data?.filter((volume) =>
      volume.hosts.includes(host.name),
    ) ?? [];
  const sessions =
    useResource<Session[]>('/v1/sessions', OFTEN).data?.filter(
      (session) => session.host === host.name,
    ) ?? [];
  const remove = async () => {
    await ask('DELETE', path('hosts', host.name));
    await refresh('/v1/hosts', '/v1/groups', '/v1/sessions');
    go('/hosts');
  };
  return (
    <Confirm
      title={`Delete host ${host.name}?`}
      action="Delete"
      disabled={volumes.length > 0}
      said={`Host ${host.name} was deleted`}
      onConfirm={remove}
      onClose={onClose}
    >
      <p>
        No volume is deleted.{' '}
        {sessions.length > 0 ? 'It is logged in now.' : 'It is not logged in.'}
      </p>
      {volumes.length > 0 && (
        <Note tone="warn">
          {volumes.map((volume) => `${volume.pool}/${volume.name}`).join(', ')}{' '}
          {volumes.length === 1 ? 'is' : 'are'} mapped to it: unmap{' '}
          {volumes.length === 1 ? 'it' : 'them'} first.
        </Note>
      )}
    </Confirm>
  );
}

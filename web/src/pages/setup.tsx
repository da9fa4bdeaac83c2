// The first volume, step by step: pool, volume, host, map, and what to type on the host.

import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, objectPath } from '../data/client';
import { refresh, useResource } from '../data/store';
import type { Host, LunMap, MapVolume, Pool, Session, Volume } from '../generated/api';
import { Badge, Button, ButtonLink, Facts, Note, Page, useId, Waiting } from '../ui/basic';
import { Form, SelectField } from '../ui/form';
import { Icon } from '../ui/icons';
import { Connect } from './connect';
import { useHostFields } from './hosts';
import { usePoolFields } from './pools';
import { useVolumeFields, volumeLink } from './volumes';

interface Choice {
  pool: string;
  volume: string;
  host: string;
  lun: number | null;
}

const STEPS = ['Pool', 'Volume', 'Host', 'Map', 'Connect'];

export function SetupPage() {
  const [step, setStep] = useState(0);
  const [choice, setChoice] = useState<Choice>({ pool: '', volume: '', host: '', lun: null });
  const done = (part: Partial<Choice>) => {
    setChoice({ ...choice, ...part });
    setStep(step + 1);
  };
  const steps = [
    () => <PoolStep onDone={(pool) => done({ pool })} />,
    () => <VolumeStep pool={choice.pool} onDone={(volume) => done({ volume })} />,
    () => <HostStep onDone={(host) => done({ host })} />,
    () => <MapStep choice={choice} onDone={(lun) => done({ lun })} />,
    () => <ConnectStep choice={choice} />,
  ];
  return (
    <Page title="Set-up" lead="From nothing to a volume that a host can use.">
      <ol class="steps" aria-label="Steps">
        {STEPS.map((name, index) => (
          <li
            key={name}
            class={index < step ? 'past' : index === step ? 'now' : ''}
            aria-current={index === step ? 'step' : undefined}
          >
            <span class="step-sign">{index < step ? <Icon name="check" /> : index + 1}</span>
            {name}
          </li>
        ))}
      </ol>
      <Step
        key={step}
        title={`${step + 1}. ${['Where bytes rest', 'A volume', 'Who uses it', 'Let the host see it', 'On the host'][step]}`}
      >
        {steps[step]!()}
      </Step>
    </Page>
  );
}

/** Moves the focus along with the steps. */
function Step({ title, children }: { title: string; children: ComponentChildren }) {
  const room = useRef<HTMLDivElement>(null);
  const id = useId('step');
  useEffect(() => {
    const first = room.current?.querySelector<HTMLElement>('input, select, button.primary');
    first?.focus({ preventScroll: true });
  }, []);
  return (
    <section class="card step" aria-labelledby={id} ref={room}>
      <h2 id={id}>{title}</h2>
      {children}
    </section>
  );
}

/** Something that is there already may be taken. */
function Existing(props: { label: string; names: string[]; onTake: (name: string) => void }) {
  const [name, setName] = useState('');
  const chosen = name || props.names[0] || '';
  if (props.names.length === 0) return null;
  return (
    <form
      class="existing"
      onSubmit={(event) => {
        event.preventDefault();
        props.onTake(chosen);
      }}
    >
      <SelectField
        label={props.label}
        value={chosen}
        onChange={setName}
        options={props.names.map((one) => [one, one])}
      />
      <Button type="submit">Take this one</Button>
      <p class="or">
        <span>or a new one</span>
      </p>
    </form>
  );
}

function PoolStep({ onDone }: { onDone: (pool: string) => void }) {
  const pools = useResource<Pool[]>('/v1/pools');
  const { name, body, complete, fields } = usePoolFields();
  const create = async () => {
    await ask('POST', '/v1/pools', body());
    await refresh('/v1/pools');
    onDone(name);
  };
  if (!pools.data) return <Waiting />;
  return (
    <>
      <p class="faint">
        A pool is space that volumes share. One file on a local disk is enough to begin with.
      </p>
      <Existing
        label="A pool that is there"
        names={pools.data.filter((pool) => pool.state === 'ready').map((pool) => pool.name)}
        onTake={onDone}
      />
      <Form action="Create pool" disabled={!complete} onSubmit={create}>
        {fields}
      </Form>
    </>
  );
}

function VolumeStep({ pool, onDone }: { pool: string; onDone: (volume: string) => void }) {
  const pools = useResource<Pool[]>('/v1/pools').data ?? [];
  const volumes = useResource<Volume[]>('/v1/volumes').data ?? [];
  const { full, body, complete, fields } = useVolumeFields(pools, pool);
  const create = async () => {
    await ask('POST', '/v1/volumes', body());
    await refresh('/v1/volumes', '/v1/pools');
    onDone(full);
  };
  return (
    <>
      <p class="faint">
        A volume is what the host sees as a disk. It takes space as it is written, so it may be
        larger than the pool.
      </p>
      <Existing
        label="A volume that is there"
        names={volumes
          .filter((volume) => volume.pool === pool && !volume.snapshot)
          .map((volume) => `${volume.pool}/${volume.name}`)}
        onTake={onDone}
      />
      <Form action="Create volume" disabled={!complete} onSubmit={create}>
        {fields}
      </Form>
    </>
  );
}

function HostStep({ onDone }: { onDone: (host: string) => void }) {
  const hosts = useResource<Host[]>('/v1/hosts').data ?? [];
  const { name, body, complete, fields } = useHostFields();
  const create = async () => {
    await ask('POST', '/v1/hosts', body());
    await refresh('/v1/hosts', '/v1/sessions');
    onDone(name);
  };
  return (
    <>
      <p class="faint">A host is a name and the iSCSI names of its initiators.</p>
      <Existing
        label="A host that is there"
        names={hosts.map((host) => host.name)}
        onTake={onDone}
      />
      <Form action="Create host" disabled={!complete} onSubmit={create}>
        {fields}
      </Form>
      <Note tone="info">
        <p>
          Only trying things out?{' '}
          <button type="button" class="link" onClick={() => onDone('any')}>
            Let every initiator use the volume
          </button>
          , on a network that you trust.
        </p>
      </Note>
    </>
  );
}

function MapStep({ choice, onDone }: { choice: Choice; onDone: (lun: number) => void }) {
  const map = async () => {
    const made = await ask<LunMap>(
      'PUT',
      objectPath('volumes', choice.volume, 'maps', choice.host),
      {} satisfies MapVolume,
    );
    await refresh('/v1/volumes', '/v1/sessions');
    onDone(made.lun);
  };
  return (
    <Form action="Map" onSubmit={map}>
      <Facts
        rows={[
          ['Volume', choice.volume],
          ['Host', choice.host === 'any' ? 'every initiator' : choice.host],
          ['LUN', 'the lowest that is free; it never changes'],
        ]}
      />
    </Form>
  );
}

function ConnectStep({ choice }: { choice: Choice }) {
  const host = useResource<Host[]>('/v1/hosts').data?.find((one) => one.name === choice.host);
  const sessions = useResource<Session[]>('/v1/sessions', 2000).data ?? [];
  const there = sessions.some(
    (session) =>
      choice.lun != null &&
      session.luns.includes(choice.lun) &&
      (choice.host === 'any' || session.host === choice.host),
  );
  return (
    <>
      <p>
        {choice.volume} is LUN {choice.lun} for{' '}
        {choice.host === 'any' ? 'every initiator' : choice.host}.{' '}
        {there ? (
          <Badge tone="good">A host is logged in and sees it</Badge>
        ) : (
          <Badge tone="none">Waiting for the host to log in</Badge>
        )}
      </p>
      <Connect chap={host?.chap_user ?? null} />
      <div class="form-actions">
        <ButtonLink kind="primary" href="/">
          To the overview
        </ButtonLink>
        <ButtonLink href={volumeLink(choice.volume)}>To the volume</ButtonLink>
      </div>
    </>
  );
}

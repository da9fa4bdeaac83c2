// Who is told of events.
import { useState } from 'preact/hooks';
import { ask, edit } from '../data/client';
import { refresh, useResource } from '../data/store';
import type { Alerts, Delivery, Mail, MailTls, Severity, Webhook } from '../generated/api';
import { Badge, Button, Card, Empty, Loaded, ProblemBox, Time } from '../ui/basic';
import {
  CheckField,
  Confirm,
  FormDialog,
  LinesField,
  SelectField,
  TextField,
  useSubmit,
} from '../ui/form';
import { Table } from '../ui/table';
import { Missing } from './missing';

const SEVERITIES: [Severity, string][] = [
  ['information', 'Everything'],
  ['warning', 'Warnings and errors'],
  ['error', 'Errors only'],
];
const severityText = (severity: Severity) =>
  SEVERITIES.find(([one]) => one === severity)?.[1] ?? severity;

async function save(change: (now: Alerts) => Alerts): Promise<void> {
  await edit('/v1/alerts', change);
  await refresh('/v1/alerts');
}

type Open = 'mail' | 'webhook' | { change: Webhook } | { remove: Webhook } | 'no-mail' | null;

export function AlertsTab() {
  const alerts = useResource<Alerts>('/v1/alerts');
  const [open, setOpen] = useState<Open>(null);
  if (alerts.problem?.status === 404) return <Missing what="alerts" />;
  const close = () => setOpen(null);
  return (
    <Loaded of={alerts}>
      {(data) => (
        <>
          <WebhooksCard alerts={data} open={setOpen} />
          <MailCard alerts={data} open={setOpen} />
          <Deliveries />
          {open === 'mail' && <MailDialog alerts={data} onClose={close} />}
          {open === 'webhook' && <WebhookDialog onClose={close} />}
          {open === 'no-mail' && (
            <Confirm
              title="Send no more mail?"
              action="Remove"
              onClose={close}
              onConfirm={() => save((now) => ({ ...now, mail: null }))}
            >
              <p>Mail to {data.mail?.to.join(', ')} ends.</p>
            </Confirm>
          )}
          {typeof open === 'object' && open && 'change' in open && (
            <WebhookDialog webhook={open.change} onClose={close} />
          )}
          {typeof open === 'object' && open && 'remove' in open && (
            <Confirm
              title={`Delete webhook ${open.remove.name}?`}
              action="Delete"
              onClose={close}
              onConfirm={() =>
                save((now) => ({ ...now, webhooks: without(now, open.remove.name) }))
              }
            >
              <p>Nothing is sent to {open.remove.url} any more.</p>
            </Confirm>
          )}
        </>
      )}
    </Loaded>
  );
}

function WebhooksCard({ alerts, open }: { alerts: Alerts; open: (open: Open) => void }) {
  return (
    <Card
      title="Webhooks"
      hint="Events are sent as JSON"
      actions={
        <Button kind="primary" icon="plus" onClick={() => open('webhook')}>
          Add webhook
        </Button>
      }
    >
      <Table
        caption="Webhooks"
        rows={alerts.webhooks ?? []}
        id={(webhook) => webhook.name}
        empty={
          <Empty icon="event" title="There is no webhook">
            A chat room or an incident system can be told of every warning.
          </Empty>
        }
        columns={[
          { name: 'Name', head: true, cell: (webhook) => <b>{webhook.name}</b> },
          { name: 'Address', cell: (webhook) => <code class="breakable">{webhook.url}</code> },
          { name: 'Of what', cell: (webhook) => severityText(webhook.severity) },
          { name: 'Signed', cell: (webhook) => (webhook.signed ? 'yes' : 'no') },
          {
            name: 'Actions',
            silent: true,
            cell: (webhook) => (
              <span class="row-actions">
                <Button
                  small
                  onClick={() => open({ change: webhook })}
                  aria-label={`Change ${webhook.name}`}
                >
                  Change
                </Button>
                <Button
                  small
                  icon="trash"
                  onClick={() => open({ remove: webhook })}
                  aria-label={`Delete ${webhook.name}`}
                />
              </span>
            ),
          },
        ]}
      />
    </Card>
  );
}

/** The webhooks but one. */
const without = (alerts: Alerts, name: string | undefined) =>
  (alerts.webhooks ?? []).filter((one) => one.name !== name);

function WebhookDialog({ webhook, onClose }: { webhook?: Webhook; onClose: () => void }) {
  const [name, setName] = useState(webhook?.name ?? '');
  const [url, setUrl] = useState(webhook?.url ?? '');
  const [severity, setSeverity] = useState<Severity>(webhook?.severity ?? 'warning');
  const [signed, setSigned] = useState(webhook?.signed ?? false);
  const [secret, setSecret] = useState('');
  // The daemon keeps secrets by name, and tells nobody.
  const isKept = webhook?.signed === true && webhook.name === name;
  const made: Webhook = { name, url, severity, signed, ...(signed && secret ? { secret } : {}) };
  const hint = isKept
    ? 'Empty: it stays.'
    : webhook?.signed
      ? 'Type it again: under another name it is not kept.'
      : '12 characters at least; the receiver needs it, too.';
  return (
    <FormDialog
      title={webhook ? `Change ${webhook.name}` : 'Add webhook'}
      action={webhook ? 'Change' : 'Add'}
      said="The alerts were changed"
      disabled={name === '' || url === '' || (signed && !isKept && secret === '')}
      onSubmit={() => save((now) => ({ ...now, webhooks: [...without(now, webhook?.name), made] }))}
      onClose={onClose}
    >
      <TextField label="Name" value={name} onChange={setName} required first />
      <TextField
        label="Address"
        type="url"
        value={url}
        onChange={setUrl}
        mono
        required
        placeholder="https://example.org/hook"
      />
      <SelectField label="Of what" value={severity} onChange={setSeverity} options={SEVERITIES} />
      <CheckField
        label="Sign messages"
        hint="The receiver can tell by it that a message is ours."
        checked={signed}
        onChange={setSigned}
      />
      {signed && (
        <TextField
          label="Secret"
          type="password"
          autocomplete="new-password"
          value={secret}
          onChange={setSecret}
          hint={hint}
          required={!isKept}
        />
      )}
    </FormDialog>
  );
}

function MailCard({ alerts, open }: { alerts: Alerts; open: (open: Open) => void }) {
  const mail = alerts.mail;
  return (
    <Card
      title="Mail"
      hint="Through an SMTP relay"
      actions={
        <>
          {mail && <Button onClick={() => open('no-mail')}>Remove</Button>}
          <Button icon="settings" onClick={() => open('mail')}>
            {mail ? 'Change' : 'Set up'}
          </Button>
        </>
      }
    >
      {mail ? (
        <p>
          {severityText(mail.severity)} to <b>{mail.to.join(', ')}</b> from {mail.from}, through{' '}
          <code>{mail.relay}</code>
          {mail.tls === 'none'
            ? ', unencrypted'
            : ` (${TLS.find(([one]) => one === mail.tls)?.[1]})`}
          .
        </p>
      ) : (
        <Empty icon="event" title="No mail is sent">
          Set up the relay that this machine may use.
        </Empty>
      )}
    </Card>
  );
}

const TLS: [MailTls, string][] = [
  ['none', 'None'],
  ['starttls', 'STARTTLS'],
  ['tls', 'TLS from the beginning'],
];

function MailDialog({ alerts, onClose }: { alerts: Alerts; onClose: () => void }) {
  const [mail, set] = useState<Mail>(
    alerts.mail ?? { relay: '', tls: 'starttls', from: '', to: [], severity: 'warning' },
  );
  const [to, setTo] = useState(mail.to.join('\n'));
  const [password, setPassword] = useState('');
  const change = (part: Partial<Mail>) => set({ ...mail, ...part });
  const made = (): Mail => {
    const { password: _, user, ...rest } = mail;
    return {
      ...rest,
      to: to.split(/[\s,]+/).filter(Boolean),
      ...(user ? { user } : {}),
      ...(password ? { password } : {}),
    };
  };
  return (
    <FormDialog
      title="Mail"
      action="Save"
      said="The alerts were changed"
      disabled={mail.relay === '' || mail.from === '' || to.trim() === ''}
      onSubmit={() => save((now) => ({ ...now, mail: made() }))}
      onClose={onClose}
    >
      <TextField
        label="Relay"
        value={mail.relay}
        onChange={(relay) => change({ relay })}
        mono
        required
        first
        placeholder="mail.example.org:587"
      />
      <SelectField
        label="Encryption"
        value={mail.tls}
        onChange={(tls) => change({ tls })}
        options={TLS}
      />
      <TextField
        label="User (may be empty)"
        value={mail.user ?? ''}
        onChange={(user) => change({ user })}
      />
      <TextField
        label="Password (empty: stays)"
        type="password"
        autocomplete="new-password"
        value={password}
        onChange={setPassword}
      />
      <TextField
        label="From"
        type="email"
        value={mail.from}
        onChange={(from) => change({ from })}
        required
      />
      <LinesField label="To" value={to} onChange={setTo} rows={2} hint="One per line." />
      <SelectField
        label="Of what"
        value={mail.severity}
        onChange={(severity) => change({ severity })}
        options={SEVERITIES}
      />
    </FormDialog>
  );
}

function Deliveries() {
  const deliveries = useResource<Delivery[]>('/v1/alerts/deliveries', 5000);
  const test = useSubmit(async () => {
    await ask('POST', '/v1/alerts/test');
    await refresh('/v1/alerts/deliveries');
  });
  return (
    <Card
      title="Deliveries"
      hint="the latest 100"
      actions={
        <Button busy={test.busy} onClick={() => void test.submit()}>
          Send a test
        </Button>
      }
    >
      <ProblemBox problem={test.problem} />
      <Loaded of={deliveries}>
        {(all) => (
          <Table
            caption="Deliveries"
            rows={all}
            id={(one) => `${one.time} ${one.receiver} ${one.event}`}
            empty={
              <Empty icon="event" title="Nothing was sent yet">
                Send a test to see whether it arrives.
              </Empty>
            }
            columns={[
              { name: 'When', head: true, cell: (one) => <Time at={one.time} /> },
              { name: 'To', cell: (one) => one.receiver },
              { name: 'Event', cell: (one) => (one.event === 0 ? 'test' : `number ${one.event}`) },
              {
                name: 'Result',
                cell: (one) => (
                  <>
                    <Badge tone={one.ok ? 'good' : 'bad'}>{one.ok ? 'delivered' : 'failed'}</Badge>{' '}
                    <span class="faint">{one.detail}</span>
                  </>
                ),
              },
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}

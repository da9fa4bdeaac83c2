// Who may do what: users and their tokens.
import { useState } from 'preact/hooks';
import { ask, path } from '../data/client';
import { changePassword, may, useSession } from '../data/session';
import { refresh, useResource } from '../data/store';
import type {
  ChangeUser,
  CreateToken,
  CreateUser,
  NewToken,
  Role,
  Token,
  User,
} from '../generated/api';
import { Badge, Button, Card, Copyable, Empty, Loaded, Note, Time } from '../ui/basic';
import { Confirm, Dialog, Form, FormDialog, NumberField, SelectField, TextField } from '../ui/form';
import { Table } from '../ui/table';
import { plural } from '../units';
import { passwordError } from './login';
import { Missing } from './missing';

const ROLES: [Role, string][] = [
  ['viewer', 'Viewer: sees everything, changes nothing'],
  ['operator', 'Operator: volumes, snapshots, maps and hosts too'],
  ['admin', 'Administrator: everything'],
];

const ROLE_TONE = { viewer: 'none', operator: 'info', admin: 'good' } as const;

type OpenUser = 'create' | 'own' | { change: User } | { remove: User } | null;

export function UsersTab() {
  const users = useResource<User[]>('/v1/users');
  const session = useSession();
  const me = session.is === 'in' ? session.me.user : '';
  const [open, setOpen] = useState<OpenUser>(null);
  if (users.problem?.status === 404) return <Missing what="users" />;
  return (
    <Card
      title="Users"
      actions={
        <>
          {me && <Button onClick={() => setOpen('own')}>Change my password</Button>}
          <Button kind="primary" icon="plus" onClick={() => setOpen('create')}>
            Create user
          </Button>
        </>
      }
    >
      <Loaded of={users}>
        {(all) => (
          <Table
            caption="Users"
            rows={all}
            id={(user) => user.name}
            columns={[
              {
                name: 'User',
                head: true,
                sort: (user) => user.name,
                cell: (user) => (
                  <>
                    <b>{user.name}</b>
                    {user.name === me && <span class="faint"> (you)</span>}
                  </>
                ),
              },
              {
                name: 'Role',
                cell: (user) => <Badge tone={ROLE_TONE[user.role]}>{user.role}</Badge>,
              },
              {
                name: 'Password',
                cell: (user) =>
                  user.must_change_password ? <Badge tone="warn">must be changed</Badge> : 'set',
              },
              { name: 'Created', cell: (user) => <Time at={user.created} /> },
              {
                name: 'Actions',
                silent: true,
                cell: (user) => (
                  <span class="row-actions">
                    <Button
                      small
                      onClick={() => setOpen({ change: user })}
                      aria-label={`Change ${user.name}`}
                    >
                      Change
                    </Button>
                    <Button
                      small
                      icon="trash"
                      disabled={user.name === me}
                      onClick={() => setOpen({ remove: user })}
                      aria-label={`Delete ${user.name}`}
                    />
                  </span>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      {open === 'create' && <UserDialog onClose={() => setOpen(null)} />}
      {open === 'own' && <OwnPassword onClose={() => setOpen(null)} />}
      {typeof open === 'object' && open && 'change' in open && (
        <UserDialog user={open.change} onClose={() => setOpen(null)} />
      )}
      {typeof open === 'object' && open && 'remove' in open && (
        <Confirm
          title={`Delete user ${open.remove.name}?`}
          action="Delete"
          said={`User ${open.remove.name} was deleted`}
          onClose={() => setOpen(null)}
          onConfirm={async () => {
            await ask('DELETE', path('users', open.remove.name));
            await refresh('/v1/users', '/v1/tokens');
          }}
        >
          <p>The user is logged out everywhere, and the user's tokens end.</p>
        </Confirm>
      )}
    </Card>
  );
}

function UserDialog({ user, onClose }: { user?: User; onClose: () => void }) {
  const [name, setName] = useState(user?.name ?? '');
  const [role, setRole] = useState<Role>(user?.role ?? 'operator');
  const [password, setPassword] = useState('');
  const error = passwordError(password, '').fresh;
  const send = async () => {
    if (user)
      await ask('PATCH', path('users', user.name), {
        role,
        ...(password ? { password } : {}),
      } satisfies ChangeUser);
    else await ask('POST', '/v1/users', { name, role, password } satisfies CreateUser);
    await refresh('/v1/users');
  };
  return (
    <FormDialog
      title={user ? `Change ${user.name}` : 'Create user'}
      action={user ? 'Change' : 'Create user'}
      said={user ? `User ${user.name} was changed` : `User ${name} was created`}
      disabled={Boolean(error) || name === '' || (!user && password === '')}
      onSubmit={send}
      onClose={onClose}
    >
      {!user && <TextField label="Name" value={name} onChange={setName} required first />}
      <SelectField label="Role" value={role} onChange={setRole} options={ROLES} />
      <TextField
        label={user ? 'New password (empty: stays)' : 'Password'}
        type="password"
        autocomplete="new-password"
        value={password}
        onChange={setPassword}
        error={error}
        hint="At least 10 characters. The user must choose another one at the next login."
      />
    </FormDialog>
  );
}

function OwnPassword({ onClose }: { onClose: () => void }) {
  const [old, setOld] = useState('');
  const [fresh, setFresh] = useState('');
  const [again, setAgain] = useState('');
  const errors = passwordError(fresh, again);
  return (
    <FormDialog
      title="Change my password"
      action="Change password"
      said="Your password was changed"
      disabled={fresh === '' || fresh !== again || Boolean(errors.fresh)}
      onSubmit={() => changePassword(old, fresh)}
      onClose={onClose}
    >
      <TextField
        label="Password now"
        type="password"
        autocomplete="current-password"
        value={old}
        onChange={setOld}
        required
      />
      <TextField
        label="New password"
        type="password"
        autocomplete="new-password"
        value={fresh}
        onChange={setFresh}
        error={errors.fresh}
        required
      />
      <TextField
        label="New password again"
        type="password"
        autocomplete="new-password"
        value={again}
        onChange={setAgain}
        error={errors.again}
        required
      />
    </FormDialog>
  );
}

export function TokensTab() {
  const tokens = useResource<Token[]>('/v1/tokens');
  const [creating, setCreating] = useState(false);
  const [removing, remove] = useState<Token | null>(null);
  if (tokens.problem?.status === 404) return <Missing what="tokens" />;
  return (
    <Card
      title="Tokens"
      hint="For programs: Authorization: Bearer TOKEN"
      actions={
        <Button kind="primary" icon="plus" onClick={() => setCreating(true)}>
          Create token
        </Button>
      }
    >
      <Loaded of={tokens}>
        {(all) => (
          <Table
            caption="Tokens"
            rows={all}
            id={(token) => token.id}
            empty={
              <Empty icon="lock" title="There is no token">
                A script, a monitoring system or the command line from another machine logs in with
                one.
              </Empty>
            }
            columns={[
              {
                name: 'Token',
                head: true,
                cell: (token) => (
                  <>
                    <b>{token.name}</b> <span class="faint">{token.id}</span>
                  </>
                ),
              },
              { name: 'User', cell: (token) => token.user },
              {
                name: 'Role',
                cell: (token) => <Badge tone={ROLE_TONE[token.role]}>{token.role}</Badge>,
              },
              { name: 'Created', cell: (token) => <Time at={token.created} /> },
              {
                name: 'Ends',
                cell: (token) => (token.expires ? <Time at={token.expires} /> : 'never'),
              },
              {
                name: 'Actions',
                silent: true,
                cell: (token) => (
                  <Button
                    small
                    icon="trash"
                    onClick={() => remove(token)}
                    aria-label={`Delete token ${token.name}`}
                  />
                ),
              },
            ]}
          />
        )}
      </Loaded>
      {creating && <TokenDialog onClose={() => setCreating(false)} />}
      {removing && (
        <Confirm
          title={`Delete token ${removing.name}?`}
          action="Delete"
          said={`Token ${removing.name} was deleted`}
          onClose={() => remove(null)}
          onConfirm={async () => {
            await ask('DELETE', path('tokens', removing.id));
            await refresh('/v1/tokens');
          }}
        >
          <p>Programs that use it are refused from now on.</p>
        </Confirm>
      )}
    </Card>
  );
}

function TokenDialog({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('');
  const [role, setRole] = useState<Role>('viewer');
  const [days, setDays] = useState<number | null>(90);
  const [secret, setSecret] = useState<string | null>(null);
  const create = async () => {
    const made = await ask<NewToken>('POST', '/v1/tokens', {
      name,
      role,
      ...(days === null ? {} : { expires_in_days: days }),
    } satisfies CreateToken);
    setSecret(made.secret);
    await refresh('/v1/tokens');
  };
  const roles = ROLES.filter(([one]) => may(one));
  if (secret !== null) {
    return (
      <Dialog title={`Token ${name}`} onClose={onClose}>
        <Note tone="warn">Take it now: it is not shown again.</Note>
        <Copyable block text={secret} label="token" />
        <div class="form-actions">
          <Button kind="primary" onClick={onClose}>
            I have it
          </Button>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog title="Create token" onClose={onClose}>
      <Form action="Create token" disabled={name === ''} onSubmit={create} onCancel={onClose}>
        <TextField
          label="Name"
          value={name}
          onChange={setName}
          required
          first
          hint="What it is for."
        />
        <SelectField label="Role" value={role} onChange={setRole} options={roles} />
        <NumberField
          label="Ends after days (empty: never)"
          value={days}
          onChange={setDays}
          min={1}
          max={3650}
          hint={days === null ? 'It ends when it is deleted.' : `In ${plural(days, 'day')}.`}
        />
      </Form>
    </Dialog>
  );
}

// Logging in, and the first password.
import { useEffect, useState } from 'preact/hooks';
import { changePassword, login, logout } from '../data/session';
import { Note } from '../ui/basic';
import { Form, TextField } from '../ui/form';
import { Logo } from '../ui/icons';

export function LoginPage() {
  const [user, setUser] = useState('');
  const [password, setPassword] = useState('');
  useEffect(() => {
    document.title = 'Log in · Gantry';
    document.querySelector<HTMLInputElement>('.login input')?.focus();
  }, []);
  return (
    <main class="alone">
      <div class="login">
        <div class="login-head">
          <Logo />
          <h1>Gantry</h1>
        </div>
        <Form action="Log in" onSubmit={() => login(user, password)}>
          <TextField
            label="User"
            value={user}
            onChange={setUser}
            autocomplete="username"
            required
          />
          <TextField
            label="Password"
            type="password"
            value={password}
            onChange={setPassword}
            autocomplete="current-password"
            required
          />
        </Form>
        <p class="faint small">
          The first time, the user is <code>admin</code>; gantryd printed the password once when it
          started.
        </p>
      </div>
    </main>
  );
}

const PASSWORD_MIN = 10;

/** What is wrong with a new password, if anything. */
export function passwordError(fresh: string, again: string): { fresh?: string; again?: string } {
  const short = fresh !== '' && new TextEncoder().encode(fresh).length < PASSWORD_MIN;
  return {
    ...(short ? { fresh: `At least ${PASSWORD_MIN} characters.` } : {}),
    ...(again !== '' && again !== fresh ? { again: 'This is not the same.' } : {}),
  };
}

export function NewPasswordPage({ user }: { user: string }) {
  const [old, setOld] = useState('');
  const [fresh, setFresh] = useState('');
  const [again, setAgain] = useState('');
  const errors = passwordError(fresh, again);
  useEffect(() => {
    document.title = 'New password · Gantry';
    document.querySelector<HTMLInputElement>('.login input')?.focus();
  }, []);
  return (
    <main class="alone">
      <div class="login">
        <div class="login-head">
          <Logo />
          <h1>A password of your own</h1>
        </div>
        <Note tone="info">
          The password of <b>{user}</b> was made by someone else. Choose another one; nothing else
          is possible before.
        </Note>
        <Form
          action="Change password"
          disabled={fresh === '' || fresh !== again || Boolean(errors.fresh)}
          onSubmit={() => changePassword(old, fresh)}
          onCancel={() => void logout()}
        >
          <TextField
            label="Password now"
            type="password"
            value={old}
            onChange={setOld}
            autocomplete="current-password"
            required
          />
          <TextField
            label="New password"
            type="password"
            value={fresh}
            onChange={setFresh}
            autocomplete="new-password"
            hint={`At least ${PASSWORD_MIN} characters.`}
            error={errors.fresh}
            required
          />
          <TextField
            label="New password again"
            type="password"
            value={again}
            onChange={setAgain}
            autocomplete="new-password"
            error={errors.again}
            required
          />
        </Form>
      </div>
    </main>
  );
}

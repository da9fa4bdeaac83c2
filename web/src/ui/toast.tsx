// Short messages of what was done.
import { Changes } from '../data/changes';
import { Icon } from './icons';

interface Said {
  id: number;
  text: string;
}

const SHOWN_MS = 5000;
let said: Said[] = [];
let count = 0;
const changes = new Changes();

function change(next: Said[]): void {
  said = next;
  changes.tell();
}

/** Says that something was done. */
export function tell(text: string): void {
  count += 1;
  const id = count;
  change([...said.slice(-2), { id, text }]);
  setTimeout(() => change(said.filter((one) => one.id !== id)), SHOWN_MS);
}

export function Toasts() {
  changes.use();
  return (
    <div class="toasts" role="status" aria-live="polite">
      {said.map(({ id, text }) => (
        <p key={id} class="toast">
          <Icon name="check" />
          {text}
        </p>
      ))}
    </div>
  );
}

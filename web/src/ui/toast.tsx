// Short messages of what was done.
import { useEffect, useState } from 'preact/hooks';
import { Icon } from './icons';

interface Said { id: number; text: string }

const SHOWN_MS = 5000;
let said: Said[] = [];
let count = 0;
const listeners = new Set<() => void>();

function change(next: Said[]): void {
  said = next;
  for (const listener of listeners) listener();
}

/** Says that something was done. */
export function tell(text: string): void {
  count += 1;
  const id = count;
  change([...said.slice(-2), { id, text }]);
  setTimeout(() => change(said.filter((one) => one.id !== id)), SHOWN_MS);
}

export function Toasts() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((number) => number + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {said.map(({ id, text }) => <p key={id} class="toast"><Icon name="check" />{text}</p>)}
    </div>
  );
}

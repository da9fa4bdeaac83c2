// Drawing again when something outside of the components changes.
// biome-ignore-all lint/correctness/useHookAtTopLevel: the method is a hook that every change has.
import { useLayoutEffect, useState } from 'preact/hooks';

/** Who wants to know of changes of one thing. */
export class Changes {
  private readonly listeners = new Set<() => void>();

  /** Something changed. */
  tell(): void {
    for (const listener of [...this.listeners]) listener();
  }

  /** Draws a component again at every change. It listens before anything else can happen, so that
   * no change falls between its first drawing and its listening. */
  use(): void {
    const [, redraw] = useState(0);
    useLayoutEffect(() => {
      const listener = () => redraw((count) => count + 1);
      this.listeners.add(listener);
      return () => void this.listeners.delete(listener);
    }, []);
  }
}

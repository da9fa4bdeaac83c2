// The small parts that every page is made of.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Problem } from '../data/client';
import type { Fill, Severity } from '../generated/api';
import { exact, relative } from '../units';
import type { IconName } from './icons';
import { Icon } from './icons';

/** A page: its heading takes the focus when one comes here, so that screen readers say where one is. */
export function Page(props: {
  title: string;
  kind?: string;
  lead?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
}) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${props.title} · Gantry`;
    heading.current?.focus({ preventScroll: true });
  }, [props.title]);
  return (
    <div class="page">
      <header class="page-head">
        <div class="page-title">
          {props.kind && <p class="kind">{props.kind}</p>}
          <h1 ref={heading} tabIndex={-1}>
            {props.title}
          </h1>
          {props.lead && <p class="lead">{props.lead}</p>}
        </div>
        {props.actions && <div class="actions">{props.actions}</div>}
      </header>
      {props.children}
    </div>
  );
}

let ids = 0;
/** An identifier that no other part has. */
export function useId(prefix: string): string {
  const [id] = useState(() => {
    ids += 1;
    return `${prefix}-${ids}`;
  });
  return id;
}

/** A part of a page with a heading. */
export function Card(props: {
  title: string;
  hint?: ComponentChildren;
  actions?: ComponentChildren;
  class?: string;
  children: ComponentChildren;
}) {
  const id = useId('card');
  return (
    <section class={`card ${props.class ?? ''}`} aria-labelledby={id}>
      <header class="card-head">
        <h2 id={id}>{props.title}</h2>
        {props.hint && <span class="card-hint">{props.hint}</span>}
        {props.actions && <div class="actions">{props.actions}</div>}
      </header>
      {props.children}
    </section>
  );
}

type ButtonProps = {
  kind?: 'primary' | 'danger' | 'plain' | 'quiet';
  icon?: IconName;
  busy?: boolean;
  small?: boolean;
  children?: ComponentChildren;
} & JSX.HTMLAttributes<HTMLButtonElement> & { disabled?: boolean; type?: 'button' | 'submit' };

export function Button({
  kind = 'plain',
  icon,
  busy = false,
  small = false,
  children,
  ...rest
}: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      class={`button ${kind} ${small ? 'small' : ''}`}
      aria-busy={busy}
      disabled={busy || rest.disabled}
    >
      {icon && <Icon name={icon} />}
      {children && <span>{children}</span>}
    </button>
  );
}

/** A link that looks like a button. */
export function ButtonLink(props: {
  href: string;
  kind?: 'primary' | 'plain';
  icon?: IconName;
  children: ComponentChildren;
}) {
  return (
    <a class={`button ${props.kind ?? 'plain'}`} href={props.href}>
      {props.icon && <Icon name={props.icon} />}
      <span>{props.children}</span>
    </a>
  );
}

export type Tone = 'good' | 'warn' | 'bad' | 'info' | 'none';

/** A word with a colour and a sign: colour alone says nothing. */
export function Badge(props: { tone: Tone; children: ComponentChildren; title?: string }) {
  return (
    <span class={`badge ${props.tone}`} title={props.title}>
      {props.children}
    </span>
  );
}

export const SEVERITY_TONE: Record<Severity, Tone> = {
  information: 'info',
  warning: 'warn',
  error: 'bad',
};

export function FillBadge({ fill }: { fill: Fill }) {
  if (fill === 'hard') return <Badge tone="bad">Hard threshold</Badge>;
  if (fill === 'soft') return <Badge tone="warn">Soft threshold</Badge>;
  return <Badge tone="good">Normal</Badge>;
}

export function StateBadge({ state, reason }: { state: string; reason?: string | null }) {
  const tone: Tone = state === 'ready' ? 'good' : state === 'opening' ? 'info' : 'bad';
  return (
    <Badge tone={tone} title={reason ?? ''}>
      {state}
    </Badge>
  );
}

/** What went wrong, next to what caused it. */
export function ProblemBox({ problem }: { problem: Problem | undefined | null }) {
  if (!problem) return null;
  return (
    <div class="problem" role="alert">
      <Icon name="alert" />
      <p>
        <strong>{problem.title}.</strong> {problem.detail}
      </p>
    </div>
  );
}

/** Something to know or do, with a tone. */
export function Note(props: { tone: Tone; children: ComponentChildren }) {
  return (
    <div class={`note ${props.tone}`}>
      <Icon name={props.tone === 'bad' || props.tone === 'warn' ? 'alert' : 'info'} />
      <div>{props.children}</div>
    </div>
  );
}

/** Nothing is there: why, and what to do next. */
export function Empty(props: {
  icon?: IconName;
  title: string;
  children?: ComponentChildren;
  action?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <Icon name={props.icon ?? 'info'} />
      <p class="empty-title">{props.title}</p>
      {props.children && <p>{props.children}</p>}
      {props.action && <div class="empty-action">{props.action}</div>}
    </div>
  );
}

/** Space that will be filled, of about the same height. */
export function Waiting({ lines = 3 }: { lines?: number }) {
  return (
    <div class="waiting" role="status" aria-label="Loading">
      {Array.from({ length: lines }, (_, index) => (
        <span key={index} />
      ))}
    </div>
  );
}

/** What a resource has, or why not, or that it is on its way. */
export function Loaded<T>(props: {
  of: { data: T | undefined; problem: Problem | undefined };
  lines?: number;
  children: (data: T) => ComponentChildren;
}) {
  const { data, problem } = props.of;
  if (data === undefined)
    return problem ? <ProblemBox problem={problem} /> : <Waiting lines={props.lines ?? 3} />;
  return <>{props.children(data)}</>;
}

/** Seconds since 1970, and again when they change; every few seconds is enough for people. */
export function useNow(): number {
  const [now, set] = useState(() => Math.floor(Date.now() / 1000));
  useEffect(() => {
    const timer = setInterval(() => set(Math.floor(Date.now() / 1000)), 5000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** A time: how long ago, exactly on hover and for screen readers. */
export function Time({ at }: { at: number | null | undefined }) {
  const now = useNow();
  if (!at) return <span class="faint">–</span>;
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={exact(at)}>
      {relative(at, Math.max(now, Math.floor(Date.now() / 1000)))}
    </time>
  );
}

/** Name and value pairs. */
export function Facts(props: { rows: [string, ComponentChildren][]; class?: string }) {
  return (
    <dl class={`facts ${props.class ?? ''}`}>
      {props.rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The fact which labels an object has, if it has any. */
export function labels(tags: Record<string, string> | undefined): [string, ComponentChildren][] {
  const all = Object.entries(tags ?? {}).map(([key, value]) => `${key}=${value}`);
  return all.length > 0 ? [['Labels', all.join(', ')]] : [];
}

/** Text that one may want elsewhere, with a button that takes it. */
export function Copyable({
  text,
  label,
  block = false,
}: {
  text: string;
  label: string;
  block?: boolean;
}) {
  const [copied, set] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Without the right to the clipboard the text can be selected by hand.
      return;
    }
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return (
    <span class={block ? 'copyable block' : 'copyable'}>
      {block ? (
        <pre
          class={text.includes('\n') || text.includes(' ') ? '' : 'secret'}
          tabIndex={0}
          aria-label={label}
        >
          {text}
        </pre>
      ) : (
        <code>{text}</code>
      )}
      <button
        type="button"
        class="icon-button"
        onClick={() => void copy()}
        aria-label={`Copy ${label}`}
        title={copied ? 'Copied' : `Copy ${label}`}
      >
        <Icon name={copied ? 'check' : 'copy'} />
      </button>
      <span class="hidden" role="status">
        {copied ? 'Copied' : ''}
      </span>
    </span>
  );
}

/** One of a few choices. */
export function Segmented<T extends string | number>(props: {
  label: string;
  value: T;
  options: [T, string][];
  onChange: (value: T) => void;
}) {
  const name = useId('segment');
  return (
    <fieldset class="segmented">
      <legend class="hidden">{props.label}</legend>
      {props.options.map(([value, text]) => (
        <label key={value}>
          <input
            type="radio"
            name={name}
            checked={value === props.value}
            onChange={() => props.onChange(value)}
          />
          <span>{text}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** Places within a page, as links. */
export function Tabs(props: { label: string; at: string; tabs: [string, string, number?][] }) {
  const nav = useRef<HTMLElement>(null);
  // On a narrow screen the tabs are wider than the page.
  useEffect(
    () =>
      nav.current
        ?.querySelector('[aria-current]')
        ?.scrollIntoView({ inline: 'nearest', block: 'nearest' }),
    [props.at],
  );
  return (
    <nav class="tabs" aria-label={props.label} ref={nav}>
      {props.tabs.map(([href, text, number]) => (
        <a key={href} href={href} aria-current={href === props.at ? 'page' : undefined}>
          {text}
          {number ? <span class="tab-count">{number}</span> : null}
        </a>
      ))}
    </nav>
  );
}

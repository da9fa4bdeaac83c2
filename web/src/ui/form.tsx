// Dialogs, forms and their fields.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Problem } from '../data/client';
import { problemFrom } from '../data/client';
import { bytes, parseBytes } from '../units';
import { Button, ProblemBox, useId } from './basic';
import { tell } from './toast';

/** A modal dialog; the browser keeps the focus in it and gives it back. */
export function Dialog(props: {
  title: string;
  onClose: () => void;
  wide?: boolean;
  children: ComponentChildren;
}) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId('dialog');
  useEffect(() => {
    const dialog = element.current!;
    const before = document.activeElement;
    dialog.showModal();
    const first =
      dialog.querySelector<HTMLElement>('[data-first]') ??
      dialog.querySelector<HTMLElement>('input, select, textarea');
    first?.focus();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={props.wide ? 'wide' : ''}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onMouseDown={(event) => event.target === element.current && props.onClose()}
    >
      <div class="dialog">
        <header>
          <h2 id={id}>{props.title}</h2>
          <Button kind="quiet" icon="close" aria-label="Close" onClick={props.onClose} />
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

/** Sends a form's work off, and keeps what went wrong. */
export function useSubmit(work: () => Promise<unknown>, onDone?: () => void) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const submit = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await work();
      setBusy(false);
      onDone?.();
    } catch (error) {
      setProblem(problemFrom(error));
      setBusy(false);
    }
  };
  return { busy, problem, submit };
}

interface FormProperties {
  action: string;
  danger?: boolean;
  disabled?: boolean;
  onSubmit: () => Promise<unknown>;
  onDone?: () => void;
  onCancel?: () => void;
  said?: string;
  children: ComponentChildren;
}

/** Fields, what went wrong, and the button that sends. */
export function Form(props: FormProperties) {
  const done = () => {
    if (props.said) tell(props.said);
    props.onDone?.();
  };
  const { busy, problem, submit } = useSubmit(props.onSubmit, done);
  return (
    <form
      class="form"
      onSubmit={(event) => {
        event.preventDefault();
        if (!busy && !props.disabled) void submit();
      }}
    >
      {props.children}
      <ProblemBox problem={problem} />
      <div class="form-actions">
        <Button
          type="submit"
          kind={props.danger ? 'danger' : 'primary'}
          busy={busy}
          disabled={props.disabled ?? false}
        >
          {props.action}
        </Button>
        {props.onCancel && <Button onClick={props.onCancel}>Cancel</Button>}
      </div>
    </form>
  );
}

/** A form in a dialog. */
export function FormDialog(
  props: FormProperties & { title: string; onClose: () => void; wide?: boolean },
) {
  const { title, onClose, wide, ...form } = props;
  const done = () => {
    onClose();
    form.onDone?.();
  };
  return (
    <Dialog title={title} onClose={onClose} wide={wide ?? false}>
      <Form {...form} onDone={done} onCancel={onClose} />
    </Dialog>
  );
}

interface FieldProperties {
  label: string;
  hint?: ComponentChildren;
  error?: string | undefined;
}

function Field(
  props: FieldProperties & {
    children: (id: string, described: string | undefined) => ComponentChildren;
  },
) {
  const id = useId('field');
  const described = props.error || props.hint ? `${id}-hint` : undefined;
  return (
    <div class={props.error ? 'field wrong' : 'field'}>
      <label for={id}>{props.label}</label>
      {props.children(id, described)}
      {described && (
        <p id={described} class="hint">
          {props.error ?? props.hint}
        </p>
      )}
    </div>
  );
}

/** A line of text. */
export function TextField(
  props: FieldProperties & {
    value: string;
    onChange: (value: string) => void;
    placeholder?: string;
    required?: boolean;
    first?: boolean;
    type?: 'text' | 'password' | 'search' | 'url' | 'email';
    autocomplete?: string;
    mono?: boolean;
  },
) {
  return (
    <Field {...props}>
      {(id, described) => (
        <input
          id={id}
          type={props.type ?? 'text'}
          value={props.value}
          placeholder={props.placeholder}
          required={props.required}
          class={props.mono ? 'mono' : ''}
          autocomplete={(props.autocomplete ?? 'off') as 'off'}
          spellcheck={false}
          autocapitalize="none"
          aria-describedby={described}
          aria-invalid={props.error ? true : undefined}
          data-first={props.first ? '' : undefined}
          onInput={(event) => props.onChange(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

/** Several lines of text. */
export function LinesField(
  props: FieldProperties & {
    value: string;
    onChange: (value: string) => void;
    rows?: number;
    placeholder?: string;
  },
) {
  return (
    <Field {...props}>
      {(id, described) => (
        <textarea
          id={id}
          rows={props.rows ?? 3}
          value={props.value}
          class="mono"
          spellcheck={false}
          placeholder={props.placeholder}
          aria-describedby={described}
          onInput={(event) => props.onChange(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

/** A whole number. */
export function NumberField(
  props: FieldProperties & {
    value: number | null;
    onChange: (value: number | null) => void;
    min?: number;
    max?: number;
    required?: boolean;
    placeholder?: string;
  },
) {
  return (
    <Field {...props}>
      {(id, described) => (
        <input
          id={id}
          type="number"
          step={1}
          min={props.min}
          max={props.max}
          required={props.required}
          value={props.value ?? ''}
          placeholder={props.placeholder}
          aria-describedby={described}
          onInput={(event) =>
            props.onChange(
              event.currentTarget.value === '' ? null : event.currentTarget.valueAsNumber,
            )
          }
        />
      )}
    </Field>
  );
}

/** A size: '500 GiB', '2T'. */
export function SizeField(
  props: FieldProperties & {
    value: string;
    onChange: (value: string) => void;
    required?: boolean;
    placeholder?: string;
  },
) {
  const size = parseBytes(props.value);
  const wrong = props.value.trim() !== '' && size === null;
  const hint =
    size === null ? (
      (props.hint ?? 'A number with MiB, GiB or TiB, for example 500 GiB.')
    ) : (
      <>
        {bytes(size)} = {size.toLocaleString('en')} bytes{props.hint ? <>. {props.hint}</> : ''}
      </>
    );
  return (
    <TextField
      {...props}
      hint={hint}
      error={wrong ? 'This is not a size: write for example 500 GiB or 2 TiB.' : props.error}
      placeholder={props.placeholder ?? '500 GiB'}
    />
  );
}

/** One of several. */
export function SelectField<T extends string>(
  props: FieldProperties & { value: T; onChange: (value: T) => void; options: [T, string][] },
) {
  const choose = (index: number) => {
    const option = props.options[index];
    if (option) props.onChange(option[0]);
  };
  return (
    <Field {...props}>
      {(id, described) => (
        <select
          id={id}
          value={props.value}
          aria-describedby={described}
          onChange={(event) => choose(event.currentTarget.selectedIndex)}
        >
          {props.options.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

/** Yes or no. */
export function CheckField(props: {
  label: string;
  hint?: ComponentChildren;
  checked: boolean;
  onChange: (checked: boolean) => void;
}) {
  const id = useId('check');
  return (
    <div class="check-field">
      <input
        id={id}
        type="checkbox"
        checked={props.checked}
        aria-describedby={props.hint ? `${id}-hint` : undefined}
        onChange={(event) => props.onChange(event.currentTarget.checked)}
      />
      <div>
        <label for={id}>{props.label}</label>
        {props.hint && (
          <p id={`${id}-hint`} class="hint">
            {props.hint}
          </p>
        )}
      </div>
    </div>
  );
}

/** Any number of several. */
export function ChoicesField(props: {
  label: string;
  hint?: string;
  options: string[];
  chosen: string[];
  onChange: (chosen: string[]) => void;
}) {
  const toggle = (name: string) =>
    props.onChange(
      props.chosen.includes(name)
        ? props.chosen.filter((other) => other !== name)
        : [...props.chosen, name],
    );
  return (
    <fieldset class="choices">
      <legend>{props.label}</legend>
      {props.hint && <p class="hint">{props.hint}</p>}
      <div class="choices-list">
        {props.options.map((name) => (
          <label key={name}>
            <input
              type="checkbox"
              checked={props.chosen.includes(name)}
              onChange={() => toggle(name)}
            />
            <span>{name}</span>
          </label>
        ))}
      </div>
    </fieldset>
  );
}

/** Asks before something that cannot be undone; with `retype` the name must be typed. */
export function Confirm(props: {
  title: string;
  action: string;
  retype?: string;
  disabled?: boolean;
  said?: string;
  onConfirm: () => Promise<unknown>;
  onClose: () => void;
  children: ComponentChildren;
}) {
  const [typed, setTyped] = useState('');
  const unsure = props.retype !== undefined && typed !== props.retype;
  return (
    <FormDialog
      title={props.title}
      action={props.action}
      danger
      disabled={unsure || (props.disabled ?? false)}
      onSubmit={props.onConfirm}
      onClose={props.onClose}
      {...(props.said ? { said: props.said } : {})}
    >
      {props.children}
      {props.retype !== undefined && (
        <TextField
          label={`Type ${props.retype} to confirm`}
          value={typed}
          onChange={setTyped}
          mono
          first
        />
      )}
    </FormDialog>
  );
}

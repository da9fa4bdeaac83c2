// Editing of labels (tags) and names of objects.
import { useEffect, useState } from 'preact/hooks';
import type { Problem } from '../data/client';
import { ask, askWithVersion, path, problemFrom } from '../data/client';
import { deleting, refresh } from '../data/store';
import type { Group, Host, Pool, Rename, SetTags, Snapshot, Volume } from '../generated/api';
import { ProblemBox, Waiting } from '../ui/basic';
import { FormDialog, LinesField, TextField } from '../ui/form';

/** Anything that has labels. */
type Labelled = Pool | Volume | Snapshot | Host | Group;

/** Labels as lines of text: KEY=VALUE each. */
export function writeLabels(tags: Record<string, string>): string {
  return Object.entries(tags)
    .map(([key, value]) => `${key}=${value}`)
    .join('\n');
}

/** Labels from lines of text, or what is wrong with one of them. */
export function readLabels(text: string): { tags: Record<string, string> } | { wrong: string } {
  const tags = new Map<string, string>();
  for (const line of text.split('\n').filter((one) => one.trim() !== '')) {
    const [key = '', ...rest] = line.split('=');
    if (rest.length === 0) return { wrong: `'${line}' is no label: write KEY=VALUE.` };
    if (tags.has(key.trim())) return { wrong: `The label '${key.trim()}' is there twice.` };
    tags.set(key.trim(), rest.join('='));
  }
  return { tags: Object.fromEntries(tags) };
}

/** Edits all labels of an object at once. What somebody else changes meanwhile is not overwritten:
 * the change names the version that the dialog showed. */
export function LabelsDialog(props: {
  name: string;
  /** The object's own path. */
  at: string;
  /** What shows its labels. */
  shownBy: string[];
  onClose: () => void;
}) {
  const [found, setFound] = useState<{ data: Labelled; etag: string | null } | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    askWithVersion<Labelled>(props.at)
      .then(setFound)
      .catch((error) => setProblem(problemFrom(error)));
  }, [props.at]);
  const [typed, setTyped] = useState<string | null>(null);
  const text = typed ?? writeLabels(found?.data.tags ?? {});
  const read = readLabels(text);
  const set = async () => {
    if (!found || 'wrong' in read) return;
    await ask('PUT', `${props.at}/tags`, read satisfies SetTags, found.etag);
    await refresh(props.at, ...props.shownBy);
  };
  return (
    <FormDialog
      title={`Labels of ${props.name}`}
      action="Set labels"
      said={`The labels of ${props.name} were set`}
      disabled={!found || 'wrong' in read}
      onSubmit={set}
      onClose={props.onClose}
    >
      {found ? (
        <LinesField
          label="Labels"
          value={text}
          onChange={setTyped}
          rows={5}
          placeholder="env=production"
          hint="One per line, KEY=VALUE; at most 16. Lists can be filtered by them."
          error={'wrong' in read ? read.wrong : undefined}
        />
      ) : problem ? (
        <ProblemBox problem={problem} />
      ) : (
        <Waiting lines={3} />
      )}
    </FormDialog>
  );
}

/** Gives a volume or snapshot another name. */
export function RenameDialog(props: {
  kind: 'volumes' | 'snapshots';
  pool: string;
  name: string;
  onDone?: (name: string) => void;
  onClose: () => void;
}) {
  const [name, setName] = useState(props.name);
  const at = path(props.kind, props.pool, props.name);
  const rename = async () => {
    await deleting(at, () => ask('POST', `${at}/rename`, { name } satisfies Rename));
    props.onDone?.(name);
    await refresh('/v1/volumes', '/v1/snapshots');
  };
  return (
    <FormDialog
      title={`Rename ${props.name}`}
      action="Rename"
      said={`${props.name} is now ${name}`}
      disabled={name === '' || name === props.name}
      onSubmit={rename}
      onClose={props.onClose}
    >
      <TextField
        label="New name"
        value={name}
        onChange={setName}
        required
        first
        hint="Hosts notice nothing: LUN and identifier stay."
      />
    </FormDialog>
  );
}

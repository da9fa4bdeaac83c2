// Primitives (offloads) that administrators turn off and on: for the array, a host, a volume.
import { useState } from 'preact/hooks';
import { ask } from '../data/client';
import { may } from '../data/session';
import { refresh, useResource } from '../data/store';
import type { Primitives, SetPrimitives } from '../generated/api';
import { Badge, Button, Card, Facts, Loaded, Note } from '../ui/basic';
import { CheckField, FormDialog } from '../ui/form';

const NAMES: [keyof Primitives, string, string][] = [
  ['compare_and_write', 'Compare and write (ATS)', 'Locks of cluster file systems'],
  ['extended_copy', 'Extended copy (Full Copy, ODX)', 'Clones and moves without host traffic'],
  ['write_same', 'Write same (Block Zero)', 'Zeroes without host traffic'],
  ['unmap', 'Unmap (Delete)', 'Hosts give space back'],
];

/** What is off, in words. */
export function primitivesText(of: Primitives) {
  const off = NAMES.filter(([key]) => !of[key]).map(([, name]) => name);
  return off.length === 0 ? 'all on' : <Badge tone="warn">{`${off.join(', ')} off`}</Badge>;
}

/** Asks which primitives are to be on at one place. */
export function PrimitivesDialog(props: {
  title: string;
  at: string;
  shownBy: string[];
  value: Primitives;
  onClose: () => void;
}) {
  // Only what is changed here is sent: what others change meanwhile stays.
  const [was] = useState(props.value);
  const [on, setOn] = useState(was);
  const changed = NAMES.filter(([key]) => on[key] !== was[key]);
  const change = async () => {
    const body: SetPrimitives = Object.fromEntries(changed.map(([key]) => [key, on[key]]));
    await ask('PATCH', props.at, body);
    await refresh(...props.shownBy);
  };
  return (
    <FormDialog
      title={props.title}
      action="Change"
      said="The primitives were changed"
      disabled={changed.length === 0}
      onSubmit={change}
      onClose={props.onClose}
    >
      {NAMES.map(([key, name, hint]) => (
        <CheckField
          key={key}
          label={name}
          hint={hint}
          checked={on[key]}
          onChange={(checked) => setOn({ ...on, [key]: checked })}
        />
      ))}
      {changed.some(([key]) => !on[key]) && (
        <Note tone="warn">
          Hosts are told at once, and do it themselves from then on: by reading and writing, or not
          at all.
        </Note>
      )}
      <Note tone="info">
        A primitive works only where it is on for the array, the host and the volume.
      </Note>
    </FormDialog>
  );
}

/** What is on for everybody. */
export function PrimitivesTab() {
  const primitives = useResource<Primitives>('/v1/primitives');
  const [open, setOpen] = useState(false);
  return (
    <Card
      title="Primitives"
      hint="What the array does for hosts, unless a host or a volume has it off"
      actions={
        may('admin') && (
          <Button icon="settings" onClick={() => setOpen(true)}>
            Change
          </Button>
        )
      }
    >
      <Loaded of={primitives} lines={4}>
        {(data) => (
          <>
            <Facts
              rows={NAMES.map(([key, name]) => [
                name,
                data[key] ? <Badge tone="good">on</Badge> : <Badge tone="warn">off</Badge>,
              ])}
            />
            {open && (
              <PrimitivesDialog
                title="Primitives of the array"
                at="/v1/primitives"
                shownBy={['/v1/primitives']}
                value={data}
                onClose={() => setOpen(false)}
              />
            )}
          </>
        )}
      </Loaded>
    </Card>
  );
}

// The mirrors of a pool: members and what their copies are worth, how far one that is being filled
// is, and what an administrator does with them.
import { useState } from 'preact/hooks';
import { ask, path } from '../data/client';
import { may } from '../data/session';
import { refresh } from '../data/store';
import type { AttachMember, ControlResilver, Member, Mirror, Pool } from '../generated/api';
import { Badge, Button, Card, Facts, Note, ProblemBox } from '../ui/basic';
import { DeviceFields, deviceOf, NO_DEVICE } from '../ui/device_fields';
import { CheckField, Confirm, FormDialog, useSubmit } from '../ui/form';
import { Table } from '../ui/table';
import { bytes, count, percent } from '../units';
import { RemoveDialog } from './departure';
import { Spares } from './spares';

type Open = { attach: Mirror; replaces?: Member } | { detach: Member } | { remove: Mirror } | null;

const TONES = {
  current: 'good',
  resilvering: 'warn',
  absent: 'bad',
  witness: 'good',
  'witness-absent': 'warn',
} as const;

function isWitness(member: Member): boolean {
  return member.state === 'witness' || member.state === 'witness-absent';
}

function nameOf(member: Member): string {
  return member.device ?? member.uuid;
}

export function MirrorsCard({ pool }: { pool: Pool }) {
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  if (pool.mirrors.length === 0) return null;
  const degraded = pool.mirrors.filter((mirror) => mirror.degraded).length;
  return (
    <Card
      title="Mirrors"
      hint={
        degraded > 0 ? (
          <Badge tone="bad">{`${degraded} degraded`}</Badge>
        ) : (
          <Badge tone="good">whole</Badge>
        )
      }
    >
      {pool.mirrors.map((mirror) => (
        <OneMirror
          key={mirror.uuid}
          pool={pool.name}
          mirror={mirror}
          mayLeave={!pool.departure && mirror.index > 0}
          onOpen={setOpen}
        />
      ))}
      <Facts
        rows={[
          ['A device may take', `${pool.hang_limit_seconds} s for one operation`],
          [
            'A device is left out after',
            `${pool.read_errors_max} reads in an hour that another copy had to answer`,
          ],
          ['Spares', pool.spares.length > 0 ? pool.spares.length : 'none'],
        ]}
      />
      <Spares pool={pool} />
      {open && 'attach' in open && (
        <Attach pool={pool.name} mirror={open.attach} replaces={open.replaces} onClose={close} />
      )}
      {open && 'detach' in open && <Detach pool={pool.name} member={open.detach} onClose={close} />}
      {open && 'remove' in open && (
        <RemoveDialog
          pool={pool.name}
          number={open.remove.index}
          name={`mirror ${open.remove.index}`}
          onClose={close}
        />
      )}
    </Card>
  );
}

function OneMirror({
  pool,
  mirror,
  mayLeave,
  onOpen,
}: {
  pool: string;
  mirror: Mirror;
  /** Whether it can leave the pool: the journal is on the first one, and one leaves at a time. */
  mayLeave: boolean;
  onOpen: (open: Open) => void;
}) {
  return (
    <>
      <Table
        caption={`Mirror ${mirror.index} of pool ${pool}`}
        rows={mirror.members}
        id={(member) => member.uuid}
        columns={[
          {
            name: `Mirror ${mirror.index}`,
            head: true,
            cell: (member) => <code class="breakable">{nameOf(member)}</code>,
          },
          {
            name: 'State',
            cell: (member) => <Badge tone={TONES[member.state]}>{member.state}</Badge>,
          },
          { name: 'Errors', number: true, cell: (member) => count(member.errors) },
          { name: 'Healed', number: true, cell: (member) => count(member.healed_blocks) },
          {
            name: 'Actions',
            silent: true,
            cell: (member) =>
              may('admin') && (
                <>
                  {(member.state === 'absent' || member.state === 'witness-absent') && (
                    <Return pool={pool} member={member} />
                  )}
                  {!isWitness(member) && (
                    <Button small onClick={() => onOpen({ attach: mirror, replaces: member })}>
                      Replace
                    </Button>
                  )}
                  <Button small onClick={() => onOpen({ detach: member })}>
                    Detach
                  </Button>
                </>
              ),
          },
        ]}
      />
      {mirror.resilver && <Resilver pool={pool} mirror={mirror} />}
      {may('admin') && (
        <>
          <Button small icon="plus" onClick={() => onOpen({ attach: mirror })}>
            Attach a device
          </Button>
          {mayLeave && (
            <Button small onClick={() => onOpen({ remove: mirror })}>
              Remove the mirror
            </Button>
          )}
        </>
      )}
    </>
  );
}

function Resilver({ pool, mirror }: { pool: string; mirror: Mirror }) {
  const resilver = mirror.resilver;
  const change = useSubmit(async () => {
    await ask('POST', path('pools', pool, 'resilver'), {
      action: resilver?.paused ? 'resume' : 'pause',
    } satisfies ControlResilver);
    await refresh(path('pools', pool));
  });
  if (!resilver) return null;
  const left =
    resilver.remaining_seconds != null ? `, about ${resilver.remaining_seconds} s left` : '';
  return (
    <Note tone="warn">
      {bytes(resilver.copied_bytes)} of about {bytes(resilver.total_bytes)} copied (
      {percent(resilver.copied_bytes, Math.max(1, resilver.total_bytes))})
      {resilver.paused ? ', paused' : left}.
      <ProblemBox problem={change.problem} />
      {may('admin') && (
        <Button small busy={change.busy} onClick={() => void change.submit()}>
          {resilver.paused ? 'Resume' : 'Pause'}
        </Button>
      )}
    </Note>
  );
}

function Return({ pool, member }: { pool: string; member: Member }) {
  const look = useSubmit(async () => {
    await ask('POST', path('pools', pool, 'members', member.uuid, 'return'));
    await refresh(path('pools', pool));
  });
  return (
    <>
      <ProblemBox problem={look.problem} />
      <Button small busy={look.busy} onClick={() => void look.submit()}>
        Look now
      </Button>
    </>
  );
}

function Attach({
  pool,
  mirror,
  replaces,
  onClose,
}: {
  pool: string;
  mirror: Mirror;
  replaces?: Member;
  onClose: () => void;
}) {
  const [draft, setDraft] = useState(NO_DEVICE);
  const [witness, setWitness] = useState(false);
  const mayWitness = !replaces && !mirror.members.some(isWitness);
  const attach = async () => {
    await ask('POST', path('pools', pool, 'members'), {
      mirror: mirror.index,
      ...deviceOf(draft),
      ...(replaces ? { replaces: replaces.uuid } : {}),
      ...(witness ? { witness } : {}),
    } satisfies AttachMember);
    await refresh(path('pools', pool), '/v1/pools');
  };
  return (
    <FormDialog
      title={replaces ? `Replace ${nameOf(replaces)}` : `Attach a device to mirror ${mirror.index}`}
      action={replaces ? 'Replace' : 'Attach'}
      said={witness ? 'The device is the witness' : 'The device joined and is being filled'}
      onSubmit={attach}
      onClose={onClose}
    >
      <p class="faint">
        {witness
          ? 'It holds no copy: with it one of several controllers takes the pool when another one is gone together with a device of the mirror.'
          : `It is filled while hosts go on${
              replaces ? '; the other one leaves when it holds everything.' : '.'
            }`}
      </p>
      {mayWitness && <CheckField label="As its witness" checked={witness} onChange={setWitness} />}
      <DeviceFields
        value={draft}
        onChange={setDraft}
        empty={witness ? '64 MiB' : 'as the mirror'}
      />
    </FormDialog>
  );
}

function Detach({ pool, member, onClose }: { pool: string; member: Member; onClose: () => void }) {
  const detach = async () => {
    await ask('DELETE', path('pools', pool, 'members', member.uuid));
    await refresh(path('pools', pool), '/v1/pools');
  };
  return (
    <Confirm
      title={`Detach ${nameOf(member)}?`}
      action="Detach"
      said="The device has left its mirror"
      onConfirm={detach}
      onClose={onClose}
    >
      <Note tone="warn">
        {isWitness(member)
          ? 'Without a witness no controller opens the mirror without some of its devices.'
          : 'The mirror has one copy less then. What the device holds is left as it is.'}
      </Note>
    </Confirm>
  );
}

// Long work: how far it is, and how it ended.
import { useState } from 'preact/hooks';
import { ask, path } from '../data/client';
import { may } from '../data/session';
import { refresh, useResource } from '../data/store';
import type { Task } from '../generated/api';
import { Meter } from '../ui/bars';
import type { Tone } from '../ui/basic';
import { Badge, Button, Card, Empty, Loaded, Note, Page, ProblemBox, Time } from '../ui/basic';
import { Confirm, useSubmit } from '../ui/form';
import { Table } from '../ui/table';
import { bytes, count, duration } from '../units';
import { Missing } from './missing';

const TONE: Record<Task['state'], Tone> = {
  running: 'info',
  done: 'good',
  cancelled: 'none',
  failed: 'bad',
};

export function TasksPage() {
  const tasks = useResource<Task[]>('/v1/tasks', 1500);
  const [cancelling, cancel] = useState<Task | null>(null);
  return (
    <Page
      title="Tasks"
      lead="Long work in the background: scrubs, resilvers, devices that leave, deletes, sanitizing."
    >
      {tasks.problem?.status === 404 ? (
        <Missing what="tasks" />
      ) : (
        <Card title="Tasks">
          <Loaded of={tasks} lines={5}>
            {(all) => <TaskTable tasks={all} onCancel={cancel} />}
          </Loaded>
        </Card>
      )}
      {cancelling && (
        <Confirm
          title={`Cancel: ${words(cancelling.kind)}?`}
          action="Cancel the task"
          said="The task was cancelled"
          onClose={() => cancel(null)}
          onConfirm={async () => {
            await ask('POST', path('tasks', String(cancelling.id), 'cancel'));
            await refresh('/v1/tasks');
          }}
        >
          <p>It works on {cancelling.object}. What is done stays done.</p>
          {cancelling.kind === 'remove-device' && (
            <Note tone="warn">The device stays in its pool, and is used as before.</Note>
          )}
          {cancelling.kind === 'resilver' && (
            <Note tone="warn">The member leaves its mirror; its device is left as it is.</Note>
          )}
        </Confirm>
      )}
    </Page>
  );
}

const amount = (task: Task, value: number) =>
  task.unit === 'bytes' ? bytes(value) : `${count(value)} ${task.unit}`;

/** 'create-pool' as people say it. */
const words = (kind: string) => kind.replace('-', ' ');

/** How fast it is, and how long it will take. */
function Estimate({ task }: { task: Task }) {
  const said = [
    task.rate_bytes != null ? `${bytes(task.rate_bytes)}/s` : '',
    task.remaining_seconds != null ? `about ${duration(task.remaining_seconds)} left` : '',
  ].filter((part) => part !== '');
  return said.length > 0 ? <div class="faint">{said.join(', ')}</div> : null;
}

/** Lets a task rest, or go on. */
function Hold({ task }: { task: Task }) {
  const change = useSubmit(async () => {
    await ask('POST', path('tasks', String(task.id), task.paused ? 'resume' : 'pause'));
    await refresh('/v1/tasks');
  });
  const word = task.paused ? 'Resume' : 'Pause';
  return (
    <>
      <ProblemBox problem={change.problem} />
      <Button
        small
        busy={change.busy}
        onClick={() => void change.submit()}
        aria-label={`${word} ${task.kind} of ${task.object}`}
      >
        {word}
      </Button>
    </>
  );
}

function TaskTable({ tasks, onCancel }: { tasks: Task[]; onCancel: (task: Task) => void }) {
  return (
    <Table
      caption="Tasks"
      rows={tasks}
      id={(task) => String(task.id)}
      empty={
        <Empty icon="task" title="Nothing runs in the background">
          A scrub is begun on the page of a pool; deleting a large volume goes on here after the
          volume is gone from the list.
        </Empty>
      }
      columns={[
        {
          name: 'Task',
          head: true,
          cell: (task) => (
            <>
              <b>{words(task.kind)}</b> <span class="faint">{task.object}</span>
            </>
          ),
        },
        {
          name: 'State',
          cell: (task) =>
            task.paused ? (
              <Badge tone="warn">paused</Badge>
            ) : (
              <Badge tone={TONE[task.state]}>{task.state}</Badge>
            ),
        },
        {
          name: 'Progress',
          cell: (task) =>
            task.total > 0 ? (
              <>
                <Meter
                  label="Progress"
                  value={task.done}
                  whole={task.total}
                  text={`${amount(task, task.done)} of ${amount(task, task.total)}`}
                />
                <Estimate task={task} />
              </>
            ) : task.done > 0 ? (
              amount(task, task.done)
            ) : (
              <span class="faint">–</span>
            ),
        },
        { name: 'Began', cell: (task) => <Time at={task.started} /> },
        { name: 'Ended', cell: (task) => <Time at={task.ended} /> },
        { name: 'Problem', cell: (task) => task.problem ?? <span class="faint">–</span> },
        {
          name: 'Actions',
          silent: true,
          cell: (task) =>
            task.state === 'running' &&
            may('admin') && (
              <>
                {task.can_pause && <Hold task={task} />}
                {task.can_cancel && (
                  <Button
                    small
                    onClick={() => onCancel(task)}
                    aria-label={`Cancel ${task.kind} of ${task.object}`}
                  >
                    Cancel
                  </Button>
                )}
              </>
            ),
        },
      ]}
    />
  );
}

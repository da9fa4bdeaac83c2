// Long work: how far it is, and how it ended.
import { useState } from 'preact/hooks';
import { ask, path } from '../data/client';
import { may } from '../data/session';
import { refresh, useResource } from '../data/store';
import type { Task } from '../generated/api';
import { Meter } from '../ui/bars';
import type { Tone } from '../ui/basic';
import { Badge, Button, Card, Empty, Loaded, Page, Time } from '../ui/basic';
import { Confirm } from '../ui/form';
import { Table } from '../ui/table';
import { bytes, count } from '../units';
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
    <Page title="Tasks" lead="Long work in the background: scrubs, deletes, sanitizing.">
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
        </Confirm>
      )}
    </Page>
  );
}

const amount = (task: Task, value: number) =>
  task.unit === 'bytes' ? bytes(value) : `${count(value)} ${task.unit}`;

/** 'create-pool' as people say it. */
const words = (kind: string) => kind.replace('-', ' ');

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
        { name: 'State', cell: (task) => <Badge tone={TONE[task.state]}>{task.state}</Badge> },
        {
          name: 'Progress',
          cell: (task) =>
            task.total > 0 ? (
              <Meter
                label="Progress"
                value={task.done}
                whole={task.total}
                text={`${amount(task, task.done)} of ${amount(task, task.total)}`}
              />
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
            task.can_cancel &&
            may('operator') && (
              <Button
                small
                onClick={() => onCancel(task)}
                aria-label={`Cancel ${task.kind} of ${task.object}`}
              >
                Cancel
              </Button>
            ),
        },
      ]}
    />
  );
}

// Who changed what, and everything that is configured as one file.
import { useState } from 'preact/hooks';
import { ask } from '../data/client';
import { refresh, useResource } from '../data/store';
import type { AuditEntry, Configuration, Imported } from '../generated/api';
import { Badge, Button, Card, Empty, Loaded, Note, ProblemBox, Time } from '../ui/basic';
import { Form, useSubmit } from '../ui/form';
import { SearchBox } from '../ui/search';
import { Table } from '../ui/table';
import { Missing } from './missing';

export function AuditTab() {
  const audit = useResource<AuditEntry[]>('/v1/audit?limit=500', 5000);
  const [search, setSearch] = useState('');
  if (audit.problem?.status === 404) return <Missing what="audit log" />;
  const fits = (entry: AuditEntry) =>
    `${entry.user} ${entry.method} ${entry.path} ${entry.source} ${entry.status}`
      .toLowerCase()
      .includes(search.toLowerCase());
  return (
    <Card
      title="Audit"
      hint="Every change, and every attempt; newest first"
      actions={<SearchBox label="Filter" value={search} onChange={setSearch} />}
    >
      <Loaded of={audit} lines={8}>
        {(all) => (
          <Table
            caption="Audit log"
            rows={all.filter(fits)}
            id={(entry) => `${entry.time} ${entry.method} ${entry.path} ${all.indexOf(entry)}`}
            empty={
              <Empty icon="task" title="Nothing to show">
                No change fits, or none was made yet.
              </Empty>
            }
            columns={[
              { name: 'When', head: true, cell: (entry) => <Time at={entry.time} /> },
              {
                name: 'User',
                cell: (entry) => (
                  <>
                    {entry.user || <span class="faint">unknown</span>}{' '}
                    <span class="faint">{entry.via}</span>
                  </>
                ),
              },
              { name: 'From', extra: true, cell: (entry) => entry.source },
              {
                name: 'What',
                cell: (entry) => (
                  <>
                    <Badge tone="none">{entry.method}</Badge>{' '}
                    <code class="breakable">{entry.path}</code>
                  </>
                ),
              },
              {
                name: 'Result',
                cell: (entry) => (
                  <Badge tone={entry.status < 400 ? 'good' : entry.status < 500 ? 'warn' : 'bad'}>
                    {entry.status < 400 ? 'done' : 'refused'} {entry.status}
                  </Badge>
                ),
              },
            ]}
          />
        )}
      </Loaded>
    </Card>
  );
}

export function ConfigurationTab() {
  const known = useResource<Configuration>('/v1/configuration', 60000);
  if (known.problem?.status === 404) return <Missing what="configuration file" />;
  return (
    <>
      <Card title="Export">
        <Export />
      </Card>
      <Card title="Import">
        <Import />
      </Card>
    </>
  );
}

function Export() {
  const { busy, problem, submit } = useSubmit(async () => {
    const configuration = await ask<Configuration>('GET', '/v1/configuration');
    const link = document.createElement('a');
    link.href = URL.createObjectURL(
      new Blob([JSON.stringify(configuration, null, 2)], { type: 'application/json' }),
    );
    link.download = `gantry-${new Date().toISOString().slice(0, 10)}.json`;
    link.click();
    URL.revokeObjectURL(link.href);
  });
  return (
    <>
      <p class="faint">
        Hosts, groups, maps, thresholds, portals, schedules and alerts in one file. Pools and
        volumes are only described: where they are missing, 'gantry configuration import --create'
        makes them first. Users and secrets are not in it.
      </p>
      <ProblemBox problem={problem} />
      <p>
        <Button busy={busy} onClick={() => void submit()}>
          Save the configuration
        </Button>
      </p>
    </>
  );
}

function Import() {
  const [file, setFile] = useState<{ name: string; body: unknown } | null>(null);
  const [wrong, setWrong] = useState<string | null>(null);
  const [changes, setChanges] = useState<string[] | null>(null);
  const read = async (list: FileList | null) => {
    const chosen = list?.[0];
    setChanges(null);
    setFile(null);
    setWrong(null);
    if (!chosen) return;
    try {
      setFile({ name: chosen.name, body: JSON.parse(await chosen.text()) });
    } catch {
      setWrong(`${chosen.name} is not a JSON file.`);
    }
  };
  const send = async () => {
    const answer = await ask<Imported>(
      'POST',
      `/v1/configuration${changes === null ? '?dry_run=true' : ''}`,
      file?.body,
    );
    if (changes === null) return setChanges(answer.changes);
    setChanges(null);
    setFile(null);
    await refresh('/v1');
  };
  return (
    <Form
      action={changes === null ? 'See what would change' : 'Make these changes'}
      danger={changes !== null}
      disabled={file === null || changes?.length === 0}
      onSubmit={send}
      {...(changes === null ? {} : { said: 'The configuration was imported' })}
    >
      <p class="faint">Either all of it is done or nothing. First you see what would change.</p>
      <div class="field">
        <label for="configuration-file">File</label>
        <input
          id="configuration-file"
          type="file"
          accept="application/json,.json"
          onChange={(event) => void read(event.currentTarget.files)}
        />
      </div>
      {wrong && <Note tone="bad">{wrong}</Note>}
      {changes?.length === 0 && <Note tone="good">Everything is as in {file?.name} already.</Note>}
      {changes && changes.length > 0 && (
        <ol class="changes">
          {changes.map((change, index) => (
            <li key={index}>{change}</li>
          ))}
        </ol>
      )}
    </Form>
  );
}

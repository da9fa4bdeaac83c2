// Where a volume comes from and what came from it.
import { may } from '../data/session';
import type { Snapshot, Volume } from '../generated/api';
import { Badge, Button, Empty, Time } from '../ui/basic';
import { Icon } from '../ui/icons';
import { bytes } from '../units';
import type { Open } from './volume';
import { volumeLink } from './volumes';

type Node = { kind: 'volume'; volume: Volume } | { kind: 'snapshot'; snapshot: Snapshot };

interface Family {
  volumes: Volume[];
  snapshots: Snapshot[];
}

const nameOf = (node: Node) =>
  node.kind === 'volume'
    ? `${node.volume.pool}/${node.volume.name}`
    : `${node.snapshot.pool}/${node.snapshot.name}`;
const createdOf = (node: Node) =>
  node.kind === 'volume' ? node.volume.created : node.snapshot.created;

function children(node: Node, family: Family): Node[] {
  const name = nameOf(node);
  const clones = family.volumes
    .filter((volume) => volume.origin === name)
    .map((volume): Node => ({ kind: 'volume', volume }));
  if (node.kind === 'snapshot') return clones;
  const own = family.snapshots.filter(
    (snapshot) => snapshot.pool === node.volume.pool && snapshot.volume === node.volume.name,
  );
  return [...own.map((snapshot): Node => ({ kind: 'snapshot', snapshot })), ...clones].sort(
    (a, b) => createdOf(a) - createdOf(b),
  );
}

/** The oldest ancestor that still exists. */
function root(volume: Volume, family: Family): Node {
  let node: Node = { kind: 'volume', volume };
  for (let step = 0; step < 100; step += 1) {
    const next: Node | null = parent(node, family);
    if (next === null) break;
    node = next;
  }
  return node;
}

function parent(node: Node, family: Family): Node | null {
  const above =
    node.kind === 'volume'
      ? node.volume.origin
      : node.snapshot.volume && `${node.snapshot.pool}/${node.snapshot.volume}`;
  if (!above) return null;
  const volume = family.volumes.find((one) => `${one.pool}/${one.name}` === above);
  if (volume) return { kind: 'volume', volume };
  const snapshot = family.snapshots.find((one) => `${one.pool}/${one.name}` === above);
  return snapshot ? { kind: 'snapshot', snapshot } : null;
}

export function SnapshotTree(props: {
  volume: Volume;
  volumes: Volume[];
  snapshots: Snapshot[];
  open: (open: Open) => void;
}) {
  const family = {
    volumes: props.volumes.filter((one) => !one.snapshot),
    snapshots: props.snapshots,
  };
  const top = root(props.volume, family);
  if (top.kind === 'volume' && children(top, family).length === 0) {
    return (
      <Empty icon="snapshot" title="No snapshots and no clones">
        A snapshot keeps the content of this moment. It takes no space until something is
        overwritten.
      </Empty>
    );
  }
  return (
    <ul class="tree">
      <Branch node={top} family={family} volume={props.volume} open={props.open} />
    </ul>
  );
}

function Branch(props: { node: Node; family: Family; volume: Volume; open: (open: Open) => void }) {
  const below = children(props.node, props.family);
  return (
    <li>
      {props.node.kind === 'volume' ? (
        <VolumeNode at={props.node.volume} here={props.volume} />
      ) : (
        <SnapshotNode snapshot={props.node.snapshot} volume={props.volume} open={props.open} />
      )}
      {below.length > 0 && (
        <ul>
          {below.map((node) => (
            <Branch {...props} key={nameOf(node)} node={node} />
          ))}
        </ul>
      )}
    </li>
  );
}

function VolumeNode({ at, here }: { at: Volume; here: Volume }) {
  const current = at.naa === here.naa;
  return (
    <div class={current ? 'node current' : 'node'}>
      <Icon name="volume" />
      <span class="node-name">
        {current ? (
          <b aria-current="true">{at.name}</b>
        ) : (
          <a href={volumeLink(`${at.pool}/${at.name}`)}>{at.name}</a>
        )}{' '}
        <Badge tone="none">{at.origin ? 'clone' : 'volume'}</Badge>
      </span>
      <span class="node-facts">
        {bytes(at.mapped_bytes)} written, {bytes(at.shared_bytes)} shared
      </span>
      <span class="node-facts">
        <Time at={at.created} />
      </span>
    </div>
  );
}

function SnapshotNode({
  snapshot,
  volume,
  open,
}: {
  snapshot: Snapshot;
  volume: Volume;
  open: (open: Open) => void;
}) {
  const own = snapshot.volume === volume.name;
  const locked = (snapshot.locked_until ?? 0) > Date.now() / 1000;
  return (
    <div class="node">
      <Icon name={locked ? 'lock' : 'snapshot'} />
      <span class="node-name">
        {snapshot.name}{' '}
        <Badge tone="none">
          {snapshot.schedule ? `snapshot of schedule ${snapshot.schedule}` : 'snapshot'}
        </Badge>
        {Object.entries(snapshot.tags).map(([key, value]) => (
          <span key={key}>
            {' '}
            <Badge tone="info">{`${key}=${value}`}</Badge>
          </span>
        ))}
        {locked && (
          <>
            {' '}
            <Badge tone="info">
              locked, ends <Time at={snapshot.locked_until} />
            </Badge>
          </>
        )}
      </span>
      <span class="node-facts" title="Deleting it frees what it does not share">
        {bytes(snapshot.mapped_bytes - snapshot.shared_bytes)} of its own
      </span>
      <span class="node-facts">
        <Time at={snapshot.created} />
      </span>
      {may('operator') && (
        <span class="node-actions">
          <Button
            small
            icon="clone"
            onClick={() => open({ cloneOf: snapshot })}
            aria-label={`Clone snapshot ${snapshot.name}`}
          >
            Clone
          </Button>
          {own && (
            <Button
              small
              icon="revert"
              onClick={() => open({ revert: snapshot })}
              aria-label={`Revert to ${snapshot.name}`}
            >
              Revert
            </Button>
          )}
          <Button
            small
            icon="lock"
            onClick={() => open({ lock: snapshot })}
            aria-label={`Lock snapshot ${snapshot.name}`}
          >
            Lock
          </Button>
          <Button
            small
            onClick={() => open({ rename: snapshot })}
            aria-label={`Rename snapshot ${snapshot.name}`}
          >
            Rename
          </Button>
          <Button
            small
            onClick={() => open({ label: snapshot })}
            aria-label={`Labels of snapshot ${snapshot.name}`}
          >
            Labels
          </Button>
          <Button
            small
            icon="trash"
            onClick={() => open({ remove: snapshot })}
            aria-label={`Delete snapshot ${snapshot.name}`}
          >
            Delete
          </Button>
        </span>
      )}
    </div>
  );
}

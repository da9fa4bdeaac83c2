// What the daemon takes and answers, from crates/api: written by 'cargo xtask web', compared by
// 'cargo xtask check'.

/**
 * A device, or a mirror of several, that is to join a pool. A pool that has mirrors takes no plain
 * device: all that lies on it would be lost with it.
 */
export interface AddDevice {
  /** file:PATH, block:PATH, rbd:POOL/IMAGE or memory:. */
  device: string;
  /** Devices that hold the same blocks: with them it is one mirror, as large as the smallest. */
  mirrored_by?: string[];
  /** The size of each, bytes; may be left out for block devices, which are then used whole. */
  size_bytes?: number | null;
}

/** Everybody who is told of events. */
export interface Alerts {
  /** E-mail. */
  mail?: Mail | null;
  /** At most 16. */
  webhooks?: Webhook[];
}

/** What was asked by commands of one kind. */
export interface Asked {
  /** Bytes that they named. */
  asked_bytes: number;
  /** Commands that ended. */
  commands: number;
  /** Bytes for which it was done. */
  done_bytes: number;
  /** Those of them that were not done. */
  refused: number;
}

/** A device that is to join a mirror, or to make one of a plain device. */
export interface AttachMember {
  /** file:PATH, block:PATH, rbd:POOL/IMAGE or memory:. */
  device: string;
  /** The mirror, or plain device, by its number. */
  mirror: number;
  /** The member that leaves when the new one holds everything, by its identity. */
  replaces?: string | null;
  /** Its size, bytes; that of the mirror when left out. */
  size_bytes?: number | null;
  /**
   * Whether it becomes the mirror's witness: a small device that several controllers reach, and that holds no copy.
   * With it one of them takes the pool also where another one is gone with a member.
   */
  witness?: boolean;
}

/** A change that somebody asked for. */
export interface AuditEntry {
  /** The HTTP method. */
  method: string;
  /** Counted from the beginning of the log, from 1. */
  number: number;
  /** The path. */
  path: string;
  /** The address it came from; empty for the socket; the number of a controller. */
  source: string;
  /** The HTTP status of the answer. */
  status: number;
  /** Seconds since 1970. */
  time: number;
  /** Who; empty if that was not found out. */
  user: string;
  /**
   * `socket`, `session` or `token`; `password` of a login; `controller` of what another controller
   * of the array has handed on; `array` of what the array did by itself.
   */
  via: string;
}

/** A file system under a pool's files. */
export interface Backing {
  /** Devices of the pool on it, counted from 0. */
  devices: number[];
  /** Where it is mounted. */
  file_system: string;
  /** Bytes that it has left for everybody. */
  free_bytes: number;
  /** Other pools with files on it. */
  shared_with: string[];
  /** Its size, bytes. */
  size_bytes: number;
  /** Bytes of the pool's files on it that have no space there yet. */
  unallocated_bytes: number;
}

/** Whether the file systems under a pool have the space that its files may still take. */
export type BackingState = 'enough' | 'short' | 'full';

/** Logical blocks of a volume or snapshot that cannot be read. */
export interface BadRange {
  /** How many. */
  blocks: number;
  /** The first one, counted as hosts do. */
  lba: number;
  /** Its name. */
  volume: string;
}

/** The blocks that hosts see of a volume, for its life. */
export type BlockSize = '512' | '512e' | '4096';

/** What is to be different about a host; what is left out stays as it is. */
export interface ChangeHost {
  /** What they must prove from now on. */
  chap?: Chap | null;
  /** iSCSI names of its initiators. */
  initiators?: string[] | null;
  /** Whether they need not prove anything from now on. */
  no_chap?: boolean;
}

/** A new password for oneself. */
export interface ChangePassword {
  /** The new one, 10 to 128 bytes. */
  new: string;
  /** The password so far. */
  old: string;
}

/** Another role or password for a user; what is absent stays. */
export interface ChangeUser {
  /**
   * Whether the user must choose another password before anything else; true if left out with a
   * new password.
   */
  must_change_password?: boolean | null;
  /** 10 to 128 bytes; the user's sessions and tokens end. */
  password?: string | null;
  /** What the user may do. */
  role?: Role | null;
}

/** A run of bytes that may differ, in multiples of 4,096. */
export interface ChangedExtent {
  /** How many. */
  length: number;
  /** The first byte. */
  offset: number;
  /** What the snapshot holds there. */
  state: ExtentState;
}

/** A CHAP account. It is sent to the daemon and never comes back. */
export interface Chap {
  /** The target's secret, different from the initiator's. */
  mutual_secret?: Secret | null;
  /** The name that the target gives in turn; together with `mutual_secret`. */
  mutual_user?: string | null;
  /** The initiator's secret, 12 to 255 bytes. */
  secret: Secret;
  /** The name that the initiator gives, 1 to 255 bytes. */
  user: string;
}

/** A new, writable volume with the content of a volume or snapshot. */
export interface CloneVolume {
  /** Its name in the same pool. */
  name: string;
  /** Deprecated: `thick` under its name of 0.1.0, in requests. */
  reserved?: boolean;
  /**
   * Its labels: keys of 1 to 63 letters, digits, '-', '_', '.', and values of at most 128 characters,
   * none of them a control character; at most 16.
   */
  tags?: Record<string, string>;
  /** Whether it is thick: all of its space is set aside, so that it never runs out. */
  thick?: boolean;
}

/** Something that an array and a pool both have. */
export interface Collision {
  /** What can be done about it, as options of `gantry pool import`. */
  solution: string;
  /** What, in a sentence. */
  what: string;
}

/**
 * All that is configured, but users. On import, what it names is made or changed; what it does not
 * name stays as it is. Pools and volumes are described, for whoever makes them anew, and have to be
 * there.
 */
export interface Configuration {
  /** Who is told of events; webhooks that are not named stay. */
  alerts?: Alerts;
  /** The target's iSCSI name, for people; it is not imported. */
  array?: string;
  /** What initiators must prove to be told of the target. */
  discovery?: ConfiguredChap | null;
  /** Groups of hosts. */
  groups?: ConfiguredGroup[];
  /** Hosts. */
  hosts?: ConfiguredHost[];
  /**
   * The vendor and product that volumes tell which have none of their own; as it was when left
   * out.
   */
  identification?: Identification | null;
  /** States of target portal groups. */
  path_states?: ConfiguredPathState[];
  /** What is said of pools, which have to be there. */
  pools?: ConfiguredPool[];
  /** Portals, without those that were given to the daemon at its start. */
  portals?: CreatePortal[];
  /** Which primitives are on for everybody; as they were when left out. */
  primitives?: Primitives | null;
  /** Schedules of snapshots. */
  schedules?: ConfiguredSchedule[];
  /** Of this form: 1. */
  version: number;
  /** What is said of volumes and snapshots, which have to be there. */
  volumes?: ConfiguredVolume[];
}

/**
 * A CHAP account, with its secrets or without them. Without, those that the array has for the same
 * names stay.
 */
export interface ConfiguredChap {
  /** The target's secret. */
  mutual_secret?: Secret | null;
  /** The name that the target gives in turn. */
  mutual_user?: string | null;
  /** The initiator's secret. */
  secret?: Secret | null;
  /** The name that the initiator gives. */
  user: string;
}

/** A device of a pool. */
export interface ConfiguredDevice {
  /** file:PATH, block:PATH, rbd:POOL/IMAGE or memory:. */
  device: string;
  /** Its size, bytes. */
  size_bytes: number;
}

/** A group of hosts. */
export interface ConfiguredGroup {
  /** Names of all of its hosts. */
  hosts: string[];
  /** Its name. */
  name: string;
  /** Its labels; as they were when left out. */
  tags?: Record<string, string> | null;
}

/** A host. */
export interface ConfiguredHost {
  /** What they must prove; nothing when left out. */
  chap?: ConfiguredChap | null;
  /** iSCSI names of all of its initiators. */
  initiators: string[];
  /** The most work that it gets done; as it was when left out. */
  limits?: RateLimits | null;
  /** Its name. */
  name: string;
  /** Which primitives are on for it; as they were when left out. */
  primitives?: Primitives | null;
  /** What it gets of pools for which other hosts wait, too; as it was when left out. */
  share?: number | null;
  /** Its labels; as they were when left out. */
  tags?: Record<string, string> | null;
}

/** Somebody who sees a volume. */
export interface ConfiguredMap {
  /** A host, a group, or 'any'. */
  host: string;
  /** The number by which it addresses the volume. */
  lun?: number | null;
  /** Whether it may only read. */
  read_only?: boolean;
}

/** The state of a target portal group. */
export interface ConfiguredPathState {
  /** Its number, 1 to 65,535. */
  group: number;
  /** How well its paths work. */
  state: PathState;
}

/** What is said of a pool. */
export interface ConfiguredPool {
  /**
   * Whether the oldest unlocked snapshots of schedules are deleted while it is at or above its
   * hard threshold; as it was when left out.
   */
  delete_scheduled_snapshots?: boolean | null;
  /** Where its bytes rest, in the order in which devices joined; not imported. */
  devices?: ConfiguredDevice[];
  /** Which controller should have it; as it was when left out. */
  fail_back?: SetFailBack | null;
  /** Its name. */
  name: string;
  /** Its labels; as they were when left out. */
  tags?: Record<string, string> | null;
  /** When someone is told how full it is. */
  thresholds: Thresholds;
}

/** A schedule of snapshots. */
export interface ConfiguredSchedule {
  /** Its name. */
  name: string;
  /** What it does. */
  schedule: SetSchedule;
}

/** What a volume was made as. */
export interface ConfiguredShape {
  /** The blocks that hosts see. */
  block_size?: BlockSize;
  /** Deprecated: `thick` under its name of 0.1.0, in requests. */
  reserved?: boolean;
  /** Bytes that hosts see. */
  size_bytes: number;
  /** Whether it is thick: all of its space is set aside. */
  thick?: boolean;
}

/** What is said of a volume or snapshot. */
export interface ConfiguredVolume {
  /** The vendor and product that it tells instead of the array's; as it was when left out. */
  identification?: Identification | null;
  /** The most work that hosts get done on it; as it was when left out. */
  limits?: RateLimits | null;
  /** The LUN number of maps that do not say their own; the smallest of them when written. */
  lun?: number | null;
  /** Who sees it. Who is not named and sees it already goes on to. */
  maps?: ConfiguredMap[];
  /** Which primitives are on for it; as they were when left out. */
  primitives?: Primitives | null;
  /** Whether hosts find no way to reserve it; as it was when left out. */
  reservations_hidden?: boolean | null;
  /** What it is, unless it is a snapshot; not imported. */
  shape?: ConfiguredShape | null;
  /** Its labels; as they were when left out. */
  tags?: Record<string, string> | null;
  /** When someone is told how full it is; as it was when left out. */
  thresholds?: Thresholds | null;
  /** POOL/NAME. */
  volume: string;
}

/** What becomes of a device that leaves. */
export interface ControlDeparture {
  /** What is to be done. */
  action: DepartureAction;
  /**
   * Bytes per second that are moved from now on at most, for `pause` and `resume`; as before when left
   * out.
   */
  rate_bytes?: number | null;
}

/** What becomes of the filling of members. */
export interface ControlResilver {
  /** What is to be done. */
  action: ResilverAction;
  /** The member that is given up, by its identity, for `cancel`. */
  member?: string | null;
}

/** A controller of the array. */
export interface Controller {
  /** Whether its machine said that its process has ended, and none that was started since was heard. */
  ended: boolean;
  /** When it was heard last, seconds since 1970; `null` if never since the one that answers was started. */
  heard_at: number | null;
  /** Whether it is the one that answers. */
  is_this: boolean;
  /** Where its link listens: HOST:PORT. */
  link: string | null;
  /**
   * Whether it is in maintenance: it gives its pools to others and takes none. `null` of others that
   * are silent, or do not say it.
   */
  maintenance: boolean | null;
  /** Its number, which is the tag of its target portal group: 1 for the only one. */
  number: number;
  /** Whether it is the one that answers, or was paired with that one. */
  paired: boolean;
  /** Every pool. */
  pools: PoolStanding[];
  /**
   * Addresses and TCP ports of its iSCSI portals; of another controller as it said last on the link,
   * or as this one was told at its start.
   */
  portals: string[];
  /**
   * Why the one that answers could not connect to its link, the last time it tried; `null` while it
   * is heard.
   */
  problem: string | null;
  /** Whether it was heard on the link within the last seconds; `true` for the one that answers. */
  reachable: boolean;
  /**
   * After how many seconds without a sign of it the one that answers takes pools from another
   * controller; `null` if it does not, and of others.
   */
  take_over_after: number | null;
  /** The version of its program, as it said last. */
  version: string | null;
}

/** A new host. */
export interface CreateHost {
  /** What they must prove; nothing when left out. */
  chap?: Chap | null;
  /** iSCSI names of its initiators. */
  initiators: string[];
  /** 1 to 63 letters, digits, '-', '_', '.'; not 'any'. */
  name: string;
}

/** A new pool. */
export interface CreatePool {
  /** Each file:PATH, block:PATH, rbd:POOL/IMAGE or memory:; 1 to 32, in the order in which the pool counts them. */
  devices: string[];
  /**
   * How many devices hold the same blocks: 2 or 3 make mirrors of as many devices that follow each
   * other; 1 when left out.
   */
  mirror?: number | null;
  /** 1 to 63 letters, digits, '-', '_', '.'. */
  name: string;
  /** Size of each device, bytes; may be left out for block devices, which are then used whole. */
  size_bytes?: number | null;
}

/** A new portal. */
export interface CreatePortal {
  /** IP address and TCP port, an IPv6 address in brackets. */
  address: string;
  /** Where initiators are sent instead of being let in: IP address and TCP port. */
  redirect?: string | null;
  /** The target portal group, 1 to 65,535. */
  target_portal_group_tag: number;
}

/** New snapshots of volumes of one pool, all of the same moment. */
export interface CreateSnapshots {
  /** Until when nobody may delete them, seconds since 1970. */
  locked_until?: number | null;
  /** The pool's name. */
  pool: string;
  /** One to 256 of them: a consistency group. */
  snapshots: NewSnapshot[];
}

/** A new token. */
export interface CreateToken {
  /**
   * 1 to 3,650; absent if it does not expire, or, of one that is made by another token, ends when
   * that one does.
   */
  expires_in_days?: number | null;
  /** What it is for, 1 to 63 letters, digits, dots, hyphens or underscores. */
  name: string;
  /** What it allows; no more than its user's role, and than the token by which it is made. */
  role: Role;
}

/** A new user. */
export interface CreateUser {
  /** Whether the user must choose another password before anything else; true if left out. */
  must_change_password?: boolean;
  /** 1 to 63 letters, digits, dots, hyphens or underscores. */
  name: string;
  /** 10 to 128 bytes. */
  password: string;
  /** What the user may do. */
  role: Role;
}

/** A new volume. */
export interface CreateVolume {
  /** The blocks that hosts see. */
  block_size?: BlockSize;
  /** 1 to 63 letters, digits, '-', '_', '.'. */
  name: string;
  /** The pool's name. */
  pool: string;
  /** Deprecated: `thick` under its name of 0.1.0, in requests. */
  reserved?: boolean;
  /** Bytes; a multiple of 4,096, at most 64 TiB. */
  size_bytes: number;
  /**
   * Its labels: keys of 1 to 63 letters, digits, '-', '_', '.', and values of at most 128 characters,
   * none of them a control character; at most 16.
   */
  tags?: Record<string, string>;
  /** Whether it is thick: all of its space is set aside, so that it never runs out. */
  thick?: boolean;
}

/** An attempt to tell somebody. */
export interface Delivery {
  /** Why not, and whether it is tried again. */
  detail: string;
  /** The event's number; 0 in a test. */
  event: number;
  /** Whether the receiver took it. */
  ok: boolean;
  /** 'webhook NAME' or 'mail'. */
  receiver: string;
  /** Seconds since 1970. */
  time: number;
}

/** A device that leaves a pool. */
export interface Departure {
  /** Bytes of data that were copied from it since it began to leave, or since the pool was opened. */
  copied_bytes: number;
  /** Its number, or that of the mirror that leaves. */
  device: number;
  /** Where it is, or its members are. */
  devices: string[];
  /** Bytes on it that something refers to yet, of data and of the map. */
  left_bytes: number;
  /** Whether it rests until it is resumed. */
  paused: boolean;
  /** Bytes per second that are moved at most; absent if there is no limit but what hosts need. */
  rate_bytes: number | null;
  /** Seconds that it will take, if that can be told. */
  remaining_seconds: number | null;
  /**
   * Blocks that could not be read. They stay on it, and so does it, until what refers to them is
   * overwritten or deleted.
   */
  unreadable_blocks: number;
  /** Whether it waits for space on the other devices. */
  waits_for_space: boolean;
}

/** What is to be done with a device that leaves. */
export type DepartureAction = 'pause' | 'resume' | 'cancel';

/** A device of a pool. */
export interface Device {
  /** Where it is. */
  device: string;
  /**
   * Its number, counted from 0; in a pool with mirrors its place among the devices. Without mirrors it
   * keeps the number when another one leaves.
   */
  index: number;
  /** Its size, bytes. */
  size_bytes: number;
}

/** What devices did since the daemon started. */
export interface DeviceCounters {
  /** Bytes copied by reference alone. */
  bytes_cloned: number;
  /** Bytes of volume data read. */
  data_bytes_read: number;
  /** Bytes of volume data written. */
  data_bytes_written: number;
  /** Bytes read, of data and maps. */
  device_bytes_read: number;
  /** Bytes written, of data, journal and maps. */
  device_bytes_written: number;
  /** Flushes. */
  device_flushes: number;
  /** Read operations. */
  device_reads: number;
  /** Write operations. */
  device_writes: number;
}

/** Whether discovery wants a proof. */
export interface Discovery {
  /** The CHAP name; without one everybody may ask for targets. */
  chap_user: string | null;
  /** Whether the target proves who it is, too. */
  mutual: boolean;
}

/** Something that an administrator should know. */
export interface Event {
  /** How often it happened: equal events within five minutes are one. */
  count: number;
  /** What kind of thing happened. */
  kind: EventKind;
  /** When it happened last, seconds since 1970. */
  last_time: number;
  /** A sentence. */
  message: string;
  /** Counted from the array's first start, from 1. The latest 1,000 are shown. */
  number: number;
  /** What it is about: 'pool NAME' or 'volume POOL/NAME'. */
  object: string;
  /** How bad it is. */
  severity: Severity;
  /** Seconds since 1970. */
  time: number;
}

/** What kind of thing happened, for programs. More kinds may be added. */
export type EventKind =
  | 'medium_error'
  | 'device_error'
  | 'device_stall'
  | 'mirror'
  | 'lock_retry'
  | 'record'
  | 'general';

/** A pool is given away. */
export interface ExportPool {
  /** Although hosts are logged in that see its volumes: they lose them. */
  force?: boolean;
}

/** What a snapshot holds somewhere. */
export type ExtentState = 'data' | 'zero';

/** How full something is. */
export type Fill = 'normal' | 'soft' | 'hard';

/** Something that the array could have done and did not, and why. */
export interface Finding {
  /** What to do about it. */
  advice: string;
  /** How much; of refusals 0. */
  bytes: number;
  /** The reason's name; see docs/offload-ledger.md. */
  code: string;
  /** Whether `bytes` is an estimate. */
  estimated: boolean;
  /** When it was first seen, seconds since 1970. */
  first: number;
  /** The host. */
  host: string;
  /** What it is. */
  kind: FindingKind;
  /** When last. */
  last: number;
  /** The reason in a sentence. */
  reason: string;
  /** The volume that was read, of a copy. */
  source: string | null;
  /** The volume that was written. */
  volume: string;
}

/** What a [`Finding`] is. */
export type FindingKind = 'host_side_copy' | 'host_side_zero' | 'refused';

/** When a pool will be full. */
export interface Forecast {
  /**
   * Bytes by which the free space shrinks per second; below 0 if it grows. `None` if too little
   * is known.
   */
  bytes_per_second: number | null;
  /** When that is, seconds since 1970. */
  full_at: number | null;
  /** The pool. */
  pool: string;
  /** Seconds until nothing is free, if the free space shrinks. */
  seconds_until_full: number | null;
  /** All of its space, bytes. */
  total_bytes: number;
  /** Bytes that volumes and the map hold. */
  used_bytes: number;
  /** Seconds of the past that this was learnt from. */
  window_seconds: number | null;
}

/** A member of such a mirror. */
export interface FoundMember {
  /** Where it was found; absent if it is missing. */
  device: string | null;
  /** Generation of its own list; a lower one than another member's is older. */
  generation: number | null;
  /** Where it was when the pool was last in use; absent if the pool does not say. */
  last_device: string | null;
  /** Its size, bytes. */
  size_bytes: number;
  /** What its copy is worth by the newest list that was found. */
  state: MemberState;
  /** Its identity, hexadecimal. */
  uuid: string;
}

/** A mirror of a pool that is imported. */
export interface FoundMirror {
  /** Whether a member is missing or not current. */
  degraded: boolean;
  /** Its number among the pool's devices. */
  index: number;
  /** Its members. */
  members: FoundMember[];
}

/** A group of hosts, to which volumes are mapped as to a host. */
export interface Group {
  /** Names of its hosts. */
  hosts: string[];
  /** Its name. */
  name: string;
  /** Its labels. */
  tags: Record<string, string>;
}

/** Who still uses what a volume gave up. */
export interface Holder {
  /** How much, at most. */
  bytes: number;
  /** What it is. */
  kind: HolderKind;
  /** POOL/NAME, if it is known. */
  name: string | null;
}

/** What a [`Holder`] is to the volume. */
export type HolderKind = 'snapshot' | 'clone' | 'origin' | 'copies';

/** A host. */
export interface Host {
  /** The CHAP name that they must prove; `None` if they need not. */
  chap_user: string | null;
  /** iSCSI names of its initiators. */
  initiators: string[];
  /** The most work that it gets done, on all volumes together. */
  limits: RateLimits;
  /** Whether the target proves who it is, too. */
  mutual_chap: boolean;
  /** Its name. */
  name: string;
  /** Which primitives are on for it. */
  primitives: Primitives;
  /** What it gets of a pool for which other hosts wait, too: so many times what a host with 1 gets. */
  share: number;
  /** Its labels. */
  tags: Record<string, string>;
}

/**
 * The vendor and product that hosts are told by INQUIRY. ESXi has the array copy only between LUNs
 * that tell the same.
 */
export interface Identification {
  /** 1 to 16 printable ASCII characters, with no space at either end. */
  product: string;
  /** 1 to 8 printable ASCII characters, with no space at either end. */
  vendor: string;
}

/**
 * A pool that this array does not know is taken over, with all that hosts rely on. Whatever collides
 * with what the array has is refused, unless one of the choices says what is to be done.
 */
export interface ImportPool {
  /**
   * The array takes the target name that the pool's hosts know, and with it discovery, vendor and
   * product, and states of paths. So it does by itself if it has neither pools nor hosts.
   */
  adopt_target_name?: boolean;
  /**
   * Although members of mirrors are missing that may have newer data than those that were found:
   * what only they have is given up.
   */
  degraded?: boolean;
  /** Its devices, files or block devices, in any order. */
  devices?: string[];
  /** Nothing is changed; the answer says what would be, and what collides. */
  dry_run?: boolean;
  /**
   * Hosts and groups that the array has by the same name, or by an initiator, stay as they are
   * here; volumes are mapped to them.
   */
  existing_hosts?: boolean;
  /**
   * Although another array used the pool last and did not export it. If that one still uses it,
   * both destroy it.
   */
  force?: boolean;
  /** The array keeps its target name, and the pool's hosts must log in to that. */
  keep_target_name?: boolean;
  /** Where another volume has the LUN number of one of the pool's, that gets another one. */
  new_luns?: boolean;
  /** Which pool, if several are found: its name or its UUID. */
  pool?: string | null;
  /**
   * The recovery key of the array that used the pool last. Without it CHAP accounts come without
   * secrets, unless this array has the key.
   */
  recovery_key?: Secret | null;
  /** Another name for the pool. */
  rename?: string | null;
  /** A directory whose files and block devices are looked through for devices of pools. */
  scan?: string | null;
  /** No hosts, groups and LUN maps are taken. */
  skip_hosts?: boolean;
  /** No schedules are taken. */
  skip_schedules?: boolean;
}

/** What an import did, or would do. */
export interface Imported {
  /** One sentence for each change; none if all was so already. */
  changes: string[];
  /** Whether nothing was done. */
  dry_run: boolean;
}

/** A controller is to join the one that gave a code. */
export interface JoinController {
  /** The code, whole. */
  code: string;
}

/** Commits at the end of a damaged journal that cannot be applied. */
export interface JournalLoss {
  /** Number of the newest one that hosts were surely told is on stable storage. */
  acknowledged_commit: number;
  /** How many. */
  commits: number;
  /** Number of the first one, which is damaged. */
  first_commit: number;
  /** Changes that those are made of. */
  intact_changes: number;
  /** How many of them are intact, but build on the damaged one. */
  intact_commits: number;
  /** Number of the last one. */
  last_commit: number;
  /**
   * When the array found that, seconds since 1970. A daemon that was restarted found it when it
   * opened the pool.
   */
  since: number;
  /**
   * Identifiers of volumes that those changed, hexadecimal, at most 64: the last 16 digits of
   * a volume's NAA identifier hold it.
   */
  volumes: string[];
}

/** Rates of the last second. */
export interface Live {
  /** By host. */
  hosts: NamedRates[];
  /** Seconds that the rates are of. */
  interval_seconds: number;
  /** By host and volume. */
  rows: RowRates[];
  /** Seconds since 1970. */
  time: number;
  /** All together. */
  total: Record<string, PrimitiveRate>;
  /** By volume; those that did nothing are left out. */
  volumes: NamedRates[];
}

/** One COMPARE AND WRITE. */
export interface LockAttempt {
  /** Number of logical blocks. */
  blocks: number;
  /** The host. */
  host: string;
  /** First logical block. */
  lba: number;
  /** How it ended. */
  outcome: LockOutcome;
  /** When it ended, seconds since 1970, to the millisecond. */
  time: number;
}

/** Somebody else who holds the lock of a device of a pool. */
export interface LockHolder {
  /** The file, block device or image. */
  device: string;
  /**
   * The key of its reservation, or its address as a client of a Ceph cluster, as `break_locks` names
   * it; absent if its lock cannot be broken.
   */
  holder: string | null;
  /** Where it is, as far as that is known: names of its initiator ports, or a process of this machine. */
  place: string | null;
}

/** Who contends for the blocks of a volume by COMPARE AND WRITE (ATS). */
export interface LockMap {
  /** All attempts. */
  attempts: number;
  /** The 32 ranges with most miscompares, then attempts. */
  contended: LockRange[];
  /** Those of them that found another content. */
  miscompares: number;
  /** The 64 latest attempts, newest first. */
  recent: LockAttempt[];
  /** The volume. */
  volume: string;
}

/** How a COMPARE AND WRITE ended. */
export type LockOutcome = 'done' | 'miscompare' | 'refused';

/** A range of blocks that is locked by COMPARE AND WRITE. */
export interface LockRange {
  /** Attempts; where many ranges are in use, perhaps too high. */
  attempts: number;
  /** Number of logical blocks. */
  blocks: number;
  /** Hosts that attempted; the first eight. */
  hosts: string[];
  /** When last, seconds since 1970. */
  last: number;
  /** First logical block. */
  lba: number;
  /** Those of them that found another content. */
  miscompares: number;
}

/** A snapshot that nobody may delete before a moment. */
export interface LockSnapshot {
  /**
   * When the lock ends, seconds since 1970: in the future, within 100 years, and not before the
   * end of an existing lock.
   */
  until: number;
}

/** Name and password, for a session in a browser. */
export interface Login {
  /** The password. */
  password: string;
  /** The user's name. */
  user: string;
}

/** A map that was made. */
export interface LunMap {
  /** The host, or 'any'. */
  host: string;
  /** The LUN number. */
  lun: number;
  /** Whether the host may only read. */
  read_only: boolean;
  /** POOL/NAME. */
  volume: string;
}

/** E-mail through a relay. */
export interface Mail {
  /** The sender's address. */
  from: string;
  /**
   * Never shown; when left out, one that was set before stays, unless relay, encryption or user
   * are different.
   */
  password?: Secret | null;
  /** The relay's name or address, and port: 'mail.example.org:587'. */
  relay: string;
  /** Events as bad as this or worse are told. */
  severity: Severity;
  /** How the connection is encrypted. */
  tls: MailTls;
  /** The receivers' addresses, 1 to 32. */
  to: string[];
  /** Who logs in at the relay; nobody when left out. */
  user?: string | null;
}

/** How the connection to a relay is encrypted. */
export type MailTls = 'tls' | 'starttls' | 'none';

/** Whether a controller is in maintenance. */
export interface Maintenance {
  /**
   * `true`: it gives its pools to other controllers and takes none, until it is told otherwise or its
   * daemon is started again.
   */
  on: boolean;
}

/** How a volume is to be mapped. */
export interface MapVolume {
  /**
   * The LUN number, 0 to 16,383. When left out it is the one by which other hosts see the
   * volume, or by which this one saw it before, if that is free; else the lowest free one.
   */
  lun?: number | null;
  /** Whether the host may only read. */
  read_only?: boolean;
}

/** Who is asking. */
export interface Me {
  /** Goes with every change in the header `X-Gantry-Csrf`; only for a session in a browser. */
  csrf: string | null;
  /** Whether nothing else is allowed before the password was changed. */
  must_change_password: boolean;
  /** What may be done. */
  role: Role;
  /** The user's name; `local` for whoever may open the daemon's socket. */
  user: string;
}

/** A device of a mirror. */
export interface Member {
  /** Where it is, or was last; absent if that is not known. */
  device: string | null;
  /** I/O that failed, and blocks that were not what was written, since the pool was opened. */
  errors: number;
  /** Blocks that were written again from another member, since the pool was opened. */
  healed_blocks: number;
  /** Its size, bytes. */
  size_bytes: number;
  /** What its copy is worth. */
  state: MemberState;
  /** Its identity, hexadecimal. */
  uuid: string;
}

/** What a member's copy is worth, or that it is a witness. */
export type MemberState =
  | 'current'
  | 'resilvering'
  | 'absent'
  | 'witness'
  | 'witness-absent';

/** Devices that hold the same blocks. */
export interface Mirror {
  /** Whether a member lacks something. */
  degraded: boolean;
  /** Which one, counted from 0, among the logical devices of the pool. */
  index: number;
  /** The members. */
  members: Member[];
  /** How far a member that is being filled is, if one is. */
  resilver: Resilver | null;
  /** Bytes that the pool uses of each member. */
  size_bytes: number;
  /** Its identity, hexadecimal. */
  uuid: string;
}

/** Rates of a volume or host. */
export interface NamedRates {
  /** POOL/NAME of the volume, or the host's name. */
  name: string;
  /** Its rates. */
  rates: Record<string, PrimitiveRate>;
}

/** One of them. */
export interface NewSnapshot {
  /**
   * The name of its snapshot: 1 to 63 letters, digits, '-', '_', '.', unlike those of all
   * volumes and snapshots of the pool.
   */
  name: string;
  /**
   * Its labels: keys of 1 to 63 letters, digits, '-', '_', '.', and values of at most 128 characters,
   * none of them a control character; at most 16.
   */
  tags?: Record<string, string>;
  /** The name of the volume (or clone) in the pool. */
  volume: string;
}

/** A token that was made. */
export type NewToken = Token & {
  /** What to show; it is told this once. */
  secret: string;
};

/** What hosts asked of volumes since the daemon started, and what became of it. */
export interface OffloadLedger {
  /** One row per pair of host and volume that met, in the order of their names. */
  rows: OffloadRow[];
  /** When counting began, seconds since 1970. */
  since: number;
}

/** One host and one volume. */
export interface OffloadRow {
  /** EXTENDED COPY (XCOPY) to this volume. */
  clone: Asked;
  /** Bytes that were copied from this volume. */
  clone_source_bytes: number;
  /** Bytes that took a reference to the source's data. */
  cloned_by_reference_bytes: number;
  /** COMPARE AND WRITE (ATS); one that miscompared counts as refused. */
  compare_and_write: Asked;
  /** Bytes that the array read and wrote. */
  copied_bytes: number;
  /** The host's name; of an initiator that belongs to none its iSCSI name. */
  host: string;
  /** Estimate of bytes that the host wrote here and had read elsewhere shortly before. */
  host_copied_bytes: number;
  /** Zeros that came in WRITE commands: whole blocks of 4 KiB. */
  host_zeroed_bytes: number;
  /** The LUN number, if it is mapped. */
  lun: number | null;
  /** COMPARE AND WRITE that found another content than it expected. */
  miscompares: number;
  /** Bytes read. */
  read_bytes: number;
  /** Why commands were refused; the eight reasons that were given last. */
  refusals: Refusal[];
  /** POPULATE TOKEN and WRITE USING TOKEN. */
  token: Asked;
  /** UNMAP (Delete). */
  unmap: Asked;
  /** POOL/NAME; of a volume that is gone 'POOL/NAME (deleted ID)'. */
  volume: string;
  /** Bytes written. */
  written_bytes: number;
  /** WRITE SAME (Zero). */
  zero: Asked;
}

/** A code is wanted by which another controller joins. */
export interface PairController {
  /** Where the other one finds the link of this one: HOST:PORT; by default the address of `--link`. */
  address?: string | null;
}

/** Two controllers know each other. */
export interface Paired {
  /** The number of the other one. */
  number: number;
}

/** A code by which one controller joins another, once. */
export interface PairingCode {
  /** The code. Whoever has it can become a controller of the array, as long as it lasts. */
  code: string;
  /** Until when it may be used, seconds since 1970. */
  expires: number;
}

/** How well the paths of a target portal group work, as hosts are told (ALUA). */
export type PathState =
  | 'active-optimized'
  | 'active-non-optimized'
  | 'standby'
  | 'unavailable'
  | 'transitioning';

/** A thin pool. */
export interface Pool {
  /** The file systems under its files; none for block devices and memory. */
  backing: Backing[];
  /** Bytes that those file systems have left, each counted once; absent if no device is a file. */
  backing_free_bytes: number | null;
  /** What that means, when it is not `enough`. */
  backing_message: string | null;
  /** Whether they have the space that the pool's files may still take. */
  backing_state: BackingState;
  /** What the devices did since the daemon started. */
  counters: DeviceCounters;
  /**
   * Whether the oldest unlocked snapshots of schedules are deleted, one after the other, while it
   * is at or above its hard threshold.
   */
  delete_scheduled_snapshots: boolean;
  /** The device that leaves it, if one does. */
  departure: Departure | null;
  /** Where its bytes rest, in the order in which they joined. */
  devices: Device[];
  /**
   * Seconds for which that one must have been ready before another one gives the pool back to it;
   * absent if that is left to administrators.
   */
  fail_back_seconds: number | null;
  /** What giving it back waits for; absent where the pool is not open, or is not given back. */
  fail_back_waits_for: string | null;
  /** How full it is. */
  fill: Fill;
  /** Seconds that a member of a mirror may take for one I/O before the mirror goes on without it. */
  hang_limit_seconds: number;
  /** What of its journal is lost, when it is unavailable or read-only for that. */
  journal_loss: JournalLoss | null;
  /** Who holds the locks of its devices, when it is unavailable for that. */
  lock_holders: LockHolder[];
  /** Memory that its maps may take, bytes. */
  memory_bytes: number;
  /** Those of them that hold the same blocks, while the pool is open. */
  mirrors: Mirror[];
  /** Its name. */
  name: string;
  /** The number of the controller that should have it, if one should. */
  preferred_controller: number | null;
  /**
   * Reads that a member of a mirror answers with errors within an hour until the mirror goes on without it,
   * if another current member is well.
   */
  read_errors_max: number;
  /** Why, when it is not ready. */
  reason: string | null;
  /** Sum of the sizes of the devices, bytes. */
  size_bytes: number;
  /** Number of snapshots. */
  snapshots: number;
  /** Where the space went; absent when the pool is unavailable. */
  space: Space | null;
  /** Devices that step in when a member of a mirror is lost. */
  spares: string[];
  /** ready, read-only, opening, unavailable. */
  state: string;
  /** Its labels. */
  tags: Record<string, string>;
  /** When someone is told how full it is. */
  thresholds: Thresholds;
  /** Its identity, hexadecimal. */
  uuid: string;
  /** Number of volumes, clones among them. */
  volumes: number;
}

/** What an import brought, or would bring. */
export interface PoolImport {
  /** What is made or changed, a sentence each. */
  changes: string[];
  /** What stands in the way; an import that is no dry run is refused. */
  collisions: Collision[];
  /** Its devices, in their order. */
  devices: string[];
  /** Whether nothing was changed. */
  dry_run: boolean;
  /** Whether the array gave the pool away that used it last. */
  exported: boolean;
  /** The target name of the array that used it last; empty if the pool does not say. */
  last_target_name: string;
  /** Its mirrors, as the membership lists on the devices that were found have them. */
  mirrors: FoundMirror[];
  /** What the pool has and does not come, a sentence each. */
  missing: string[];
  /** The name of the pool here. */
  pool: string;
  /** The target name of this array afterwards. */
  target_name: string;
  /** Its UUID. */
  uuid: string;
}

/** How a pool is opened. */
export type PoolMode = 'read_write' | 'read_only' | 'rewind';

/** How a controller serves a pool. */
export interface PoolStanding {
  /** The pool. */
  pool: string;
  /** Whether it is the one that should have the pool, as the controller that answers knows it. */
  preferred: boolean;
  /**
   * What hosts are told of its volumes there (ALUA), of another controller as it says on the link;
   * `null` while that is silent: ask that one.
   */
  state: PathState | null;
}

/** An address that the target listens on. */
export interface Portal {
  /** IP address and TCP port. */
  address: string;
  /** Whether it was given to the daemon at its start, and so cannot be deleted. */
  fixed: boolean;
  /** Where initiators are sent instead of being let in. */
  redirect: string | null;
  /** How well the group's paths work. */
  state: PathState;
  /** The target portal group (RFC 7143 4.1.1). */
  target_portal_group_tag: number;
}

/** How fast something goes. */
export interface PrimitiveRate {
  /** Bytes per second. */
  bytes: number;
  /** Commands per second. */
  commands: number;
  /** Microseconds that a command took on average. */
  latency_us: number;
}

/**
 * Which primitives (offloads) are on at one place: for the array, a host, or a volume. Hosts may use
 * one only where none of the three has it off.
 */
export interface Primitives {
  /** COMPARE AND WRITE (ATS). */
  compare_and_write: boolean;
  /** EXTENDED COPY and what belongs to it, POPULATE TOKEN and WRITE USING TOKEN (Full Copy, ODX). */
  extended_copy: boolean;
  /** UNMAP, and WRITE SAME that unmaps (Delete). */
  unmap: boolean;
  /** WRITE SAME (Block Zero). */
  write_same: boolean;
}

/** Why a request was refused (RFC 9457). A program decides by `type`. */
export interface Problem {
  /** This occurrence, and what to do about it, for people. */
  detail: string;
  status: number;
  /** The type in words, the same for every occurrence. */
  title: string;
  /** The type, which never changes its meaning. */
  type:
    | 'urn:gantry:problem:invalid-request'
    | 'urn:gantry:problem:device-missing'
    | 'urn:gantry:problem:device-size-missing'
    | 'urn:gantry:problem:device-ambiguous'
    | 'urn:gantry:problem:not-logged-in'
    | 'urn:gantry:problem:token-not-valid'
    | 'urn:gantry:problem:wrong-login'
    | 'urn:gantry:problem:not-allowed'
    | 'urn:gantry:problem:foreign-page'
    | 'urn:gantry:problem:password-must-be-changed'
    | 'urn:gantry:problem:not-set-up'
    | 'urn:gantry:problem:wrong-password'
    | 'urn:gantry:problem:token-too-wide'
    | 'urn:gantry:problem:token-too-long'
    | 'urn:gantry:problem:not-found'
    | 'urn:gantry:problem:not-mapped'
    | 'urn:gantry:problem:no-such-path'
    | 'urn:gantry:problem:method-not-allowed'
    | 'urn:gantry:problem:too-slow'
    | 'urn:gantry:problem:conflict'
    | 'urn:gantry:problem:name-taken'
    | 'urn:gantry:problem:device-taken'
    | 'urn:gantry:problem:initiator-taken'
    | 'urn:gantry:problem:host-in-use'
    | 'urn:gantry:problem:host-in-group'
    | 'urn:gantry:problem:lun-taken'
    | 'urn:gantry:problem:lun-resting'
    | 'urn:gantry:problem:luns-unknown'
    | 'urn:gantry:problem:lun-held'
    | 'urn:gantry:problem:lun-fixed'
    | 'urn:gantry:problem:luns-exhausted'
    | 'urn:gantry:problem:still-mapped'
    | 'urn:gantry:problem:pool-not-empty'
    | 'urn:gantry:problem:pool-not-open'
    | 'urn:gantry:problem:pool-unavailable'
    | 'urn:gantry:problem:pool-full'
    | 'urn:gantry:problem:no-space-below'
    | 'urn:gantry:problem:no-space-to-share'
    | 'urn:gantry:problem:no-space-to-leave'
    | 'urn:gantry:problem:device-not-larger'
    | 'urn:gantry:problem:device-failed'
    | 'urn:gantry:problem:snapshot-locked'
    | 'urn:gantry:problem:shrink-not-confirmed'
    | 'urn:gantry:problem:is-snapshot'
    | 'urn:gantry:problem:is-volume'
    | 'urn:gantry:problem:not-its-snapshot'
    | 'urn:gantry:problem:in-schedule'
    | 'urn:gantry:problem:portal-fixed'
    | 'urn:gantry:problem:last-administrator'
    | 'urn:gantry:problem:too-many'
    | 'urn:gantry:problem:key-under-way'
    | 'urn:gantry:problem:changed'
    | 'urn:gantry:problem:not-there'
    | 'urn:gantry:problem:already-there'
    | 'urn:gantry:problem:no-version'
    | 'urn:gantry:problem:too-large'
    | 'urn:gantry:problem:unsupported-media-type'
    | 'urn:gantry:problem:key-used-before'
    | 'urn:gantry:problem:too-many-attempts'
    | 'urn:gantry:problem:too-many-streams'
    | 'urn:gantry:problem:failed'
    | 'urn:gantry:problem:not-healthy'
    | 'urn:gantry:problem:not-ready'
    | 'urn:gantry:problem:stopping'
    | 'urn:gantry:problem:busy';
}

/** The most work that a volume or a host gets done. What is beyond it waits in the array. */
export interface RateLimits {
  /**
   * For how much time, in milliseconds, unused work is saved up: so much may be done at once after
   * a pause.
   */
  burst_ms?: number;
  /**
   * Bytes of work per second; no limit when null or left out. Work is what is read and written;
   * what changes the map only (copies by reference, zeros, UNMAP) counts a 64th.
   */
  bytes_per_second?: number | null;
  /**
   * I/Os per second; no limit when null or left out. A command is one I/O, or one for each
   * 256 KiB of its work if that is more.
   */
  iops?: number | null;
}

/** How fast something goes. */
export interface Rates {
  /** Bytes received, per second. */
  bytes_received: number;
  /** Bytes sent, per second. */
  bytes_sent: number;
  /** Commands answered, per second. */
  commands: number;
}

/**
 * What became of the space that a volume gave up, by UNMAP or by zeros, since the pool was opened.
 * Whole blocks of 4 KiB.
 */
export interface Reclaim {
  /** Those that held nothing. */
  already_free_bytes: number;
  /** Bytes that were to become free: `already_free_bytes` and `unmapped_bytes`. */
  asked_bytes: number;
  /** Those that returned to the pool. */
  freed_bytes: number;
  /** Where. */
  held_by: Holder[];
  /** Those that stay in use elsewhere: the sum of `held_by`. */
  held_bytes: number;
  /** Those that held data: `freed_bytes` and `held_bytes`. */
  unmapped_bytes: number;
  /** The volume. */
  volume: string;
}

/** The key by which CHAP accounts in pools are read. */
export interface RecoveryKey {
  /** Tells keys apart. */
  id: string;
  /** The key, to be kept where neither the array nor its disks are. */
  key: string;
}

/** A reason for refusals. */
export interface Refusal {
  /** The command in T10's words. */
  command: string;
  /** How often it was given. */
  count: number;
  /** When last, seconds since 1970. */
  last: number;
  /** What it means; of a primitive that is turned off, at which place. */
  reason: string;
  /** Sense key, additional sense code and qualifier, as in '05h/26h/00h'. */
  sense: string | null;
  /** The status in T10's words. */
  status: string;
}

/** A device, or a mirror with all of its members, that is to leave a pool. */
export interface RemoveDevice {
  /** Bytes per second that are moved from it at most; as many as hosts leave it when left out. */
  rate_bytes?: number | null;
}

/** Another name for an object. */
export interface Rename {
  /** 1 to 63 letters, digits, '-', '_', '.'. */
  name: string;
}

/** A copy that is being made of a mirror's blocks. */
export interface Resilver {
  /** Bytes that were copied. */
  copied_bytes: number;
  /** Whether it rests until it is resumed. */
  paused: boolean;
  /** Seconds that it will take, if that can be told. */
  remaining_seconds: number | null;
  /** Bytes that are to be copied, as far as it is known. */
  total_bytes: number;
  /** Blocks that no member could tell. */
  unreadable_blocks: number;
}

/** What is to be done with the filling of members. */
export type ResilverAction = 'pause' | 'resume' | 'cancel';

/** A larger device, or larger members of a mirror. */
export interface ResizePool {
  /** Which device or mirror, by its number; may be left out if there is only one. */
  device?: number | null;
  /** The new size of the device, or of each member of the mirror that is smaller, bytes. */
  size_bytes: number;
}

/** Another size for a volume. */
export interface ResizeVolume {
  /** Must be true to make the volume smaller, which destroys what lies beyond. */
  shrink?: boolean;
  /** Bytes; a multiple of 4,096, at most 64 TiB. */
  size_bytes: number;
}

/** A pool that takes no writes, or is unavailable, is opened anew. */
export interface ResumePool {
  /**
   * Takes the pool from these holders of its devices' locks, each as `lock_holders` names it, and from
   * nobody else. Those of them that are still alive can write to the devices no more. Locks of files
   * cannot be broken.
   */
  break_locks?: string[];
  /**
   * Opens mirrors without members that may hold newer data than those that are there, where the
   * array does not know it: what only the missing ones hold is lost then.
   */
  degraded?: boolean;
  /** Changes nothing, and answers the pool with what would be given up (`journal_loss`). */
  dry_run?: boolean;
  /** How; for reads and writes when left out. */
  mode?: PoolMode;
}

/** A volume is to take back the content and the size that a snapshot of it kept. */
export interface RevertVolume {
  /** Must be true while the volume is mapped: hosts that use it must not have it in use. */
  force?: boolean;
  /** The snapshot's name in the pool. */
  snapshot: string;
}

/** What a user may do; each role may do what those before it may. */
export type Role = 'viewer' | 'operator' | 'admin';

/** Rates of a host on a volume. */
export interface RowRates {
  /** The host. */
  host: string;
  /** Its LUN number. */
  lun: number | null;
  /** The rates. */
  rates: Record<string, PrimitiveRate>;
  /** The volume. */
  volume: string;
}

/** A schedule of snapshots. */
export interface Schedule {
  /** Whether it runs. */
  enabled: boolean;
  /** Seconds from one run to the next. */
  every_seconds: number;
  /** Runs whose snapshots are kept. */
  keep: number;
  /** When it last made snapshots of which there still are some, seconds since 1970. */
  last: number | null;
  /** Seconds for which new snapshots are locked. */
  lock_seconds: number | null;
  /** Its name. */
  name: string;
  /** When it runs next, seconds since 1970. */
  next: number | null;
  /** Seconds by which runs are later than the multiples of `every_seconds`. */
  offset_seconds: number;
  /** What went wrong with the last run. */
  problem: string | null;
  /** Snapshots of it that there are. */
  snapshots: number;
  /** Volumes, each POOL/NAME. */
  volumes: string[];
}

/** How a pool's scrub is doing, or how the last one since the daemon started ended. */
export interface Scrub {
  /** Where volumes and snapshots are bad; the first 1,000 places. */
  bad: BadRange[];
  /** Blocks of data, 4 KiB each, that are bad. */
  bad_blocks: number;
  /** Pages of the map of which no copy is intact. */
  bad_pages: number;
  /** Whether it has come to its end; false for one that was stopped, and before the first one. */
  complete: boolean;
  /** The pool. */
  pool: string;
  /** Bytes per second that are read at most. */
  rate_bytes: number;
  /** Pages of the map that were written again from their intact copies. */
  repaired_pages: number;
  /** Whether one is under way. */
  running: boolean;
  /** Bytes of data and maps that were compared. */
  scanned_bytes: number;
  /** Bytes in use when it began. */
  total_bytes: number;
}

/** A text that `{:?}` does not show. */
export type Secret = string;

/** A part of a series, as columns of equal length. */
export interface SeriesHistory {
  /**
   * Means over that time, by name: PRIMITIVE_commands, _bytes (per second) and _latency_us; of a
   * pool used_bytes, pending_bytes, reserve_bytes, free_bytes, shared_bytes and total_bytes.
   */
  columns: Record<string, number[]>;
  /** The series. */
  series: string;
  /** Start of the first value, seconds since 1970. */
  start: number;
  /** Seconds that each value covers. */
  step: number;
}

/** The name of a series, for the history. */
export interface SeriesName {
  /** `total`, `volume:POOL/NAME`, `host:NAME` or `pool:NAME`. */
  series: string;
}

/** A logged-in initiator. */
export interface Session {
  /**
   * Its IP address and TCP port; of several connections the first one's, "none" while it may
   * come back.
   */
  address: string;
  /** None or CHAP. */
  authentication: string;
  /** Bytes received from it. */
  bytes_received: number;
  /** Bytes sent to it. */
  bytes_sent: number;
  /** Commands answered. */
  commands: number;
  /** Commands under way. */
  commands_under_way: number;
  /** TCP connections. */
  connections: number;
  /** The host that it belongs to. */
  host: string | null;
  /** The initiator's iSCSI name. */
  initiator: string;
  /** Initiator part of the session identifier, hexadecimal. */
  isid: string;
  /** What was negotiated, as RFC 7143 13 writes it. */
  keys: Record<string, string>;
  /** LUNs that it sees. */
  luns: number[];
  /** The portal that it came through. */
  portal: string;
  /** Rates over the last second or so. */
  rates: Rates;
  /** Those of `luns` that it may only read. */
  read_only_luns: number[];
  /** Target session identifying handle. */
  tsih: number;
}

/** Which controller of several should have a pool, and whether others give it back to that one. */
export interface SetFailBack {
  /**
   * Seconds for which it must have been heard, not in maintenance and able to reach all devices of the
   * pool before another one gives the pool back to it; null if that is left to administrators.
   */
  fail_back_seconds?: number | null;
  /** Its number; null if it does not matter. */
  preferred_controller?: number | null;
}

/** The members of a group. */
export interface SetGroup {
  /** Names of hosts. */
  hosts: string[];
}

/** Other limits of a host, or another share; what is left out stays as it is. */
export interface SetHostLimits {
  /**
   * For how much time, in milliseconds, unused work is saved up; 0 for what it is where nothing is
   * said, 100.
   */
  burst_ms?: number | null;
  /** Bytes of work per second, from 1 MiB on; 0 takes the limit away. */
  bytes_per_second?: number | null;
  /** I/Os per second, from 10 on; 0 takes the limit away. */
  iops?: number | null;
  /** What it gets of a pool for which other hosts wait, too: so many times what a host with 1 gets. */
  share?: number | null;
}

/** Another state for a target portal group. */
export interface SetPathState {
  /** The new state. */
  state: PathState;
}

/** Primitives that are turned on (true) or off (false); one that is left out stays as it is. */
export interface SetPrimitives {
  /** COMPARE AND WRITE (ATS). */
  compare_and_write?: boolean | null;
  /** EXTENDED COPY and what belongs to it, POPULATE TOKEN and WRITE USING TOKEN (Full Copy, ODX). */
  extended_copy?: boolean | null;
  /** UNMAP, and WRITE SAME that unmaps (Delete). */
  unmap?: boolean | null;
  /** WRITE SAME (Block Zero). */
  write_same?: boolean | null;
}

/** Other limits of a volume; what is left out stays as it is. */
export interface SetRateLimits {
  /**
   * For how much time, in milliseconds, unused work is saved up; 0 for what it is where nothing is
   * said, 100.
   */
  burst_ms?: number | null;
  /** Bytes of work per second, from 1 MiB on; 0 takes the limit away. */
  bytes_per_second?: number | null;
  /** I/Os per second, from 10 on; 0 takes the limit away. */
  iops?: number | null;
}

/** Whether hosts may reserve a volume. */
export interface SetReservations {
  /** True if RESERVE, RELEASE and PERSISTENT RESERVE are to be answered as not supported. */
  hidden: boolean;
}

/** A schedule as it is to be. */
export interface SetSchedule {
  /** Whether it runs; it does when left out. */
  enabled?: boolean;
  /**
   * Seconds from one run to the next, 1 to ten years. Runs are at multiples of it, counted from
   * 1970-01-01 00:00 UTC.
   */
  every_seconds: number;
  /**
   * Runs whose snapshots are kept, 1 to 1,000; older ones are deleted, unless they are locked or
   * mapped.
   */
  keep: number;
  /** Seconds for which new snapshots are locked, at most 100 years; not at all when left out. */
  lock_seconds?: number | null;
  /** Seconds by which runs are later than those multiples; less than `every_seconds`. */
  offset_seconds?: number;
  /** 1 to 256 volumes of one pool, each POOL/NAME; their snapshots are of one moment. */
  volumes: string[];
}

/** Whether a pool makes space by itself at its hard threshold. */
export interface SetSnapshotDeletion {
  /**
   * Deletes the oldest unlocked snapshots of schedules, one after the other, until the pool is
   * below its hard threshold; off unless it is said. What somebody made by hand, locked or
   * mapped, and the snapshots of each schedule's newest run, stay.
   */
  delete_scheduled_snapshots: boolean;
}

/** The devices that step in when a member of a mirror is lost. */
export interface SetSpares {
  /** All of them, files or block devices. Those that are new are made. */
  devices: string[];
  /** Size of those that are made, bytes; may be left out for block devices. */
  size_bytes?: number | null;
}

/** All labels that an object is to have. */
export interface SetTags {
  /**
   * Keys of 1 to 63 letters, digits, '-', '_', '.', and values of at most 128 characters, none of
   * them a control character. At most 16; those that are not named are taken away.
   */
  tags: Record<string, string>;
}

/** How bad an event is. */
export type Severity = 'information' | 'warning' | 'error';

/** A volume's content at one moment. It never changes; it can be mapped, for reading. */
export interface Snapshot {
  /** When it was made, seconds since 1970. */
  created: number;
  /** Hosts that see it. */
  hosts: string[];
  /** Until when nobody may delete it, seconds since 1970, if it was ever locked. */
  locked_until: number | null;
  /** The LUN number, if it is mapped; the smallest if hosts see it by several. */
  lun: number | null;
  /** Bytes that hold data, most of them shared with the volume. */
  mapped_bytes: number;
  /** NAA identifier: 'naa.' and 32 hexadecimal digits. */
  naa: string;
  /** Its name in the pool. */
  name: string;
  /** The pool's name. */
  pool: string;
  /** The schedule that made it, while that exists. */
  schedule: string | null;
  /** Those of them that are shared, at most. */
  shared_bytes: number;
  /** Size of the volume at that moment, bytes. */
  size_bytes: number;
  /** Its labels. */
  tags: Record<string, string>;
  /** The volume that it is a snapshot of, by its name in the pool, while that exists. */
  volume: string | null;
}

/** What differs between two snapshots of a pool, or what one of them holds. */
export interface SnapshotChanges {
  /** The snapshot that it is compared with; without one all that holds data is told. */
  base: string | null;
  /** The NAA identifier of that. */
  base_naa: string | null;
  /**
   * What may differ, in order and without overlap. Everything else up to `next_offset`, or the end,
   * is equal.
   */
  extents: ChangedExtent[];
  /** Pages of 4 KiB of the pool's map that were looked at: what the answer cost. */
  map_pages: number;
  /** Its NAA identifier: who asks for several parts sees that they are of the same snapshot. */
  naa: string;
  /** The offset to ask for next; null if this was all. An answer may have no extents and yet go on. */
  next_offset: number | null;
  /** The byte where the answer begins. */
  offset: number;
  /** The pool's name. */
  pool: string;
  /** Size of the snapshot, bytes. */
  size_bytes: number;
  /** The snapshot's name in the pool. */
  snapshot: string;
}

/**
 * Where a pool's space went, bytes. `used + pending + reserve + free + unbacked = total`, and
 * `data + metadata = used`.
 */
export interface Space {
  /** Part of `used` that is data. */
  data_bytes: number;
  /** Free for new data. */
  free_bytes: number;
  /** Part of `used` that is the map, and what the array keeps in the pool for an import. */
  metadata_bytes: number;
  /** What is left of that. It is less than the whole only in a full pool, and is filled first. */
  metadata_left_bytes: number;
  /** Part of a whole reserve that is for locks and metadata. */
  metadata_reserve_bytes: number;
  /** Freed, and usable after the next checkpoint; or handed out to writes under way. */
  pending_bytes: number;
  /** Part of `free` that is promised to thick volumes. */
  promised_bytes: number;
  /** Sum of the sizes of all volumes, without snapshots. */
  provisioned_bytes: number;
  /**
   * Kept back so that unmap, delete and checkpoints always work, and hosts can lock and change
   * the metadata of their file systems when nothing is free.
   */
  reserve_bytes: number;
  /** Saved by sharing: what volumes and snapshots map, less the data that there is. */
  shared_bytes: number;
  /** Everything that can hold data or its map. */
  total_bytes: number;
  /** Not in use, and not free either: the file system under the pool has no space for it. */
  unbacked_bytes: number;
  /** Held by volumes and their maps. */
  used_bytes: number;
  /** What is used or promised, in hundredths of what is backed and not reserve. */
  used_percent: number;
}

/** A scrub that is to begin, or another rate for the one under way. */
export interface StartScrub {
  /** Bytes per second that are read at most, at least 1 MiB; 200 MiB when left out. */
  rate_bytes?: number | null;
}

/** The iSCSI target. */
export interface Target {
  /** Bytes received from all initiators since the daemon started. */
  bytes_received: number;
  /** Bytes sent to all initiators since the daemon started. */
  bytes_sent: number;
  /** SCSI commands completed since the daemon started. */
  commands: number;
  /** Those among them, COMPARE AND WRITE (ATS), that found another content than they expected. */
  compare_and_write_miscompares: number;
  /** Those of them that found what they would have written: retries of their own. */
  compare_and_write_retries: number;
  /**
   * Since when changes of the configuration cannot be saved, and are taken back, seconds since
   * 1970; absent while they can.
   */
  configuration_unsaved_since: number | null;
  /** Its iSCSI name. */
  name: string;
  /** Where it listens. */
  portals: Portal[];
  /** Who is logged in. */
  sessions: Session[];
}

/** Work that takes long, or took long. */
export interface Task {
  /** Whether it can be cancelled now. */
  can_cancel: boolean;
  /** Whether it can be paused, or resumed, now. */
  can_pause: boolean;
  /** How much is done, in `unit`. */
  done: number;
  /** Seconds since 1970. */
  ended: number | null;
  /**
   * Counted since the daemon started, from 1; of several controllers each counts from its number times
   * 100,000,000. The daemon keeps the latest 256 that have ended.
   */
  id: number;
  /** What is done. */
  kind: TaskKind;
  /** What it is done to: 'pool NAME', 'volume POOL/NAME', 'member POOL/DEVICE' or 'device POOL/NUMBER'. */
  object: string;
  /** Whether it rests until it is resumed; it counts as running. */
  paused: boolean;
  /** What went wrong, or was found. */
  problem: string | null;
  /** Bytes per second so far, while it runs and as far as it is known. */
  rate_bytes: number | null;
  /** Seconds that it will take yet if it goes on as so far; not while it rests. */
  remaining_seconds: number | null;
  /** Seconds since 1970. */
  started: number;
  /** How far it is. */
  state: TaskState;
  /** How much there is to do; it may grow. 0 if nobody knows. */
  total: number;
  /** What is counted. */
  unit: TaskUnit;
}

/** Kinds of tasks. */
export type TaskKind =
  | 'scrub'
  | 'delete'
  | 'sanitize'
  | 'resilver'
  | 'create-pool'
  | 'extend-pool'
  | 'add-device'
  | 'remove-device'
  | 'delete-pool';

/** How far a task is. */
export type TaskState = 'running' | 'done' | 'cancelled' | 'failed';

/** What is counted. */
export type TaskUnit = 'bytes' | 'parts';

/** Percentages at which hosts and administrators are told how full something is. */
export interface Thresholds {
  /** An alarm, not below the warning, at most 100. */
  hard_percent: number;
  /** A warning, 1 to 100. */
  soft_percent: number;
}

/** What a program shows instead of a password: `Authorization: Bearer SECRET`. */
export interface Token {
  /** Seconds since 1970. */
  created: number;
  /** Seconds since 1970; absent if it does not expire. */
  expires: number | null;
  /** 16 hexadecimal digits. */
  id: string;
  /** What it is for. */
  name: string;
  /** The identifier of the token by which it was made, and with which it ends. */
  parent: string | null;
  /** What it allows; never more than its user's role. */
  role: Role;
  /** Whose it is. */
  user: string;
}

/** Somebody who may use the management interface. */
export interface User {
  /** Seconds since 1970. */
  created: number;
  /** Whether nothing else is allowed before the password was changed. */
  must_change_password: boolean;
  /** 1 to 63 characters. */
  name: string;
  /** What the user may do. */
  role: Role;
}

/** A volume. */
export interface Volume {
  /** The blocks that hosts see. */
  block_size: BlockSize;
  /** When it was made, seconds since 1970. */
  created: number;
  /** How full it is. */
  fill: Fill;
  /** Hosts and groups that see it; 'any' stands for every initiator. */
  hosts: string[];
  /** The vendor and product that it tells, if it has its own instead of the array's. */
  identification: Identification | null;
  /** The most work that hosts get done on it. */
  limits: RateLimits;
  /** The LUN number, if it is mapped; the smallest if hosts see it by several (`maps`). */
  lun: number | null;
  /** Bytes that hold data, some perhaps shared with other volumes. */
  mapped_bytes: number;
  /** Who sees it, and by which number. */
  maps: VolumeMap[];
  /** NAA identifier: 'naa.' and 32 hexadecimal digits. Never changes, never reused. */
  naa: string;
  /** Its name in the pool. */
  name: string;
  /** What it was cloned from, as POOL/NAME, while that exists. */
  origin: string | null;
  /** The pool's name. */
  pool: string;
  /** Which primitives are on for it. */
  primitives: Primitives;
  /** Those of `hosts` that may only read. */
  read_only_hosts: string[];
  /** Whether hosts find no way to reserve it. */
  reservations_hidden: boolean;
  /** `thick` under its name of 0.1.0, for programs that were written for that. */
  reserved: boolean;
  /**
   * Those of them that other volumes, snapshots or clones may hold too, at most; overwriting
   * them takes new space.
   */
  shared_bytes: number;
  /** Bytes that hosts see. */
  size_bytes: number;
  /** Whether it is a snapshot, which never changes. */
  snapshot: boolean;
  /** Snapshots of it. */
  snapshots: number;
  /** Its labels. */
  tags: Record<string, string>;
  /** Whether it is thick: all of its space is set aside. */
  thick: boolean;
  /** When someone is told how full it is. */
  thresholds: Thresholds;
}

/** Somebody who sees a volume. */
export interface VolumeMap {
  /** A host, a group, or 'any'. */
  host: string;
  /** The number by which it addresses the volume. Hosts may have different ones. */
  lun: number;
  /** Whether it may only read. */
  read_only: boolean;
}

/** A program that is told by an HTTP POST of [`AlertMessage`]. */
export interface Webhook {
  /** 1 to 63 letters, digits, '-', '_', '.'. */
  name: string;
  /**
   * The key of the signature: 12 to 255 bytes. Never shown; when left out, one that was set
   * before stays.
   */
  secret?: Secret | null;
  /** Events as bad as this or worse are told. */
  severity: Severity;
  /** Whether messages are signed. If false is sent, a secret that was set before is forgotten. */
  signed?: boolean | null;
  /** http:// or https://, without a user and a password. Redirections are not followed. */
  url: string;
}

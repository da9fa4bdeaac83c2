// What the daemon answers; crates/api says what each field means.

export interface Problem { status: number; title: string; detail: string }

export type Role = 'viewer' | 'operator' | 'admin';
export type Severity = 'information' | 'warning' | 'error';
export type Fill = 'normal' | 'soft' | 'hard';

export interface Me { user: string; role: Role; csrf?: string | null; must_change_password: boolean }

export interface Space {
  total_bytes: number; used_bytes: number; data_bytes: number; metadata_bytes: number;
  pending_bytes: number; reserve_bytes: number; free_bytes: number; promised_bytes: number;
  shared_bytes: number; provisioned_bytes: number; used_percent: number; unbacked_bytes: number;
  metadata_reserve_bytes: number; metadata_left_bytes: number;
}
export interface Thresholds { soft_percent: number; hard_percent: number }
/** A file system under a pool's files. */
export interface Backing {
  file_system: string; size_bytes: number; free_bytes: number; unallocated_bytes: number;
  devices: number[]; shared_with: string[];
}
export interface Device { index: number; device: string; size_bytes: number }
export interface Pool {
  name: string; uuid: string; devices: Device[]; state: string; reason: string | null;
  backing: Backing[]; backing_state: 'enough' | 'short' | 'full'; backing_message: string | null;
  size_bytes: number; space: Space | null; thresholds: Thresholds; fill: Fill;
  delete_scheduled_snapshots: boolean; volumes: number; snapshots: number; memory_bytes: number;
  counters: Record<string, number>;
}
export interface Scrub {
  pool: string; running: boolean; complete: boolean; rate_bytes: number; scanned_bytes: number;
  total_bytes: number; bad_blocks: number; bad_pages: number; repaired_pages: number;
  bad: { volume: string; lba: number; blocks: number }[];
}
export interface VolumeMap { host: string; lun: number; read_only: boolean }

export interface Volume {
  pool: string; name: string; naa: string; size_bytes: number; reserved: boolean;
  block_size: string; reservations_hidden: boolean; mapped_bytes: number; shared_bytes: number;
  created: number; snapshot: boolean; origin: string | null; snapshots: number;
  thresholds: Thresholds; fill: Fill; lun: number | null; maps: VolumeMap[]; hosts: string[]; read_only_hosts: string[];
}
export interface Snapshot {
  pool: string; name: string; volume: string | null; created: number; naa: string;
  size_bytes: number; mapped_bytes: number; shared_bytes: number; lun: number | null;
  hosts: string[]; locked_until?: number | null;
}
export interface Host {
  name: string; initiators: string[]; chap_user: string | null; mutual_chap: boolean;
}
export interface Group { name: string; hosts: string[] }
export interface Portal {
  address: string; target_portal_group_tag: number; state: string; redirect: string | null; fixed: boolean;
}
export interface Session {
  initiator: string; host: string | null; address: string; portal: string; isid: string; tsih: number;
  authentication: string; connections: number; keys: Record<string, string>; luns: number[];
  read_only_luns: number[]; commands_under_way: number; commands: number; bytes_received: number;
  bytes_sent: number; rates: { commands: number; bytes_received: number; bytes_sent: number };
}
export interface Target {
  name: string; portals: Portal[]; sessions: Session[]; bytes_received: number; bytes_sent: number; commands: number;
}
export interface ArrayEvent { number: number; time: number; severity: Severity; object: string; message: string; count: number; last_time: number }

export type Primitive =
  | 'read' | 'write' | 'compare_and_write' | 'extended_copy' | 'write_same' | 'unmap' | 'token' | 'other';
export interface PrimitiveRate { commands: number; bytes: number; latency_us: number }
export type Rates = Partial<Record<Primitive, PrimitiveRate>>;
export interface NamedRates { name: string; rates: Rates }
export interface Live {
  time: number; interval_seconds: number; total: Rates; volumes: NamedRates[]; hosts: NamedRates[];
  rows: { host: string; volume: string; lun: number | null; rates: Rates }[];
}
export interface SeriesHistory { series: string; start: number; step: number; columns: Record<string, number[]> }

export interface Asked { commands: number; refused: number; asked_bytes: number; done_bytes: number }
export interface Refusal { command: string; status: string; sense: string | null; reason: string; count: number; last: number }
export interface OffloadRow {
  host: string; volume: string; lun: number | null; clone: Asked; cloned_by_reference_bytes: number;
  copied_bytes: number; clone_source_bytes: number; zero: Asked; unmap: Asked; token: Asked;
  compare_and_write: Asked; miscompares: number; read_bytes: number; written_bytes: number;
  host_copied_bytes: number; host_zeroed_bytes: number; refusals: Refusal[];
}
export interface OffloadLedger { since: number; rows: OffloadRow[] }
export interface Finding {
  kind: 'host_side_copy' | 'host_side_zero' | 'refused'; host: string; volume: string; source: string | null;
  bytes: number; estimated: boolean; first: number; last: number; code: string; reason: string; advice: string;
}
export interface LockRange { lba: number; blocks: number; attempts: number; miscompares: number; hosts: string[]; last: number }
export interface LockAttempt { time: number; host: string; lba: number; blocks: number; outcome: 'done' | 'miscompare' | 'refused' }
export interface LockMap { volume: string; attempts: number; miscompares: number; contended: LockRange[]; recent: LockAttempt[] }
export interface Reclaim {
  volume: string; asked_bytes: number; already_free_bytes: number; unmapped_bytes: number;
  freed_bytes: number; held_bytes: number; held_by: { name: string | null; kind: string; bytes: number }[];
}
export interface Forecast {
  pool: string; total_bytes: number; used_bytes: number; bytes_per_second: number | null;
  window_seconds: number | null; seconds_until_full: number | null; full_at: number | null;
}

export interface Task {
  id: number; kind: string; object: string; state: 'running' | 'done' | 'cancelled' | 'failed';
  done: number; total: number; unit: string; started: number; ended?: number | null;
  problem?: string | null; can_cancel: boolean;
}
export interface User { name: string; role: Role; must_change_password: boolean; created: number }
export interface Token { id: string; name: string; user: string; role: Role; created: number; expires?: number | null }
export interface AuditEntry {
  time: number; user: string; via: string; source: string; method: string; path: string; status: number;
}
export interface Discovery { chap_user: string | null; mutual: boolean }
export interface Webhook { name: string; url: string; severity: Severity; secret?: string | null; signed?: boolean | null }
export interface Mail {
  relay: string; tls: string; user?: string | null; password?: string | null; from: string; to: string[]; severity: Severity;
}
export interface Alerts { webhooks: Webhook[]; mail?: Mail | null }
export interface Delivery { time: number; receiver: string; event: number; ok: boolean; detail: string }
export interface Schedule {
  name: string; volumes: string[]; every_seconds: number; keep: number; offset_seconds: number; lock_seconds?: number | null;
  enabled: boolean; next?: number | null; last?: number | null; problem?: string | null;
}

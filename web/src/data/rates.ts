// Sums over primitives.
import type { Finding, OffloadRow, PrimitiveRate } from '../generated/api';

/** Kinds of commands, by which the daemon counts. */
export type Primitive =
  | 'read'
  | 'write'
  | 'compare_and_write'
  | 'extended_copy'
  | 'write_same'
  | 'unmap'
  | 'token'
  | 'other';
export type Rates = Partial<Record<Primitive, PrimitiveRate>>;

/** What hosts call the primitives, and T10. */
export const PRIMITIVES: Record<Primitive, { name: string; t10: string; colour: string }> = {
  read: { name: 'Read', t10: 'READ', colour: '--c1' },
  write: { name: 'Write', t10: 'WRITE', colour: '--c2' },
  extended_copy: { name: 'Clone', t10: 'EXTENDED COPY', colour: '--c3' },
  write_same: { name: 'Zero', t10: 'WRITE SAME', colour: '--c4' },
  unmap: { name: 'Delete', t10: 'UNMAP', colour: '--c5' },
  compare_and_write: { name: 'Lock', t10: 'COMPARE AND WRITE', colour: '--c6' },
  token: { name: 'Token', t10: 'WRITE USING TOKEN', colour: '--c7' },
  other: { name: 'Other', t10: 'other commands', colour: '--c8' },
};

/** Work that the array does instead of the host. */
export const OFFLOADS: Primitive[] = ['extended_copy', 'write_same', 'unmap', 'token'];

export const bytesOf = (rates: Rates, ...of: Primitive[]): number =>
  of.reduce((sum, one) => sum + (rates[one]?.bytes ?? 0), 0);
export const commandsOf = (rates: Rates): number =>
  Object.values(rates).reduce((sum, one) => sum + (one?.commands ?? 0), 0);

/** Mean over reads and writes, microseconds; null without any. */
export function latencyOf(rates: Rates): number | null {
  const both = [rates.read, rates.write].filter((one) => one !== undefined);
  const commands = both.reduce((sum, one) => sum + one.commands, 0);
  if (commands === 0) return null;
  return both.reduce((sum, one) => sum + one.commands * one.latency_us, 0) / commands;
}

/** What the array did for hosts, and what they did themselves though it could have. */
export function offloadShare(rows: OffloadRow[]) {
  const add = (of: (row: OffloadRow) => number) => rows.reduce((sum, row) => sum + of(row), 0);
  const cloned = add((row) => row.clone.done_bytes + row.token.done_bytes);
  const zeroed = add((row) => row.zero.done_bytes);
  const hostCopied = add((row) => row.host_copied_bytes);
  const hostZeroed = add((row) => row.host_zeroed_bytes);
  const offloaded = cloned + zeroed;
  const byHosts = hostCopied + hostZeroed;
  return {
    cloned,
    zeroed,
    hostCopied,
    hostZeroed,
    offloaded,
    byHosts,
    byReference: add((row) => row.cloned_by_reference_bytes),
  };
}

/** A finding in a few words. */
export const FINDING_NAME: Record<Finding['kind'], string> = {
  host_side_copy: 'Copied by the host',
  host_side_zero: 'Zeroed by the host',
  refused: 'Refused',
};

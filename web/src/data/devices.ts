// The kinds of device: one row for each, with what the forms say of it. A test of the command line compares the
// prefixes with those of the daemon.

interface DeviceKind {
  /** What stands before the colon of a device's name. */
  prefix: string;
  label: string;
  /** Beside the label where a pool is made. */
  remark?: string;
  /** Of the path; absent where none follows the colon. */
  path?: { label: string; hint: string; example: string; start?: string };
  /** Whether it has a size that is used when none is given. */
  sized: boolean;
}

const ROWS: DeviceKind[] = [
  {
    prefix: 'file',
    label: 'File',
    sized: false,
    path: {
      label: 'Path of the file',
      hint: 'On this machine; made if it is not there.',
      example: '/var/lib/gantry/more.img',
    },
  },
  {
    prefix: 'block',
    label: 'Block device',
    sized: true,
    path: {
      label: 'Path of the device',
      hint: 'Everything on it is lost.',
      example: '/dev/sdb',
      start: '/dev/',
    },
  },
  {
    prefix: 'rbd',
    label: 'Image of a Ceph cluster',
    sized: true,
    path: {
      label: 'Pool and image',
      hint: 'Everything on it is lost. Behind it, if need be: ?conf=PATH&id=USER',
      example: 'rbd/gantry',
    },
  },
  {
    prefix: 'memory',
    label: 'Memory',
    remark: ' (for trying out; lost at a restart)',
    sized: false,
  },
];

export const FIRST_KIND = 'file';

/** The kinds, for a choice between them. */
export const deviceKinds = (remarks: boolean): [string, string][] =>
  ROWS.map((row) => [row.prefix, row.label + ((remarks && row.remark) || '')]);

/** The row of a kind that was chosen. */
export const deviceKind = (prefix: string): DeviceKind =>
  ROWS.find((row) => row.prefix === prefix) ?? ROWS[0]!;

/** The name of a device of that kind, of what was written: a path, or a name already. */
export function deviceName(kind: DeviceKind, text: string): string {
  if (!kind.path) return `${kind.prefix}:`;
  return ROWS.some((row) => text.startsWith(`${row.prefix}:`)) ? text : `${kind.prefix}:${text}`;
}

// Fields of one device: its kind, its path, its size; and what they mean for the daemon.
import { deviceKind, deviceKinds, deviceName, FIRST_KIND } from '../data/devices';
import { parseBytes } from '../units';
import { SelectField, SizeField, TextField } from './form';

/** What was written about a device so far. */
export interface DeviceDraft {
  prefix: string;
  where: string;
  size: string;
}

export const NO_DEVICE: DeviceDraft = { prefix: FIRST_KIND, where: '', size: '' };

/** The device as requests name it. */
export function deviceOf({ prefix, where, size }: DeviceDraft) {
  return {
    device: deviceName(deviceKind(prefix), where),
    ...(size.trim() ? { size_bytes: parseBytes(size) } : {}),
  };
}

export function DeviceFields(props: {
  value: DeviceDraft;
  onChange: (value: DeviceDraft) => void;
  /** What a size that is left empty means; one must be given if that is absent. */
  empty?: string;
}) {
  const { value, onChange } = props;
  const kind = deviceKind(value.prefix);
  const empty = props.empty ?? (kind.sized ? 'the whole device' : undefined);
  return (
    <>
      <SelectField
        label="Kind"
        value={value.prefix}
        onChange={(prefix) => onChange({ ...value, prefix })}
        options={deviceKinds(false)}
      />
      {kind.path && (
        <TextField
          label="Path"
          value={value.where}
          onChange={(where) => onChange({ ...value, where })}
          mono
          required
          placeholder={kind.path.example}
        />
      )}
      <SizeField
        label={empty ? `Size (empty: ${empty})` : 'Size'}
        value={value.size}
        onChange={(size) => onChange({ ...value, size })}
        required={!empty}
      />
    </>
  );
}

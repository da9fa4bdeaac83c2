// Rate limits (QoS) that administrators set for a host or a volume, and the share of a host.
import { useState } from 'preact/hooks';
import { ask } from '../data/client';
import { refresh } from '../data/store';
import type { RateLimits, SetHostLimits } from '../generated/api';
import { Badge, Note } from '../ui/basic';
import { FormDialog, NumberField, SizeField } from '../ui/form';
import { parseBytes, rate, sizeText } from '../units';

/** Limits, in words. */
export function limitsText(of: RateLimits, share = 1) {
  const all = [
    of.iops == null ? null : `${of.iops} IOPS`,
    of.bytes_per_second == null ? null : rate(of.bytes_per_second),
    share === 1 ? null : `share ${share}`,
  ].filter((part) => part !== null);
  return all.length === 0 ? 'none' : <Badge tone="info">{all.join(', ')}</Badge>;
}

/** Asks for the limits of a host or a volume; only what is changed here is sent. */
export function RateLimitsDialog(props: {
  title: string;
  at: string;
  shownBy: string[];
  value: RateLimits;
  /** Of a host. */
  share?: number;
  onClose: () => void;
}) {
  const [was] = useState({
    iops: props.value.iops ?? null,
    bandwidth: props.value.bytes_per_second == null ? '' : sizeText(props.value.bytes_per_second),
    burst: props.value.burst_ms as number | null,
    share: (props.share ?? null) as number | null,
  });
  const [now, setNow] = useState(was);
  const bandwidth = now.bandwidth.trim() === '' ? 0 : parseBytes(now.bandwidth);
  const change = async () => {
    const body: SetHostLimits = {};
    if (now.iops !== was.iops) body.iops = now.iops ?? 0;
    if (now.bandwidth !== was.bandwidth) body.bytes_per_second = bandwidth ?? 0;
    if (now.burst !== was.burst) body.burst_ms = now.burst ?? 0;
    if (now.share !== was.share) body.share = now.share ?? 1;
    await ask('PATCH', props.at, body);
    await refresh(...props.shownBy);
  };
  return (
    <FormDialog
      title={props.title}
      action="Change"
      said="The limits were changed"
      disabled={bandwidth === null}
      onSubmit={change}
      onClose={props.onClose}
    >
      <NumberField
        label="IOPS"
        hint="Empty for no limit. A command is one I/O, or one for each 256 KiB of its work."
        min={10}
        max={10_000_000}
        value={now.iops}
        onChange={(iops) => setNow({ ...now, iops })}
      />
      <SizeField
        label="Bandwidth in each second"
        hint="Empty for no limit. Copies by reference count a 64th."
        placeholder="200 MiB"
        value={now.bandwidth}
        onChange={(size) => setNow({ ...now, bandwidth: size })}
      />
      <NumberField
        label="Burst in milliseconds"
        hint="For how much time unused work is saved up, to be done at once after a pause."
        min={10}
        max={600_000}
        value={now.burst}
        onChange={(burst) => setNow({ ...now, burst })}
      />
      {props.share !== undefined && (
        <NumberField
          label="Share"
          hint="Of a pool for which other hosts wait, too: so many times what a host with 1 gets."
          min={1}
          max={100}
          value={now.share}
          onChange={(share) => setNow({ ...now, share })}
        />
      )}
      <Note tone="info">
        Limits count at once, also for what waits. Locks (ATS, reservations) go before what is held
        back.
      </Note>
    </FormDialog>
  );
}

// What to type on a host to use a volume.
import { useState } from 'preact/hooks';
import { useResource } from '../data/store';
import type { Target } from '../generated/api';
import { Copyable, Loaded, Note, Segmented } from '../ui/basic';

type System = 'esxi' | 'linux' | 'windows';
const SYSTEMS: [System, string][] = [
  ['esxi', 'VMware ESXi'],
  ['linux', 'Linux'],
  ['windows', 'Windows'],
];

function esxi(target: Target, chap: string | null): string {
  const lines = [
    'esxcli iscsi software set --enabled=true',
    'esxcli iscsi adapter list    # names the adapter, here vmhba64',
  ];
  if (chap)
    lines.push(
      `esxcli iscsi adapter auth chap set --adapter=vmhba64 --direction=uni --level=required --authname=${chap} --secret=SECRET`,
    );
  for (const portal of target.portals)
    lines.push(
      `esxcli iscsi adapter discovery sendtarget add --adapter=vmhba64 --address=${portal.address}`,
    );
  lines.push(
    'esxcli storage core adapter rescan --adapter=vmhba64',
    'esxcli storage core device vaai status get',
  );
  return lines.join('\n');
}

function linux(target: Target, chap: string | null): string {
  const lines = target.portals.map(
    (portal) => `iscsiadm --mode discovery --type sendtargets --portal ${portal.address}`,
  );
  const node = `iscsiadm --mode node --targetname ${target.name}`;
  if (chap)
    lines.push(
      `${node} --op update --name node.session.auth.authmethod --value CHAP`,
      `${node} --op update --name node.session.auth.username --value ${chap}`,
      `${node} --op update --name node.session.auth.password --value SECRET`,
    );
  lines.push(
    `${node} --login`,
    `${node} --op update --name node.startup --value automatic`,
    'lsblk --scsi',
  );
  return lines.join('\n');
}

function windows(target: Target, chap: string | null): string {
  const lines = ['Set-Service msiscsi -StartupType Automatic; Start-Service msiscsi'];
  for (const portal of target.portals) {
    const colon = portal.address.lastIndexOf(':');
    lines.push(
      `New-IscsiTargetPortal -TargetPortalAddress ${portal.address.slice(0, colon)} -TargetPortalPortNumber ${portal.address.slice(colon + 1)}`,
    );
  }
  const proof = chap
    ? ` -AuthenticationType ONEWAYCHAP -ChapUsername ${chap} -ChapSecret SECRET`
    : '';
  lines.push(
    `Connect-IscsiTarget -NodeAddress ${target.name} -IsPersistent $true${proof}`,
    'Get-Disk | Where-Object BusType -eq iSCSI',
  );
  return lines.join('\n');
}

const COMMANDS: Record<System, (target: Target, chap: string | null) => string> = {
  esxi,
  linux,
  windows,
};

const AFTERWARDS: Record<System, string> = {
  esxi: 'Then create a datastore on the new device. The offloads are on by default; the last line shows them.',
  linux: 'The last line shows the new disk. With several portals install multipath-tools as well.',
  windows: 'Run these in PowerShell as administrator. The last line shows the new disk.',
};

const isLoopback = (address: string) => /^(127\.|\[::1\]|localhost)/.test(address);

export function Connect({ chap }: { chap: string | null }) {
  const target = useResource<Target>('/v1/target');
  const [system, setSystem] = useState<System>('esxi');
  return (
    <div class="connect">
      <Segmented label="System" value={system} options={SYSTEMS} onChange={setSystem} />
      <Loaded of={target}>
        {(data) => (
          <>
            <Copyable
              block
              text={COMMANDS[system](data, chap)}
              label={`commands for ${SYSTEMS.find(([name]) => name === system)?.[1]}`}
            />
            <p class="faint">{AFTERWARDS[system]}</p>
            {data.portals.every((portal) => isLoopback(portal.address)) && (
              <Note tone="warn">
                The target listens on this machine only. Add a portal with an address that hosts
                reach under <a href="/settings/portals">Settings, Portals</a>.
              </Note>
            )}
          </>
        )}
      </Loaded>
    </div>
  );
}

// What is set for the whole array.
import { may } from '../data/session';
import { Card, Empty, Page, Tabs } from '../ui/basic';
import { PrimitivesTab } from './primitives';
import { AlertsTab } from './settings_alerts';
import { AuditTab, ConfigurationTab } from './settings_audit';
import { PortalsTab } from './settings_portals';
import { SchedulesTab } from './settings_schedules';
import { TokensTab, UsersTab } from './settings_users';

const TABS = {
  users: { name: 'Users', show: () => <UsersTab />, admin: true },
  tokens: { name: 'Tokens', show: () => <TokensTab />, admin: false },
  portals: { name: 'Portals', show: () => <PortalsTab />, admin: false },
  primitives: { name: 'Primitives', show: () => <PrimitivesTab />, admin: false },
  alerts: { name: 'Alerts', show: () => <AlertsTab />, admin: true },
  schedules: { name: 'Schedules', show: () => <SchedulesTab />, admin: false },
  audit: { name: 'Audit', show: () => <AuditTab />, admin: true },
  configuration: { name: 'Configuration', show: () => <ConfigurationTab />, admin: true },
} as const;

export function SettingsPage({ tab }: { tab: string }) {
  const chosen = TABS[tab as keyof typeof TABS];
  const tabs = Object.entries(TABS).map(([key, { name }]): [string, string] => [
    `/settings/${key}`,
    name,
  ]);
  return (
    <Page title="Settings">
      <Tabs label="Settings" at={`/settings/${tab}`} tabs={tabs} />
      {!chosen ? (
        <Card title="Settings">
          <Empty icon="search" title="There is no such setting" />
        </Card>
      ) : chosen.admin && !may('admin') ? (
        <Card title={chosen.name}>
          <Empty icon="lock" title="This is for administrators">
            Your role does not allow it. Ask an administrator.
          </Empty>
        </Card>
      ) : (
        chosen.show()
      )}
    </Page>
  );
}

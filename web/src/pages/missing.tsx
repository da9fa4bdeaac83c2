// The daemon is older than this page, or was built without something.
import { Card, Empty } from '../ui/basic';

export function Missing({ what }: { what: string }) {
  return (
    <Card title={what.charAt(0).toUpperCase() + what.slice(1)}>
      <Empty icon="info" title={`This daemon has no ${what}`}>
        It is of a version that does not know them yet.
      </Empty>
    </Card>
  );
}

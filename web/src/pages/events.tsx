// What happened.
import { useEvents } from '../data/live';
import type { Event as ArrayEvent, Severity } from '../generated/api';
import { setParameter, useLocation } from '../router';
import { Badge, Card, Empty, Loaded, Page, SEVERITY_TONE, Segmented, Time } from '../ui/basic';
import { SearchBox } from '../ui/search';

/** Where an event's object is shown: 'pool NAME', 'volume POOL/NAME'. */
function objectLink(object: string): string | null {
  const [kind, name] = object.split(' ');
  if (kind === 'pool' && name) return `/pools/${name}`;
  if (kind === 'volume' && name?.includes('/')) return `/volumes/${name}`;
  return null;
}

export function EventList({ events }: { events: ArrayEvent[] }) {
  return (
    <ul class="events">
      {events.map((event) => {
        const link = objectLink(event.object);
        const count = event.count ?? 1;
        return (
          <li key={event.number}>
            <Badge tone={SEVERITY_TONE[event.severity]}>{event.severity}</Badge>
            <span class="event-text">
              <span class="event-object">
                {link ? <a href={link}>{event.object}</a> : event.object}
              </span>{' '}
              {event.message}
              {count > 1 && (
                <span class="faint">
                  {' '}
                  · {count.toLocaleString('en')} times, last <Time at={event.last_time} />
                </span>
              )}
            </span>
            <Time at={event.time} />
          </li>
        );
      })}
    </ul>
  );
}

const LEVELS: [string, string][] = [
  ['', 'All'],
  ['warning', 'Warnings and errors'],
  ['error', 'Errors'],
];
const RANK: Record<Severity, number> = { information: 0, warning: 1, error: 2 };

export function EventsPage() {
  const { events, problem } = useEvents();
  const { parameters } = useLocation();
  const level = parameters.get('level') ?? '';
  const search = (parameters.get('search') ?? '').toLowerCase();
  const least = level === 'error' ? 2 : level === 'warning' ? 1 : 0;
  const fits = (event: ArrayEvent) =>
    RANK[event.severity] >= least &&
    `${event.object} ${event.message}`.toLowerCase().includes(search);
  return (
    <Page title="Events" lead="The latest 1,000 things that happened to the array.">
      <div class="filters">
        <SearchBox
          label="Filter events"
          value={search}
          onChange={(value) => setParameter('search', value)}
        />
        <Segmented
          label="Severity"
          value={level}
          options={LEVELS}
          onChange={(value) => setParameter('level', value)}
        />
      </div>
      <Card title="Events" hint={events ? `${events.filter(fits).length} of ${events.length}` : ''}>
        <Loaded of={{ data: events, problem }} lines={8}>
          {(all) => {
            const shown = all.filter(fits);
            if (shown.length > 0) return <EventList events={shown} />;
            return all.length === 0 ? (
              <Empty icon="event" title="Nothing happened yet">
                Thresholds, scrubs and trouble with devices will appear here.
              </Empty>
            ) : (
              <Empty icon="search" title="No event fits this filter">
                Choose another severity or another word.
              </Empty>
            );
          }}
        </Loaded>
      </Card>
    </Page>
  );
}

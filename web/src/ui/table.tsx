// Tables that become cards where there is little room.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { Button } from './basic';
import { Icon } from './icons';

export interface Column<T> {
  name: string;
  cell: (row: T) => ComponentChildren;
  /** What to sort by; a column without it cannot be sorted. */
  sort?: (row: T) => string | number;
  /** Numbers stand to the right. */
  number?: boolean;
  /** Left out where there is little room. */
  extra?: boolean;
  /** The column that names the row. */
  head?: boolean;
  /** The heading is for screen readers only. */
  silent?: boolean;
}

/** More are drawn only when asked for. */
const ROWS_AT_FIRST = 100;

type Order = { column: number; down: boolean };

interface Properties<T> {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  id: (row: T) => string;
  empty?: ComponentChildren;
  tone?: (row: T) => string;
}

export function Table<T>(props: Properties<T>) {
  const [order, setOrder] = useState<Order | null>(null);
  const [all, setAll] = useState(false);
  if (props.rows.length === 0 && props.empty) return <>{props.empty}</>;
  const ordered = sorted(props.rows, props.columns, order);
  const rows = all ? ordered : ordered.slice(0, ROWS_AT_FIRST);
  const more = ordered.length - rows.length;
  const by = (column: number) =>
    setOrder(order?.column === column ? { column, down: !order.down } : { column, down: false });
  return (
    <div class="table-room">
      <table role="table">
        <caption class="hidden">{props.caption}</caption>
        <thead role="rowgroup">
          <tr role="row">
            {props.columns.map((column, index) => (
              <Heading
                key={column.name}
                column={column}
                order={order?.column === index ? order : null}
                onSort={() => by(index)}
              />
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup">
          {rows.map((row) => (
            <tr role="row" key={props.id(row)} class={props.tone?.(row) ?? ''}>
              {props.columns.map((column) => (
                <Cell key={column.name} column={column} row={row} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {more > 0 && (
        <p class="table-more">
          <Button small onClick={() => setAll(true)}>
            Show {more} more
          </Button>
        </p>
      )}
    </div>
  );
}

function classes<T>(column: Column<T>): string {
  return [
    column.number && 'number',
    column.extra && 'extra',
    column.head && 'head',
    column.silent && 'silent',
  ]
    .filter(Boolean)
    .join(' ');
}

function Heading<T>({
  column,
  order,
  onSort,
}: {
  column: Column<T>;
  order: Order | null;
  onSort: () => void;
}) {
  const sorting = order ? (order.down ? 'descending' : 'ascending') : undefined;
  return (
    <th role="columnheader" scope="col" class={classes(column)} aria-sort={sorting}>
      {column.sort ? (
        <button type="button" class="sort" onClick={onSort}>
          {column.name}
          {order && <Icon name={order.down ? 'down' : 'up'} />}
        </button>
      ) : (
        <span class={column.silent ? 'hidden' : ''}>{column.name}</span>
      )}
    </th>
  );
}

function Cell<T>({ column, row }: { column: Column<T>; row: T }) {
  const content = column.cell(row) ?? '–';
  if (column.head)
    return (
      <th role="rowheader" scope="row" class={classes(column)}>
        {content}
      </th>
    );
  const blank = content === '–' ? ' blank' : '';
  return (
    <td
      role="cell"
      class={classes(column) + blank}
      data-label={column.silent ? undefined : column.name}
    >
      {content && <div class="cell">{content}</div>}
    </td>
  );
}

function sorted<T>(rows: T[], columns: Column<T>[], order: Order | null): T[] {
  const by = order && columns[order.column]?.sort;
  if (!by) return rows;
  const direction = order.down ? -1 : 1;
  const compare = (a: string | number, b: string | number) =>
    typeof a === 'number' && typeof b === 'number'
      ? a - b
      : String(a).localeCompare(String(b), undefined, { numeric: true });
  return [...rows].sort((a, b) => direction * compare(by(a), by(b)));
}

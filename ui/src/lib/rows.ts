/**
 * Tables by columns, as the server sends them (crates/view/src/columns.rs), as the rows that docs/reference/json.md
 * describes. A row is no more than its number: its values are looked up when they are asked for, so that 100,000 rows
 * are made in a moment.
 */

/** Values of one column. */
type Column = { all: unknown } | { of: unknown[] } | { words: string[]; at: (number | null)[] };
interface Table {
  rows: number;
  columns: Record<string, Column>;
}
type Get = (at: number) => unknown;

function getter(column: Column): Get {
  if ("all" in column) return () => column.all;
  if ("of" in column) return (at) => column.of[at];
  const { words } = column;
  return (at) => {
    const word = column.at[at];
    return word == null ? null : words[word];
  };
}

/** The rows of a table. */
export function rows(table: Table): object[] {
  const plain: [string, Get][] = [];
  const nested = new Map<string, [string, Get][]>();
  for (const [name, column] of Object.entries(table.columns)) {
    const dot = name.indexOf(".");
    if (dot < 0) plain.push([name, getter(column)]);
    else {
      const outer = name.slice(0, dot);
      nested.set(outer, [...(nested.get(outer) ?? []), [name.slice(dot + 1), getter(column)]]);
    }
  }
  const row = class {
    constructor(readonly at_row: number) {}
  };
  const define = (name: string, get: Get) =>
    Object.defineProperty(row.prototype, name, {
      get(this: { at_row: number }) {
        return get(this.at_row);
      },
      enumerable: true,
    });
  for (const [name, get] of plain) define(name, get);
  for (const [name, parts] of nested) {
    define(name, (at) => {
      const values = parts.map(([part, get]): [string, unknown] => [part, get(at)]);
      // What is exact has no interval.
      return Object.fromEntries(name === "intervals" ? values.filter(([, value]) => value !== null) : values);
    });
  }
  return Array.from({ length: table.rows }, (_, at) => new row(at));
}

/** A document by columns: its tables apart. */
export interface Sent {
  tables?: Record<string, Table>;
}

/** A document whose tables stand where docs/reference/json.md has them. */
export function document(sent: Sent): unknown {
  const { tables = {}, ...rest } = sent;
  return { ...rest, ...Object.fromEntries(Object.entries(tables).map(([name, table]) => [name, rows(table)])) };
}

/** Columns that several tables have: the figures of accesses, under the names and helps of the metrics. */
import type { Column } from "../components/Table.svelte";
import { bytes, count, exact, interval, node, percent, place, unit, type Place } from "./format";
import { METRICS } from "./generated";
import { link } from "./place.svelte";
import { toPlace } from "./ways";

/** What every row of accesses has. */
export interface Accesses {
  accesses: number;
  share: number | null;
  remote_share: number | null;
  unpinned_share: number | null;
  reads: number;
  writes: number;
  classes: object;
  intervals?: object;
}

type Row = Accesses & { [key: string]: unknown };
type Intervals = { intervals?: Record<string, number[]> };

/** A column of a metric. */
export function metric<R>(key: string, value: (row: R) => number | null, text: (n: number | null) => string = count): Column<R> {
  return {
    key,
    title: METRICS[key]?.title ?? key,
    help: METRICS[key] ? `${METRICS[key].help} (${unit(METRICS[key].unit)})` : key,
    numeric: true,
    value,
    text: (row) => text(value(row)),
    tip: (row) => {
      const n = value(row);
      const figure = text === percent ? (n == null ? "not known" : `${n} %`) : text === bytes ? `${exact(n)} bytes` : exact(n);
      return [figure, interval(row as Intervals, key, text === percent ? percent : exact)].filter(Boolean).join("\n");
    },
  };
}

/** Accesses, shares, classes. */
export function accesses<R extends Accesses>(): Column<R>[] {
  return [
    metric<R>("accesses", (row) => row.accesses),
    { ...metric<R>("share", (row) => row.share, percent) },
    { ...metric<R>("remote_share", (row) => row.remote_share, percent), bar: (row) => row.remote_share, traffic: () => "remote" },
    { ...metric<R>("unpinned_share", (row) => row.unpinned_share, percent) },
    {
      key: "classes",
      title: "classes",
      help: "accesses by class; exact counts on hover",
      value: (row) => row.classes,
      classes: (row) => row.classes as Record<string, number>,
      width: 1.4,
    },
  ];
}

/** Reads and writes. */
export function readsWrites<R extends Accesses>(): Column<R>[] {
  return [metric<R>("reads", (row) => row.reads), metric<R>("writes", (row) => row.writes)];
}

/** A column of counts by node. */
export function byNode<R>(key: string, title: string, list: (row: R) => { node: number | null }[], count_of: string, none: string, show: (n: number) => string = count): Column<R> {
  const words = (row: R, show: (n: number) => string, between: string) =>
    list(row).map((entry) => `${node(entry.node, none)}: ${show((entry as Record<string, number | null>)[count_of] ?? 0)}`).join(between);
  return { key, title, value: (row) => words(row, exact, ", "), text: (row) => words(row, show, ", "), tip: (row) => words(row, exact, "\n"), width: 2 };
}

/** A place in the program, which leads to its source. */
export function placed<R>(key: string, title: string, at: (row: R) => Place | null | undefined, width = 2.6): Column<R> {
  return {
    key,
    title,
    width,
    mono: true,
    value: (row) => place(at(row)),
    tip: (row) => {
      const p = at(row);
      return p ? [p.function, p.file ? `${p.file}${p.line == null ? "" : `:${p.line}`}` : "", p.module ?? ""].filter(Boolean).join("\n") : "";
    },
    href: (row) => {
      const p = at(row);
      return p?.file ? link(toPlace(p)) : null;
    },
  };
}

export type { Row };

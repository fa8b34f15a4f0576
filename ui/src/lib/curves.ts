/** Curves over time from the report's series and rows. */
import type { Curve } from "../components/chart";
import { CLASSES, nodeColor } from "./colors";
import { METRICS, type Report } from "./generated";

type Series = NonNullable<Report["timeline"]>;

/** A named list of a series. */
export function values(series: Series | undefined, name: string): number[] {
  return (series as unknown as Record<string, number[]> | undefined)?.[name] ?? [];
}

/** Classes that occur. */
export function byClass(series: Series | undefined): Curve[] {
  return CLASSES.map(({ name, color }) => ({ name: METRICS[name]?.title ?? name, color, values: values(series, name) })).filter((curve) =>
    curve.values.some((n) => n > 0),
  );
}

/** The bin under a place in time, of beginnings of bins: the last that begins before it, not the nearest. */
export function binAt(times: readonly number[], nearest: number, time: number): number {
  const at = (times[nearest] ?? -Infinity) > time ? nearest - 1 : nearest;
  return Math.max(0, Math.min(times.length - 1, at));
}

/** A figure of every node that has any. `none` is what having no node is called. */
export function byNode(report: Report | null, key: "served" | "made" | "placed", none: string): Curve[] {
  const series = report?.timeline;
  const curves = new Map<number | null, number[]>();
  for (const row of report?.node_timeline ?? []) {
    let curve = curves.get(row.node);
    if (!curve) curves.set(row.node, (curve = new Array<number>(series?.time_s.length ?? 0).fill(0)));
    const index = Math.round(row.time_s / (series?.bin_s || 1));
    if (index < curve.length) curve[index] = row[key];
  }
  return [...curves]
    .sort(([a], [b]) => (a ?? Infinity) - (b ?? Infinity))
    .map(([node, values]) => ({ name: node === null ? none : `node ${node}`, color: nodeColor(node), values }))
    .filter((curve) => curve.values.some((n) => n > 0));
}

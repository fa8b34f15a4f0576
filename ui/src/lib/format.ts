/** Figures for people. Nothing is computed here: what a figure is, the report says. */

const SI = ["", " k", " M", " G", " T", " P", " E"];
const BINARY = [" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"];

function scaled(n: number, base: number, units: string[]): string {
  let unit = 0;
  let value = n;
  while (Math.abs(value) >= base && unit < units.length - 1) {
    value /= base;
    unit += 1;
  }
  const digits = unit === 0 ? 0 : Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return `${value.toFixed(digits)}${units[unit]}`;
}

/** `1.69 G`. */
export function count(n: number | null | undefined): string {
  return n == null ? "" : scaled(n, 1000, SI);
}

// Made once: it takes longer than what it formats.
const GROUPED = new Intl.NumberFormat("en-US");

/** All digits, in groups. */
export function exact(n: number | null | undefined): string {
  return n == null ? "" : GROUPED.format(n);
}

/** `1 page`, `4,096 pages`. */
export function counted(n: number, one: string): string {
  return `${exact(n)} ${one}${n === 1 ? "" : "s"}`;
}

/** `64.0 MiB`. */
export function bytes(n: number | null | undefined): string {
  return n == null ? "" : scaled(n, 1024, BINARY);
}

/** `74.6 %`; what rounds to nothing and is something says so. */
export function percent(x: number | null | undefined): string {
  if (x == null) return "";
  if (x > 0 && x < 0.05) return "<0.1 %";
  return `${x.toFixed(1)} %`;
}

/** `1.20 s`, `3.4 ms`. */
export function seconds(s: number | null | undefined): string {
  if (s == null) return "";
  if (s !== 0 && Math.abs(s) < 1e-3) return `${(s * 1e6).toFixed(1)} us`;
  if (s !== 0 && Math.abs(s) < 1) return `${(s * 1e3).toFixed(1)} ms`;
  return `${s.toFixed(2)} s`;
}

/** A metric's unit in words; `meta`: of the recording that it is of. */
export function unit(name: string, meta?: { unit: string | null; engine: string | null }): string {
  const is_time = meta?.unit?.startsWith("time") ?? false;
  if (name.startsWith("recorded unit")) {
    const counted = meta ? (is_time ? "samples" : "accesses") : "accesses, or samples of time";
    return name.replace("recorded unit", counted).replaceAll(" * ", " times ");
  }
  if (name.startsWith("instructions")) return meta === undefined ? "instructions, or samples of time" : meta.engine === "exact" ? "instructions" : "samples";
  return name;
}

/** The last part of a path. */
export function base(path: string | null | undefined): string {
  return path ? (path.split("/").pop() ?? path) : "";
}

export interface Place {
  file: string | null;
  line: number | null;
  function: string;
  module: string | null;
}

/** `app.c:12 main`. */
export function place(at: Place | null | undefined): string {
  if (!at) return "";
  if (at.file) return `${base(at.file)}${at.line == null ? "" : `:${at.line}`} ${at.function}`;
  return at.module && !at.function.startsWith(at.module) ? `${at.function} (${at.module})` : at.function;
}

/** A node, or what it is called not to have one. */
export function node(id: number | string | null, none = "unpinned"): string {
  return id === null ? none : typeof id === "number" ? `node ${id}` : id;
}

/** The 95 % interval of an estimate, in words; empty where the figure is exact. */
export function interval(row: { intervals?: Record<string, number[]> }, key: string, of: (n: number) => string): string {
  const bounds = row.intervals?.[key];
  return bounds && bounds.length === 2 ? `95 %: ${of(bounds[0] ?? 0)} to ${of(bounds[1] ?? 0)}` : "";
}

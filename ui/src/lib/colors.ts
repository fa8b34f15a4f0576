/**
 * Colours that people with any colour vision can tell apart: Okabe and Ito's set for classes and nodes, cividis for
 * quantities, and one scale for traffic: blue is local, orange remote, the stronger the larger the share.
 */
import { interpolateCividis } from "d3-scale-chromatic";

/** Access classes, in the order of bars. */
export const CLASSES: readonly { name: string; color: string }[] = [
  { name: "local", color: "#0072b2" },
  { name: "remote", color: "#d55e00" },
  { name: "unpinned_page", color: "#cc79a7" },
  { name: "unpinned_thread", color: "#e69f00" },
  { name: "unpinned_both", color: "#8f6bb3" },
  { name: "memory_tier_local", color: "#56b4e9" },
  { name: "memory_tier_remote", color: "#a63d40" },
  { name: "unplaced", color: "#999999" },
];

const NODES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8f6bb3", "#b8a900"];

/** A node's colour; beyond eight they repeat, lighter. None: grey. */
export function nodeColor(node: number | null): string {
  if (node === null) return "#999999";
  const color = NODES[node % NODES.length] ?? "#999999";
  if (node < NODES.length) return color;
  // As numbers: programs that read a kept SVG know no mixtures.
  const parts = [1, 3, 5].map((at) => Math.round(parseInt(color.slice(at, at + 2), 16) * 0.55 + 255 * 0.45));
  return `rgb(${parts.join(", ")})`;
}

/** What a figure of traffic is about: within a node, between nodes, or of threads or pages that belong to none. */
export type Traffic = "local" | "remote" | "none";
const TRAFFIC: Record<Traffic, readonly [number, number, number]> = { local: [0, 114, 178], remote: [213, 94, 0], none: [128, 128, 128] };
/** Percent below which nothing is filled. `crates/view/src/colors.rs` has the same scale. */
const LEAST = 1;

/** How strong a share in percent is, from 0 to 1; none: it is not filled. */
export function strength(percent: number): number | null {
  return percent < LEAST ? null : 0.12 + 0.88 * Math.sqrt(Math.min(100, percent) / 100);
}

/** The colour of a share of traffic on the page's ground. In numbers: programs that read a kept SVG mix no colours. */
export function trafficColor(kind: Traffic, percent: number, on_dark: boolean): string | null {
  const x = strength(percent);
  if (x === null) return null;
  const ground = on_dark ? [28, 32, 39] : [255, 255, 255];
  const parts = TRAFFIC[kind].map((full, at) => Math.round((ground[at] ?? 0) * (1 - x) + full * x));
  return `rgb(${parts.join(", ")})`;
}

const INKS = ["#10131a", "#f4f6fa"] as const;

/** The colour of text on it: the one that can be read better. */
export function inkOn(kind: Traffic, percent: number, on_dark: boolean): string {
  const filled = trafficColor(kind, percent, on_dark);
  if (filled === null) return on_dark ? INKS[1] : INKS[0];
  const [r = 0, g = 0, b = 0] = (filled.match(/\d+/g) ?? []).map((part) => {
    const x = Number(part) / 255;
    return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  });
  // Where the contrasts of black and white are equal.
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? INKS[0] : INKS[1];
}

/** A quantity between 0 and 1: little of it is near the background, dark or light. */
export function heat(x: number, on_dark: boolean): string {
  const level = Math.max(0, Math.min(1, x));
  return interpolateCividis(on_dark ? level : 1 - level);
}

/** What is not remote, on the same scale: strong enough to be seen, weak enough not to be looked at first. */
const NOT_REMOTE = 20;

/** Of what traffic something is that is so much remote, in percent, and how much of it. Not known: of none. */
export function ofRemote(percent: number | null | undefined): [Traffic, number] {
  if (percent == null) return ["none", NOT_REMOTE];
  return strength(percent) === null ? ["local", NOT_REMOTE] : ["remote", percent];
}

/** The share of accesses that is remote, in percent, as a colour. */
export function remoteColor(percent: number | null | undefined, on_dark: boolean): string {
  return trafficColor(...ofRemote(percent), on_dark) ?? "";
}

/** Files that the user keeps: tables as CSV, plots as PNG or SVG. They are made here and go through no server. */

import type { Pen } from "./canvas";
import { SvgPen } from "./svg";
import { inks } from "./theme.svelte";

function save(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A field of CSV: quoted where it must be; what a spreadsheet would take for a formula is made text. */
export function field(value: unknown): string {
  const text = value == null ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** A table as CSV. */
export function csv(header: string[], rows: unknown[][]): string {
  return [header, ...rows].map((row) => row.map(field).join(",")).join("\n") + "\n";
}

export function saveCsv(name: string, header: string[], rows: unknown[][]): void {
  save(`${name}.csv`, new Blob([csv(header, rows)], { type: "text/csv" }));
}

/** A drawing as it looks on the page: on the page's background, as light text on nothing is no picture. */
export function savePng(name: string, canvas: HTMLCanvasElement): void {
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const context = copy.getContext("2d");
  if (!context) return;
  context.fillStyle = inks(canvas, ["panel"]).panel;
  context.fillRect(0, 0, copy.width, copy.height);
  context.drawImage(canvas, 0, 0);
  copy.toBlob((blob) => blob && save(`${name}.png`, blob));
}

/** The same drawing as SVG: drawn once more, with a pen that writes. */
export function saveDrawing(name: string, canvas: HTMLElement, width: number, height: number, paint: (pen: Pen) => void): void {
  const pen = new SvgPen();
  paint(pen);
  save(`${name}.svg`, new Blob([pen.document(width, height, inks(canvas, ["panel"]).panel)], { type: "image/svg+xml" }));
}

/** An SVG with the colours that the page's style gives it. */
export function saveSvg(name: string, svg: SVGSVGElement): void {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = [svg, ...svg.querySelectorAll<SVGElement>("*")];
  const to = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  from.forEach((element, index) => {
    const style = getComputedStyle(element);
    for (const name of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family", "opacity", "text-anchor"]) {
      to[index]?.setAttribute(name, style.getPropertyValue(name));
    }
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  save(`${name}.svg`, new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" }));
}

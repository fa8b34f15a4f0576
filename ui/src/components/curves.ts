/** Curves as SVG: the same steps, bands and names as on the page, drawn from the same values. */
import { scaleLinear } from "d3-scale";
import { bytes } from "../lib/format";
import type { Pen } from "../lib/canvas";
import type { Drawing } from "./chart";

const PAD = { left: 64, right: 12, top: 12, bottom: 46 };

/** Draws with a pen; `width` and `height` are of the whole picture. */
export function paint(pen: Pen, drawing: Drawing, width: number, height: number): void {
  const { times, curves, bin, stacked, show, ink, bands } = drawing;
  const end = (times.at(-1) ?? 0) + (bin || 1);
  const sums = times.map((_, at) => curves.reduce((sum, curve) => sum + (curve.values[at] ?? 0), 0));
  const most = Math.max(0, ...(stacked ? sums : curves.flatMap((curve) => curve.values)));
  const x = scaleLinear().domain([times[0] ?? 0, end]).range([PAD.left, width - PAD.right]);
  const y = scaleLinear().domain([0, most > 0 ? most * 1.05 : 1]).range([height - PAD.bottom, PAD.top]);
  const line = (x0: number, y0: number, x1: number, y1: number) => {
    pen.beginPath();
    pen.moveTo(x0, y0);
    pen.lineTo(x1, y1);
    pen.stroke();
  };
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.lineWidth = 1;
  pen.strokeStyle = ink.line;
  pen.fillStyle = ink.text;
  pen.textAlign = "right";
  // Bytes are told in powers of two.
  const step = 2 ** Math.ceil(Math.log2(Math.max(1, y.domain()[1] ?? 1) / 5));
  const levels = show === bytes ? Array.from({ length: Math.floor((y.domain()[1] ?? 0) / step) + 1 }, (_, at) => at * step) : y.ticks(4);
  for (const tick of levels) {
    line(PAD.left, y(tick), width - PAD.right, y(tick));
    pen.fillText(show(tick), PAD.left - 6, y(tick));
  }
  pen.textAlign = "center";
  for (const tick of x.ticks(8)) pen.fillText(`${Number(tick.toPrecision(6))} s`, x(tick), height - PAD.bottom + 10);
  const base = times.map(() => 0);
  for (const { color, values } of curves) {
    const top = times.map((_, at) => (values[at] ?? 0) + (stacked ? (base[at] ?? 0) : 0));
    pen.beginPath();
    times.forEach((time, at) => {
      const [from, to, level] = [x(time), x(times[at + 1] ?? end), y(top[at] ?? 0)];
      if (at === 0) pen.moveTo(from, level);
      else pen.lineTo(from, level);
      pen.lineTo(to, level);
    });
    if (stacked) {
      for (let at = times.length - 1; at >= 0; at -= 1) {
        pen.lineTo(x(times[at + 1] ?? end), y(base[at] ?? 0));
        pen.lineTo(x(times[at] ?? 0), y(base[at] ?? 0));
      }
      pen.fillStyle = color;
      pen.fill();
      top.forEach((level, at) => (base[at] = level));
    } else {
      pen.lineWidth = 1.5;
      pen.strokeStyle = color;
      pen.stroke();
    }
  }
  pen.textAlign = "left";
  bands.forEach((band, index) => {
    const [from, to] = [x(Math.max(x.domain()[0] ?? 0, band.from)), x(Math.min(end, band.to))];
    pen.globalAlpha = index % 2 ? 0.12 : 0.22;
    pen.fillStyle = "#808080";
    pen.fillRect(from, PAD.top, Math.max(1, to - from), height - PAD.top - PAD.bottom);
    pen.globalAlpha = 1;
    pen.fillStyle = ink.text;
    pen.fillRect(from, PAD.top, 1, height - PAD.top - PAD.bottom);
    pen.globalAlpha = 0.8;
    pen.fillStyle = ink.ground;
    pen.fillRect(from + 1, PAD.top + 1, band.name.length * 6.2 + 6, 14);
    pen.globalAlpha = 1;
    pen.fillStyle = ink.text;
    pen.fillText(band.name, from + 4, PAD.top + 8);
  });
  let at = PAD.left;
  for (const { name, color } of curves) {
    pen.fillStyle = color;
    pen.fillRect(at, height - 18, 10, 10);
    pen.fillStyle = ink.text;
    pen.fillText(name, at + 14, height - 13);
    // No canvas measures here: letters of this size are about so wide.
    at += 28 + name.length * 6.2;
  }
}

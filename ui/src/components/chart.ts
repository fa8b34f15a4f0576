/** Curves over time, stacked. Loaded when they are shown. */
import uPlot from "uplot";
import { binAt } from "../lib/curves";
import { bytes, seconds } from "../lib/format";
import "uplot/dist/uPlot.min.css";

export interface Curve {
  name: string;
  color: string;
  values: number[];
}

export interface Drawing {
  times: number[];
  curves: Curve[];
  bin: number;
  stacked: boolean;
  show: (n: number) => string;
  ink: { text: string; line: string; ground: string };
  /** Seconds, of the span that is looked at. */
  span: [number, number] | null;
  bands: { name: string; from: number; to: number }[];
  onspan: (from: number, to: number) => void;
}

/** Bytes are told in powers of two. */
const POWERS = Array.from({ length: 60 }, (_, power) => 2 ** power);

/** Draws into an element; the answer is the plot. */
export function draw(parent: HTMLElement, drawing: Drawing, width: number, height: number): uPlot {
  const { times, curves, bin, stacked, show, ink, span, bands, onspan } = drawing;
  // A bin lasts until the next: the last needs an end.
  const xs = times.length > 0 ? [...times, (times.at(-1) ?? 0) + bin] : [0, bin || 1];
  const ys = curves.map((curve) => [...curve.values, curve.values.at(-1) ?? 0]);
  const tops = ys.map((values, index) => (stacked ? values.map((_, at) => ys.slice(0, index + 1).reduce((sum, v) => sum + (v[at] ?? 0), 0)) : values));
  const order = curves.map((_, index) => index);
  // What is on top of the stack is drawn first, and the others over it.
  if (stacked) order.reverse();
  const stepped = uPlot.paths.stepped?.({ align: 1 });
  const series: uPlot.Series[] = [
    { label: "time", value: (_, x) => (x == null ? `steps of ${seconds(bin)}` : `${x.toFixed(4)} s`) },
    ...order.map((index) => ({
      label: curves[index]?.name ?? "",
      stroke: curves[index]?.color ?? "grey",
      width: stacked ? 0 : 1.5,
      ...(stacked ? { fill: curves[index]?.color ?? "grey" } : {}),
      ...(stepped ? { paths: stepped } : {}),
      points: { show: false },
      value: (_: uPlot, __: number, ___: number, at: number | null) => (at == null ? "" : show(ys[index]?.[at] ?? 0)),
    })),
  ];
  const axis = { stroke: ink.text, grid: { stroke: ink.line, width: 1 }, ticks: { stroke: ink.line, width: 1 }, font: "11px system-ui" };
  const mark = (plot: uPlot) => {
    const { ctx } = plot;
    const { top, height } = plot.bbox;
    ctx.save();
    ctx.textAlign = "left";
    let labelled = -Infinity;
    bands.forEach((band, index) => {
      const [from, to] = [plot.valToPos(band.from, "x", true), plot.valToPos(band.to, "x", true)];
      // Two shades in turn, and a line where a band begins: neighbours are told apart.
      ctx.fillStyle = `rgb(128 128 128 / ${index % 2 ? 12 : 22}%)`;
      ctx.fillRect(from, top, Math.max(1, to - from), height);
      ctx.fillStyle = ink.text;
      ctx.fillRect(from, top, 1, height);
      // A name where there is room for it.
      const width = ctx.measureText(band.name).width + 8;
      if (from < labelled) return;
      labelled = from + width;
      // On what is drawn there it could not be read.
      ctx.globalAlpha = 0.8;
      ctx.fillStyle = ink.ground;
      ctx.fillRect(from + 1, top + 2, width, 14 * devicePixelRatio);
      ctx.globalAlpha = 1;
      ctx.fillStyle = ink.text;
      ctx.fillText(band.name, from + 4, top + 12 * devicePixelRatio);
    });
    if (span) {
      const [from, to] = [plot.valToPos(span[0], "x", true), plot.valToPos(span[1], "x", true)];
      ctx.fillStyle = "rgb(80 140 220 / 22%)";
      ctx.fillRect(from, top, to - from, height);
    }
    ctx.restore();
  };
  return new uPlot(
    {
      width,
      height,
      series,
      legend: { live: true },
      scales: { x: { time: false }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.05 : 1] } },
      axes: [
        { ...axis, size: 30, values: (_, ticks) => ticks.map((tick) => `${Number(tick.toPrecision(6))} s`) },
        { ...axis, size: 64, values: (_, ticks) => ticks.map(show), ...(show === bytes ? { incrs: POWERS } : {}) },
      ],
      cursor: {
        drag: { x: true, y: false, setScale: false },
        points: { show: false },
        // A bar begins at its bin's time: on its right half the next one's beginning is nearer.
        dataIdx: (_, __, nearest, time) => binAt(times, nearest, time),
      },
      hooks: {
        draw: [mark],
        setSelect: [
          (plot) => {
            if (plot.select.width < 3) return;
            onspan(Math.max(0, plot.posToVal(plot.select.left, "x")), plot.posToVal(plot.select.left + plot.select.width, "x"));
            plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          },
        ],
      },
    },
    [xs, ...order.map((index) => tops[index] ?? [])],
    parent,
  );
}

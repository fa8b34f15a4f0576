/** A pen that writes SVG: the same strokes as on the canvas, as text. Only what drawings here use. */
import type { Pen } from "./canvas";

const escape = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");
/** Hundredths of a pixel are enough. */
const short = (n: number) => String(Math.round(n * 100) / 100);
const ANCHORS: Record<string, string> = { center: "middle", right: "end", end: "end" };

export class SvgPen implements Pen {
  fillStyle: Pen["fillStyle"] = "#000";
  strokeStyle: Pen["strokeStyle"] = "#000";
  lineWidth = 1;
  globalAlpha = 1;
  font = "11px sans-serif";
  textAlign: CanvasTextAlign = "left";
  textBaseline: CanvasTextBaseline = "alphabetic";
  private readonly parts: string[] = [];
  private path: string[] = [];
  private clips = 0;
  /** Groups that are open since each `save`. */
  private readonly open: number[] = [];

  /** What was drawn, on a background. */
  document(width: number, height: number, background: string): string {
    const size = `width="${short(width)}" height="${short(height)}" viewBox="0 0 ${short(width)} ${short(height)}"`;
    return `<svg xmlns="http://www.w3.org/2000/svg" ${size}><rect width="100%" height="100%" fill="${escape(background)}"/>${this.parts.join("")}</svg>`;
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    this.parts.push(`<rect ${this.box(x, y, width, height)} ${this.filled()}/>`);
  }
  strokeRect(x: number, y: number, width: number, height: number): void {
    this.parts.push(`<rect ${this.box(x, y, width, height)} ${this.stroked()}/>`);
  }
  fillText(text: string, x: number, y: number): void {
    const [size = "11px", family = "sans-serif"] = /^(\S+)\s+(.*)$/.exec(this.font)?.slice(1) ?? [];
    const anchor = ANCHORS[this.textAlign] ?? "start";
    const baseline = this.textBaseline === "middle" ? ' dominant-baseline="central"' : "";
    const font = `font-size="${escape(size)}" font-family="${escape(family)}" text-anchor="${anchor}"${baseline}`;
    this.parts.push(`<text x="${short(x)}" y="${short(y)}" ${font} ${this.filled()}>${escape(text)}</text>`);
  }
  beginPath(): void {
    this.path = [];
  }
  moveTo(x: number, y: number): void {
    this.path.push(`M${short(x)},${short(y)}`);
  }
  lineTo(x: number, y: number): void {
    this.path.push(`L${short(x)},${short(y)}`);
  }
  /** Whole circles. */
  arc(x: number, y: number, radius: number): void {
    const [r, left, right] = [short(radius), short(x - radius), short(x + radius)];
    this.path.push(`M${left},${short(y)}A${r},${r} 0 1 1 ${right},${short(y)}A${r},${r} 0 1 1 ${left},${short(y)}Z`);
  }
  rect(x: number, y: number, width: number, height: number): void {
    this.path.push(`M${short(x)},${short(y)}H${short(x + width)}V${short(y + height)}H${short(x)}Z`);
  }
  /** What follows is seen only within the path, until `restore`. */
  clip(): void {
    this.clips += 1;
    this.parts.push(`<clipPath id="c${this.clips}"><path d="${this.path.join("")}"/></clipPath><g clip-path="url(#c${this.clips})">`);
    const last = this.open.length - 1;
    if (last >= 0) this.open[last] = (this.open[last] ?? 0) + 1;
  }
  fill(): void {
    this.parts.push(`<path d="${this.path.join("")}" ${this.filled()}/>`);
  }
  stroke(): void {
    this.parts.push(`<path d="${this.path.join("")}" ${this.stroked()}/>`);
  }
  save(): void {
    this.open.push(0);
  }
  restore(): void {
    this.parts.push("</g>".repeat(this.open.pop() ?? 0));
  }

  private box(x: number, y: number, width: number, height: number): string {
    return `x="${short(x)}" y="${short(y)}" width="${short(Math.max(0, width))}" height="${short(Math.max(0, height))}"`;
  }
  private alpha(): string {
    return this.globalAlpha < 1 ? ` opacity="${short(this.globalAlpha)}"` : "";
  }
  private filled(): string {
    return `fill="${escape(String(this.fillStyle))}"${this.alpha()}`;
  }
  private stroked(): string {
    return `fill="none" stroke="${escape(String(this.strokeStyle))}" stroke-width="${short(this.lineWidth)}"${this.alpha()}`;
  }
}

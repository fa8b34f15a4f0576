/** Gives a canvas the size of its picture, as sharp as the screen, empty; the context counts in the page's pixels. */
export function sized(canvas: HTMLCanvasElement | undefined, width: number, height: number): CanvasRenderingContext2D | null {
  const context = canvas?.getContext("2d") ?? null;
  if (!canvas || !context) return null;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  context.scale(ratio, ratio);
  return context;
}

/** What drawings are made with: a canvas on the page, or an SVG that is kept. */
export type Pen = Pick<
  CanvasRenderingContext2D,
  | "fillStyle"
  | "strokeStyle"
  | "lineWidth"
  | "globalAlpha"
  | "font"
  | "textAlign"
  | "textBaseline"
  | "fillRect"
  | "strokeRect"
  | "fillText"
  | "beginPath"
  | "moveTo"
  | "lineTo"
  | "arc"
  | "rect"
  | "clip"
  | "fill"
  | "stroke"
  | "save"
  | "restore"
>;

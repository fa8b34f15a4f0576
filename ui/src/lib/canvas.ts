/** Gives a canvas the size of its picture, as sharp as the screen is, empty; the context counts in the page's pixels. */
export function sized(canvas: HTMLCanvasElement | undefined, width: number, height: number): CanvasRenderingContext2D | null {
  const context = canvas?.getContext("2d") ?? null;
  if (!canvas || !context) return null;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  context.scale(ratio, ratio);
  return context;
}

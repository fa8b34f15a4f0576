import { flushSync, mount, unmount } from "svelte";
import { afterEach, expect, test, vi } from "vitest";
import HeatMap, { type Cells } from "../src/components/HeatMap.svelte";

let shown: ReturnType<typeof mount> | null = null;
afterEach(async () => {
  if (shown) await unmount(shown);
  shown = null;
  document.body.replaceChildren();
});
const cells: Cells = { nodes: [0, 2], rows: [[1, 2], [30_000, 4]], unpinned: [0, 0], unit: "accesses" };
function show(given: Cells, onpick = vi.fn()) {
  shown = mount(HeatMap, { target: document.body, props: { name: "m", cells: given, onpick } });
  flushSync();
  const canvas = document.querySelector("canvas");
  if (!canvas) throw new Error("no canvas");
  const press = (...keys: string[]) => keys.forEach((key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })));
  return { canvas, onpick, press, words: canvas.getAttribute("aria-label") ?? "" };
}

test("every cell is told with all its digits", () => {
  const { words } = show(cells);
  expect(words).toContain("threads on node 2, pages on node 0: 30,000 accesses");
  expect(words).not.toContain("unpinned");
  expect(words.split(";").length).toBe(4);
});

test("unpinned threads and pages without a home stand apart, when there are any", () => {
  const { words } = show({ ...cells, unpinned: [7, 0], homeless: { name: "untouched", rows: [0, 5], unpinned: 0 } });
  expect(words).toContain("unpinned threads, pages on node 0: 7 accesses");
  expect(words).toContain("threads on node 2, untouched: 5 accesses");
  expect(words.split(";").length).toBe(9);
});

test("the arrow keys walk, Enter picks by the nodes' names", () => {
  const { press, onpick } = show(cells);
  press("ArrowRight", "ArrowDown", "Enter");
  press("ArrowRight", "Enter");
  expect(onpick.mock.calls).toEqual([
    [2, 0],
    [2, 2],
  ]);
});

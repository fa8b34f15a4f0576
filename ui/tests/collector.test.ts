import { flushSync, mount, tick, unmount } from "svelte";
import { afterEach, expect, test, vi } from "vitest";
import Collector from "../src/pages/Collector.svelte";

let shown: ReturnType<typeof mount> | null = null;
afterEach(async () => {
  if (shown) await unmount(shown);
  shown = null;
  document.body.replaceChildren();
  window.location.hash = "";
  vi.unstubAllGlobals();
});

const cells = (unit: string) => ({ nodes: [0, 1], rows: [[5, 1], [2, 0]], unpinned: [0, 0], unplaced: { rows: [3, 0], unpinned: 0 }, unit });
const meta = { unit: "accesses", engine: "exact" };
const collections = (pids: number[]) => ({
  rows: 2,
  columns: {
    kind: { of: ["generation 0", "generation 1"] },
    pid: { of: pids },
    node: { of: [0, null] },
    collections: { of: [3, 1] },
    pause_s: { of: [0.5, 0.25] },
    longest_s: { of: [0.2, 0.25] },
    helped: { of: [2, 0] },
    helped_s: { of: [0.1, 0] },
  },
});
const processed = { rows: 2, columns: { area: { of: ["static", "older generations"] }, processed: { of: [11, 11] }, local_processed: { of: [45.4545, 45.4545] } } };

/** The page with what the server sends. Each has a filter of its own, as answers are kept. */
async function show(thread: number, sent: object): Promise<string> {
  window.location.hash = `thread=${thread}`;
  window.dispatchEvent(new Event("hashchange"));
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ meta, machine: [], doubts: {}, omitted: {}, ...sent })));
  shown = mount(Collector, { target: document.body });
  flushSync();
  await vi.waitFor(() => expect(document.querySelector('[aria-busy="true"]')).toBeNull());
  await tick();
  return (document.body.textContent ?? "").replace(/\s+/g, " ");
}
const maps = () => [...document.querySelectorAll("canvas")].map((map) => map.dataset["test"]);
const headings = () => [...document.querySelectorAll("[role=columnheader]")].map((heading) => heading.textContent);

test("the figures, the table, and a map for each area that is there", async () => {
  const words = await show(1, {
    collector: { collections: 4, pause_s: 0.75, longest_s: 0.25, accesses: 11, share: 12.5, remote_share: 27.2727 },
    matrix: { collector: cells("recorded unit"), processed_static: cells("objects"), processed_older: cells("objects") },
    tables: { collections: collections([7, 7]), processed },
  });
  expect(words).toContain("4 collections, 750.0 ms in all, the longest 250.0 ms.");
  expect(words).toContain("11 accesses within collections are 12.5 % of all; 27.3 % of them are remote.");
  expect(maps()).toEqual(["heat-collector", "heat-processed_static", "heat-processed_older"]);
  expect(words).toContain("objects processed: older generations");
  expect(words).toContain("45.5 % of 11 lie on the thread's own node.");
  expect(document.querySelector("[data-test=heat-processed_static]")?.getAttribute("aria-label")).toContain("collecting on node 0, unplaced: 3 objects");
  expect(headings()).toEqual(["kind", "node", "collections", "time", "longest", "helped", "time of helpers"]);
});

test("processes stand apart where several collect", async () => {
  await show(2, {
    collector: { collections: 4, pause_s: 0.75, longest_s: 0.25, accesses: 0, share: 0, remote_share: 0 },
    matrix: { collector: cells("recorded unit") },
    tables: { collections: collections([7, 8]), processed: { rows: 0, columns: {} } },
  });
  expect(headings()).toContain("pid");
  expect(document.querySelector("[data-test=collector]")?.textContent).toContain("No accesses within collections pass the filter.");
});

test("where nothing was seen it says so, with the reason", async () => {
  const words = await show(3, {
    collector: { collections: 0, pause_s: 0, longest_s: 0, accesses: 0, share: 0, remote_share: 0 },
    matrix: { collector: cells("recorded unit") },
    tables: { collections: { rows: 0, columns: {} }, processed: { rows: 0, columns: {} } },
    doubts: { collector: ["no runtime was seen to collect garbage"] },
  });
  expect(words).toContain("No collections of garbage were seen.");
  expect(words).toContain("no runtime was seen to collect garbage");
  expect(maps()).toEqual([]);
  expect(document.querySelector("[role=table]")).toBeNull();
});

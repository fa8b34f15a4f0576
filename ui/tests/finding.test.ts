import { flushSync, mount, unmount } from "svelte";
import { afterEach, expect, test } from "vitest";
import Finding from "../src/components/Finding.svelte";
import type { FindingsRow } from "../src/lib/generated";

let shown: ReturnType<typeof mount> | null = null;
afterEach(async () => {
  if (shown) await unmount(shown);
  shown = null;
  document.body.replaceChildren();
});

type Member = FindingsRow["members"][number];
const place = (line: number) => ({ file: "/src/grid.cpp", line, function: "Grid::Grid", module: "app" });
const member = (line: number, share: number): Member => ({
  where: place(line),
  object: { kind: "heap", name: `field${line}`, size: 1 << 20, count: 1, site: place(line), via: "Field::allocate", called_from: ["main", "start"] },
  evidence: { share, remote_share: 60 },
});
function show(members: Member[], object = member(10, 40).object) {
  const finding = {
    rank: 1, pattern: "serial-initialisation", remedy: "parallel-initialisation", where: place(10), object, members,
    evidence: { share: 70.5, remote_share: 60 }, gain: { memory_time_percent: 50, low: 20, high: 70 }, in_code: "for (...)", without_code: "numactl",
  };
  shown = mount(Finding, { target: document.body, props: { finding: finding as FindingsRow, open: true } });
  flushSync();
}
const text = (of: string) => document.querySelector(of)?.textContent?.replace(/\s+/g, " ").trim();
const folded = (of: string) => document.querySelector<HTMLDetailsElement>(of)?.open === false;

test("what has the same cause is folded below it, each with its shares", () => {
  show([member(10, 40), member(11, 30.5)]);
  expect(folded("[data-test=members]")).toBe(true);
  expect(text("[data-test=members] summary")).toBe("2 of one cause, 70.5 % of all accesses together");
  const rows = [...document.querySelectorAll("[data-test=member]")].map((row) => [...row.children].map((cell) => cell.textContent?.trim()));
  expect(rows).toEqual([
    ["grid.cpp:10 Grid::Grid", "heap field10 1.00 MiB", "40.0 %", "60.0 %"],
    ["grid.cpp:11 Grid::Grid", "heap field11 1.00 MiB", "30.5 %", "60.0 %"],
  ]);
});

test("a cause of many is told in part, and how many there are", () => {
  show(Array.from({ length: 128 }, (_, line) => member(line, 0.5)));
  expect(document.querySelectorAll("[data-test=member]").length).toBe(100);
  expect(text("[data-test=members]")).toContain("and 28 more");
});

test("who allocates for whom is folded; nothing stands there where nothing is known", () => {
  show([]);
  expect(folded("[data-test=callers]")).toBe(true);
  expect(text("[data-test=callers] summary")).toBe("allocated by way of Field::allocate");
  expect(text("[data-test=callers] pre")).toBe("main start");
  expect(document.querySelector("[data-test=members]")).toBeNull();
});

test("an object without a name or callers is told by its kind", () => {
  show([], { kind: "stack", name: "", size: 0, count: 1, site: place(1) });
  expect(text("[data-test=object]")).toBe("stack");
  expect(document.querySelector("[data-test=callers]")).toBeNull();
});

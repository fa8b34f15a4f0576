import { flushSync, mount, unmount } from "svelte";
import { afterEach, expect, test, vi } from "vitest";
import Table, { type Column } from "../src/components/Table.svelte";
import { go } from "../src/lib/place.svelte";

interface Row {
  name: string;
  n: number | null;
}
const columns: Column<Row>[] = [
  { key: "name", title: "name", value: (row) => row.name },
  { key: "n", title: "count", numeric: true, value: (row) => row.n },
];
let shown: ReturnType<typeof mount> | null = null;
afterEach(async () => {
  go({ sort_t: null, find_t: null });
  if (shown) await unmount(shown);
  shown = null;
  document.body.replaceChildren();
});
function show(rows: Row[], onpick?: (row: Row) => void) {
  shown = mount(Table as never, { target: document.body, props: { name: "t", columns, rows, onpick } as never });
  flushSync();
}
const names = () => [...document.querySelectorAll(".line [data-key=name]")].map((cell) => cell.textContent?.trim());
const heading = (title: string) => [...document.querySelectorAll<HTMLButtonElement>("[role=columnheader]")].find((b) => b.textContent?.includes(title));

test("a hundred thousand rows are a few in the document", () => {
  show(Array.from({ length: 100_000 }, (_, index) => ({ name: `row ${index}`, n: index })));
  expect(document.querySelectorAll(".line").length).toBeLessThan(100);
  expect(document.querySelector(".space")?.getAttribute("style")).toContain("2500000px");
});

test("headings sort, what is not known comes last, and a third click restores", () => {
  show([{ name: "a", n: 1 }, { name: "b", n: null }, { name: "c", n: 3 }]);
  heading("count")?.click();
  flushSync();
  expect(names()).toEqual(["c", "a", "b"]);
  expect(window.location.hash).toContain("sort_t=n");
  heading("count")?.click();
  flushSync();
  expect(names()).toEqual(["a", "c", "b"]);
  heading("count")?.click();
  flushSync();
  expect(names()).toEqual(["a", "b", "c"]);
});

test("the search keeps rows that have the words", () => {
  show([{ name: "alpha", n: 1 }, { name: "beta", n: 2 }]);
  const input = document.querySelector<HTMLInputElement>("input[type=search]");
  if (!input) throw new Error("no search");
  input.value = "BET";
  input.dispatchEvent(new Event("input", { bubbles: true }));
  flushSync();
  expect(names()).toEqual(["beta"]);
  expect(window.location.hash).toContain("find_t=BET");
});

test("arrows walk, Enter picks; a click picks", () => {
  const picked = vi.fn();
  show([{ name: "a", n: 1 }, { name: "b", n: 2 }], picked);
  const body = document.querySelector<HTMLElement>("[role=rowgroup]");
  for (const key of ["ArrowDown", "Enter"]) body?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  expect(picked.mock.calls.map(([row]) => row.name)).toEqual(["b"]);
  document.querySelector<HTMLElement>(".line")?.click();
  expect(picked.mock.calls.map(([row]) => row.name)).toEqual(["b", "a"]);
});

test("a cell tells more when the pointer is over it, of the row that stands there by then", () => {
  show([{ name: "a", n: 1 }, { name: "b", n: 2 }]);
  const cell = document.querySelector<HTMLElement>(".line [data-key=name]");
  expect(cell?.title).toBe("");
  const point = () => cell?.firstElementChild?.dispatchEvent(new MouseEvent("mousemove", { bubbles: true }));
  point();
  expect(cell?.title).toBe("a");
  heading("count")?.click();
  flushSync();
  point();
  expect(cell?.title).toBe("b");
});

test("markup in a name stays text", () => {
  show([{ name: "<img src=x onerror=alert(1)>", n: 1 }]);
  expect(document.querySelector("img")).toBeNull();
  expect(names()).toEqual(["<img src=x onerror=alert(1)>"]);
});

test("a bar has the colour of its traffic, and less than a hundredth none", () => {
  const share: Column<Row> = { key: "n", title: "remote", numeric: true, value: (row) => row.n, bar: (row) => row.n, traffic: () => "remote" };
  shown = mount(Table as never, { target: document.body, props: { name: "t", columns: [share], rows: [{ name: "a", n: 100 }, { name: "b", n: 0.5 }] } as never });
  flushSync();
  const bars = [...document.querySelectorAll<HTMLElement>(".line i")];
  expect(bars.map((bar) => [bar.style.width, bar.style.background])).toEqual([["100%", "rgb(213, 94, 0)"]]);
});

test("a heading without room says on hover what it is", () => {
  show([{ name: "a", n: 1 }]);
  expect(heading("count")?.title).toBe("count");
});

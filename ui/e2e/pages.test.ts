/** Pages that need a program of their own: named phases, cache lines that threads share, moved sources and programs. */
import { execFileSync } from "node:child_process";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exact, percent } from "../src/lib/format";
import { folder, json, launch, open, record, ROOT, settled, told, turn, view } from "./support";

/** Two threads write neighbouring counters in phase `together`; nobody does in phase `alone`. */
const PROGRAM = `#include <numalens.h>
#include <pthread.h>
#include <stdio.h>
static struct { volatile long n; } counters[2] __attribute__((aligned(64)));
static void count(int which, long times) {
  for (long i = 0; i < times; i++)
    counters[which].n++;
}
static void *other(void *none) { count(1, 20000); return none; }
int main(void) {
  pthread_t thread;
  numalens_phase_begin("alone");
  count(0, 20000);
  numalens_phase_end("alone");
  numalens_phase_begin("together");
  pthread_create(&thread, 0, other, 0);
  count(0, 20000);
  pthread_join(thread, 0);
  numalens_phase_end("together");
  printf("%ld\\n", counters[0].n + counters[1].n);
}
`;
let browser: Browser;
const files = folder();
const home = join(files.path, "before");
const profile = `${files.path}/lines.numalens`;
beforeAll(async () => {
  browser = await launch();
  mkdirSync(home);
  build("-O1");
  record("exact", profile, join(home, "app"), { options: ["--lines"] });
});
afterAll(async () => {
  await browser.close();
  files.remove();
});

function build(...options: string[]): void {
  writeFileSync(join(home, "app.c"), PROGRAM);
  execFileSync("gcc", ["-g", "-fno-inline", "-pthread", "-Wl,--build-id", ...options, "-I", join(ROOT, "include"), join(home, "app.c"), "-o", join(home, "app")]);
}

test("phases are bands of the timeline, and a click makes one the filter of every page", async () => {
  const shown = await view(profile);
  const { page, wrong } = await open(browser, shown.url);
  await turn(page, "Timeline");
  const wanted = json("report", profile, "--section", "phases").phases;
  expect(wanted.map((phase: any) => phase.name)).toEqual(["alone", "together"]);
  const rows = page.locator("[data-test=table-phases] .line");
  expect(await rows.locator("[data-key=name]").allTextContents().then((names) => names.map((name) => name.trim()))).toEqual(["alone", "together"]);
  expect((await told(rows.nth(1).locator("[data-key=accesses]"))).split("\n")[0]).toBe(exact(wanted[1].accesses));
  expect(await page.locator("[data-test=plot-timeline-classes]").getAttribute("data-bands")).toBe("alone, together");
  await rows.nth(1).locator("[data-key=accesses]").click();
  await page.waitForSelector("[data-test=chip]");
  expect(await page.locator("[data-test=chip]").allInnerTexts().then((all) => all.join())).toContain("phase together");
  expect(page.url()).toContain("phase=together");
  const together = json("report", profile, "--phase", "together", "--section", "summary").summary;
  const everything = json("report", profile, "--section", "summary").summary;
  expect(together.accesses).toBeLessThan(everything.accesses);
  await turn(page, "Overview");
  expect(await page.locator("[data-test=accesses]").getAttribute("data-value")).toBe(String(together.accesses));
  // By its name, from the keyboard alone; a span that is marked by keys takes its place.
  await turn(page, "Timeline");
  await page.keyboard.press("Escape");
  await settled(page);
  await rows.nth(0).locator("[data-key=name] a").press("Enter");
  await page.waitForSelector("[data-test=chip]");
  expect(page.url()).toContain("phase=alone");
  const plot = page.locator("[data-test=plot-timeline-classes]");
  await page.waitForSelector("[data-test=plot-timeline-classes] canvas");
  for (const key of ["Home", "Shift+ArrowRight"]) await plot.press(key);
  expect(await page.locator("[data-test=plot-timeline-classes] + [data-test=said]").textContent()).toMatch(/marked|0\.0000 s/);
  await plot.press("Enter");
  await settled(page);
  expect(page.url()).not.toContain("phase=");
  expect(page.url()).toContain("from_s=0.000000");
  expect(wrong).toEqual([]);
  await page.close();
  await shown.stop();
});

test("cache lines are told as the report tells them", async () => {
  const shown = await view(profile);
  const { page, wrong } = await open(browser, shown.url);
  await turn(page, "Cache lines");
  const said = json("report", profile, "--section", "cache-lines");
  const top = said.cache_lines.findIndex((line: any) => line.objects.some((name: string) => name.includes("counters")));
  expect(top).toBeGreaterThanOrEqual(0);
  const row = page.locator("[data-test=table-cache-lines] .line").nth(top);
  const words: Record<string, string> = { true: "the same words", false: "only the line", read: "read alone" };
  expect((await row.locator("[data-key=sharing]").textContent())?.trim()).toBe(words[said.cache_lines[top].sharing]);
  expect((await told(row.locator("[data-key=false_sharing]"))).split("\n")[0]).toBe(exact(said.cache_lines[top].false_sharing));
  await row.locator("[data-key=address]").click();
  await page.waitForSelector("[data-test=cache-line]");
  expect(await page.locator("[data-test=table-line-users] .line").count()).toBe(said.cache_lines[top].users.length);
  expect(wrong).toEqual([]);
  await page.close();
  await shown.stop();
});

async function source(page: Page, url: string, file: string, line: number): Promise<void> {
  await page.goto(`${url}&page=source&file=${encodeURIComponent(file)}&line=${line}&code=1`);
  await page.reload();
  await settled(page);
}

test("sources and programs that moved are found where the map says, and another build's code is not shown", async () => {
  const line = PROGRAM.split("\n").findIndex((text) => text.includes("counters[which].n++")) + 1;
  const now = join(files.path, "after");
  renameSync(home, now);
  const moved = await view(profile, "--source-map", `${home}=${now}`);
  const first = await open(browser, moved.url);
  await source(first.page, moved.url, join(now, "app.c"), line);
  expect(await first.page.locator("[data-test=source] .cm-line.picked").textContent()).toContain("counters[which].n++");
  expect(await first.page.locator("[data-test=instructions]").first().textContent()).toMatch(/0x[0-9a-f]+/);
  expect(first.wrong).toEqual([]);
  await first.page.close();
  await moved.stop();

  // Where nobody says so, the page says what to do. (The names of the profile are those of the map by now.)
  renameSync(now, home);
  build("-O2");
  const lost = await view(profile, "--source-map", `${now}=${home}`);
  const second = await open(browser, lost.url);
  await source(second.page, lost.url, join(home, "app.c"), line);
  expect(await second.page.locator("[data-test=file]").innerText()).toContain("is another build");
  expect(await second.page.locator("[data-test=instructions]").count()).toBe(0);
  await second.page.close();
  await lost.stop();
  renameSync(home, now);
  const gone = await view(profile);
  const third = await open(browser, gone.url);
  await source(third.page, gone.url, join(home, "app.c"), line);
  expect(await third.page.locator("[data-test=file]").innerText()).toContain("--source-map OLD=NEW");
  await third.page.close();
  await gone.stop();
});

/** Arrays of a class that one thread initialises in its constructor, and four use. */
const FIELDS = `#include <cstdlib>
#include <pthread.h>
enum { N = 1 << 16, FIELDS = 4 };
struct Field {
  volatile double *data;
  __attribute__((noinline)) void allocate() { data = static_cast<double *>(malloc(N * sizeof(double))); }
  __attribute__((noinline)) Field() {
    allocate();
    for (long i = 0; i < N; i++) data[i] = i;
  }
};
struct Grid {
  Field density;
  Field energy;
  Field mass;
  Field charge;
  __attribute__((noinline)) Grid() {
    asm volatile("");
  }
};
static Grid *grid;
static void *work(void *of) {
  long t = reinterpret_cast<long>(of);
  for (int round = 0; round < 20; round++)
    for (int k = 0; k < FIELDS; k++)
      for (long i = t * N / 4; i < (t + 1) * N / 4; i++) (void)(&grid->density)[k].data[i];
  return nullptr;
}
int main() {
  grid = new Grid;
  pthread_t threads[4];
  for (long t = 0; t < 4; t++) pthread_create(&threads[t], nullptr, work, reinterpret_cast<void *>(t));
  for (pthread_t &thread : threads) pthread_join(thread, nullptr);
}
`;

test("what has the same cause is folded below its finding, with its shares and callers", async () => {
  const program = join(files.path, "fields");
  writeFileSync(`${program}.cpp`, FIELDS);
  execFileSync("g++", ["-g", "-O1", "-pthread", `${program}.cpp`, "-o", program]);
  const shown = await view(record("exact", `${program}.numalens`, program));
  const [finding] = json("advise", `${program}.numalens`).findings;
  expect(finding.members.length).toBeGreaterThan(1);
  const { page, wrong } = await open(browser, shown.url);
  const members = page.locator("[data-test=members]").first();
  expect(await members.locator("[data-test=member]").first().isVisible()).toBe(false);
  await members.locator("summary").press("Enter");
  const rows = members.locator("[data-test=member]");
  expect(await rows.count()).toBe(finding.members.length);
  for (const [index, { where, object, evidence }] of finding.members.entries()) {
    const cells = await rows.nth(index).locator("td").allTextContents();
    expect(cells[0]).toContain(`fields.cpp:${where.line}`);
    expect(cells[1]).toContain(object.kind);
    expect(cells.slice(2)).toEqual([percent(evidence.share), percent(evidence.remote_share)]);
  }
  const callers = page.locator("[data-test=callers]").first();
  expect(await callers.locator("summary").textContent()).toContain(finding.object.via ?? finding.object.called_from[0]);
  await callers.locator("summary").press("Enter");
  expect(await callers.locator("pre").textContent()).toBe(finding.object.called_from.join("\n"));
  // A member's line is a click away, and its object's page names the finding.
  await rows.last().locator("a").last().click();
  await settled(page);
  await page.locator("[data-test=table-objects] .line").first().locator("[data-key=kind]").click();
  await settled(page);
  expect(await page.locator("[data-test=object]").innerText()).toContain(finding.in_code.split("\n")[0]);
  expect(wrong).toEqual([]);
  await page.close();
  await shown.stop();
});

test("matrices say what rows, columns and figures are", async () => {
  const shown = await view(profile);
  const { page, wrong } = await open(browser, shown.url);
  await turn(page, "Matrices");
  const panels = page.locator(".maps > section");
  for (let index = 0; index < (await panels.count()); index++) {
    const words = await panels.nth(index).innerText();
    expect(words).toMatch(/\brow\b/i);
    expect(words).toMatch(/\bcolumn\b/i);
    expect(words).toMatch(/Figures: |10 is a node's own memory/);
    expect(words).not.toContain("recorded unit");
    // What is drawn is not cut off.
    const box = await panels.nth(index).evaluate((panel) => panel.scrollWidth <= panel.clientWidth);
    expect(box, words).toBe(true);
  }
  expect(await page.locator("[data-test=heat-access]").getAttribute("aria-label")).not.toContain("recorded unit");
  expect(wrong).toEqual([]);
  await page.close();
  await shown.stop();
});

test("what if says what its words mean", async () => {
  const shown = await view(profile);
  const { page, wrong } = await open(browser, shown.url);
  await turn(page, "What if");
  const rows = page.locator("[data-test=table-simulation] .line");
  for (let index = 0; index < (await rows.count()); index++) {
    const cell = rows.nth(index).locator("[data-key=policy]");
    expect((await told(cell)).length).toBeGreaterThan(20);
  }
  await rows.nth(2).click();
  expect(await page.locator("[data-test=plan]").innerText()).toMatch(/Threads recorded: .* Pages \S+: /);
  expect(wrong).toEqual([]);
  await page.close();
  await shown.stop();
});

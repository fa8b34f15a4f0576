/** The planted fault of a program, by both engines: on the overview, two clicks away, and with the figures of the report. */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exact, percent } from "../src/lib/format";
import { folder, json, launch, open, record, settled, target, turn, view, type Shown } from "./support";

let browser: Browser;
const files = folder();
beforeAll(async () => {
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  files.remove();
});

describe.each(["exact", "sample"])("%s engine", (engine) => {
  const profile = `${files.path}/${engine}.numalens`;
  let shown: Shown;
  let report: any;
  let advice: any;
  beforeAll(async () => {
    record(engine, profile, target("serial_init_omp"), "--size", "16");
    report = json("report", profile);
    advice = json("advise", profile);
    shown = await view(profile);
  });
  afterAll(() => shown.stop());

  test("the overview names the fault, and one click shows the line", async () => {
    const { page, wrong } = await open(browser, shown.url);
    const first = page.locator("[data-test=finding]").first();
    expect(await first.locator("[data-test=pattern]").textContent()).toBe(advice.findings[0].pattern);
    expect(advice.findings[0].pattern).toBe("serial-initialisation");
    await first.locator("[data-test=where]").click();
    await page.waitForSelector("[data-test=source] .cm-line.picked");
    const where = advice.findings[0].where;
    expect(page.url()).toContain(`line=${where.line}`);
    expect(await page.locator("[data-test=source] .cm-line.picked").textContent()).toMatch(/\S/);
    // The line as the report has it.
    await settled(page);
    const row = report.lines.find((line: any) => line.file === where.file && line.line === where.line);
    expect(await page.locator("[data-test=line-accesses]").first().getAttribute("data-value")).toBe(String(row.accesses));
    expect(wrong).toEqual([]);
    await page.close();
  });

  test("the overview has the report's figures", async () => {
    const { page, wrong } = await open(browser, shown.url);
    expect(await page.locator("[data-test=accesses]").getAttribute("data-value")).toBe(String(report.summary.accesses));
    for (const [name, share] of Object.entries(report.summary.class_shares)) {
      if (name === "intervals") continue;
      expect(await page.locator(`[data-test=class-${name}]`).textContent(), name).toBe(percent(share as number));
    }
    expect(await page.locator("[data-test=local_share]").textContent()).toBe(percent(report.summary.local_share));
    const cells = (await page.locator("[data-test=heat-access]").getAttribute("aria-label")) ?? "";
    const { nodes, rows } = report.matrix.access;
    rows.forEach((row: number[], i: number) =>
      row.forEach((n, j) => expect(cells).toContain(`threads on node ${nodes[i]}, pages on node ${nodes[j]}: ${exact(n)} `)),
    );
    expect(await page.locator("[data-test=command]").textContent()).toContain("serial_init_omp");
    expect(wrong).toEqual([]);
    await page.close();
  });

  test("every page opens, has rows, and complains of nothing", async () => {
    const { page, wrong } = await open(browser, shown.url);
    for (const title of await page.locator("nav a").allTextContents()) {
      await turn(page, title);
      expect(await page.locator("[role=alert]").allTextContents(), title).toEqual([]);
      expect((await page.locator("main").innerText()).length, title).toBeGreaterThan(100);
    }
    expect(wrong).toEqual([]);
    await page.close();
  });

  test("tables have the report's rows", async () => {
    const { page, wrong } = await open(browser, shown.url);
    await turn(page, "Threads");
    const threads = page.locator("[data-test=table-threads] .line");
    expect(await threads.count()).toBe(report.threads.length);
    for (const [index, row] of report.threads.entries()) {
      expect(await threads.nth(index).locator("[data-key=thread]").textContent()).toContain(String(row.thread));
      const tip = await threads.nth(index).locator("[data-key=accesses]").getAttribute("title");
      expect(tip?.split("\n")[0]).toBe(exact(row.accesses));
    }
    await turn(page, "Objects");
    const object = report.objects[0];
    const first = page.locator("[data-test=table-objects] .line").first();
    expect((await first.locator("[data-key=accesses]").getAttribute("title"))?.split("\n")[0]).toBe(exact(object.accesses));
    await first.locator("[data-key=kind]").click();
    await settled(page);
    expect(await page.locator("[data-test=object-accesses]").getAttribute("data-value")).toBe(String(object.accesses));
    expect(wrong).toEqual([]);
    await page.close();
  });

  test("who uses the same memory, by node and by pair of threads", async () => {
    const { page, wrong } = await open(browser, shown.url);
    await turn(page, "Matrices");
    const said = json("report", profile, "--section", "communication");
    const { nodes, rows } = said.matrix.communication;
    const cells = (await page.locator("[data-test=heat-communication]").getAttribute("aria-label")) ?? "";
    rows.forEach((row: number[], i: number) =>
      row.forEach((n, j) => expect(cells).toContain(`threads on node ${nodes[i]}, with threads on node ${nodes[j]}: ${exact(n)} `)),
    );
    const lines = page.locator("[data-test=table-pairs] .line");
    expect((await lines.count()) > 0).toBe(said.communication_pairs.length > 0);
    if (said.communication_pairs.length > 0) {
      const tip = await lines.first().locator("[data-key=shared]").getAttribute("title");
      expect(tip?.split("\n")[0]).toBe(exact(said.communication_pairs[0].shared));
    }
    expect(wrong).toEqual([]);
    await page.close();
  });

  test("a cell of the matrix becomes a filter of every page, and a link shows the same", async () => {
    const { page, wrong } = await open(browser, shown.url);
    const map = page.locator("[data-test=heat-access]");
    // The first column of the second row: threads on node 1 that use node 0.
    await map.focus();
    for (const key of ["ArrowRight", "ArrowDown", "Enter"]) await map.press(key);
    await page.waitForSelector("[data-test=chip]");
    await settled(page);
    expect(await page.locator("[data-test=chip]").count()).toBe(2);
    const wanted = report.matrix.access.rows[1][0];
    expect(await page.locator("[data-test=accesses]").getAttribute("data-value")).toBe(String(wanted));
    const second = await open(browser, page.url());
    expect(await second.page.locator("[data-test=accesses]").getAttribute("data-value")).toBe(String(wanted));
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => document.querySelectorAll("[data-test=chip]").length === 0);
    await settled(page);
    expect(await page.locator("[data-test=accesses]").getAttribute("data-value")).toBe(String(report.summary.accesses));
    expect([...wrong, ...second.wrong]).toEqual([]);
    await page.close();
    await second.page.close();
  });
});

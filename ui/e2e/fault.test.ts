/** The planted fault of a program, by both engines: on the overview, two clicks away, and with the figures of the report. */
import { readFileSync } from "node:fs";
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
    record(engine, profile, target("serial_init_omp"), { load: ["--size", "16"] });
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

  test("behind the hottest line: its objects, its stacks, its instructions", async () => {
    const { page, wrong } = await open(browser, shown.url);
    const top = report.lines[0];
    await page.goto(`${shown.url}&page=source&file=${encodeURIComponent(top.file)}&line=${top.line}&code=1`);
    await page.reload();
    await page.waitForSelector("[data-test=instructions]");
    await settled(page);
    const wanted = report.line_objects.filter((row: any) => row.file === top.file && row.line === top.line);
    const rows = page.locator("[data-test=table-line-objects] .line");
    expect(await rows.count()).toBe(wanted.length);
    // Exact counts know the line or the object: then the page says so, and shows what single accesses told.
    if (engine === "exact") expect(await page.locator("[data-test=line]").innerText()).toContain("the line or the object");
    else {
      expect((await rows.first().locator("[data-key=share]").textContent())?.trim()).toBe(percent(wanted[0].share));
      await rows.first().locator("[data-key=object]").click();
      expect(await page.locator("[data-test=stacks]").innerText()).toContain(wanted[0].allocation_stack[0]);
      await page.click("[data-test=line] >> text=call stacks");
      expect(await page.locator("[data-test=table-line-stacks] .line").count()).toBeGreaterThan(0);
    }
    // The line's accesses are those of its instructions.
    const token = new URL(shown.url).hash.replace("#token=", "");
    const code = await page.evaluate(
      async ([of, bearer]) => (await fetch(`/api/disassembly?of=${encodeURIComponent(of)}`, { headers: { Authorization: `Bearer ${bearer}` } })).json(),
      [`${top.file}:${top.line}`, token] as const,
    );
    const sum = code.disassembly.filter((row: any) => row.at === top.line && row.file === top.file).reduce((n: number, row: any) => n + row.accesses, 0);
    const of_line = report.lines.filter((row: any) => row.file === top.file && row.line === top.line).reduce((n: number, row: any) => n + row.accesses, 0);
    expect(sum).toBe(of_line);
    expect(await page.locator("[data-test=instructions]").allInnerTexts().then((all) => all.join(" "))).toContain(code.disassembly.find((row: any) => row.accesses > 0 && row.at === top.line).address);
    expect(wrong).toEqual([]);
    await page.close();
  });

  test("functions with what they call", async () => {
    const { page, wrong } = await open(browser, shown.url);
    await turn(page, "Source");
    await page.click("text=inclusive");
    await page.waitForSelector("[data-test=table-inclusive] .line");
    const rows = page.locator("[data-test=table-inclusive] .line");
    for (const index of [0, 1]) {
      const row = report.inclusive[index];
      expect(await rows.nth(index).locator("[data-key=function]").textContent()).toContain(row.function);
      expect((await rows.nth(index).locator("[data-key=accesses]").getAttribute("title"))?.split("\n")[0]).toBe(exact(row.accesses));
      expect(await rows.nth(index).locator("[data-key=own]").getAttribute("title")).toBe(exact(row.own));
    }
    expect(page.url()).toContain("by=inclusive");
    expect(wrong).toEqual([]);
    await page.close();
  });

  test("every table is saved as CSV, every drawing as a picture", async () => {
    const { page, wrong } = await open(browser, shown.url);
    for (const title of await page.locator("nav a").allTextContents()) {
      await turn(page, title);
      for (const table of await page.locator("main [role=table]").all()) {
        const name = await table.getAttribute("aria-label");
        expect(await page.locator(`[data-test="table-${name}"] button`, { hasText: "CSV" }).count(), `${title}: ${name}`).toBe(1);
      }
      const without = await page.evaluate(() => {
        const saves = (panel: Element | null) => [...(panel?.querySelectorAll("button") ?? [])].some((button) => ["PNG", "SVG"].includes(button.textContent?.trim() ?? ""));
        return [...document.querySelectorAll("main canvas, main svg")].filter((drawing) => !saves(drawing.closest("section.panel"))).length;
      });
      expect(without, title).toBe(0);
    }
    await turn(page, "Threads");
    const [file] = await Promise.all([page.waitForEvent("download"), page.click("[data-test=table-placements] >> text=CSV")]);
    const lines = readFileSync(await file.path(), "utf8").trim().split("\n");
    expect(lines[0]).toBe("time_s,thread,node,cpus,policy,cause");
    expect(lines.length).toBe(1 + report.placements.length);
    await turn(page, "Matrices");
    const [picture] = await Promise.all([page.waitForEvent("download"), page.click("[data-test=map-access] >> text=PNG")]);
    expect(readFileSync(await picture.path()).subarray(1, 4).toString()).toBe("PNG");
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

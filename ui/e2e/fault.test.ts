/** The planted fault of a program, by both engines: on the overview, two clicks away, with the report's figures. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exact, percent } from "../src/lib/format";
import { folder, json, launch, open, record, ROOT, settled, target, told, turn, view, type Shown } from "./support";

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
    expect(await first.locator("[data-test=pattern]").getAttribute("data-name")).toBe(advice.findings[0].pattern);
    expect(await page.locator("[data-test=sentence]").textContent()).toBe(report.verdict.sentence);
    expect(await page.locator("[data-test=fault]").textContent()).toBe(report.verdict.fault);
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
    expect(await page.locator("[data-test=note]").allTextContents()).toEqual(json("advise", profile).notes);
    expect(wrong).toEqual([]);
    await page.close();
  });

  test("every page opens, has rows, and complains of nothing", async () => {
    const { page, wrong } = await open(browser, shown.url);
    for (const title of await page.locator("nav a").allTextContents()) {
      await turn(page, title);
      expect(await page.locator("[role=alert]").allTextContents(), title).toEqual([]);
      expect((await page.locator("main").innerText()).length, title).toBeGreaterThan(100);
      if (title === "Threads") {
        await page.locator("[data-test=table-threads] .line").first().click();
        await settled(page);
      }
      // Units are words, on hover too.
      expect(await page.content(), title).not.toContain("recorded unit");
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
      const tip = await told(threads.nth(index).locator("[data-key=accesses]"));
      expect(tip?.split("\n")[0]).toBe(exact(row.accesses));
    }
    await turn(page, "Objects");
    const object = report.objects[0];
    const first = page.locator("[data-test=table-objects] .line").first();
    expect((await told(first.locator("[data-key=accesses]"))).split("\n")[0]).toBe(exact(object.accesses));
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
      const tip = await told(lines.first().locator("[data-key=shared]"));
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
    // Exact counts know the line or the object: then the page says from how many accesses the rows come, if from any.
    if (engine === "exact") {
      const seen = wanted.reduce((n: number, row: any) => n + row.seen, 0);
      const says = seen > 0 ? `estimated from ${seen} accesses that were looked at` : "exact counts know the one or the other";
      expect(await page.locator("[data-test=line]").innerText()).toContain(says);
    }
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
      expect((await told(rows.nth(index).locator("[data-key=accesses]"))).split("\n")[0]).toBe(exact(row.accesses));
      expect(await told(rows.nth(index).locator("[data-key=own]"))).toBe(exact(row.own));
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
        const saves = (panel: Element | null, as: string) => [...(panel?.querySelectorAll("button") ?? [])].some((button) => button.textContent?.trim() === as);
        // What is drawn as SVG is kept as that; what is a picture both ways.
        const kinds = (drawing: Element) => (drawing instanceof SVGElement ? ["SVG"] : ["PNG", "SVG"]);
        return [...document.querySelectorAll("main canvas, main svg")].flatMap((drawing) => kinds(drawing).filter((kind) => !saves(drawing.closest("section.panel"), kind)));
      });
      expect(without, title).toEqual([]);
    }
    await turn(page, "Threads");
    const [file] = await Promise.all([page.waitForEvent("download"), page.click("[data-test=table-placements] >> text=CSV")]);
    const lines = readFileSync(await file.path(), "utf8").trim().split("\n");
    expect(lines[0]).toBe("time_s,thread,node,cpus,policy,cause");
    expect(lines.length).toBe(1 + report.placements.length);
    await turn(page, "Matrices");
    const [picture] = await Promise.all([page.waitForEvent("download"), page.click("[data-test=map-access] >> text=PNG")]);
    expect(readFileSync(await picture.path()).subarray(1, 4).toString()).toBe("PNG");
    // The same as SVG: well formed, with the same nodes and as many cells.
    const [drawing] = await Promise.all([page.waitForEvent("download"), page.click("[data-test=map-access] >> text=SVG")]);
    const kept = await page.evaluate((text) => {
      const svg = new DOMParser().parseFromString(text, "image/svg+xml");
      return { wrong: svg.querySelector("parsererror")?.textContent ?? "", cells: svg.querySelectorAll("rect").length, texts: [...svg.querySelectorAll("text")].map((node) => node.textContent) };
    }, readFileSync(await drawing.path(), "utf8"));
    expect(kept.wrong).toBe("");
    const { nodes } = report.matrix.access;
    expect(kept.cells).toBeGreaterThan(nodes.length * nodes.length);
    expect(kept.texts).toEqual(expect.arrayContaining(nodes.map(String)));
    for (const [title, name] of [["Pages", "pages.svg"], ["Timeline", "timeline-classes.svg"], ["Calls", "call-tree.svg"]] as const) {
      await turn(page, title);
      await page.waitForSelector("main canvas");
      const [saved] = await Promise.all([page.waitForEvent("download"), page.locator("main button", { hasText: "SVG" }).first().click()]);
      expect(saved.suggestedFilename()).toBe(name);
      const shapes = await page.evaluate((text) => new DOMParser().parseFromString(text, "image/svg+xml").querySelectorAll("path, rect").length, readFileSync(await saved.path(), "utf8"));
      expect(shapes, title).toBeGreaterThan(1);
    }
    expect(wrong).toEqual([]);
    await page.close();
  });

  test("drawings are walked by keys, and say where they are", async () => {
    const { page, wrong } = await open(browser, shown.url);
    const said = (drawing: string) => page.locator(`section.panel:has(${drawing}) [data-test=said]`).first().textContent();
    // The machine: its nodes, then its arrows.
    const machine = page.locator("[data-test=machine]");
    await machine.locator(".node").first().focus();
    for (let step = 0; step < report.machine.length; step += 1) await page.keyboard.press("ArrowRight");
    expect(await page.evaluate(() => document.activeElement?.classList.contains("arrow"))).toBe(true);
    await page.keyboard.press("Enter");
    await page.waitForSelector("[data-test=chip]");
    expect(await page.locator("[data-test=chip]").count()).toBe(2);
    for (const _ of [1, 2]) await page.keyboard.press("Escape");
    // Pages: the one with fewest accesses first, then the next; Enter picks it in the table.
    await turn(page, "Pages");
    const scatter = page.locator("[data-test=scatter]");
    await scatter.press("Home");
    const known = report.pages.filter((row: any) => row.exclusivity !== null && row.accesses > 0);
    const fewest = Math.min(...known.map((row: any) => row.accesses));
    expect(await said("[data-test=scatter]")).toContain(`${exact(fewest)} accesses`);
    await scatter.press("End");
    expect(await said("[data-test=scatter]")).toContain(`${exact(Math.max(...known.map((row: any) => row.accesses)))} accesses`);
    const address = /page (0x[0-9a-f]+)/.exec((await said("[data-test=scatter]")) ?? "")?.[1] ?? "none";
    await scatter.press("Enter");
    expect(page.url()).toContain(`picked_page=${address}`);
    // The address space: from run to run; Enter shows the accesses to its object alone.
    const map = page.locator("[data-test=address-map]");
    const runs = report.address_space;
    await map.press("ArrowRight");
    expect(await said("[data-test=address-map]")).toContain(runs[0].address);
    const at = runs.findIndex((run: any) => run.object !== null);
    for (let step = 0; step < at; step += 1) await map.press("ArrowRight");
    expect(await said("[data-test=address-map]")).toContain(runs[at].address);
    await map.press("Enter");
    await page.waitForSelector("[data-test=chip]");
    expect(page.url()).toContain(`object=${runs[at].object}`);
    // The flame graph.
    await page.keyboard.press("Escape");
    await page.keyboard.press("Escape");
    await turn(page, "Calls");
    await page.locator("[data-test=flame]").press("ArrowDown");
    expect(await said("[data-test=flame]")).toContain(report.call_tree[0].function);
    expect(wrong).toEqual([]);
    await page.close();
  });

  test("how something is shown stands in the address, and another browser shows the same", async () => {
    const { page, wrong } = await open(browser, shown.url);
    const pressed = (of: Page, text: string) => of.locator("main button[aria-pressed=true]", { hasText: text }).count();
    await turn(page, "Matrices");
    await page.click("text=logarithmic");
    await page.click("text=of the row");
    await turn(page, "Pages");
    await page.click("text=by main user");
    await turn(page, "Calls");
    await page.locator("main button", { hasText: "first touch" }).click();
    await turn(page, "What if");
    await page.locator("main button", { hasText: "compact" }).click();
    await turn(page, "Threads");
    await page.locator("[data-test=table-threads] [role=columnheader]", { hasText: "name" }).click();
    await page.fill("[data-test=table-placements] input", "0");
    // Which has opened the server's address once, as links have no token.
    const second = await open(browser, shown.url);
    await second.page.goto(await page.evaluate(() => window.location.href));
    await second.page.reload();
    expect(await second.page.locator("[data-test=table-threads] [role=columnheader]", { hasText: "name" }).getAttribute("aria-sort")).toBe("ascending");
    expect(await second.page.locator("[data-test=table-placements] input").inputValue()).toBe("0");
    for (const [title, words] of [["Matrices", ["logarithmic", "of the row"]], ["Pages", ["by main user"]], ["Calls", ["first touch"]], ["What if", ["compact"]]] as const) {
      await turn(second.page, title);
      for (const word of words) expect(await pressed(second.page, word), word).toBe(1);
    }
    expect([...wrong, ...second.wrong]).toEqual([]);
    await page.close();
    await second.page.close();
  });

  test("what if takes policies, objects and pages as the command does", async () => {
    const { page, wrong } = await open(browser, shown.url);
    await turn(page, "What if");
    await page.fill("[aria-label='another policy']", "bind:1");
    await page.locator("main button", { hasText: "try" }).click();
    await page.locator("label", { hasText: "pages of" }).locator("select").selectOption("2M");
    const object = report.objects[0].object;
    await page.locator("[aria-label=object]").selectOption(String(object));
    await page.locator("[aria-label=\"the object's policy\"]").selectOption("round-robin");
    await page.locator("main button", { hasText: "place it so" }).click();
    await page.waitForFunction(() => document.querySelectorAll("main button[title='take it away']").length === 2);
    await settled(page);
    const words = ["--policy", "common", "--policy", "bind:1", "--page-size", "2M", "--object-policy", `${object}=round-robin`];
    const { simulation } = json("simulate", profile, ...words);
    const lines = page.locator("[data-test=table-simulation] .line");
    expect(simulation.at(-1).policy).toBe("bind:1");
    for (const at of [0, 4, simulation.length - 1]) {
      const row = lines.filter({ has: page.locator("[data-key=policy]", { hasText: new RegExp(`^\\s*${simulation[at].policy}\\s*$`) }) });
      expect((await row.locator("[data-key=local_share]").textContent())?.trim(), simulation[at].policy).toBe(percent(simulation[at].local_share));
      expect((await told(row.locator("[data-key=pages_moved]"))).split("\n")[0]).toBe(exact(simulation[at].pages_moved));
    }
    await page.locator("main button[title='take it away']").first().click();
    await settled(page);
    expect(page.url()).not.toContain("bind");
    expect(wrong).toEqual([]);
    await page.close();
  });

  test("what pages ask first was computed ahead", async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
    const ahead = readFileSync(join(ROOT, "crates/serve/src/ahead.rs"), "utf8");
    const asked = new Set<string>();
    page.on("request", (request) => {
      const { pathname, search } = new URL(request.url());
      const known = search.replace(/[?&]form=columns$/, "");
      if (/^\/api\/(report|advise|simulate)/.test(pathname)) asked.add(pathname + known);
    });
    await page.goto(shown.url);
    await settled(page);
    for (const title of await page.locator("nav a").allTextContents()) await turn(page, title);
    for (const by of ["functions", "inclusive"]) {
      await turn(page, "Source");
      await page.locator("main button", { hasText: by }).click();
      await settled(page);
    }
    expect(asked.size).toBeGreaterThan(15);
    expect([...asked].filter((path) => !ahead.includes(`"${path}"`))).toEqual([]);
    await page.close();
  });

  test("what the slowest pages show is fetched while nobody does anything", async () => {
    const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
    const last = page.waitForResponse((response) => response.url().includes("/api/report/call-tree"));
    await page.goto(shown.url);
    await settled(page);
    await (await last).finished();
    await page.evaluate(() => new Promise((idle) => requestIdleCallback(idle)));
    const asked: string[] = [];
    page.on("request", (request) => asked.push(new URL(request.url()).pathname));
    for (const title of ["Matrices", "Threads", "Source", "Calls"]) await turn(page, title);
    // All lines come behind the first of them.
    expect(asked.filter((path) => path !== "/api/report/lines")).toEqual([]);
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
    const second = await open(browser, `${page.url()}&${new URL(shown.url).hash.slice(1)}`);
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

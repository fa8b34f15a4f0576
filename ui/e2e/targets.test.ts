/**
 * Every program of targets/, by both engines: its planted fault stands on the overview, one or two clicks lead to the
 * evidence, and what is on the screen is what `report` and `advise` say. What a target must show stands in
 * targets/expectations.toml; that `advise` is right is tested elsewhere.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { bytes, exact, percent } from "../src/lib/format";
import { folder, json, launch, open, record, settled, target, told, turn, TARGETS, view } from "./support";

/** What expectations.toml says of a target, as far as it is looked at here. */
interface Expectation {
  name: string;
  section: string;
  remedy?: string;
  options: string[];
}

function expectations(): Expectation[] {
  const parts = readFileSync(join(TARGETS, "expectations.toml"), "utf8").split(/^\[(\w+)\]$/m).slice(1);
  const found: Expectation[] = [];
  for (let at = 0; at + 1 < parts.length; at += 2) {
    const [name = "", body = ""] = parts.slice(at, at + 2);
    const word = (key: string) => new RegExp(`^${key} = "([^"]*)"`, "m").exec(body)?.[1];
    const options = [...(/^record = \[(.*)\]$/m.exec(body)?.[1]?.matchAll(/"([^"]*)"/g) ?? [])].map(([, option]) => option ?? "");
    // On a machine of one node some faults are not there, and some have no remedy to tell.
    const remedy = word("remedy");
    if (/^virtual = false$/m.test(body) || !remedy) continue;
    found.push({ name, section: word("section") ?? "", remedy, options });
  }
  return found;
}

let browser: Browser;
const files = folder();
beforeAll(async () => {
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  files.remove();
});

/** The evidence behind a finding: its line, or its object's page, has the report's figures. */
async function evidence(page: Page, finding: any, report: any, at: number): Promise<void> {
  const item = page.locator("[data-test=finding]").nth(at);
  // Only the first is open.
  if (at > 0) await item.locator("summary").click();
  const { where } = finding;
  if (where?.file) {
    await item.locator("[data-test=where]").click();
    await page.waitForSelector("[data-test=source] .cm-line.picked");
    await settled(page);
    expect(page.url()).toContain(`line=${where.line}`);
    const rows = report.lines.filter((line: any) => line.file === where.file && line.line === where.line);
    const shown = await page.locator("[data-test=line-accesses]").evaluateAll((all) => all.map((one) => one.getAttribute("data-value")));
    expect(shown).toEqual(rows.map((row: any) => String(row.accesses)));
    return;
  }
  // Code made at run time has neither line nor object: the page of code has it.
  await item.locator("[data-test=object]").click();
  await settled(page);
  const first = page.locator("[data-test=table-placement] .line").first();
  const top = report.code_placement[0];
  expect(await first.locator("[data-key=module]").textContent()).toContain(top.module);
  expect(await first.locator("[data-key=remote_share]").textContent()).toContain(percent(top.remote_share));
}

// Where code is fetched from takes too long to sample.
const sampled = (of: Expectation) => of.section !== "code-matrix";

describe.each(["exact", "sample"])("%s engine", (engine) => {
  test.each(expectations().filter((of) => engine === "exact" || sampled(of)))("$name", async ({ name, section, remedy, options }) => {
    const is_code = section === "code-matrix";
    // Less work would be too few samples, and too few uses of what is written once.
    const load = is_code ? ["--size", "1", "--scale", "0.1"] : ["--size", "16"];
    // They are over after some hundred samples, which decide nothing.
    const is_short = /^(serial_init_|unpinned|main_allocates_private)/.test(name);
    if (engine === "sample" && is_short) load.push("--scale", "6");
    const profile = record(engine, `${files.path}/${engine}-${name}.numalens`, target(name), { options, load });
    const report = json("report", profile, "--section", "summary,lines,objects,code-placement");
    const advice = json("advise", profile);
    // Every access of data is counted, and weighs more there than a fetch of code: it need not come first.
    const at = advice.findings.findIndex((finding: any) => finding.remedy === remedy);
    expect(at, `advise says ${advice.findings.map((finding: any) => finding.remedy)}`).toBeGreaterThanOrEqual(0);
    if (!is_code) expect(at).toBe(0);
    const shown = await view(profile);
    const { page, wrong } = await open(browser, shown.url);
    const named = await page.locator("[data-test=pattern]").all();
    const patterns = await Promise.all(named.map((pattern) => pattern.getAttribute("data-name")));
    expect(patterns).toEqual(advice.findings.slice(0, 6).map((finding: any) => finding.pattern));
    expect(await page.locator("[data-test=accesses]").getAttribute("data-value")).toBe(String(report.summary.accesses));
    for (const [word, share] of Object.entries(report.summary.class_shares)) {
      if (word !== "intervals") expect(await page.locator(`[data-test=class-${word}]`).textContent(), word).toBe(percent(share as number));
    }
    await evidence(page, advice.findings[at], report, at);
    // The object that most goes to.
    await turn(page, "Objects");
    const row = page.locator("[data-test=table-objects] .line").first();
    expect((await told(row.locator("[data-key=accesses]"))).split("\n")[0]).toBe(exact(report.objects[0].accesses));
    expect((await row.locator("[data-key=size]").textContent())?.trim()).toBe(bytes(report.objects[0].size));
    expect(wrong).toEqual([]);
    await page.close();
    await shown.stop();
  });
});

/** Makes the pictures of docs/guide/web-view.md: one of each page, of a program with a planted fault. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { test } from "vitest";
import { folder, json, launch, open, record, ROOT, settled, target, turn, view } from "./support";

const OUT = process.env.SHOTS ?? join(ROOT, "docs/ui");

test("pictures of all pages", async () => {
  mkdirSync(OUT, { recursive: true });
  const files = folder();
  const browser = await launch();
  const profiles = { exact: `${files.path}/exact.numalens`, sample: `${files.path}/sample.numalens` };
  for (const [engine, profile] of Object.entries(profiles)) record(engine, profile, target("serial_init_omp"), { load: ["--size", "16"] });
  const shoot = async (page: Page, name: string) => {
    await settled(page);
    // Drawings come with the next frame, the editor and curves with a file of their own.
    await page.waitForLoadState("networkidle");
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    // Readers need not know where this was built.
    await page.evaluate((root) => {
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) {
        const { currentNode } = walker;
        if (currentNode.nodeValue?.includes(root)) currentNode.nodeValue = currentNode.nodeValue.replaceAll(root, "/src/numalens");
      }
    }, ROOT);
    await page.screenshot({ path: join(OUT, `${name}.png`) });
  };
  const exact = await view(profiles.exact);
  const { page } = await open(browser, exact.url);
  await shoot(page, "overview");
  for (const [title, name] of [["Matrices", "matrices"], ["Pages", "pages"], ["Timeline", "timeline"], ["Code and tiers", "code"]] as const) {
    await turn(page, title);
    await shoot(page, name);
  }
  await turn(page, "Threads");
  await page.locator("[data-test=table-threads] .line").first().click();
  await shoot(page, "threads");
  await turn(page, "Objects");
  await page.locator("[data-test=table-objects] .line").first().locator("[data-key=kind]").click();
  await shoot(page, "objects");
  await turn(page, "What if");
  await page.locator("[data-test=table-simulation] .line").nth(3).click();
  await shoot(page, "whatif");
  await exact.stop();
  const sample = await view(profiles.sample);
  const second = await open(browser, sample.url);
  await turn(second.page, "Calls");
  await shoot(second.page, "calls");
  const hottest = json("report", profiles.sample, "--section", "lines", "--top", "1").lines[0];
  await second.page.goto(`${sample.url}&page=source&file=${encodeURIComponent(hottest.file)}&line=${hottest.line}&code=1`);
  await second.page.waitForSelector("[data-test=instructions]");
  await second.page.keyboard.press("t");
  await shoot(second.page, "source");
  await sample.stop();
  const shared = `${files.path}/lines.numalens`;
  record("exact", shared, target("false_sharing"), { options: ["--lines"], load: ["--size", "1", "--scale", "0.02"] });
  const lines = await view(shared);
  const third = await open(browser, lines.url);
  await turn(third.page, "Cache lines");
  await third.page.locator("[data-test=table-cache-lines] .line").first().locator("[data-key=address]").click();
  await shoot(third.page, "cachelines");
  await lines.stop();
  await browser.close();
  files.remove();
});

/**
 * How long a reader waits: first paint, and what clicks and keys take, in a browser, on a profile of ten million facts, 1,024
 * threads and 100,000 lines (crates/serve/examples/large_profile.rs). Prints a table of medians; the worst beside them.
 *
 *   cargo run --release -p numalens-serve --example large_profile -- /tmp/large.numalens
 *   NUMALENS_LARGE=/tmp/large.numalens cargo xtask ui --script speed
 */
import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { test } from "vitest";
import { launch, open, settled, turn, view } from "./support";

const ROUNDS = 9;
const PROFILE = process.env.NUMALENS_LARGE;

/** Milliseconds until what an act changes has been drawn. */
async function timed(page: Page, act: string): Promise<number> {
  return page.evaluate(async (source) => {
    const start = performance.now();
    (0, eval)(source);
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    return performance.now() - start;
  }, act);
}

function line(name: string, times: number[]): void {
  const sorted = [...times].sort((a, b) => a - b);
  console.log(`| ${name} | ${(sorted[Math.floor(sorted.length / 2)] ?? 0).toFixed(0)} | ${(sorted.at(-1) ?? 0).toFixed(0)} |`);
}

function memory(pid: number): string {
  return /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "0";
}

test.skipIf(!PROFILE)("how long a reader waits", async () => {
  const shown = await view(PROFILE ?? "");
  const browser = await launch();
  console.log("| what | median, ms | worst, ms |\n|---|---|---|");
  const paints: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const { page } = await open(browser, shown.url);
    paints.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0));
    await page.close();
  }
  line("first paint", paints);
  const { page } = await open(browser, shown.url);
  for (const title of ["Threads", "Source", "Objects", "Pages", "Timeline"]) {
    const start = Date.now();
    await turn(page, title);
    console.log(`| ${title}, asked for the first time | ${Date.now() - start} | |`);
  }
  const acts: [string, string, string][] = [
    ["Threads: scroll 1,024", "Threads", `document.querySelector("[data-test=table-threads] .body").scrollTop = Math.random() * 20000`],
    ["Threads: sort", "Threads", `[...document.querySelectorAll("[data-test=table-threads] [role=columnheader]")].at(-1).click()`],
    ["Source: scroll 100,000 lines", "Source", `document.querySelector("[data-test=table-lines] .body").scrollTop = Math.random() * 2000000`],
    ["Source: sort 100,000 lines", "Source", `[...document.querySelectorAll("[data-test=table-lines] [role=columnheader]")].at(-1).click()`],
    ["Source: search 100,000 lines", "Source", `{ const i = document.querySelector("main input[type=search]"); i.value = "part_" + Math.floor(Math.random() * 90); i.dispatchEvent(new Event("input", { bubbles: true })); }`],
    ["back to a page that was shown", "Objects", `document.querySelector("nav a").click()`],
  ];
  for (const [name, title, act] of acts) {
    const times: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      await turn(page, title);
      times.push(await timed(page, act));
      await settled(page);
    }
    line(name, times);
  }
  const before = memory(shown.pid);
  for (let round = 0; round < 30; round += 1) {
    await page.evaluate((thread) => (window.location.hash = window.location.hash.replace(/&thread=\d+/, "") + `&thread=${thread}`), round);
    await settled(page);
  }
  console.log(`| the server's memory, before and after 30 more filters | ${before} kB | ${memory(shown.pid)} kB |`);
  await browser.close();
  await shown.stop();
});

/**
 * How long a reader waits: first paint, and what clicks and keys take, in a browser. The profile has ten million facts,
 * 1,024 threads and 100,000 lines (crates/serve/examples/large_profile.rs). Writes a dated run of medians into
 * bench/runs/.
 *
 *   cargo run --release -p numalens-serve --example large_profile -- /tmp/large.numalens
 *   NUMALENS_LARGE=/tmp/large.numalens cargo xtask ui --script speed
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, loadavg, release, totalmem } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { test } from "vitest";
import { launch, open, ROOT, settled, turn, view } from "./support";

const ROUNDS = 9;
const FILTERS_FOR_MEMORY = 300;
const PROFILE = process.env.NUMALENS_LARGE;
const PAGES = ["Overview", "Matrices", "Threads", "Source", "Calls", "Objects", "Pages", "Timeline", "What if", "Cache lines", "Code and tiers", "Collector"];

interface Measured {
  group: string;
  what: string;
  /** Milliseconds, one for each round. */
  ms: number[];
}

/** Milliseconds until the next frame after an act has been drawn, and until nothing is being computed any more. */
async function timed(page: Page, act: string): Promise<{ frame: number; done: number }> {
  return page.evaluate(async (source) => {
    const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    const start = performance.now();
    (0, eval)(source);
    await drawn();
    const frame = performance.now() - start;
    if (document.querySelector('[aria-busy="true"]')) {
      await new Promise<void>((done) => {
        const observer = new MutationObserver(() => {
          if (document.querySelector('[aria-busy="true"]')) return;
          observer.disconnect();
          done();
        });
        observer.observe(document.body, { subtree: true, attributes: true, childList: true, attributeFilter: ["aria-busy"] });
      });
      await drawn();
    }
    return { frame, done: performance.now() - start };
  }, act);
}

const median = (times: number[]) => [...times].sort((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0;
const worst = (times: number[]) => Math.max(0, ...times);
const memory = (pid: number) => Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0);
const to = (title: string) => `[...document.querySelectorAll("nav a")].find((a) => a.textContent === ${JSON.stringify(title)}).click()`;
const press = (text: string) => `[...document.querySelectorAll("main button")].find((b) => b.textContent.trim() === ${JSON.stringify(text)}).click()`;
/** Sets a filter as a click does: in the fragment of the address. */
const filter = (text: string) => `window.location.hash = window.location.hash.replace(/&(thread|node|home|from_s|to_s|function|object|phase)=[^&]*/g, "") + ${JSON.stringify(text)}`;

function write(measured: Measured[], kib: { started: number; ahead: number; filters: number }, load: { before: number[]; after: number[] }): void {
  const date = new Date().toISOString().slice(0, 10);
  const cpu = cpus()[0]?.model ?? "unknown processor";
  const slug = cpu.replace(/\(R\)|\(TM\)/g, "").toLowerCase().match(/[a-z0-9]+/g)?.join("-") ?? "unknown";
  const host = { cpu, cpus: cpus().length, memory_gib: Math.round(totalmem() / 2 ** 30), kernel: /^[\d.]+/.exec(release())?.[0] ?? "" };
  let path = "";
  for (let number = 1; path === "" || existsSync(`${path}.md`); number += 1) {
    path = join(ROOT, "bench/runs", `${date}-${slug}-${host.cpus}cpu-ui${number === 1 ? "" : `-${number}`}`);
  }
  const mib = (n: number) => `${Math.round(n / 1024)} MiB`;
  const loads = (list: number[]) => list.map((n) => n.toFixed(2)).join(" ");
  const lines = [
    `# How long a reader of the web view waits, ${date}`,
    "",
    `${host.cpu}, ${host.cpus} CPUs, ${host.memory_gib} GiB, Linux ${host.kernel}; chromium and the server on the same CPUs.`,
    `Ten million facts, 1,024 threads, 100,000 lines (crates/serve/examples/large_profile.rs); ${ROUNDS} rounds, each first visit in a browser page of its own.`,
    `Load average before ${loads(load.before)}, after ${loads(load.after)}.`,
    "",
  ];
  for (const group of new Set(measured.map((one) => one.group))) {
    lines.push(`## ${group}`, "", "| what | median, ms | worst, ms |", "|---|---:|---:|");
    for (const one of measured.filter((one) => one.group === group)) lines.push(`| ${one.what} | ${median(one.ms).toFixed(0)} | ${worst(one.ms).toFixed(0)} |`);
    lines.push("");
  }
  lines.push("## The server's memory", "", `${mib(kib.started)} when the first page stood, ${mib(kib.ahead)} when everything that pages ask first was computed, ${mib(kib.filters)} after ${FILTERS_FOR_MEMORY} more filters.`, "");
  writeFileSync(`${path}.md`, lines.join("\n"));
  const document = { schema: 1, date, host, rounds: ROUNDS, load_average: load, measured, server_rss_kib: kib };
  writeFileSync(`${path}.json`, `${JSON.stringify(document, null, 2)}\n`);
  console.log(lines.join("\n"));
}

test.skipIf(!PROFILE)("how long a reader waits", async () => {
  const load = { before: loadavg(), after: [] as number[] };
  const measured: Measured[] = [];
  const note = (group: string, what: string, ms: number) => {
    const known = measured.find((one) => one.group === group && one.what === what);
    const tenths = Math.round(ms * 10) / 10;
    if (known) known.ms.push(tenths);
    else measured.push({ group, what, ms: [tenths] });
  };
  const browser = await launch();
  const starting = Date.now();
  const shown = await view(PROFILE ?? "");
  const early = await open(browser, shown.url);
  note("After the start", "the overview's figures, from the start of the server on", Date.now() - starting);
  const started = memory(shown.pid);
  for (const title of PAGES) await turn(early.page, title);
  for (const by of ["functions", "inclusive"]) {
    await turn(early.page, "Source");
    await timed(early.page, press(by));
  }
  note("After the start", "everything that pages ask first", Date.now() - starting);
  await early.page.close();
  const ahead = memory(shown.pid);

  for (let round = 0; round < ROUNDS; round += 1) {
    const { page } = await open(browser, shown.url);
    note("Opening", "first paint", await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0));
    for (const title of PAGES.slice(1)) {
      const { frame, done } = await timed(page, to(title));
      note("A page for the first time: until its figures stand", title, done);
      note("A page for the first time: until it answers the click", title, frame);
    }
    note("Other acts", "back to a page that was shown", (await timed(page, to("Overview"))).done);
    await page.close();
  }

  const { page } = await open(browser, shown.url);
  await turn(page, "Source");
  await page.waitForFunction(() => !document.querySelector("[data-test=table-lines]")?.textContent?.includes("are coming"));
  const acts: [string, string, (round: number) => string][] = [
    ["Threads: scroll 1,024", "Threads", () => `document.querySelector("[data-test=table-threads] .body").scrollTop = Math.random() * 20000`],
    ["Threads: sort", "Threads", () => `[...document.querySelectorAll("[data-test=table-threads] [role=columnheader]")].at(-1).click()`],
    ["Threads: pick one", "Threads", (round) => `document.querySelectorAll("[data-test=table-threads] .line")[${round}].click()`],
    ["Source: scroll 100,000 lines", "Source", () => `document.querySelector("[data-test=table-lines] .body").scrollTop = Math.random() * 2000000`],
    ["Source: sort 100,000 lines", "Source", () => `[...document.querySelectorAll("[data-test=table-lines] [role=columnheader]")].at(-1).click()`],
    ["Source: search 100,000 lines", "Source", () => `{ const i = document.querySelector("main input[type=search]"); i.value = "part_" + Math.floor(Math.random() * 90); i.dispatchEvent(new Event("input", { bubbles: true })); }`],
    ["Matrices: linear or logarithmic", "Matrices", (round) => press(round % 2 ? "linear" : "logarithmic")],
    ["Pages: by home or by main user", "Pages", (round) => press(round % 2 ? "by home" : "by main user")],
    ["Pages: a step in the scatter", "Pages", () => `document.querySelector("[data-test=scatter]").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }))`],
    ["Calls: first touch or accesses", "Calls", (round) => press(round % 2 ? "accesses" : "first touch")],
    ["light or dark", "Overview", () => `document.querySelector("header button").click()`],
  ];
  for (const [what, title, act] of acts) {
    await turn(page, title);
    for (let round = 0; round < ROUNDS; round += 1) note("Other acts", what, (await timed(page, act(round))).done);
  }

  const filters: [string, (round: number) => string][] = [
    ["a thread", (round) => `&thread=${100 + round}`],
    ["a cell of the matrix", (round) => `&node=${round % 8}&home=${(round + 1 + Math.floor(round / 8)) % 8}`],
    ["a span of 1 %", (round) => `&from_s=${(0.1 + round * 0.1).toFixed(3)}&to_s=${(0.12 + round * 0.1).toFixed(3)}`],
    ["a span of 10 %", (round) => `&from_s=${(round * 0.2).toFixed(3)}&to_s=${(0.2 + round * 0.2).toFixed(3)}`],
    ["a span of 50 %", (round) => `&from_s=${(0.1 + round * 0.1).toFixed(3)}&to_s=${(1.1 + round * 0.1).toFixed(3)}`],
    ["an object", (round) => `&object=${200 + round}`],
    ["a function", (round) => `&function=work::of::function_${300 + round}`],
    ["half of all: the pages of one node", (round) => `&home=0&from_s=0.0${round + 1}`],
  ];
  for (const [what, of] of filters) {
    for (let round = 0; round < ROUNDS; round += 1) {
      await turn(page, "Overview");
      const { frame, done } = await timed(page, filter(of(round)));
      note("A filter that was never set: until its chip stands", what, frame);
      note("A filter that was never set: until the overview's figures stand", what, done);
      for (const title of ["Threads", "Source", "Objects", "Pages", "Timeline"]) {
        note(`Then another page under that filter: until its figures stand`, `${what}: ${title}`, (await timed(page, to(title))).done);
      }
    }
  }
  for (let round = 0; round < FILTERS_FOR_MEMORY; round += 1) {
    await page.evaluate(filter(`&thread=${round % 1024}&from_s=${(round / 1000).toFixed(3)}`));
    await settled(page);
    if (round % 10 === 0) for (const title of ["Source", "Objects", "Timeline"]) await turn(page, title);
  }
  load.after = loadavg();
  write(measured, { started, ahead, filters: memory(shown.pid) }, load);
  await browser.close();
  await shown.stop();
});

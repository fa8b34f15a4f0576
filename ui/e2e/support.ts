/** Recordings, servers and a browser for tests. */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { type Browser, chromium, type Locator, type Page } from "playwright-core";

export const ROOT = resolve(import.meta.dirname, "../..");
export const NUMALENS = process.env.NUMALENS ?? join(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"), "release/numalens");
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
/** While pages are being worked on: built pages from a folder, not from the program. */
const DIST = process.env.NUMALENS_UI_DIST;
export const TARGETS = join(ROOT, "targets");

/** A folder that lasts as long as the tests of a file. */
export function folder(): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), "numalens-ui-"));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

/** Records a program on a virtual machine of four nodes, two CPUs each: with options of `record` and of the program. */
export function record(engine: string, output: string, program: string, { options = [], load = [] }: { options?: string[]; load?: string[] } = {}): string {
  const command = ["record", "-q", "--engine", engine, "--machine", "4x2", "-o", output, ...options, "--", program, ...load];
  execFileSync(NUMALENS, command, { stdio: ["ignore", "ignore", "inherit"] });
  return output;
}

let built = false;

/** A program of targets/, built. */
export function target(name: string): string {
  if (!built) execFileSync("make", ["-s", "-C", TARGETS]);
  built = true;
  const path = join(TARGETS, "build", name);
  if (!existsSync(path)) throw new Error(`${path} was not built`);
  return path;
}

/** What a command of numalens says as JSON. */
export function json(...command: string[]): any {
  return JSON.parse(execFileSync(NUMALENS, [...command, "--format", "json"], { maxBuffer: 1 << 28 }).toString());
}

export interface Shown {
  url: string;
  /** Of the server. */
  pid: number;
  stop: () => Promise<void>;
}

/** Starts `numalens view`; ready when it has printed its address. */
export async function view(profile: string, ...options: string[]): Promise<Shown> {
  const server: ChildProcess = spawn(NUMALENS, ["view", profile, "--no-open", ...options], { stdio: ["ignore", "pipe", "ignore"] });
  // Also when a test fails before it stops the server.
  const end = () => server.kill("SIGTERM");
  process.once("exit", end);
  const url = await new Promise<string>((done, failed) => {
    let said = "";
    server.stdout?.on("data", (bytes: Buffer) => {
      said += bytes.toString();
      if (said.includes("\n")) done(said.trim());
    });
    server.on("exit", (status) => failed(new Error(`numalens view ended: ${status}`)));
  });
  const stop = () =>
    new Promise<void>((done) => {
      process.off("exit", end);
      server.removeAllListeners("exit");
      server.on("exit", () => done());
      server.kill("SIGTERM");
    });
  return { url, stop, pid: server.pid ?? 0 };
}

export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
}

/** A page that collects what goes wrong in it. */
export async function open(browser: Browser, url: string, size = { width: 1280, height: 720 }): Promise<{ page: Page; wrong: string[] }> {
  const page = await browser.newPage({ viewport: size });
  const wrong: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") wrong.push(message.text());
  });
  page.on("pageerror", (error) => wrong.push(String(error)));
  page.on("requestfailed", (request) => {
    // Requests that a newer filter has overtaken are taken back.
    if (request.failure()?.errorText !== "net::ERR_ABORTED") wrong.push(`${request.url()}: ${request.failure()?.errorText}`);
  });
  const { host } = new URL(url);
  if (DIST) {
    await page.route(`http://${host}/assets/**`, (route) => route.fulfill({ path: join(DIST, new URL(route.request().url()).pathname) }));
  }
  page.on("request", (request) => {
    const to = new URL(request.url());
    if (to.protocol.startsWith("http") && to.host !== host) wrong.push(`a request to ${to.host}`);
  });
  await page.goto(url);
  await settled(page);
  return { page, wrong };
}

/** Waits until nothing is being computed any more. */
export async function settled(page: Page): Promise<void> {
  await page.waitForSelector("main > *");
  await page.waitForFunction(() => document.querySelectorAll('[aria-busy="true"]').length === 0);
}

/** Goes to a page by its name in the bar. */
export async function turn(page: Page, title: string): Promise<void> {
  await page.click(`nav >> text="${title}"`);
  await settled(page);
}

/** What a cell of a table tells while the pointer is over it. */
export async function told(cell: Locator): Promise<string> {
  await cell.hover();
  return (await cell.getAttribute("title")) ?? "";
}

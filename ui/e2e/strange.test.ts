/** What is not as usual: names that look like markup, a wrong token, a program without accesses. */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { folder, launch, open, record, settled, turn, view } from "./support";

let browser: Browser;
const files = folder();
beforeAll(async () => {
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  files.remove();
});

test("names that look like markup are text", async () => {
  const evil = `<img src=x onerror="window.hacked=1">`;
  const source = `#line 1 "<img src=x onerror=window.hacked=2>.c"
static volatile long data[1 << 20];
void work(void) { for (int i = 0; i < 40000000; i++) data[i & 0xfffff] += i; }
int main(void) { work(); return 0; }
`;
  writeFileSync(`${files.path}/evil.c`, source);
  execFileSync("gcc", ["-g", "-O1", "-c", `${files.path}/evil.c`, "-o", `${files.path}/evil.o`]);
  execFileSync("gcc", [`${files.path}/evil.o`, "-o", `${files.path}/${"<b>evil<b>"}`]);
  const plain = source.replace(/^#line.*\n/, "");
  writeFileSync(`${files.path}/plain.c`, plain);
  execFileSync("gcc", ["-O1", "-fno-inline", "-c", `${files.path}/plain.c`, "-o", `${files.path}/plain.o`]);
  execFileSync("objcopy", [`--redefine-sym=work=${evil}`, `--redefine-sym=data=${evil}data`, `${files.path}/plain.o`]);
  execFileSync("gcc", [`${files.path}/plain.o`, "-o", `${files.path}/plain`]);
  for (const program of ["<b>evil<b>", "plain"]) {
    const shown = await view(record("exact", `${files.path}/${program.length}.numalens`, `${files.path}/${program}`));
    const { page, wrong } = await open(browser, shown.url);
    for (const title of await page.locator("nav a").allTextContents()) await turn(page, title);
    await turn(page, "Source");
    const text = await page.locator("main").innerText();
    expect(text).toContain("<img src=x onerror");
    await page.locator("[data-test=table-lines] .line").first().locator("[data-key=accesses]").click();
    await settled(page);
    expect(await page.evaluate(() => "hacked" in window)).toBe(false);
    expect(await page.locator("main img, main script").count()).toBe(0);
    // The source does not exist under that name, and the browser says so of every answer that is not fine.
    expect(wrong.filter((text) => !text.includes("404"))).toEqual([]);
    await page.close();
    await shown.stop();
  }
});

test("without the token the page says what to do, and shows nothing", async () => {
  const shown = await view(record("exact", `${files.path}/true.numalens`, "/bin/true"));
  for (const url of [shown.url.replace(/#.*/, ""), shown.url.replace(/token=.*/, "token=0123")]) {
    const page = await browser.newPage();
    await page.goto(url);
    await page.waitForSelector("[data-test=refused]");
    expect(await page.locator("[data-test=refused]").textContent()).toContain("open the whole address");
    expect(await page.locator("main").innerText()).not.toContain("true");
    await page.close();
  }
  await shown.stop();
});

test("a program that is over at once has pages that say so", async () => {
  const shown = await view(record("sample", `${files.path}/nothing.numalens`, "/bin/true"));
  const { page, wrong } = await open(browser, shown.url);
  for (const title of await page.locator("nav a").allTextContents()) {
    await turn(page, title);
    expect(await page.locator("[role=alert]").allTextContents(), title).toEqual([]);
  }
  await turn(page, "Overview");
  expect(await page.locator("[data-test=findings]").innerText()).toMatch(/no accesses|too few/);
  expect(wrong).toEqual([]);
  await page.close();
  await shown.stop();
});

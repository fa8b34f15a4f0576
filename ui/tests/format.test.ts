import { expect, test } from "vitest";
import { csv } from "../src/lib/download";
import { bytes, count, exact, interval, percent, place, seconds, unit } from "../src/lib/format";

test("figures are short, and all digits are at hand", () => {
  expect([count(0), count(999), count(1000), count(1_690_000_000), count(12_345), count(null)]).toEqual(["0", "999", "1.00 k", "1.69 G", "12.3 k", ""]);
  expect([bytes(0), bytes(1536), bytes(67_108_864)]).toEqual(["0 B", "1.50 KiB", "64.0 MiB"]);
  expect([percent(74.61), percent(0), percent(0.01), percent(100), percent(null)]).toEqual(["74.6 %", "0.0 %", "<0.1 %", "100.0 %", ""]);
  expect([seconds(1.2), seconds(0.0034), seconds(0), seconds(2e-6)]).toEqual(["1.20 s", "3.4 ms", "0.00 s", "2.0 us"]);
  expect(exact(1234567)).toBe("1,234,567");
});

test("places", () => {
  expect(place({ file: "/src/app.c", line: 12, function: "main", module: "app" })).toBe("app.c:12 main");
  expect(place({ file: null, line: null, function: "memset", module: "libc.so.6" })).toBe("memset (libc.so.6)");
  expect(place({ file: null, line: null, function: "app+0x12", module: "app" })).toBe("app+0x12");
  expect(place(null)).toBe("");
});

test("intervals of estimates, and nothing for exact figures", () => {
  expect(interval({ intervals: { share: [1, 2] } }, "share", percent)).toBe("95 %: 1.0 % to 2.0 %");
  expect(interval({}, "share", percent)).toBe("");
});

test("CSV quotes, and no field is a formula", () => {
  expect(csv(["a", "b"], [["x,y", 'say "hi"'], ["=1+1", -5], [null, { local: 1 }]])).toBe(`a,b\n"x,y","say ""hi"""\n'=1+1,-5\n,"{""local"":1}"\n`);
});

test("units are words", () => {
  const exact = { unit: "accesses", engine: "exact" };
  const sampled = { unit: "time at memory instructions", engine: "sample" };
  expect([unit("recorded unit", exact), unit("recorded unit", sampled), unit("recorded unit")]).toEqual(["accesses", "samples", "accesses, or samples of time"]);
  expect(unit("recorded unit * distance", exact)).toBe("accesses times distance");
  const code = "instructions; samples with the sample engine";
  expect([unit(code, exact), unit(code, sampled), unit("bytes", exact)]).toEqual(["instructions", "samples", "bytes"]);
});

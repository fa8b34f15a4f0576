import { expect, test } from "vitest";
import { document } from "../src/lib/rows";

test("tables by columns have the rows of tables by rows", () => {
  const sent = {
    schema: 1,
    tables: {
      lines: {
        rows: 2,
        columns: {
          accesses: { of: [7, 9] },
          "classes.local": { of: [7, 0] },
          "classes.remote": { all: 0 },
          "intervals.accesses": { of: [[1, 9], null] },
          file: { words: ["a.c"], at: [0, null] },
        },
      },
      empty: { rows: 0, columns: { accesses: { of: [] } } },
    },
  };
  const { lines, ...rest } = document(sent) as { lines: Record<string, unknown>[] };
  expect(rest).toEqual({ schema: 1, empty: [] });
  const [first, second] = lines;
  expect([first?.accesses, second?.accesses]).toEqual([7, 9]);
  expect([first?.classes, second?.classes]).toEqual([{ local: 7, remote: 0 }, { local: 0, remote: 0 }]);
  expect([first?.intervals, second?.intervals]).toEqual([{ accesses: [1, 9] }, {}]);
  expect([first?.file, second?.file]).toEqual(["a.c", null]);
});

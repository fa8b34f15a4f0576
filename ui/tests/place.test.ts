import { beforeEach, expect, test } from "vitest";
import { at, chips, choice, go, link, put, query, token } from "../src/lib/place.svelte";

/** Goes there as a browser does: the address changes, then the page is told. */
function visit(hash: string) {
  window.location.hash = hash;
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}
beforeEach(() => visit("page=threads"));

test("the filter stands in the address, and the rest of it stays", () => {
  go({ node: 1, home: "unplaced" });
  window.dispatchEvent(new HashChangeEvent("hashchange"));
  expect(window.location.hash).toBe("#page=threads&node=1&home=unplaced");
  expect(chips()).toEqual([
    { name: "node", value: "1" },
    { name: "home", value: "unplaced" },
  ]);
  expect(query({ top: 5 })).toBe("?node=1&home=unplaced&top=5");
  expect(query({}, ["node"])).toBe("?home=unplaced");
  expect(link({ page: "source", node: null })).toBe("#page=source&home=unplaced");
});

test("an address that somebody sends is taken over, with what it no longer has", () => {
  visit("page=objects&thread=3&thread=4&function=a%26b");
  expect(at("page")).toBe("objects");
  expect(query()).toBe("?thread=3&thread=4&function=a%26b");
  visit("");
  expect(chips()).toEqual([]);
  expect(query()).toBe("");
});

test("what is no filter is not sent, and the token never is", () => {
  visit("page=source&file=a.c&line=3&colour=red&token=abc");
  expect(query()).toBe("");
});

test("the token is kept and leaves the address", () => {
  visit("token=abc&page=objects&node=1");
  expect(window.location.hash).toBe("#page=objects&node=1");
  expect(token()).toBe("abc");
  expect(link({ page: "source" })).not.toContain("abc");
  visit("page=threads");
  expect(token()).toBe("abc");
});

test("how something is shown stands in the address, but for what everybody begins with", () => {
  const scale = choice("scale", ["linear", "log"]);
  expect(scale.now).toBe("linear");
  scale.pick("log");
  expect(window.location.hash).toBe("#page=threads&scale=log");
  visit("page=threads&scale=strange");
  expect(scale.now, "what nobody knows is as nothing").toBe("linear");
  visit("page=threads&scale=log");
  expect(scale.now).toBe("log");
  scale.pick("linear");
  expect(window.location.hash).toBe("#page=threads");
});

test("what is typed stands in the address without a step of history", () => {
  const steps = window.history.length;
  put({ find_lines: "a" });
  put({ find_lines: "ab" });
  expect(at("find_lines")).toBe("ab");
  expect(window.location.hash).toContain("find_lines=ab");
  expect(window.history.length).toBe(steps);
  expect(query(), "it is no filter").toBe("");
});

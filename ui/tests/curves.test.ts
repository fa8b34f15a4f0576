import { expect, test } from "vitest";
import { darkOn, strength, trafficColor } from "../src/lib/colors";
import { binAt } from "../src/lib/curves";

// Guards the hover over bars: on their right half the next bin's beginning is nearer.
test("the bin under the pointer is the one that has begun last", () => {
  const times = [0, 1, 2];
  expect([binAt(times, 0, 0.2), binAt(times, 1, 0.8), binAt(times, 2, 1.6), binAt(times, 2, 2.4)]).toEqual([0, 0, 1, 2]);
  // The end of the last bin, and what is before the first.
  expect([binAt(times, 3, 2.9), binAt(times, 0, -0.1)]).toEqual([2, 0]);
});

// Guards the one scale: blue local, orange remote, the more the stronger, below a hundredth nothing.
test("traffic is coloured by its share", () => {
  expect(trafficColor("remote", 0.9, false)).toBeNull();
  expect(trafficColor("remote", 100, false)).toBe("rgb(213, 94, 0)");
  expect(trafficColor("local", 100, true)).toBe("rgb(0, 114, 178)");
  expect(strength(4)).toBeLessThan(strength(50) ?? 0);
  expect([darkOn(1, false), darkOn(100, false), darkOn(1, true)]).toEqual([true, false, false]);
});

import { expect, test } from "vitest";
import { inkOn, remoteColor, strength, trafficColor, type Traffic } from "../src/lib/colors";
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
  // Of what is remote in part: blue where nothing is, and the same orange as a matrix has.
  expect(remoteColor(0.9, false)).toBe(trafficColor("local", 20, false));
  expect(remoteColor(75, true)).toBe(trafficColor("remote", 75, true));
  expect(remoteColor(null, true)).toBe(trafficColor("none", 20, true));
});

/** Contrast of two colours as WCAG has it. */
function contrast(a: string, b: string): number {
  const light = (color: string) => {
    const parts = color.startsWith("#") ? [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16)) : (color.match(/\d+/g) ?? []).map(Number);
    const [red = 0, green = 0, blue = 0] = parts.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  const [x, y] = [light(a), light(b)];
  return Math.max(x, y) / Math.min(x, y);
}

test("figures on every colour of the scale can be read", () => {
  for (const kind of ["local", "remote", "none"] as Traffic[])
    for (const dark of [false, true])
      for (let share = 1; share <= 100; share++) {
        const ground = trafficColor(kind, share, dark) ?? "";
        expect(contrast(inkOn(kind, share, dark), ground), `${kind} ${share} ${dark}`).toBeGreaterThan(4);
      }
});

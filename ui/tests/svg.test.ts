import { expect, test } from "vitest";
import { paint } from "../src/components/curves";
import { SvgPen } from "../src/lib/svg";

const parsed = (text: string) => new DOMParser().parseFromString(text, "image/svg+xml");

test("what a pen draws is a picture that others can read, whatever is in its texts", () => {
  const pen = new SvgPen();
  pen.fillStyle = "rgb(1, 2, 3)";
  pen.fillRect(1, 2, 3.456, 4);
  pen.save();
  pen.beginPath();
  pen.rect(0, 0, 10, 10);
  pen.clip();
  pen.textAlign = "right";
  pen.fillText('<script>alert("1")</script> & more', 5, 6);
  pen.restore();
  pen.globalAlpha = 0.5;
  pen.beginPath();
  pen.arc(20, 20, 3);
  pen.fill();
  const text = pen.document(40, 30, "white");
  const svg = parsed(text);
  expect(svg.querySelector("parsererror")).toBeNull();
  expect(svg.querySelector("script")).toBeNull();
  expect(svg.querySelector("text")?.textContent).toBe('<script>alert("1")</script> & more');
  expect(svg.querySelector("text")?.getAttribute("text-anchor")).toBe("end");
  expect(svg.querySelector("g[clip-path] text"), "within the clip").not.toBeNull();
  expect(svg.querySelector("g[clip-path] path"), "after it").toBeNull();
  expect(text).toContain('width="3.46"');
});

test("stacked curves reach as high as their sum", () => {
  const pen = new SvgPen();
  const curve = (name: string, values: number[]) => ({ name, color: "#123456", values });
  const drawing = { times: [0, 1], curves: [curve("a", [1, 2]), curve("b", [3, 0])], bin: 1, stacked: true, show: String, ink: { text: "black", line: "grey", ground: "white" }, span: null, bands: [{ name: "phase", from: 0, to: 1 }], onspan: () => {} };
  paint(pen, drawing, 200, 100);
  const svg = parsed(pen.document(200, 100, "white"));
  const [first, second] = [...svg.querySelectorAll('path[fill="#123456"]')].map((path) => path.getAttribute("d") ?? "");
  const tops = (path: string) => [...path.matchAll(/[ML][\d.]+,([\d.]+)/g)].map(([, y]) => Number(y)).slice(0, 4);
  // 4 of at most 4.2 in the first bin; what is higher has the smaller y.
  expect(tops(second ?? "")[0]).toBeLessThan(tops(first ?? "")[0] ?? 0);
  expect(tops(second ?? "")[2], "nothing on top in the second bin").toBe(tops(first ?? "")[2]);
  expect([...svg.querySelectorAll("text")].map((text) => text.textContent)).toEqual(expect.arrayContaining(["a", "b", "phase"]));
});

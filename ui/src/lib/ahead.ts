/** What the slowest pages show first is fetched while nobody does anything, so that who turns to them need not wait. */
import { ask } from "./api";

/** Of the whole recording; the server has computed it by itself. */
const FIRST = [
  "/api/report/matrix,allocation-matrix,code-matrix,machine",
  "/api/report/communication",
  "/api/report/threads,placements",
  "/api/report/lines?top=500",
  "/api/report/call-tree",
];

const idle = () => new Promise<void>((go) => requestIdleCallback(() => go()));

let begun = false;

/** One after the other, once. What fails the page says when it asks itself. */
export async function fetch_ahead(): Promise<void> {
  if (begun) return;
  begun = true;
  for (const path of FIRST) {
    await idle();
    await ask(path).catch(() => undefined);
  }
}

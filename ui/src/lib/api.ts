/** Asking the server, with the token that the address brought. */
import { token } from "./place.svelte";
import { document, type Sent } from "./rows";

/** An answer that is not a document: its status, and what the server says is wrong. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Documents that were shown a moment ago, the latest last: going back is then immediate. */
const kept = new Map<string, unknown>();
const MOST_KEPT = 16;

/** A document that is at hand. */
export function known<T>(path: string): T | undefined {
  return kept.get(path) as T | undefined;
}

const is_report = (path: string) => path.startsWith("/api/report/");

/** What is asked for: reports come by columns. */
function wire(path: string): string {
  return is_report(path) ? `${path}${path.includes("?") ? "&" : "?"}form=columns` : path;
}

/** The document at a path of the server. */
export async function ask<T>(path: string, signal?: AbortSignal): Promise<T> {
  const at_hand = known<T>(path);
  if (at_hand !== undefined) return at_hand;
  let response: Response;
  try {
    response = await fetch(wire(path), { headers: { Authorization: `Bearer ${token()}` }, signal: signal ?? null });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, "numalens view does not answer: has it ended? Start it again, and open the address that it prints");
  }
  const sent = (await response.json()) as Sent & { error?: string };
  if (!response.ok) throw new Refused(response.status, sent.error ?? response.statusText);
  const body = (is_report(path) ? document(sent) : sent) as T;
  kept.set(path, body);
  const oldest = kept.keys().next().value;
  if (kept.size > MOST_KEPT && oldest !== undefined) kept.delete(oldest);
  return body;
}

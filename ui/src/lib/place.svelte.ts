/**
 * Where the user is: the page and the filter. All of it stands in the fragment of the address, so that a link shows a
 * colleague the same thing. The token comes there too, and does not stay.
 */
import { SvelteURLSearchParams } from "svelte/reactivity";

/** The parts of a filter, as the server knows them. */
export const FILTERS = ["process", "thread", "node", "home", "from_s", "to_s", "phase", "object", "function", "place"] as const;
export type FilterName = (typeof FILTERS)[number];

/** The fragment as it is now. */
export function fragment(): URLSearchParams {
  return new URLSearchParams(window.location.hash.slice(1));
}

/**
 * Where the token is kept: with this host and port, so that further tabs have it and pages of other servers do not. (A
 * cookie would go to all ports of this host, whoever's they are.) It is worth nothing once the server has ended.
 */
const TOKEN = "numalens-token";
/** The same where the browser keeps nothing. */
let own = "";

/** The token that the server wants. */
export function token(): string {
  try {
    return window.localStorage.getItem(TOKEN) ?? own;
  } catch {
    return own;
  }
}

function keep(brought: string): void {
  own = brought;
  try {
    window.localStorage.setItem(TOKEN, brought);
  } catch {
    // Then it is known as long as the page is there.
  }
}

/** Takes the token out of the address, where everybody sees it and links would have it. Whether it is a new one. */
function take_token(): boolean {
  const now = fragment();
  const brought = now.get("token");
  if (brought === null) return false;
  const is_new = brought !== token();
  keep(brought);
  now.delete("token");
  window.history.replaceState(window.history.state, "", `#${now}`);
  return is_new;
}

if (typeof window !== "undefined") take_token();

const params = new SvelteURLSearchParams(typeof window === "undefined" ? "" : window.location.hash.slice(1));

/** Takes over what the fragment says now. */
function follow(): void {
  const now = fragment();
  for (const name of new Set([...params.keys()])) if (!now.has(name)) params.delete(name);
  for (const name of new Set(now.keys())) {
    const values = now.getAll(name);
    if (values.join("\n") === params.getAll(name).join("\n")) continue;
    params.delete(name);
    for (const value of values) params.append(name, value);
  }
}

if (typeof window !== "undefined")
  window.addEventListener("hashchange", () => {
    // What was refused is asked again with a new token.
    if (take_token()) window.location.reload();
    else follow();
  });

/** Changes of the place: a value replaces those of its name; null takes the name away. */
export type Change = Record<string, string | number | null>;

function changed(change: Change): URLSearchParams {
  const next = new URLSearchParams(params);
  for (const [name, value] of Object.entries(change)) {
    if (value === null) next.delete(name);
    else next.set(name, String(value));
  }
  return next;
}

/** The address of a changed place, for links. */
export function link(change: Change): string {
  return `#${changed(change)}`;
}

/** Goes to a changed place. */
export function go(change: Change): void {
  window.location.hash = changed(change).toString();
  // At once: the next key may be pressed before the event comes.
  follow();
}

/** The same without a step in the browser's history: for what is typed. */
export function put(change: Change): void {
  window.history.replaceState(window.history.state, "", link(change));
  follow();
}

/** How something is shown, one of several ways: it stands in the address too. The first is what is shown at first. */
export function choice<Word extends string>(name: string, words: readonly [Word, ...Word[]]): { readonly now: Word; pick: (word: Word) => void } {
  return {
    get now() {
      const said = at(name);
      return words.find((word) => word === said) ?? words[0];
    },
    pick: (word) => go({ [name]: word === words[0] ? null : word }),
  };
}

/** A value of the place. */
export function at(name: string): string | null {
  return params.get(name);
}

/** The filter as chips: name and value. */
export function chips(): { name: FilterName; value: string }[] {
  return FILTERS.flatMap((name) => params.getAll(name).map((value) => ({ name, value })));
}

/** The filter as a query of the server, with more names. */
export function query(more: Change = {}, without: readonly FilterName[] = []): string {
  const asked = new URLSearchParams();
  for (const { name, value } of chips()) if (!without.includes(name)) asked.append(name, value);
  for (const [name, value] of Object.entries(more)) if (value !== null) asked.append(name, String(value));
  const text = asked.toString();
  return text ? `?${text}` : "";
}

/** From a figure to its evidence: which page shows it. */
import { base, type Place } from "./format";
import type { Change } from "./place.svelte";

/** The source line, or the function where there is no line. */
export function toPlace(at: Place): Change {
  return at.file
    ? { page: "source", file: at.file, line: at.line, object: null }
    : { page: "source", file: null, line: null, object: null, function: at.function };
}

/** An object's page: objects are told by what the report calls them. */
export function toObject(object: { kind: string; name: string | null; site?: Place | null }): Change {
  if (object.kind === "code") return { page: "code" };
  const site = object.site;
  return { page: "objects", find_objects: object.name || (site?.file ? `${base(site.file)}:${site.line}` : object.kind) };
}

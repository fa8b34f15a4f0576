/** A document of the server that follows the filter. */
import { ask, known } from "./api";

export interface Resource<T> {
  /** The latest document; it stays while the next is on its way. */
  readonly data: T | null;
  readonly error: string | null;
  readonly loading: boolean;
}

/** The document at a path, asked for anew whenever the path changes. Call it while a component is being made. */
export function resource<T>(path: () => string | null): Resource<T> {
  let data = $state.raw<T | null>(null);
  let error = $state<string | null>(null);
  let loading = $state(true);
  $effect(() => {
    const wanted = path();
    error = null;
    if (wanted === null) {
      data = null;
      loading = false;
      return;
    }
    const at_hand = known<T>(wanted);
    if (at_hand !== undefined) {
      data = at_hand;
      loading = false;
      return;
    }
    loading = true;
    const controller = new AbortController();
    ask<T>(wanted, controller.signal).then(
      (document) => {
        if (controller.signal.aborted) return;
        data = document;
        loading = false;
      },
      (why: unknown) => {
        if (controller.signal.aborted) return;
        error = why instanceof Error ? why.message : String(why);
        loading = false;
      },
    );
    return () => controller.abort();
  });
  return {
    get data() {
      return data;
    },
    get error() {
      return error;
    },
    get loading() {
      return loading;
    },
  };
}

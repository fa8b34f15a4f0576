/** Keys of the pages, in the order of the bar. */
export const KEYS = "1234567890-=";

/** Every page, in the order of the bar. To add one: its file, and a row here. */
import type { Component } from "svelte";
import CacheLines from "./CacheLines.svelte";
import Calls from "./Calls.svelte";
import Code from "./Code.svelte";
import Collector from "./Collector.svelte";
import Matrices from "./Matrices.svelte";
import Objects from "./Objects.svelte";
import Overview from "./Overview.svelte";
import Pages from "./Pages.svelte";
import Source from "./Source.svelte";
import Threads from "./Threads.svelte";
import Timeline from "./Timeline.svelte";
import WhatIf from "./WhatIf.svelte";

export const PAGES: readonly { name: string; title: string; component: Component }[] = [
  { name: "overview", title: "Overview", component: Overview },
  { name: "matrices", title: "Matrices", component: Matrices },
  { name: "threads", title: "Threads", component: Threads },
  { name: "source", title: "Source", component: Source },
  { name: "calls", title: "Calls", component: Calls },
  { name: "objects", title: "Objects", component: Objects },
  { name: "pages", title: "Pages", component: Pages },
  { name: "timeline", title: "Timeline", component: Timeline },
  { name: "whatif", title: "What if", component: WhatIf },
  { name: "cachelines", title: "Cache lines", component: CacheLines },
  { name: "code", title: "Code and tiers", component: Code },
  { name: "collector", title: "Collector", component: Collector },
];

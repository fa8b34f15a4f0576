// Made from the reports by crates/serve/tests/types.rs, which fails when this is stale. Do not edit.

export const METRICS: Record<string, { title: string; unit: string; help: string }> = {
  accesses: { title: "accesses", unit: "recorded unit", help: "Reads and writes; a read-modify-write is one of each." },
  reads: { title: "reads", unit: "recorded unit", help: "Reads, those of read-modify-writes included." },
  writes: { title: "writes", unit: "recorded unit", help: "Writes, those of read-modify-writes included." },
  samples: { title: "samples", unit: "samples", help: "Samples that the figures beside it come from; 0 when they are exact counts." },
  share: { title: "share", unit: "% of the accesses", help: "Part of all accesses of the report." },
  local: { title: "local", unit: "recorded unit", help: "Accesses of a pinned thread to a page placed by a pinned thread, on the node of the accessing thread." },
  remote: { title: "remote", unit: "recorded unit", help: "Accesses of a pinned thread to a page placed by a pinned thread, on another node than the accessing thread's." },
  unpinned_page: { title: "unpinned page", unit: "recorded unit", help: "Accesses of a pinned thread to a page placed by an unpinned thread." },
  unpinned_thread: { title: "unpinned thread", unit: "recorded unit", help: "Accesses of an unpinned thread to a page placed by a pinned thread." },
  unpinned_both: { title: "unpinned both", unit: "recorded unit", help: "Accesses of an unpinned thread to a page placed by an unpinned thread." },
  memory_tier_local: { title: "tier local", unit: "recorded unit", help: "Accesses to a page on a node without CPUs (HBM, CXL, PMEM) when no other such node is nearer to the thread's node." },
  memory_tier_remote: { title: "tier remote", unit: "recorded unit", help: "Accesses to a page on a node without CPUs when another such node is nearer, or the thread is unpinned." },
  unplaced: { title: "unplaced", unit: "recorded unit", help: "Accesses to a page without a home when asked: the shared zero page, or gone before it could be asked for." },
  remote_share: { title: "remote", unit: "% of the accesses", help: "Classes remote and memory_tier_remote over all accesses of the row." },
  unpinned_share: { title: "unpinned", unit: "% of the accesses", help: "Classes unpinned_page, unpinned_thread and unpinned_both over all accesses of the row." },
  first_touch: { title: "first touch", unit: "pages", help: "Pages whose first access came from here, by a pinned thread; a huge page on one node is one." },
  unpinned_first_touch: { title: "unpinned touch", unit: "pages", help: "Pages whose first access came from here, by an unpinned thread." },
  placed_unseen: { title: "placed unseen", unit: "pages", help: "Pages that the kernel placed itself: read() into fresh memory, MAP_POPULATE, fault-around of files." },
  pages: { title: "pages", unit: "pages", help: "Pages placed; a huge page on one node is one." },
  bytes: { title: "bytes", unit: "bytes", help: "Bytes of those pages, or of the object." },
  count: { title: "count", unit: "objects", help: "Objects that the row stands for." },
  processed: { title: "objects processed", unit: "objects", help: "Objects that threads of a garbage collection came to, one for each pointer to them." },
  local_share: { title: "local share", unit: "% of the accesses of pinned threads", help: "Diagonal of the access matrix over the accesses of pinned threads." },
  local_share_all: { title: "local share of all", unit: "% of the accesses", help: "Diagonal of the access matrix over all accesses." },
  local_class_share: { title: "local class share", unit: "% of the accesses", help: "Accesses of class local over all accesses." },
  hot_region: { title: "hot region", unit: "% of the accesses", help: "The node that receives most accesses from pinned threads of other nodes, and these over all accesses." },
  numa_access_rate: { title: "NUMA access rate", unit: "recorded unit * distance / s", help: "Sum over the access matrix of distance times accesses, of pinned threads, over the run time." },
  application_exclusivity: { title: "exclusivity", unit: "%", help: "Per page the accesses of the node (with CPUs) that uses it most; summed over pages, over the accesses of all nodes." },
  exclusivity: { title: "exclusivity", unit: "%", help: "Accesses of the node that uses the page most over the accesses of all nodes; 100 when one node alone uses it." },
  balance: { title: "busiest node", unit: "% of the accesses with a home", help: "Share of accesses, and of placed pages, handled by each node; the busiest node's share." },
  imbalance: { title: "imbalance", unit: "%", help: "(max / mean - 1) * 100 of the accesses handled by each node that has memory." },
  distance: { title: "distance", unit: "SLIT", help: "The machine's distance between the thread's node and the page's home." },
  memory_time: { title: "memory time", unit: "% of the memory time as recorded", help: "Predicted by the cost model: distances, and the queue at busy controllers." },
  numa_accesses: { title: "access * distance", unit: "recorded unit * distance", help: "Sum over the access matrix of distance times accesses, of pinned threads." },
  busiest: { title: "busiest node", unit: "% of the accesses with a home", help: "What the node that serves most serves." },
  pages_moved: { title: "pages moved", unit: "pages", help: "Pages whose home would be another than the recorded one." },
  copies: { title: "copies", unit: "bytes", help: "Memory that copies of pages would take beyond one home each." },
  cache_misses: { title: "cache misses", unit: "accesses", help: "Accesses that missed the private cache of their thread, of recordings with --cache." },
  read_misses: { title: "read misses", unit: "accesses", help: "Reads, those of read-modify-writes included, that missed it." },
  write_misses: { title: "write misses", unit: "accesses", help: "Writes that missed it; those of read-modify-writes are reads." },
  miss_rate: { title: "missed", unit: "% of the accesses", help: "Cache misses over the accesses." },
  transitions: { title: "transitions", unit: "accesses", help: "Accesses to a cache line that another thread had accessed last." },
  node_transitions: { title: "between nodes", unit: "accesses", help: "Of the transitions those from a thread that was bound to another node." },
  true_sharing: { title: "true sharing", unit: "accesses", help: "Transitions after which the thread reads words that the one before had written, or writes words that it had accessed." },
  false_sharing: { title: "false sharing", unit: "accesses", help: "Transitions where one of the two threads wrote, but no word that concerns the other." },
  communication: { title: "communication", unit: "accesses", help: "Accesses of two threads to cache lines that the other one had accessed last." },
  shared: { title: "shared", unit: "recorded unit", help: "Accesses to pages that both threads use: of each page those of the thread that uses it less." },
  structure: { title: "structure", unit: "%", help: "How far threads share pages with one other thread alone (100) rather than with all others alike (0), weighted by what they share." },
  small_exclusivity: { title: "of small pages", unit: "%", help: "Exclusivity of the small pages that a huge page covers, weighted by accesses." },
  hot_pages: { title: "hot pages", unit: "pages of 4 KiB", help: "Pages with more accesses than the mean of the pages that were used." },
  cold_pages: { title: "cold pages", unit: "pages of 4 KiB", help: "Pages with less than a tenth of the mean accesses of the pages that were used, or without any." },
  live: { title: "live", unit: "bytes", help: "Bytes allocated and not yet released; of a time bin the most." },
  placed: { title: "placed", unit: "bytes", help: "Bytes of pages that have a home." },
  allocation_rate: { title: "allocation rate", unit: "bytes / s", help: "Bytes allocated, over the length of the recording." },
  byte_seconds: { title: "byte-seconds", unit: "bytes * s", help: "Integral of the live bytes over time." },
  frees: { title: "frees", unit: "calls", help: "Releases of blocks whose allocation was recorded." },
  freed_by_others: { title: "by other threads", unit: "calls", help: "Of those, by another thread than the one that allocated the block." },
  freed_elsewhere: { title: "on other nodes", unit: "calls", help: "Of those, by a thread bound to another node than the one that allocated the block." },
  switches: { title: "switches", unit: "switches", help: "Times the scheduler took the thread off a CPU." },
  migrations: { title: "migrations", unit: "migrations", help: "Times the thread went on on another CPU than before." },
  instructions: { title: "instructions", unit: "instructions; samples with the sample engine", help: "Instructions executed; the sample engine counts samples taken." },
  allocated: { title: "allocated", unit: "bytes", help: "Bytes that were allocated." },
  untouched: { title: "untouched", unit: "bytes", help: "Bytes that were allocated and never had a page." },
  calls: { title: "calls", unit: "calls", help: "Allocations." },
};

export const WORDS: Record<string, { title: string; help: string }> = {
  "serial-initialisation": { title: "serial initialisation", help: "One node's threads touched it first; the threads of several nodes then use disjoint parts of it." },
  "misplaced-blocks": { title: "misplaced blocks", help: "The threads of several nodes use disjoint parts of it, and the parts lie on other nodes than their users." },
  "read-by-all": { title: "written once, read by all", help: "It is written before it is shared, then only read, all over, by the threads of several nodes." },
  "shared-read-write": { title: "read and written by all", help: "The threads of several nodes read and write all over it at the same time." },
  "private-elsewhere": { title: "private data on another node", help: "Each of its objects is used by the threads of one node, and lies on another." },
  "placed-by-policy": { title: "pages where a policy puts them", help: "A memory policy, of the program or of whoever started it, takes its pages to other nodes than the threads that touch and use them." },
  "handed-on": { title: "memory that an allocator hands on", help: "Its blocks lie on pages that others touched first and freed; whose pages a thread gets may differ from run to run." },
  "split-clusters": { title: "threads that share are apart", help: "Threads share heavily with each other and little with others, and run on different nodes." },
  "objects-share-page": { title: "objects of several nodes on one page", help: "A page is shared only because objects lie on it that threads of different nodes use." },
  "huge-page-split": { title: "huge pages that nodes divide", help: "Each part of it is one node's, but parts of several nodes lie on one huge page, which has one home." },
  "shared-line": { title: "cache line written by several nodes", help: "Threads of several nodes write to the same few cache lines, which travel between their caches." },
  "remote-code": { title: "code on another node", help: "Instructions are fetched from pages of code on another node." },
  "unpinned-threads": { title: "threads bound to no node", help: "Threads may run on any node, so the kernel may move them away from their pages." },
  "slow-tier": { title: "hot pages on a slow tier", help: "Pages on a node of slower memory are accessed often." },
  "replicate": { title: "give every node a copy", help: "Every node reads a copy in its own memory." },
  "interleave": { title: "interleave its pages over the nodes", help: "Every memory controller serves an equal part; no access is guaranteed to be local." },
  "local-allocation": { title: "allocate and touch it in the thread that uses it", help: "The page lands on the node of the thread that touches it first." },
  "drop-policy": { title: "leave out the memory policy", help: "Each part then lands on the node of the thread that touches it first." },
  "fresh-pages": { title: "let blocks stay with their thread, or have new pages", help: "A block that its thread keeps, or that is mapped anew, lies on the node of the thread that touches it first." },
  "local-stack": { title: "bind the thread before it uses its stack", help: "Each page of a stack lands on the node that the thread runs on when it first comes to it." },
  "parallel-initialisation": { title: "initialise it in the threads that use it", help: "Each part lands on the node of the thread that touches it first." },
  "block-placement": { title: "bind each part to the node that uses it", help: "The part's pages go where its users run, whoever touches them first." },
  "co-locate-threads": { title: "run threads that share on one node", help: "What they share is then local to all of them." },
  "pin-threads": { title: "bind threads to nodes", help: "Threads stay where their pages are." },
  "align-or-pad": { title: "align or pad its objects to pages", help: "Objects of different nodes get pages of their own." },
  "align-to-huge-pages": { title: "divide it at multiples of its huge pages", help: "Each huge page is then touched first, and used, by the threads of one node." },
  "split-line": { title: "give each thread a cache line of its own", help: "A line that one thread alone writes stays in its cache." },
  "local-text": { title: "load the code on the node that runs it", help: "Instructions are then fetched locally." },
  "replicate-text": { title: "give every node a copy of the code", help: "Every node fetches from its own copy." },
  "move-to-tier": { title: "move it to the fast tier", help: "The fast tier answers sooner." },
};

export const TERMS: readonly { name: string; meaning: string }[] = [
  { name: "node", meaning: "A part of the machine with CPUs and memory of its own (NUMA node). Every CPU reaches all memory, its own node's soonest." },
  { name: "local, remote", meaning: "An access is local where the thread runs on the node that the page lies on, else remote: it takes longer, and loads the way between the nodes." },
  { name: "home", meaning: "The node that a page lies on." },
  { name: "first touch", meaning: "The first access to a page. By default the system places the page on the node of the thread that makes it, whoever allocated the memory." },
  { name: "placed", meaning: "A page is placed when it gets a home. Unplaced: it had none when asked, such as the zero page that reads of fresh memory share. Unseen: the kernel placed it without an access of the program." },
  { name: "pinned, unpinned", meaning: "A pinned thread may run on the CPUs of one node only. Of an unpinned one nobody knows where it runs next, so that its accesses are neither local nor remote." },
  { name: "access class", meaning: "One of eight kinds of access: local; remote; by an unpinned thread, to a page that one placed, or both; to memory of another tier, the nearest one or not; unplaced." },
  { name: "tier", meaning: "Nodes whose memory is of one speed; nodes without CPUs (CXL, HBM, persistent memory) are tiers of their own." },
  { name: "access matrix", meaning: "How many accesses threads on each node (rows) make to pages on each node (columns). The diagonal is local." },
  { name: "hot region", meaning: "The node that receives most accesses from threads of other nodes." },
  { name: "imbalance", meaning: "How much more the busiest node serves than the mean of all: 0 % is even." },
  { name: "exclusivity", meaning: "How far each page is one node's: 100 % where every page is used by the threads of one node alone." },
  { name: "distance", meaning: "What the machine says of the way between two nodes: 10 is local, 21 about twice as far." },
  { name: "memory time", meaning: "The time that accesses take, predicted from distances and from the queues at busy nodes. Gains are percent of it, not of the program's whole time." },
  { name: "object", meaning: "Memory that belongs together: a heap block, or all blocks of one allocating call stack; a global variable; a stack; a file; code." },
  { name: "line", meaning: "A line of source. Accesses of library code belong to the nearest line of the program's own; `via` says which function it called." },
  { name: "site", meaning: "An instruction, or the call that allocated an object." },
  { name: "sample", meaning: "One access that was looked at for many. Figures that come from samples are estimates, with the 95 % interval behind them." },
  { name: "exact", meaning: "Every access was counted, by translating the program while it runs; figures have no interval." },
  { name: "virtual machine", meaning: "A machine with several nodes that is simulated: the program runs on this host, and its threads and pages are placed as they would be there." },
  { name: "cache line", meaning: "The 64 bytes that processors move at once. Threads that write to one line take it from each other; where each has its own words in it, that is false sharing." },
  { name: "phase", meaning: "A span of time that the program named (numalens.h)." },
  { name: "time bin", meaning: "A piece of the recording's time; what happened within one is told together." },
  { name: "gain", meaning: "What a change would save, predicted, in percent of the memory time; with the least and the most that it may be." },
];

export interface CodePlacementRow {
  instructions: number;
  share: number;
  remote_share: number;
  unpinned_share: number;
  module: string;
  path: string;
  mapped: null;
  fetched_pages: number;
  most_fetched_pages: number;
  homes: {
    node: number;
    pages: number;
  }[];
  users: ({
    node: number | null;
    instructions: number;
  })[];
  intervals?: Record<string, number[]>;
}

export interface ThreadsRow {
  thread: number;
  pid: number;
  rank: number | null;
  tid: number;
  name: string;
  nodes: (number | string)[];
  accesses: number;
  share: number;
  remote_share: number;
  unpinned_share: number;
  reads: number;
  writes: number;
  classes: {
    local: number;
    remote: number;
    unpinned_page: number;
    unpinned_thread: number;
    unpinned_both: number;
    memory_tier_local: number;
    memory_tier_remote: number;
    unplaced: number;
  };
  samples: number;
  cache_misses: null;
  read_misses: null;
  write_misses: null;
  local_share: number | null;
  first_touch: number;
  unpinned_first_touch: number;
  switches: number;
  migrations: number;
  start_s: number;
  end_s: number | null;
  intervals?: Record<string, number[]>;
}

export interface FunctionsRow {
  accesses: number;
  share: number;
  remote_share: number;
  unpinned_share: number;
  reads: number;
  writes: number;
  classes: {
    local: number;
    remote: number;
    unpinned_page: number;
    unpinned_thread: number;
    unpinned_both: number;
    memory_tier_local: number;
    memory_tier_remote: number;
    unplaced: number;
  };
  samples: number;
  cache_misses: null;
  read_misses: null;
  write_misses: null;
  first_touch: number;
  unpinned_first_touch: number;
  function: string;
  module: string;
  file: string;
  intervals?: Record<string, number[]>;
}

export interface LinesRow {
  accesses: number;
  share: number;
  remote_share: number;
  unpinned_share: number;
  reads: number;
  writes: number;
  classes: {
    local: number;
    remote: number;
    unpinned_page: number;
    unpinned_thread: number;
    unpinned_both: number;
    memory_tier_local: number;
    memory_tier_remote: number;
    unplaced: number;
  };
  samples: number;
  cache_misses: null;
  read_misses: null;
  write_misses: null;
  first_touch: number;
  unpinned_first_touch: number;
  file: string;
  line: number;
  function: string;
  module: string;
  via: string[] | null;
  intervals?: Record<string, number[]>;
}

export interface InclusiveRow {
  accesses: number;
  share: number;
  remote_share: number | null;
  unpinned_share: number | null;
  reads: number;
  writes: number;
  classes: {
    local: number;
    remote: number;
    unpinned_page: number;
    unpinned_thread: number;
    unpinned_both: number;
    memory_tier_local: number;
    memory_tier_remote: number;
    unplaced: number;
  };
  samples: number;
  own: number;
  placed: number;
  allocated: number;
  function: string;
  module: string;
  file: string;
  intervals?: Record<string, number[]>;
}

export interface LineObjectsRow {
  accesses: number | null;
  share: number | null;
  remote_share: number | null;
  reads: number | null;
  writes: number | null;
  seen: number;
  placed: number;
  allocated: number;
  kind: string | null;
  name: string | null;
  size: number | null;
  count: number | null;
  site: {
    file: string;
    line: number;
    function: string;
    module: string;
  } | null;
  allocation_stack: string[] | null;
  first_touch_stack: string[] | null;
  object: number | null;
  file: string;
  line: number;
  function: string;
  module: string;
  intervals?: Record<string, number[]>;
}

export interface LineStacksRow {
  accesses: number | null;
  share: number | null;
  remote_share: number | null;
  placed: number;
  allocated: number;
  stack: string[];
  file: string;
  line: number;
  function: string;
  module: string;
  intervals?: Record<string, number[]>;
}

export interface CallTreeRow {
  accesses: number;
  share: number;
  remote_share: number | null;
  unpinned_share: number | null;
  reads: number;
  writes: number;
  classes: {
    local: number;
    remote: number;
    unpinned_page: number;
    unpinned_thread: number;
    unpinned_both: number;
    memory_tier_local: number;
    memory_tier_remote: number;
    unplaced: number;
  };
  samples: number;
  own: number;
  placed: number;
  allocated: number;
  function: string;
  module: string;
  file: string;
  node: number;
  parent: number | null;
  depth: number;
  intervals?: Record<string, number[]>;
}

export interface ObjectsRow {
  accesses: number;
  share: number;
  remote_share: number | null;
  unpinned_share: number | null;
  reads: number;
  writes: number;
  classes: {
    local: number;
    remote: number;
    unpinned_page: number;
    unpinned_thread: number;
    unpinned_both: number;
    memory_tier_local: number;
    memory_tier_remote: number;
    unplaced: number;
  };
  samples: number;
  size: number;
  count: number;
  accessed: ({
    node: number | null;
    accesses: number;
  })[];
  homes: {
    node: number;
    bytes: number;
  }[];
  users: ({
    node: number | null;
    accesses: number;
  })[];
  first_touch: number;
  unpinned_first_touch: number;
  placed_unseen: number;
  kind: string;
  name: string;
  site: {
    file: string;
    line: number;
    function: string;
    module: string;
  } | null;
  via: string[] | null;
  stack: string[] | null;
  thread: number | null;
  node: number | null;
  object: number;
  base: string;
  birth_s: number;
  death_s: number | null;
  pattern: string | null;
  remedy: string | null;
  evidence: Record<string, unknown> | null;
  intervals?: Record<string, number[]>;
}

export interface FirstTouchLinesRow {
  pages: number;
  page_share: number;
  bytes: number;
  first_touch: number;
  unpinned_first_touch: number;
  threads: number[];
  homes: {
    node: number;
    pages: number;
  }[];
  object: string;
  file: string;
  line: number;
  function: string;
  module: string;
  via: string[] | null;
  stack: string[];
  calls: string[];
}

export interface FirstTouchRow {
  file: string;
  line: number;
  function: string;
  module: string;
  via: string[] | null;
  pages: number;
  bytes: number;
  thread: number;
  pinned: boolean;
  homes: {
    node: number;
    pages: number;
  }[];
  object: string;
  stack: string[];
  calls: string[];
}

export interface PagesRow {
  pid: number;
  address: string;
  accesses: number;
  share: number;
  away: number;
  reads: number;
  writes: number;
  home: number | null;
  users: ({
    node: number | null;
    accesses: number;
  })[];
  exclusivity: number | null;
  page_size: number;
  placed: string;
  object: string;
  first_touch: {
    file: string;
    line: number;
    function: string;
    module: string;
  } | null;
  thread: number | null;
  intervals?: Record<string, number[]>;
}

export interface AddressSpaceRow {
  pid: number;
  address: string;
  bytes: number;
  accesses: number;
  home: number | null;
  main_user: number | null;
  exclusivity: number;
  users: ({
    node: number | null;
    accesses: number;
  })[];
  page_size: number;
  kind: string;
  name: string | null;
  object: number;
}

export interface CommunicationPairsRow {
  shared: number;
  communication_share: number;
  thread: number;
  name: string;
  node: number;
  other_thread: number;
  other_name: string;
  other_node: number | string;
}

export interface CacheLinesRow {
  pid: number;
  address: string;
  accesses: number;
  share: number;
  reads: number;
  writes: number;
  transitions: number;
  node_transitions: number;
  true_sharing: number;
  false_sharing: number;
  sharing: string;
  readers: number[];
  writers: number[];
  users: ({
    thread: number;
    node: number | string;
    reads: number;
    writes: number;
    transitions: number;
    accessed: number[];
    written: number[];
  })[];
  objects: string[];
  places: {
    file: string;
    line: number;
    function: string;
    module: string;
  }[];
}

export interface MemoryTiersRow {
  tier: number;
  nodes: number[];
  accesses: number;
  share: number | null;
  bytes: number;
  byte_share: number | null;
  hot_pages: number;
  cold_pages: number;
  intervals?: Record<string, number[]>;
}

export interface RemoteFreesRow {
  frees: number;
  freed_by_others: number;
  freed_elsewhere: number;
  elsewhere_share: number;
  elsewhere_bytes: number;
  file: string;
  line: number;
  function: string;
  module: string;
}

export interface CollectionsRow {
  kind: string;
  pid: number;
  node: number | null;
  collections: number;
  pause_s: number;
  longest_s: number;
  helped: number;
  helped_s: number;
}

export interface ProcessedRow {
  area: string;
  processed: number;
  local_processed: number;
}

export interface PhasesRow {
  name: string;
  pid: number;
  thread: number | null;
  start_s: number;
  end_s: number | null;
  accesses: number;
  share: number;
  remote_share: number;
  unpinned_share: number;
  reads: number;
  writes: number;
  classes: {
    local: number;
    remote: number;
    unpinned_page: number;
    unpinned_thread: number;
    unpinned_both: number;
    memory_tier_local: number;
    memory_tier_remote: number;
    unplaced: number;
  };
  samples: number;
  intervals?: Record<string, number[]>;
}

export interface PlacementsRow {
  time_s: number;
  pid: number;
  thread: number;
  name: string;
  cpus: string;
  node: number | null;
  policy: string;
  cause: string;
}

export interface NodeTimelineRow {
  time_s: number;
  node: number | null;
  served: number;
  made: number;
  remote: number;
  placed: number;
}

export interface ObjectFlowRow {
  time_s: number;
  thread: number;
  node: number | string;
  home: number | null;
  access: string;
  count: number;
  class: string;
  object: number | null;
  name: string | null;
  address: string | null;
  latency: null;
  source: null;
  place: {
    file: string;
    line: number;
    function: string;
    module: string;
  };
  stack: string[] | null;
}

export interface ThreadFlowRow {
  time_s: number;
  thread: number;
  node: number | string;
  home: number | null;
  access: string;
  count: number;
  class: string;
  object: number | null;
  name: string | null;
  address: string | null;
  latency: null;
  source: null;
  place: {
    file: string;
    line: number;
    function: string;
    module: string;
  };
  stack: string[] | null;
}

export interface MachineRow {
  node: number;
  cpus: string;
  memory_bytes: number;
  distances: number[];
  tier: number;
  huge_pages: number[];
  latency_ns: number | null;
  bandwidth: null;
}

export interface Report {
  schema: number;
  meta: {
    command: string[];
    engine: string | null;
    unit: string | null;
    unit_note: string | null;
    machine: string | null;
    virtual: boolean;
    placement: string | null;
    policy: string | null;
    cache: null;
    host: string | null;
    start_time: string | null;
    duration_s: number | null;
    counted_s: null;
    kernel: string | null;
    numalens_version: string | null;
    exit_status: string | null;
    complete: boolean;
    schema_version: number;
    frequency_hz: number | null;
    period: number;
    bin_s: number;
    bins: number;
    losses: number;
    lost: Record<string, number>;
    coarsened: string[];
    unobserved: string[];
    notes: string[];
    only_pids: number[];
  };
  verdict?: {
    sentence: string;
    fault: string | null;
    remedy: string | null;
    next: string | null;
    result: string;
    remote_share: number | null;
    unpinned_share: number | null;
    saved: {
      memory_time_percent: number;
      low: number;
      high: number;
    } | null;
    findings: number;
    pattern: string | null;
    intervals?: Record<string, number[]>;
  };
  doubts: Record<string, string[]>;
  omitted: Record<string, unknown>;
  summary?: {
    unit: string;
    estimated: boolean;
    samples: number;
    accesses: number;
    reads: number;
    writes: number;
    classes: {
      local: number;
      remote: number;
      unpinned_page: number;
      unpinned_thread: number;
      unpinned_both: number;
      memory_tier_local: number;
      memory_tier_remote: number;
      unplaced: number;
    };
    sample_s?: number;
    class_shares: Record<string, unknown>;
    local_share: number | null;
    local_share_all: number | null;
    local_class_share: number | null;
    hot_region: {
      node: number;
      share: number;
      intervals?: Record<string, number[]>;
    } | null;
    numa_access_rate: number | null;
    run_time_s?: number;
    run_time_of?: string;
    application_exclusivity: number | null;
    balance: {
      node: number | null;
      share: number | null;
      accesses: {
        node: number;
        accesses: number;
      }[];
      pages: {
        node: number;
        pages: number;
      }[];
      intervals?: Record<string, number[]>;
    };
    imbalance: number | null;
    distances: ({
      distance: number | null;
      accesses: number;
      share: number;
      intervals?: Record<string, number[]>;
    })[];
    first_touch: {
      pinned: number;
      unpinned: number;
      unseen: number;
      bytes: number;
    };
    intervals?: Record<string, number[]>;
  };
  matrix?: {
    access?: {
      nodes: number[];
      rows: number[][];
      unpinned: number[];
      unplaced: {
        rows: number[];
        unpinned: number;
      };
      unit: string;
    };
    allocation?: {
      nodes: number[];
      rows: number[][];
      unpinned: number[];
      untouched: {
        rows: number[];
        unpinned: number;
      };
      unit: string;
    };
    allocation_calls?: {
      nodes: number[];
      rows: number[][];
      unpinned: number[];
      untouched: {
        rows: number[];
        unpinned: number;
      };
      unit: string;
    };
    code?: {
      nodes: number[];
      rows: number[][];
      unpinned: number[];
      unplaced: {
        rows: number[];
        unpinned: number;
      };
      unit: string;
    };
    communication?: {
      nodes: number[];
      rows: number[][];
      unpinned: {
        rows: number[];
        unpinned: number;
      };
      unit: string;
    };
    collector?: {
      nodes: number[];
      rows: number[][];
      unpinned: number[];
      unplaced: {
        rows: number[];
        unpinned: number;
      };
      unit: string;
    };
    processed_static?: {
      nodes: number[];
      rows: number[][];
      unpinned: number[];
      unplaced: {
        rows: number[];
        unpinned: number;
      };
      unit: string;
    };
    processed_generation_0?: {
      nodes: number[];
      rows: number[][];
      unpinned: number[];
      unplaced: {
        rows: number[];
        unpinned: number;
      };
      unit: string;
    };
    processed_generation_1?: {
      nodes: number[];
      rows: number[][];
      unpinned: number[];
      unplaced: {
        rows: number[];
        unpinned: number;
      };
      unit: string;
    };
    processed_generation_2?: {
      nodes: number[];
      rows: number[][];
      unpinned: number[];
      unplaced: {
        rows: number[];
        unpinned: number;
      };
      unit: string;
    };
    processed_older?: {
      nodes: number[];
      rows: number[][];
      unpinned: number[];
      unplaced: {
        rows: number[];
        unpinned: number;
      };
      unit: string;
    };
  };
  code_placement?: CodePlacementRow[];
  threads?: ThreadsRow[];
  functions?: FunctionsRow[];
  lines?: LinesRow[];
  inclusive?: InclusiveRow[];
  line_objects?: LineObjectsRow[];
  line_stacks?: LineStacksRow[];
  call_tree?: CallTreeRow[];
  objects?: ObjectsRow[];
  first_touch_lines?: FirstTouchLinesRow[];
  first_touch?: FirstTouchRow[];
  pages?: PagesRow[];
  address_space?: AddressSpaceRow[];
  huge_pages?: unknown[];
  communication?: {
    shared: number;
    threads: number;
    structure: number | null;
    within_nodes: number | null;
    rule: string;
  };
  communication_pairs?: CommunicationPairsRow[];
  line_sharing?: {
    lines: number;
    shared_lines: number;
    accesses: number;
    transitions: number;
    node_transitions: number;
    true_sharing: number;
    false_sharing: number;
    contended_share: number | null;
  };
  cache_lines?: CacheLinesRow[];
  memory_tiers?: MemoryTiersRow[];
  residency?: {
    max_live: number;
    total_allocated: number;
    allocation_rate: number | null;
    byte_seconds: number;
    live_at_end: number;
  };
  residency_over_time?: {
    bin_s: number;
    time_s: number[];
    live: number[];
    allocated: number[];
    placed: number[];
  };
  remote_frees?: RemoteFreesRow[];
  collector?: {
    collections: number;
    pause_s: number;
    longest_s: number;
    accesses: number;
    share: number;
    remote_share: number;
  };
  collections?: CollectionsRow[];
  processed?: ProcessedRow[];
  phases?: PhasesRow[];
  placements?: PlacementsRow[];
  timeline?: {
    bin_s: number;
    time_s: number[];
    local: number[];
    remote: number[];
    unpinned_page: number[];
    unpinned_thread: number[];
    unpinned_both: number[];
    memory_tier_local: number[];
    memory_tier_remote: number[];
    unplaced: number[];
    first_touch: number[];
    unpinned_first_touch: number[];
    placed_unseen: number[];
  };
  node_timeline?: NodeTimelineRow[];
  object_flow?: ObjectFlowRow[];
  thread_flow?: ThreadFlowRow[];
  machine?: MachineRow[];
}

export interface FindingsRow {
  rank: number;
  pattern: string;
  remedy: string;
  where: {
    file: string;
    line: number;
    function: string;
    module: string;
  };
  object: {
    kind: string;
    name: string;
    size: number;
    count: number;
    site: {
      file: string;
      line: number;
      function: string;
      module: string;
    };
    via?: string;
    called_from?: string[];
  } | null;
  evidence: Record<string, unknown>;
  members: ({
    where: {
      file: string;
      line: number;
      function: string;
      module: string;
    } | null;
    object: {
      kind: string;
      name: string;
      size: number;
      count: number;
      site: {
        file: string;
        line: number;
        function: string;
        module: string;
      };
      via?: string;
      called_from?: string[];
    } | null;
    evidence: Record<string, unknown>;
  })[];
  gain: {
    memory_time_percent: number;
    low: number;
    high: number;
  };
  in_code: string;
  without_code: string;
}

export interface Advice {
  schema: number;
  meta: {
    command: string[];
    engine: string | null;
    unit: string | null;
    unit_note: string | null;
    machine: string | null;
    virtual: boolean;
    placement: string | null;
    policy: string | null;
    cache: null;
    host: string | null;
    start_time: string | null;
    duration_s: number | null;
    counted_s: null;
    kernel: string | null;
    numalens_version: string | null;
    exit_status: string | null;
    complete: boolean;
    schema_version: number;
    frequency_hz: number | null;
    period: number;
    bin_s: number;
    bins: number;
    losses: number;
    lost: Record<string, number>;
    coarsened: string[];
    unobserved: string[];
    notes: string[];
    only_pids: number[];
  };
  findings: FindingsRow[];
  nothing_to_gain: boolean;
  waiting_share: number | null;
  unbound_threads: number;
  unbound_cost: number | null;
  notes: string[];
  intervals?: Record<string, number[]>;
  doubts: Record<string, string[]>;
  omitted: Record<string, unknown>;
}

export interface SimulationRow {
  placement: string;
  policy: string;
  memory_time: number;
  local_share: number | null;
  numa_accesses: number;
  imbalance: number;
  busiest: number | null;
  busiest_node: number | null;
  pages_moved: number;
  copies: number;
  intervals: Record<string, number[]>;
}

export interface Simulation {
  schema: number;
  meta: {
    command: string[];
    engine: string | null;
    unit: string | null;
    unit_note: string | null;
    machine: string | null;
    virtual: boolean;
    placement: string | null;
    policy: string | null;
    cache: null;
    host: string | null;
    start_time: string | null;
    duration_s: number | null;
    counted_s: null;
    kernel: string | null;
    numalens_version: string | null;
    exit_status: string | null;
    complete: boolean;
    schema_version: number;
    frequency_hz: number | null;
    period: number;
    bin_s: number;
    bins: number;
    losses: number;
    lost: Record<string, number>;
    coarsened: string[];
    unobserved: string[];
    notes: string[];
    only_pids: number[];
  };
  simulation: SimulationRow[];
  matrix: {
    simulated: {
      nodes: number[];
      rows: number[][];
      unpinned: number[];
      unplaced: {
        rows: number[];
        unpinned: number;
      };
      unit: string;
    };
  };
  doubts: Record<string, string[]>;
  omitted: Record<string, unknown>;
}

export interface DisassemblyRow {
  accesses: number;
  share: number;
  remote_share: number | null;
  unpinned_share: number | null;
  reads: number;
  writes: number;
  classes: {
    local: number;
    remote: number;
    unpinned_page: number;
    unpinned_thread: number;
    unpinned_both: number;
    memory_tier_local: number;
    memory_tier_remote: number;
    unplaced: number;
  };
  samples: number;
  address: string;
  instruction: string;
  at: number | null;
  inside: string;
  file: string | null;
  line: number | null;
  function: string;
  module: string;
  intervals?: Record<string, number[]>;
}

export interface Disassembly {
  schema: number;
  meta: {
    command: string[];
    engine: string | null;
    unit: string | null;
    unit_note: string | null;
    machine: string | null;
    virtual: boolean;
    placement: string | null;
    policy: string | null;
    cache: null;
    host: string | null;
    start_time: string | null;
    duration_s: number | null;
    counted_s: null;
    kernel: string | null;
    numalens_version: string | null;
    exit_status: string | null;
    complete: boolean;
    schema_version: number;
    frequency_hz: number | null;
    period: number;
    bin_s: number;
    bins: number;
    losses: number;
    lost: Record<string, number>;
    coarsened: string[];
    unobserved: string[];
    notes: string[];
    only_pids: number[];
  };
  disassembly: DisassemblyRow[];
  doubts: Record<string, string[]>;
  omitted: Record<string, unknown>;
}

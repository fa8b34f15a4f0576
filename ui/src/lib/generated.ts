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
  doubts: Record<string, string[]>;
  omitted: Record<string, unknown>;
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
  } | null;
  evidence: Record<string, unknown>;
  members: unknown[];
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

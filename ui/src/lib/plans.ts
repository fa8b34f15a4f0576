/** What the words of `simulate` mean: where threads run, and where pages lie. */

const THREADS: Record<string, string> = {
  recorded: "each where it ran when it was recorded",
  spread: "round the nodes, one thread on each in turn",
  compact: "as many on a node as it has CPUs, then the next",
  cluster: "those that use the same pages on one node",
  none: "bound to no node",
};

const PAGES: Record<string, string> = {
  recorded: "each where it lay when it was recorded",
  "first-touch": "on the node of the thread that touches it first",
  "parallel-first-touch": "each touched first by the thread that uses it most: an initialisation in parallel",
  local: "each on the node with most of its accesses, known beforehand: the best for distances",
  interleave: "round the nodes by address",
  bind: "all on one node",
  random: "each on a node by chance",
  "round-robin": "round the nodes in the order of first touches",
  mixed: "those that one node has nearly to itself on that node, all others interleaved",
  balance: "on their main users' nodes, as long as every node serves as many accesses",
  replicate: "those that nobody writes after their initialisation on every node that uses them, others as first touched",
  "numa-balancing": "as first touched, then moved to their users as the kernel's automatic balancing does",
  kmaf: "as first touched, then moved to their users by the history of their accesses, as kMAF does",
  tier: "so many percent of the memory, with most accesses, on fast memory, the others on slower memory",
};

/** Where threads run. */
export function threads_run(word: string): string {
  return THREADS[word] ?? word;
}

/** Where pages lie; `word` may have a value behind a colon. */
export function pages_are(word: string): string {
  const [name = "", value] = word.split(":");
  const said = PAGES[name] ?? word;
  return name === "bind" && value !== undefined ? `all on node ${value}` : said;
}

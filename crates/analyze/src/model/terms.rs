//! The words that pages use, each in one or two sentences: what `numalens help terms` and `?` in the web page show.
//! What single figures are stands in [`crate::model::metrics`].

/// A word and what it means here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Term {
    pub name: &'static str,
    pub meaning: &'static str,
}

macro_rules! terms {
    ($($name:literal, $meaning:literal;)*) => {
        /// All of them, what others build upon first.
        pub static ALL: &[Term] = &[$(Term { name: $name, meaning: $meaning },)*];
    };
}

terms! {
    "node", "A part of the machine with CPUs and memory of its own (NUMA node). Every CPU reaches all memory, its own node's soonest.";
    "local, remote", "An access is local where the thread runs on the node that the page lies on, else remote: it takes longer, and loads the way between the nodes.";
    "home", "The node that a page lies on.";
    "first touch", "The first access to a page. By default the system places the page on the node of the thread that makes it, whoever allocated the memory.";
    "placed", "A page is placed when it gets a home. Unplaced: it had none when asked, such as the zero page that reads of fresh memory share. Unseen: the kernel placed it without an access of the program.";
    "pinned, unpinned", "A pinned thread may run on the CPUs of one node only. Of an unpinned one nobody knows where it runs next, so that its accesses are neither local nor remote.";
    "access class", "One of eight kinds of access: local; remote; by an unpinned thread, to a page that one placed, or both; to memory of another tier, the nearest one or not; unplaced.";
    "tier", "Nodes whose memory is of one speed; nodes without CPUs (CXL, HBM, persistent memory) are tiers of their own.";
    "access matrix", "How many accesses threads on each node (rows) make to pages on each node (columns). The diagonal is local.";
    "hot region", "The node that receives most accesses from threads of other nodes.";
    "imbalance", "How much more the busiest node serves than the mean of all: 0 % is even.";
    "exclusivity", "How far each page is one node's: 100 % where every page is used by the threads of one node alone.";
    "distance", "What the machine says of the way between two nodes: 10 is local, 21 about twice as far.";
    "memory time", "The time that accesses take, predicted from distances and from the queues at busy nodes. Gains are percent of it, not of the program's whole time.";
    "object", "Memory that belongs together: a heap block, or all blocks of one allocating call stack; a global variable; a stack; a file; code.";
    "line", "A line of source. Accesses of library code belong to the nearest line of the program's own; `via` says which function it called.";
    "site", "An instruction, or the call that allocated an object.";
    "sample", "One access that was looked at for many. Figures that come from samples are estimates, with the 95 % interval behind them.";
    "exact", "Every access was counted, by translating the program while it runs; figures have no interval.";
    "virtual machine", "A machine with several nodes that is simulated: the program runs on this host, and its threads and pages are placed as they would be there.";
    "cache line", "The 64 bytes that processors move at once. Threads that write to one line take it from each other; where each has its own words in it, that is false sharing.";
    "phase", "A span of time that the program named (numalens.h).";
    "time bin", "A piece of the recording's time; what happened within one is told together.";
    "gain", "What a change would save, predicted, in percent of the memory time; with the least and the most that it may be.";
}

/// The table as text, at most so many columns wide.
pub fn text(width: usize) -> String {
    let names = ALL.iter().map(|term| term.name.len()).max().unwrap_or(0);
    let room = width.saturating_sub(names + 2).max(20);
    let mut out = String::new();
    for term in ALL {
        let mut title = term.name;
        let mut line = String::new();
        let mut end = |line: &mut String| {
            out.push_str(&format!("{title:names$}  {line}\n"));
            title = "";
            line.clear();
        };
        for word in term.meaning.split(' ') {
            if !line.is_empty() && line.len() + 1 + word.len() > room {
                end(&mut line);
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        end(&mut line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards that nothing of the table is lost or broken at the width of an old terminal.
    #[test]
    fn the_glossary_fits_and_is_whole() {
        let text = text(80);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        for term in ALL {
            assert!(term.meaning.split(' ').all(|word| words.contains(&word)), "{}", term.name);
            assert_eq!(ALL.iter().filter(|other| other.name == term.name).count(), 1, "{}", term.name);
        }
    }
}

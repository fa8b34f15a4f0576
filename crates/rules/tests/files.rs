//! Files of rules: what they say, and what is said of those that are wrong.

use numalens_rules::{Action, Allocation, Frame, Matcher, Nodes, ObjectKind, Rule, Rules, SizeRange};
use proptest::prelude::*;

const FILE: &str = r#"
version = 1

# written once, used in parts
[[rule]]
name = "table of main"
allocation = { frames = ["app@3F2a91+0x11d9", "libsolve.so+0x40"], at = "serial_init.c:41", size = "1 MiB.." }
do = "interleave"
nodes = "0-1,3"

[[rule]]
name = "workers"
thread = "worker*"
do = "pin"
cpus = "0-15"

[[rule]]
name = "the rest"
process = true
do = "weighted"
weights = { 0 = 3, 1 = 1 }

[[rule]]
name = "index"
object = { kind = "file", name = "/data/index" }
do = "prefer"
nodes = "2"
"#;

fn nodes(list: &str) -> Nodes {
    Nodes::parse(list).unwrap()
}

#[test]
fn a_file_says_what_it_says() {
    let rules = Rules::parse(FILE, "rules.toml").unwrap().rules;
    let frame = |module: &str, build_id: &str, address| Frame {
        module: module.to_owned(),
        build_id: build_id.to_owned(),
        address,
    };
    assert_eq!(
        rules[0].matcher,
        Matcher::Allocation(Allocation {
            frames: vec![frame("app", "3f2a91", 0x11d9), frame("libsolve.so", "", 0x40)],
            at: Some("serial_init.c:41".to_owned()),
            size: SizeRange { least: 1 << 20, most: None },
        })
    );
    assert_eq!(rules[0].action, Action::Interleave(nodes("0-1,3")));
    assert_eq!(rules[1].matcher, Matcher::Thread("worker*".to_owned()));
    assert_eq!(rules[1].action, Action::Pin(nodes("0-15")));
    assert_eq!((&rules[2].matcher, &rules[2].action), (&Matcher::Process, &Action::Weighted(vec![(0, 3), (1, 1)])));
    assert_eq!(rules[3].matcher, Matcher::Object { kind: ObjectKind::File, name: "/data/index".to_owned() });
}

/// The line, what is wrong, and what may stand there.
#[test]
fn what_is_wrong_is_told_with_its_line() {
    let of = |matcher: &str, action: &str| format!("version = 1\n[[rule]]\nname = \"a\"\n{matcher}\n{action}\n");
    let process = |action: &str| of("process = true", action);
    for (text, line, reason) in [
        ("version = 2\n".to_owned(), 1, "this numalens reads 1"),
        (String::new(), 1, "missing field `version`"),
        ("version = 1\n[[rule]\n".to_owned(), 2, ""),
        (of("process = true\ncolour = 3", "do = \"pad\""), 5, "unknown field `colour`"),
        (of("", "do = \"interleave\""), 2, "of what it speaks"),
        (of("process = true\nthread = \"x\"", "do = \"interleave\""), 2, "one thing"),
        (of("process = false", "do = \"interleave\""), 4, "matches nothing"),
        (of("allocation = {}", "do = \"interleave\""), 4, "by `frames`, by `at` or by `size`"),
        (of("allocation = { frames = [\"app\"] }", "do = \"pad\""), 4, "is no call"),
        (of("allocation = { size = \"4 KB\" }", "do = \"pad\""), 4, "is no size"),
        (of("object = { kind = \"heap\", name = \"x\" }", "do = \"interleave\""), 4, "global, file or code"),
        (of("thread = \"x\"", "do = \"interleave\""), 5, "does not fit"),
        (of("allocation = { size = \"1..\" }", "do = \"pin\"\ncpus = \"0\""), 5, "does not fit"),
        (process("do = \"pad\""), 5, "for allocations"),
        (process("do = \"move\""), 5, "nothing that a rule does"),
        (process("do = \"bind\""), 5, "needs `nodes`"),
        (process("do = \"bind\"\nnodes = \"\""), 6, "empty list"),
        (process("do = \"bind\"\nnodes = \"1-0\""), 6, "backwards"),
        (process("do = \"bind\"\nnodes = \"1\"\ncpus = \"2\""), 7, "takes no `cpus`"),
        (process("do = \"huge-pages\"\nnodes = \"1\""), 6, "takes no `nodes`"),
        (process("do = \"weighted\""), 5, "needs `weights`"),
        (process("do = \"weighted\"\nweights = { 0 = 0 }"), 6, "from 1 to 255"),
        (process("do = \"weighted\"\nweights = { x = 1 }"), 6, "no node's number"),
        (
            format!(
                "{}{}",
                process("do = \"interleave\""),
                "[[rule]]\nname = \"a\"\nprocess = true\ndo = \"interleave\"\n"
            ),
            7,
            "two rules",
        ),
    ] {
        let error = Rules::parse(&text, "rules.toml").unwrap_err();
        assert_eq!((error.line, error.file.as_str()), (line, "rules.toml"), "{text}\n{error}");
        assert!(error.reason.contains(reason), "{text}\n{error}");
    }
    let many = (0..4097).map(|at| format!("[[rule]]\nname = \"{at}\"\nprocess = true\ndo = \"interleave\"\n"));
    let error = Rules::parse(&format!("version = 1\n{}", many.collect::<String>()), "rules.toml").unwrap_err();
    assert!(error.reason.contains("more than 4096"), "{error}");
}

fn list() -> impl Strategy<Value = Nodes> {
    proptest::collection::btree_set(0u32..1024, 1..6).prop_map(|set| {
        let list: Vec<String> = set.iter().map(u32::to_string).collect();
        nodes(&list.join(","))
    })
}

fn matcher() -> impl Strategy<Value = Matcher> {
    let frame = ("[^\\p{C}]{1,12}", "[0-9a-f]{0,40}", any::<u64>());
    let frame = frame.prop_map(|(module, build_id, address)| Frame { module, build_id, address });
    let size = (any::<u32>(), proptest::option::of(any::<u32>())).prop_map(|(least, more)| SizeRange {
        least: least.into(),
        most: more.map(|more| u64::from(least) + u64::from(more)),
    });
    let allocation = (proptest::collection::vec(frame, 1..4), proptest::option::of(".*"), size);
    prop_oneof![
        allocation.prop_map(|(frames, at, size)| Matcher::Allocation(Allocation { frames, at, size })),
        ".*".prop_map(|name| Matcher::Object { kind: ObjectKind::Code, name }),
        Just(Matcher::Process),
    ]
}

proptest! {
    /// Whatever programs call their files, functions and threads.
    #[test]
    fn rules_are_read_as_they_are_written(name in ".*", notes in proptest::collection::vec(".*", 0..3),
                                          matcher in matcher(), on in list(), which in 0..4) {
        let action = match which {
            0 => Action::Bind(on),
            1 => Action::Interleave(Nodes::new()),
            2 => Action::SpreadByParts(on),
            _ => Action::HugePages(true),
        };
        let rule = Rule { name, notes, matcher, action };
        let text = Rules { rules: vec![rule.clone()] }.to_string();
        let read = Rules::parse(&text, "rules.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
        prop_assert_eq!(&read.rules, &[Rule { notes: Vec::new(), ..rule }]);
    }

    #[test]
    fn no_text_is_too_much(text in ".*") {
        let _ = Rules::parse(&text, "rules.toml");
        let _ = Rules::parse(&format!("version = 1\n[[rule]]\n{text}"), "rules.toml");
    }
}

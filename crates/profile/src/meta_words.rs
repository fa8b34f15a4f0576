//! Sets of words in `meta` that newer versions may add to. A word that this version does not know is carried along.

macro_rules! open_words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum $name {
            /// The file does not say.
            #[default]
            Unsaid,
            $($(#[$vdoc])* $variant,)*
            /// A word of a newer version.
            Other(String),
        }

        impl $name {
            /// The word in files and JSON; empty where the file does not say.
            pub fn word(&self) -> &str {
                match self {
                    $name::Unsaid => "",
                    $($name::$variant => $word,)*
                    $name::Other(word) => word,
                }
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    "" => $name::Unsaid,
                    $($word => $name::$variant,)*
                    other => $name::Other(other.to_owned()),
                }
            }
        }

        impl From<String> for $name {
            fn from(word: String) -> Self {
                $name::from(word.as_str())
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.word().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.word().fmt(f)
            }
        }
    )*};
}

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

open_words! {
    /// What recorded.
    Engine {
        /// Clock or hardware events, now and then.
        Sample = "sample",
        /// Every access, counted in the program itself.
        Exact = "exact",
        /// NUMAPROF; imported.
        Numaprof = "numaprof",
        /// `perf mem`; imported.
        Perf = "perf",
    }

    /// What the facts count.
    RecordedUnit {
        /// Every access.
        Accesses = "accesses",
        /// Accesses, as samples of events tell.
        EstimatedAccesses = "estimated accesses",
        /// Clock samples at instructions that access memory.
        TimeAtMemory = "time at memory instructions",
    }
}

/// An option that a virtual machine was simulated with.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
#[serde(bound(serialize = "T: Clone + fmt::Display", deserialize = "T: FromStr + fmt::Display"))]
pub enum MachineOption<T> {
    /// The machine was a real one.
    #[default]
    Unset,
    Set(T),
    /// Words of a newer version.
    Other(String),
}

impl<T: FromStr + fmt::Display> From<String> for MachineOption<T> {
    fn from(words: String) -> Self {
        match words.parse::<T>() {
            _ if words.is_empty() => MachineOption::Unset,
            // Whatever is said otherwise than by this version stays as it is.
            Ok(value) if value.to_string() == words => MachineOption::Set(value),
            _ => MachineOption::Other(words),
        }
    }
}

impl<T> From<Option<T>> for MachineOption<T> {
    fn from(value: Option<T>) -> Self {
        value.map_or(MachineOption::Unset, MachineOption::Set)
    }
}

impl<T: fmt::Display> From<MachineOption<T>> for String {
    fn from(option: MachineOption<T>) -> Self {
        option.to_string()
    }
}

impl<T: fmt::Display> fmt::Display for MachineOption<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MachineOption::Unset => Ok(()),
            MachineOption::Set(value) => value.fmt(f),
            MachineOption::Other(words) => words.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use numalens_topology::{NodeId, PagePolicy};

    #[test]
    fn every_word_comes_back() {
        for word in ["", "sample", "exact", "numaprof", "perf", "quantum", "Exact", "accesses"] {
            let json = serde_json::to_string(word).unwrap();
            let engine: Engine = serde_json::from_str(&json).unwrap();
            assert_eq!(engine.word(), word);
            assert_eq!(serde_json::to_string(&engine).unwrap(), json);
        }
        assert_eq!(Engine::from("exact"), Engine::Exact);
        assert_eq!(Engine::from("quantum"), Engine::Other("quantum".to_owned()));
    }

    #[test]
    fn every_option_comes_back() {
        for words in ["", "first-touch", "bind:3", "bind:03", "random:7", "nearest"] {
            let json = serde_json::to_string(words).unwrap();
            let policy: MachineOption<PagePolicy> = serde_json::from_str(&json).unwrap();
            assert_eq!(policy.to_string(), words);
            assert_eq!(serde_json::to_string(&policy).unwrap(), json);
        }
        assert_eq!(MachineOption::from("bind:3".to_owned()), MachineOption::Set(PagePolicy::Bind(NodeId(3))));
        assert_eq!(MachineOption::<PagePolicy>::from("bind:03".to_owned()), MachineOption::Other("bind:03".to_owned()));
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let error = serde_json::from_str::<Engine>("7").unwrap_err().to_string();
        assert!(error.contains("expected a string"), "{error}");
    }
}

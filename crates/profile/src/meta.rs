//! How a profile was made: the table `meta`, one key and its value as JSON per row.

use crate::SCHEMA_VERSION;
use crate::error::Error;
use crate::meta_words::{Engine, MachineOption, RecordedUnit};
use crate::tables::MetaEntry;
use numalens_topology::{PagePolicy, ThreadPlacement};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// Key of the list of the files that belong to the profile. It is the writer's, not part of [`Meta`].
const FILES: &str = "files";
const SCHEMA: &str = "schema_version";

/// How accesses were attributed to objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectAttribution {
    /// Every access by its address: no heap block is missing.
    EveryAccess,
    /// As far as pages and samples tell: small heap blocks are sampled.
    Estimated,
}

/// What [`Meta::unit_note`] says where every access was attributed to its object.
pub const BY_ADDRESS: &str = "each attributed to its object by its address";

/// How a profile was made. A field that the file lacks has its default.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// Of the tables; see [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Whether the recording was finished. Set by the writer.
    pub complete: bool,
    /// The recorded program and its arguments.
    pub command: Vec<String>,
    /// Where it ran.
    pub cwd: String,
    /// Host name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// Version of the numalens that recorded.
    pub numalens_version: String,
    /// What recorded.
    pub engine: Engine,
    /// What the facts count.
    pub unit: RecordedUnit,
    /// What a reader must know about the unit.
    pub unit_note: String,
    /// Name of the machine in force.
    pub machine_name: String,
    /// Whether that machine is a virtual one, its placement simulated.
    pub machine_virtual: bool,
    /// Placement of threads on a virtual machine.
    pub placement: MachineOption<ThreadPlacement>,
    /// Placement of pages on a virtual machine.
    pub policy: MachineOption<PagePolicy>,
    /// RFC 3339.
    pub start_time: String,
    /// Length of the recording.
    pub duration_ns: u64,
    /// How much of that accesses were counted, where the program or the user has paused the counting.
    pub counted_ns: Option<u64>,
    /// Width of a time bin.
    pub bin_ns: u64,
    /// Number of time bins.
    pub bins: u32,
    /// Samples per second that were asked for.
    pub frequency: Option<f64>,
    /// Amount of the unit that one sample stands for; 1: exact.
    pub period: u64,
    /// Whether reads and writes are told apart; if not, all accesses stand as reads.
    pub reads_and_writes: bool,
    /// Run time of the program without any profiler, when the user has said it.
    pub run_time_ns: Option<u64>,
    /// What was lost, and how many of it.
    pub losses: BTreeMap<String, u64>,
    /// What was coarsened to stay within limits.
    pub coarsened: Vec<String>,
    /// Processes that ran unobserved.
    pub unobserved: Vec<String>,
    /// Remarks for the reader of a report.
    pub notes: Vec<String>,
    /// How the program ended.
    pub exit_status: String,
    /// The lines of some modules are still to be looked up: the recording had no time for them.
    pub lines_wait: bool,
    /// The variables that matter to placement (`OMP_*`, `GOMP_*`, ...).
    pub environment: BTreeMap<String, String>,
    /// Keys that this version does not know; they are kept.
    #[serde(flatten)]
    pub extra: BTreeMap<String, Value>,
}

impl Default for Meta {
    fn default() -> Self {
        Meta {
            schema_version: SCHEMA_VERSION,
            complete: false,
            command: Vec::new(),
            cwd: String::new(),
            host: String::new(),
            kernel: String::new(),
            numalens_version: String::new(),
            engine: Engine::Unsaid,
            unit: RecordedUnit::Unsaid,
            unit_note: String::new(),
            machine_name: String::new(),
            machine_virtual: false,
            placement: MachineOption::Unset,
            policy: MachineOption::Unset,
            start_time: String::new(),
            duration_ns: 0,
            counted_ns: None,
            bin_ns: 0,
            bins: 0,
            frequency: None,
            period: 1,
            reads_and_writes: true,
            run_time_ns: None,
            losses: BTreeMap::new(),
            coarsened: Vec::new(),
            unobserved: Vec::new(),
            notes: Vec::new(),
            exit_status: String::new(),
            lines_wait: false,
            environment: BTreeMap::new(),
            extra: BTreeMap::new(),
        }
    }
}

impl Meta {
    /// How accesses were attributed to objects. Profiles say it in their remark on the unit.
    pub fn object_attribution(&self) -> ObjectAttribution {
        if self.unit_note.contains(BY_ADDRESS) { ObjectAttribution::EveryAccess } else { ObjectAttribution::Estimated }
    }

    /// The rows of the table, with the list of the profile's files.
    pub(crate) fn entries(&self, files: &[String], complete: bool, path: &Path) -> Result<Vec<MetaEntry>, Error> {
        let mut meta = self.clone();
        (meta.complete, meta.schema_version) = (complete, SCHEMA_VERSION);
        let encoded = |error: serde_json::Error| Error::Encode { path: path.to_owned(), why: error.to_string() };
        let Value::Object(mut map) = serde_json::to_value(&meta).map_err(encoded)? else { return Ok(Vec::new()) };
        map.insert(FILES.to_owned(), Value::from(files));
        Ok(map.into_iter().map(|(key, value)| MetaEntry { key, value: value.to_string() }).collect())
    }

    /// The meta data and the list of files from the rows of the table.
    pub(crate) fn from_entries(entries: Vec<MetaEntry>, path: &Path) -> Result<(Meta, Vec<String>), Error> {
        let bad = |key: &str, error: serde_json::Error| Error::BadMeta {
            path: path.to_owned(),
            key: key.to_owned(),
            why: error.to_string(),
        };
        let mut map = Map::new();
        for MetaEntry { key, value } in entries {
            let value = serde_json::from_str(&value).map_err(|error| bad(&key, error))?;
            map.insert(key, value);
        }
        // First of all: a newer version may have changed the meaning of everything else.
        let version: u32 =
            serde_json::from_value(map.get(SCHEMA).cloned().unwrap_or_default()).map_err(|error| bad(SCHEMA, error))?;
        if version > SCHEMA_VERSION {
            return Err(Error::Newer { path: path.to_owned(), found: version, known: SCHEMA_VERSION });
        }
        let files = serde_json::from_value(map.remove(FILES).unwrap_or_default()).map_err(|error| bad(FILES, error))?;
        let meta = serde_json::from_value(Value::Object(map)).map_err(|error| bad("(several)", error))?;
        Ok((meta, files))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(entries: &[(&str, &str)]) -> Result<Meta, String> {
        let entries =
            entries.iter().map(|(key, value)| MetaEntry { key: (*key).to_owned(), value: (*value).to_owned() });
        Meta::from_entries(entries.collect(), Path::new("meta.parquet"))
            .map(|(meta, _)| meta)
            .map_err(|error| error.to_string())
    }

    const MINIMUM: [(&str, &str); 2] = [("schema_version", "1"), ("files", "[]")];

    #[test]
    fn the_version_comes_first() {
        // Even if nothing else can be understood.
        let newer = parse(&[("command", "{\"program\": 1}"), ("schema_version", "7")]).unwrap_err();
        assert_eq!(
            newer,
            "meta.parquet was written by a newer numalens (schema 7, this one reads up to 1): update numalens"
        );
    }

    #[test]
    fn absent_keys_have_defaults_and_unknown_ones_are_kept() {
        let meta = parse(&[MINIMUM[0], MINIMUM[1], ("weather", "\"rain\"")]).unwrap();
        assert_eq!(meta, Meta { extra: [("weather".to_owned(), Value::from("rain"))].into(), ..Meta::default() });
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        let not_json = parse(&[MINIMUM[0], MINIMUM[1], ("host", "rain")]).unwrap_err();
        assert!(not_json.starts_with("meta.parquet: the value of `host` in meta cannot be understood: "), "{not_json}");
        let other_type = parse(&[MINIMUM[0], MINIMUM[1], ("duration_ns", "\"long\"")]).unwrap_err();
        assert!(other_type.contains("expected u64"), "{other_type}");
        let absent = parse(&[MINIMUM[1]]).unwrap_err();
        assert!(absent.contains("`schema_version`"), "{absent}");
    }
}

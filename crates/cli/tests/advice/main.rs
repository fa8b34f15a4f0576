//! What `advise` and `diff` say of programs whose fault is known: of small ones beside this file, and of those in
//! targets/ with their repaired twins.

mod diff;
mod findings;
mod papers;
#[path = "../support/mod.rs"]
mod support;
mod twins;

use serde_json::Value;
use support::*;

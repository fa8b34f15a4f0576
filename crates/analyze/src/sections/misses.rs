//! The columns of misses that tables of threads and of code have, where the recording had a cache.

use crate::dataset::Dataset;
use crate::facts::cache_misses::{Missed, Misses};
use crate::model::metrics;
use crate::model::report::{Column, Shown, Value};

/// The columns that [`values`] fills.
pub fn columns(dataset: &Dataset) -> [Column; 3] {
    let shown = if dataset.facts.misses.is_some() { Shown::Everywhere } else { Shown::Data };
    [
        Column::metric(&metrics::CACHE_MISSES).only(shown),
        Column::metric(&metrics::READ_MISSES).only(Shown::Data),
        Column::metric(&metrics::WRITE_MISSES).only(Shown::Data),
    ]
}

/// What of a row missed; nothing, where there was no cache.
pub fn values(dataset: &Dataset, of: impl FnOnce(&Misses) -> Missed) -> [Value; 3] {
    let missed = dataset.facts.misses.as_ref().map(of);
    [
        Value::maybe(missed, |missed| Value::Count(missed.accesses())),
        Value::maybe(missed, |missed| Value::Count(missed.reads)),
        Value::maybe(missed, |missed| Value::Count(missed.writes)),
    ]
}

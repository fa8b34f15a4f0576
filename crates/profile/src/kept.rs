//! Decoded rows that stay in memory, by table.

use crate::read::RUNS_A_THREAD;
use crate::row::Row;
use rayon::prelude::*;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// Rows in the order of the table, in runs.
pub type Runs<T> = Arc<Vec<Vec<T>>>;

/// Tables by the type of their rows.
#[derive(Default)]
pub struct Kept(RwLock<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Kept {
    /// A table's rows; none: it is not kept.
    pub fn get<T: Row>(&self) -> Option<Runs<T>> {
        let tables = self.0.read().unwrap_or_else(PoisonError::into_inner);
        tables.get(&TypeId::of::<T>()).cloned()?.downcast::<Vec<Vec<T>>>().ok()
    }

    /// Keeps a table's rows.
    pub fn put<T: Row>(&self, mut runs: Vec<Vec<T>>) {
        runs.iter_mut().for_each(Vec::shrink_to_fit);
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(TypeId::of::<T>(), Arc::new(runs));
    }

    /// A table has other rows now.
    pub fn forget<T: Row>(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&TypeId::of::<T>());
    }
}

/// Folds over rows in memory, a few runs of neighbours for each thread.
pub fn fold<T: Row, A: Send>(
    runs: &[Vec<T>],
    init: &(impl Fn() -> A + Sync),
    step: &(impl Fn(&mut A, T) + Sync),
    merge: &(impl Fn(A, A) -> A + Sync),
) -> A {
    let rows: usize = runs.iter().map(Vec::len).sum();
    let part = rows.div_ceil(RUNS_A_THREAD * rayon::current_num_threads()).max(1 << 16);
    let parts: Vec<&[T]> = runs.iter().flat_map(|run| run.chunks(part)).collect();
    let each = |rows: &&[T]| {
        let mut accumulator = init();
        rows.iter().for_each(|row| step(&mut accumulator, row.clone()));
        accumulator
    };
    match parts.as_slice() {
        [] => init(),
        [only] => each(only),
        parts => parts.par_iter().map(each).reduce_with(merge).unwrap_or_else(init),
    }
}

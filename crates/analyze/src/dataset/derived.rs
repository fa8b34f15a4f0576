//! What is made of a dataset alone, when it is first asked for.

use crate::facts::totals::Totals;
use crate::facts::wrappers::Wrappers;
use crate::model::report::Report;
use std::sync::{Arc, OnceLock};

/// Results that several sections show.
#[derive(Default)]
pub struct Derived {
    /// Made of accesses by page and thread; shared with other parts that have the same.
    pub totals: Arc<OnceLock<Totals>>,
    pub wrappers: OnceLock<Wrappers>,
    /// What advice says: the verdict is made of it, and it is shown beside that.
    pub advice: OnceLock<Vec<Report>>,
}

impl Derived {
    /// Forgets what was made of tables that may be others now.
    pub fn reset(&mut self) {
        (self.wrappers, self.advice) = (OnceLock::new(), OnceLock::new());
    }
}

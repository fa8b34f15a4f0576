//! Which objects are one row of a report, and one target of advice.

use numalens_profile::ids::{ObjectId, SiteId, StackId};
use numalens_profile::tables::Object;
use numalens_profile::words::ObjectKind;

/// What makes objects one row.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Group {
    Allocated {
        stack: Option<StackId>,
        site: Option<SiteId>,
        name: String,
    },
    Named {
        kind: ObjectKind,
        name: String,
    },
    /// An object that the table does not have.
    Lost(ObjectId),
}

impl Group {
    /// The group that an object belongs to.
    pub fn of(object: &Object) -> Group {
        match object.kind {
            ObjectKind::Heap => Group::Allocated { stack: object.stack, site: object.site, name: object.name.clone() },
            kind => Group::Named { kind, name: object.name.clone() },
        }
    }
}

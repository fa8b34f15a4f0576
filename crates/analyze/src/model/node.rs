//! A node as a value of a report.

use crate::model::report::Value;
use numalens_topology::NodeId;

/// A node, or the word for none.
pub fn node(node: Option<NodeId>) -> Value {
    node.map_or_else(|| Value::Text("unpinned".to_string()), Value::Node)
}

//! Where threads may run, by what the kernel, the program, or the recording says, and where that puts pages.

use super::options::SessionOptions;
use super::threads::ThreadBinding;
use crate::homes::{thread_affinity, thread_policy};
use numalens_profile::ids::Page;
use numalens_topology::{CpuSet, NodeId};

impl SessionOptions {
    /// Where a thread of `node` may run on the virtual machine; none: unpinned.
    pub(super) fn virtual_binding(&self, node: Option<NodeId>) -> ThreadBinding {
        let cpus = match node.and_then(|node| self.machine.node(node)) {
            Some(node) => node.cpus.clone(),
            None => self.machine.cpus(),
        };
        ThreadBinding { cpus, node, policy: self.policy.to_string() }
    }

    /// Where a thread may run of which nothing is known.
    pub(super) fn anywhere(&self) -> ThreadBinding {
        ThreadBinding { cpus: self.machine.cpus(), node: None, policy: "default".to_owned() }
    }

    /// Where a thread may run now, if it still exists.
    pub(super) fn asked_binding(&self, pid: i32, tid: i32) -> Option<ThreadBinding> {
        let cpus = thread_affinity(tid).ok()?;
        let policy = thread_policy(pid, tid).ok()?;
        Some(self.binding(cpus, policy))
    }

    /// The placement that CPUs and a memory policy make: a policy that binds to one node wins.
    pub(super) fn binding(&self, cpus: CpuSet, policy: String) -> ThreadBinding {
        let by_policy = policy.strip_prefix("bind:").and_then(|nodes| nodes.parse().ok()).map(NodeId);
        let node = by_policy.or_else(|| self.machine.single_node(&cpus));
        ThreadBinding { cpus, node, policy }
    }

    /// Where a thread may run that is on `node`, at `place`; none where that must be asked for.
    pub(super) fn binding_at(&self, node: Option<NodeId>, place: Option<&(CpuSet, String)>) -> Option<ThreadBinding> {
        let is_virtual = self.machine.is_virtual;
        match place {
            None => is_virtual.then(|| self.virtual_binding(node)),
            // What the program leaves open, the placement and the policy of the recording decide.
            Some((cpus, policy)) if is_virtual => {
                let open = self.virtual_binding(node);
                let cpus = if *cpus == self.machine.cpus() { open.cpus } else { cpus.clone() };
                let policy = if policy == "default" { open.policy } else { policy.clone() };
                Some(ThreadBinding { cpus, node, policy })
            }
            Some((cpus, policy)) => Some(ThreadBinding { cpus: cpus.clone(), node, policy: policy.clone() }),
        }
    }

    /// Where a page lands on the virtual machine when a thread on `node` (`None`: unpinned, running on `cpu` of the
    /// host) touches it first.
    pub(super) fn virtual_home(&self, page: Page, node: Option<NodeId>, cpu: u32) -> Option<usize> {
        let machine = &self.machine;
        let node = node.or_else(|| {
            // An unpinned thread runs anywhere: the host's CPUs stand for the nodes in turn.
            let nodes = machine.nodes_with_cpus().count().max(1);
            machine.nodes_with_cpus().nth(cpu as usize % nodes).map(|node| node.id)
        })?;
        machine.index_of(self.policy.home(machine, page.0, node))
    }
}

//! What programs find in their environment where a virtual machine has more CPUs than there are: to sleep, or to let
//! others run, while they wait.
//!
//! Runtimes do so themselves when they know that there are more threads or processes than CPUs. Else they spin, waiting
//! for some that cannot run meanwhile, and the profile would be full of that.

use numalens_topology::Machine;
use std::env;
use std::ffi::{OsStr, OsString};

/// A variable of the environment that says how a runtime waits.
struct Manner {
    name: &'static str,
    value: &'static str,
    /// It is left alone where the user has said something by one of these.
    said_by: &'static [&'static str],
}

const MANNERS: [Manner; 2] = [
    // OpenMP: the specification's own; those of GNU's and LLVM's runtimes.
    Manner {
        name: "OMP_WAIT_POLICY",
        value: "passive",
        said_by: &["OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"],
    },
    // Open MPI (MPICH's processes do so after a while).
    Manner { name: "OMPI_MCA_mpi_yield_when_idle", value: "1", said_by: &["OMPI_MCA_mpi_yield_when_idle"] },
];

/// Variables to be set for the command.
pub fn spin_wait_env(machine: &Machine) -> Vec<(OsString, OsString)> {
    let there = crate::homes::thread_affinity(0).map_or(usize::MAX, |cpus| cpus.len());
    if !machine.is_virtual || machine.cpus().len() <= there {
        return Vec::new();
    }
    unsaid(|name| env::var_os(name).is_some()).map(|(name, value)| (name.into(), value.into())).collect()
}

fn unsaid(is_set: impl Fn(&OsStr) -> bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let unsaid = MANNERS.into_iter().filter(move |manner| !manner.said_by.iter().any(|name| is_set(name.as_ref())));
    unsaid.map(|manner| (manner.name, manner.value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_has_said_stays() {
        let added = |set: &'static str| unsaid(move |name| name == set).map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(added(""), ["OMP_WAIT_POLICY", "OMPI_MCA_mpi_yield_when_idle"]);
        assert_eq!(added("GOMP_SPINCOUNT"), ["OMPI_MCA_mpi_yield_when_idle"]);
        assert_eq!(added("OMPI_MCA_mpi_yield_when_idle"), ["OMP_WAIT_POLICY"]);
    }
}

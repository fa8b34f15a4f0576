//! The rank of a process in its MPI program, as its launcher says.

/// The variables of the usual launchers: Open MPI, PMIx (Open MPI 5, Slurm), MPICH and Intel MPI, MVAPICH, Slurm's srun. A
/// batch job's own shell has the last one too, so it counts least.
const VARIABLES: [&str; 6] =
    ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "MPI_RANK", "SLURM_PROCID"];

/// The rank of the calling process; none outside of an MPI program.
pub fn own() -> Option<u32> {
    first(|name| std::env::var(name).ok())
}

/// The rank of a running process, from the environment that it was started with; none when it is gone, or not ours to look at.
pub fn of_process(pid: i32) -> Option<u32> {
    of_environment(&std::fs::read(format!("/proc/{pid}/environ")).ok()?)
}

/// `environ`: `NAME=VALUE` words that end with zero bytes.
fn of_environment(environ: &[u8]) -> Option<u32> {
    let value = |name: &str| {
        environ.split(|&byte| byte == 0).find_map(|word| {
            let value = word.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            String::from_utf8(value.to_vec()).ok()
        })
    };
    first(value)
}

fn first(value: impl Fn(&str) -> Option<String>) -> Option<u32> {
    VARIABLES.iter().find_map(|name| value(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launchers_variable_tells_the_rank() {
        assert_eq!(of_environment(b"HOME=/\0OMPI_COMM_WORLD_RANK=3\0A=1\0"), Some(3));
        assert_eq!(of_environment(b"SLURM_PROCID=0\0PMI_RANK=12\0"), Some(12));
        assert_eq!(of_environment(b"PMI_RANKS=12\0XPMI_RANK=1\0"), None);
        assert_eq!(of_environment(b"PMI_RANK=two\0SLURM_PROCID=2\0"), Some(2));
        assert_eq!(of_environment(b""), None);
    }
}

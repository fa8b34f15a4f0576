//! The rank of a process in its MPI program, as its launcher says in the environment.

/// The variables of the usual launchers: Open MPI, PMIx (Open MPI 5, Slurm), MPICH and Intel MPI, MVAPICH, Slurm's
/// srun. A batch job's own shell has the last one too, so it counts least.
const VARIABLES: [&[u8]; 6] =
    [b"OMPI_COMM_WORLD_RANK", b"PMIX_RANK", b"PMI_RANK", b"MV2_COMM_WORLD_RANK", b"MPI_RANK", b"SLURM_PROCID"];

/// Bytes of a variable that need to be looked at.
pub const LONGEST: usize = 64;

/// What the variables that were looked at say.
#[derive(Clone, Copy, Debug, Default)]
pub struct RankSource(Option<(usize, u32)>);

impl RankSource {
    /// Looks at a variable, `NAME=VALUE`. They may come in any order.
    pub fn look_at(&mut self, variable: &[u8]) {
        let of_name = |name: &[u8]| variable.strip_prefix(name)?.strip_prefix(b"=");
        let found = VARIABLES.iter().enumerate().find_map(|(at, name)| Some((at, of_name(name)?)));
        let Some((at, value)) = found else { return };
        let rank = core::str::from_utf8(value).ok().and_then(|value| value.trim().parse().ok());
        if let Some(rank) = rank
            && self.0.is_none_or(|(best, _)| at < best)
        {
            self.0 = Some((at, rank));
        }
    }

    /// The rank; none outside of an MPI program.
    pub fn rank(self) -> Option<u32> {
        self.0.map(|(_, rank)| rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank_of(variables: &[&[u8]]) -> Option<u32> {
        let mut source = RankSource::default();
        variables.iter().for_each(|variable| source.look_at(variable));
        source.rank()
    }

    #[test]
    fn the_launchers_variable_tells_the_rank() {
        assert_eq!(rank_of(&[b"HOME=/", b"OMPI_COMM_WORLD_RANK=3", b"A=1"]), Some(3));
        assert_eq!(rank_of(&[b"SLURM_PROCID=0", b"PMI_RANK=12"]), Some(12));
        assert_eq!(rank_of(&[b"PMI_RANK=12", b"SLURM_PROCID=0"]), Some(12));
        assert_eq!(rank_of(&[b"PMI_RANKS=12", b"XPMI_RANK=1"]), None);
        assert_eq!(rank_of(&[b"PMI_RANK=two", b"SLURM_PROCID=2"]), Some(2));
        assert_eq!(rank_of(&[]), None);
    }
}

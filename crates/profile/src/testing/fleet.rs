//! A fleet: profiles of many ranks of one program, on many hosts, of which some stand out.
//!
//! | who | what is wrong there |
//! |---|---|
//! | one host | all pages are on node 1 |
//! | two ranks | the mesh is on node 0: its first touch was serial |
//! | each tenth rank | the halo is on node 0, so that `exchange` is remote there alone |
//! | two other ranks | the lookup table is on node 0 |
//!
//! Ranks that are alike share the files of their tables by hard links: only the first of them is made.

mod rank;

use crate::directory::{write_meta, write_table};
use crate::error::Error;
use crate::file::{Extent, TableFile};
use crate::ids::ProcessId;
use crate::read::{META, read_meta};
use crate::tables::Process;
use rank::Rank;
use rustc_hash::FxHashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Ordinary ranks differ a little: by so many shades.
const SHADES: u32 = 8;

/// What is wrong with a rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Fault {
    None,
    OneNode,
    SerialMesh,
    RemoteHalo,
    RemoteTable,
}

/// How many profiles, with how many facts each.
#[derive(Clone, Copy, Debug)]
pub struct Fleet {
    /// Profiles, at least 20.
    pub profiles: u32,
    /// Rows of `page_accesses` of each.
    pub facts: u64,
}

impl Fleet {
    fn ranks_a_host(self) -> u32 {
        (self.profiles / 50).clamp(2, 20)
    }

    fn host(self, rank: u32) -> u32 {
        rank / self.ranks_a_host()
    }

    fn fault(self, rank: u32) -> Fault {
        let hosts = self.profiles / self.ranks_a_host();
        match rank {
            _ if self.host(rank) == hosts / 3 => Fault::OneNode,
            _ if rank == self.profiles / 10 + 1 || rank == self.profiles * 5 / 8 => Fault::SerialMesh,
            _ if rank == self.profiles / 20 || rank == self.profiles * 9 / 10 => Fault::RemoteTable,
            _ if rank % 10 == 9 => Fault::RemoteHalo,
            _ => Fault::None,
        }
    }

    /// Writes `rank-0000.numalens` and so on into a folder, which may be there.
    ///
    /// # Errors
    /// As [`crate::Writer`]; a profile that is there already.
    pub fn write(self, folder: &Path) -> Result<(), Error> {
        fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
        let mut made: FxHashMap<(Fault, u32), PathBuf> = FxHashMap::default();
        for number in 0..self.profiles {
            let (fault, shade) = (self.fault(number), number % SHADES);
            let host = format!("host-{:02}", self.host(number));
            let rank = Rank { number, host, fault, shade, facts: self.facts };
            let path = folder.join(format!("rank-{number:04}.numalens"));
            match made.get(&(fault, shade)) {
                Some(alike) => rank.link(alike, &path)?,
                None => {
                    made.insert((fault, shade), rank.write(&path)?);
                }
            }
        }
        Ok(())
    }
}

impl Rank {
    /// Writes the rank's profile beside one that has the same facts.
    fn link(&self, alike: &Path, path: &Path) -> Result<(), Error> {
        let (_, files) = read_meta(&TableFile::open(Extent::whole(&alike.join(META))?)?)?;
        fs::create_dir(path).map_err(Error::io("create", path))?;
        let own = format!("{}.parquet", Process::TABLE);
        for name in files.iter().filter(|name| **name != own) {
            let to = path.join(name);
            fs::hard_link(alike.join(name), &to).map_err(Error::io("link", &to))?;
        }
        write_table(&path.join(&own), [self.process(ProcessId(0))])?;
        write_meta(path, &self.meta(), &files, true).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Profile;

    #[test]
    fn every_profile_of_a_fleet_is_a_valid_one() {
        let scratch = tempfile::tempdir().unwrap();
        let fleet = Fleet { profiles: 20, facts: 3200 };
        fleet.write(scratch.path()).unwrap();
        let mut faults = Vec::new();
        for number in 0..20 {
            let path = scratch.path().join(format!("rank-{number:04}.numalens"));
            let profile = Profile::open(&path).unwrap();
            assert_eq!(crate::check(&profile).unwrap(), [], "{number}");
            assert_eq!(profile.rows::<Process>().unwrap()[0].rank, Some(number));
            if fleet.fault(number) != Fault::None {
                faults.push((number, fleet.fault(number)));
            }
        }
        let (table, mesh, one, halo) = (Fault::RemoteTable, Fault::SerialMesh, Fault::OneNode, Fault::RemoteHalo);
        assert_eq!(faults, [(1, table), (3, mesh), (6, one), (7, one), (9, halo), (12, mesh), (18, table), (19, halo)]);
    }
}

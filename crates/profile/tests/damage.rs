//! Damaged and hostile profiles: each is refused with an error that names the file, or read as it was written.

use numalens_profile::testing::Synthetic;
use numalens_profile::{Error, Profile, Row, Visitor, check, pack, unpack};
use std::io::Write;
use std::path::{Path, PathBuf};

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Everything that a profile tells.
fn content(path: &Path) -> Result<String, Error> {
    struct Tell<'a>(&'a Profile, String);
    impl Visitor for Tell<'_> {
        fn table<T: Row>(&mut self) -> Result<(), Error> {
            self.1.push_str(&format!("{}: {:?}", T::TABLE, self.0.rows::<T>()?));
            Ok(())
        }
    }
    let profile = Profile::open(path)?;
    let mut tell = Tell(&profile, format!("{:?}", profile.meta));
    numalens_profile::tables::visit(&mut tell)?;
    Ok(tell.1)
}

/// Numbers without a pattern, the same in every run.
struct Scatter(u64);

impl Scatter {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

#[test]
fn every_truncation_is_found() {
    let scratch = tempfile::tempdir().unwrap();
    let path = Synthetic::example().write(&scratch.path().join("a.numalens")).unwrap();
    for file in files(&path) {
        let whole = std::fs::read(&file).unwrap();
        for fiftieth in 0..50 {
            std::fs::write(&file, &whole[..whole.len() * fiftieth / 50]).unwrap();
            let error = content(&path).unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{error}");
            assert!(error.to_string().contains(&*file.file_name().unwrap().to_string_lossy()), "{error}");
        }
        std::fs::write(&file, &whole).unwrap();
    }
    content(&path).unwrap();
}

#[test]
fn every_flipped_bit_is_found_or_harmless() {
    let scratch = tempfile::tempdir().unwrap();
    let path = Synthetic::example().write(&scratch.path().join("a.numalens")).unwrap();
    let (intact, mut scatter) = (content(&path).unwrap(), Scatter(1));
    let mut harmless = 0;
    for file in files(&path) {
        let whole = std::fs::read(&file).unwrap();
        for _ in 0..100 {
            let (byte, bit) = (scatter.below(whole.len()), scatter.below(8));
            let mut damaged = whole.clone();
            damaged[byte] ^= 1 << bit;
            std::fs::write(&file, &damaged).unwrap();
            match content(&path) {
                Ok(read) => {
                    harmless += 1;
                    assert!(
                        read == intact,
                        "{} reads differently after bit {bit} of byte {byte} flipped",
                        file.display()
                    );
                    // What no reader needs (`PAR1` at the start) `check` still finds.
                    let checked = Profile::open(&path).and_then(|profile| check(&profile));
                    assert!(matches!(checked, Err(Error::Damaged { .. })), "{} byte {byte}", file.display());
                }
                Err(error) => {
                    assert!(matches!(error, Error::Damaged { .. }), "{error}");
                    assert!(error.to_string().contains(&*file.file_name().unwrap().to_string_lossy()), "{error}");
                }
            }
        }
        std::fs::write(&file, &whole).unwrap();
    }
    assert!(harmless < 20, "{harmless} flips passed unseen");
}

#[test]
fn a_missing_file_is_found() {
    let scratch = tempfile::tempdir().unwrap();
    let path = Synthetic::example().write(&scratch.path().join("a.numalens")).unwrap();
    std::fs::remove_file(path.join("site_accesses.parquet")).unwrap();
    let error = Profile::open(&path).err().unwrap().to_string();
    assert!(error.contains("site_accesses.parquet"), "{error}");
}

#[test]
fn a_foreign_file_in_the_directory_is_ignored() {
    let scratch = tempfile::tempdir().unwrap();
    let path = Synthetic::example().write(&scratch.path().join("a.numalens")).unwrap();
    let intact = content(&path).unwrap();
    std::fs::write(path.join("notes.parquet"), "not one of ours").unwrap();
    assert_eq!(content(&path).unwrap(), intact);
}

#[test]
fn a_packed_profile_is_the_same_profile() {
    let scratch = tempfile::tempdir().unwrap();
    let path = Synthetic::example().write(&scratch.path().join("app.numalens")).unwrap();
    let (zip, out) = (scratch.path().join("app.zip"), scratch.path().join("out.numalens"));
    pack(&path, &zip, false).unwrap();
    assert_eq!(content(&zip).unwrap(), content(&path).unwrap());
    assert!(matches!(pack(&path, &zip, false), Err(Error::Exists { .. })));
    assert_eq!(unpack(&zip, Some(&out), false).unwrap(), out);
    assert!(matches!(unpack(&zip, Some(&out), false), Err(Error::Exists { .. })));
    for (before, after) in files(&path).iter().zip(files(&out)) {
        assert_eq!(before.file_name(), after.file_name());
        assert!(std::fs::read(before).unwrap() == std::fs::read(after).unwrap());
    }
    assert_eq!(files(scratch.path()).len(), 3, "nothing is left behind");
}

#[test]
fn a_damaged_archive_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let path = Synthetic::example().write(&scratch.path().join("app.numalens")).unwrap();
    let (zip, out) = (scratch.path().join("app.zip"), scratch.path().join("out.numalens"));
    pack(&path, &zip, false).unwrap();
    let (intact, whole, mut scatter) = (content(&zip).unwrap(), std::fs::read(&zip).unwrap(), Scatter(2));
    for fiftieth in 0..50 {
        std::fs::write(&zip, &whole[..whole.len() * fiftieth / 50]).unwrap();
        content(&zip).unwrap_err();
        unpack(&zip, Some(&out), false).unwrap_err();
    }
    for _ in 0..500 {
        let (byte, bit) = (scatter.below(whole.len()), scatter.below(8));
        let mut damaged = whole.clone();
        damaged[byte] ^= 1 << bit;
        std::fs::write(&zip, &damaged).unwrap();
        if let Ok(read) = content(&zip) {
            assert!(read == intact, "bit {bit} of byte {byte}");
        }
    }
    assert_eq!(files(scratch.path()).len(), 2, "nothing is left behind");
}

/// An archive with the entries of a good one and some more.
fn archive(path: &Path, good: &Path, folder: &str, extra: &[(&str, zip::CompressionMethod)]) {
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for file in files(good) {
        archive.start_file(format!("{folder}{}", file.file_name().unwrap().to_string_lossy()), stored).unwrap();
        archive.write_all(&std::fs::read(&file).unwrap()).unwrap();
    }
    for (name, method) in extra {
        archive.start_file(*name, stored.compression_method(*method)).unwrap();
        archive.write_all(b"root::0:0::/:/bin/sh").unwrap();
    }
    archive.finish().unwrap();
}

#[test]
fn a_hostile_archive_writes_nothing() {
    use zip::CompressionMethod::Stored;
    let scratch = tempfile::tempdir().unwrap();
    let good = Synthetic::example().write(&scratch.path().join("app.numalens")).unwrap();
    let inner = scratch.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let (zip, out) = (inner.join("app.zip"), inner.join("out.numalens"));
    for name in [
        "../passwd",
        "../evil.parquet",
        "/tmp/evil.parquet",
        "a/../../evil.parquet",
        "..",
        "a\\..\\evil.parquet",
        "sites.parquet/evil.parquet",
        "evil.parquet\0",
        "EVIL.sh",
        ".parquet",
    ] {
        archive(&zip, &good, "", &[(name, Stored)]);
        let error = unpack(&zip, Some(&out), false).unwrap_err();
        assert!(matches!(error, Error::BadArchive { .. }), "{name}: {error}");
        assert!(Profile::open(&zip).is_err(), "{name}");
        assert_eq!(files(&inner), std::slice::from_ref(&zip), "{name}");
        assert_eq!(files(scratch.path()).len(), 2, "{name}");
    }
    for folder in ["../", "/", "a/b/", "..\\"] {
        archive(&zip, &good, folder, &[]);
        assert!(unpack(&zip, Some(&out), false).is_err(), "{folder}");
    }
    // The same, harmless.
    archive(&zip, &good, "", &[]);
    unpack(&zip, Some(&out), false).unwrap();
    assert_eq!(content(&out).unwrap(), content(&good).unwrap());
}

#[test]
fn an_archive_that_states_absurd_sizes_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let good = Synthetic::example().write(&scratch.path().join("app.numalens")).unwrap();
    let zip = scratch.path().join("app.zip");
    archive(&zip, &good, "", &[]);
    let mut bytes = std::fs::read(&zip).unwrap();
    // In each entry of the central directory: compressed and uncompressed size, 4 bytes each from byte 20 on.
    let mut entries = 0;
    for at in 0..bytes.len() - 46 {
        if bytes[at..at + 4] == *b"PK\x01\x02" {
            bytes[at + 20..at + 28].copy_from_slice(&[0xf0, 0xff, 0xff, 0x7f, 0xf0, 0xff, 0xff, 0x7f]);
            entries += 1;
        }
    }
    assert!(entries > 10);
    std::fs::write(&zip, bytes).unwrap();
    let error = Profile::open(&zip).err().unwrap();
    assert!(matches!(error, Error::BadArchive { .. }), "{error}");
    assert!(error.to_string().contains("more bytes than the file has"), "{error}");
}

#[test]
fn files_that_are_no_profiles_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("x.numalens");
    for bytes in [&b""[..], b"PAR1", b"PAR1PAR1PAR1", b"PK\x05\x06", b"hello", &[0xff; 5000]] {
        std::fs::write(&path, bytes).unwrap();
        let error = Profile::open(&path).err().unwrap();
        assert!(error.to_string().contains("x.numalens"), "{error}");
    }
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    for bytes in [&b""[..], b"PAR1", b"\0\0\0\0PAR1", b"PAR1\xff\xff\xff\xffPAR1", b"PAR1\x04\0\0\0PAR1", &[0xff; 5000]]
    {
        std::fs::write(path.join("meta.parquet"), bytes).unwrap();
        let error = Profile::open(&path).err().unwrap();
        assert!(matches!(error, Error::Damaged { .. }) && error.to_string().contains("meta.parquet"), "{error}");
    }
}

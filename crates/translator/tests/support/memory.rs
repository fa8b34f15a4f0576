//! Anonymous memory at a chosen place.

/// A mapping, unmapped when dropped.
pub struct Mapping {
    pointer: *mut u8,
    size: usize,
}

impl Mapping {
    /// Zeroed, not committed; executable on demand. At `at` exactly when given.
    pub fn new(size: usize, at: Option<usize>, executable: bool) -> Mapping {
        let fixed = if at.is_some() { libc::MAP_FIXED_NOREPLACE } else { 0 };
        Self::map(size, at.unwrap_or(0), fixed, executable)
    }

    /// Below 2 GiB.
    pub fn low(size: usize) -> Mapping {
        Self::map(size, 0, libc::MAP_32BIT, false)
    }

    /// A page that cannot be read or written.
    pub fn hole() -> Mapping {
        let mapping = Self::new(4096, None, false);
        // SAFETY: it was mapped just now.
        assert_eq!(unsafe { libc::mprotect(mapping.pointer.cast(), mapping.size, libc::PROT_NONE) }, 0);
        mapping
    }

    fn map(size: usize, at: usize, flags: i32, executable: bool) -> Mapping {
        let protection = libc::PROT_READ | libc::PROT_WRITE | if executable { libc::PROT_EXEC } else { 0 };
        let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping; MAP_FIXED_NOREPLACE never replaces one.
        let pointer = unsafe { libc::mmap(at as *mut _, size, protection, flags, -1, 0) };
        assert!(pointer != libc::MAP_FAILED, "mmap of {size:#x} at {at:#x}: {}", std::io::Error::last_os_error());
        Mapping { pointer: pointer.cast(), size }
    }

    pub fn split(self, at: usize) -> (Mapping, Mapping) {
        let Mapping { pointer, size } = self;
        std::mem::forget(self);
        // SAFETY: within the mapping.
        let second = unsafe { pointer.add(at) };
        (Mapping { pointer, size: at }, Mapping { pointer: second, size: size - at })
    }

    pub fn pointer(&self) -> *mut u8 {
        self.pointer
    }

    pub fn address(&self) -> u64 {
        self.pointer as u64
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped, and only the code under test writes it otherwise, never while this borrow is in use.
        unsafe { std::slice::from_raw_parts(self.pointer, self.size) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`.
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.size) }
    }

    pub fn get(&self, offset: usize) -> u64 {
        assert!(offset + 8 <= self.size);
        // SAFETY: within the mapping.
        unsafe { self.pointer.add(offset).cast::<u64>().read_unaligned() }
    }

    pub fn set(&mut self, offset: usize, value: u64) {
        assert!(offset + 8 <= self.size);
        // SAFETY: within the mapping.
        unsafe { self.pointer.add(offset).cast::<u64>().write_unaligned(value) }
    }

    pub fn set_half(&mut self, offset: usize, value: u32) {
        assert!(offset + 4 <= self.size);
        // SAFETY: within the mapping.
        unsafe { self.pointer.add(offset).cast::<u32>().write_unaligned(value) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing else uses it.
        unsafe { libc::munmap(self.pointer.cast(), self.size) };
    }
}

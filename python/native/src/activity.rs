//! The activity: which call is being executed, in memory shared with the node.
//!
//! The node reads it after this process died or while it seems to hang. Four words: number of the
//! activity, slot (0 while idle, all ones for a query), index (of a query the lower half of its id) and object, and whether
//! what undoes the call runs, not the call itself.

use pyo3::prelude::*;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

const WORDS: usize = 4;

/// The value in place of a slot while a query is answered.
pub(crate) const QUERY: u64 = u64::MAX;

pub(crate) struct SharedActivity {
    words: &'static [AtomicU64; WORDS],
    count: u64,
}

impl SharedActivity {
    /// Maps the memory behind `fd`, of which the node made at least a page.
    pub(crate) fn map(fd: RawFd) -> PyResult<SharedActivity> {
        // SAFETY: a fresh shared mapping at an address of the kernel's choice; the result is checked.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<[AtomicU64; WORDS]>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().into());
        }
        // SAFETY: the mapping is page-aligned, large enough, never unmapped, and every bit pattern is
        // a valid AtomicU64; other processes only read it with whole-word reads.
        let words = unsafe { &*address.cast::<[AtomicU64; WORDS]>() };
        Ok(SharedActivity { words, count: 0 })
    }

    /// A call begins.
    #[inline]
    pub(crate) fn begin(&mut self, slot: u64, index: u32, object: u32) {
        self.count += 1;
        let place = u64::from(index) << 32 | u64::from(object);
        self.words[3].store(0, Ordering::Relaxed);
        self.words[2].store(place, Ordering::Relaxed);
        self.words[1].store(slot, Ordering::Relaxed);
        self.words[0].store(self.count, Ordering::Release);
    }

    /// What undoes the call that began runs from here on.
    #[inline]
    pub(crate) fn undoes(&mut self) {
        self.words[3].store(1, Ordering::Release);
    }

    /// The call itself does.
    #[inline]
    pub(crate) fn calls(&mut self) {
        self.words[3].store(0, Ordering::Release);
    }

    /// No call is being executed.
    #[inline]
    pub(crate) fn idle(&mut self) {
        self.words[1].store(0, Ordering::Release);
    }
}

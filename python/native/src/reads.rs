//! Which methods run as reads, and whether they keep their word.
//!
//! A read is executed by one replica only, so whatever it changes would make that replica differ from all others.
//! Only methods run as reads that are declared, or that the search in `quorate._reads` shows to change nothing. Every read is checked for attributes that are bound anew; some are
//! checked by comparing the image of the object before and after, in a hundredth of the time and while the state is small.

use crate::encode;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A check may cost this part of the time.
const CHECK_SHARE: u32 = 100;

/// The first read of each method is checked as well, unless images are so large that clients would notice.
const FIRST_CHECK_MAX: Duration = Duration::from_millis(50);

/// Growth of the process, in KiB, beyond which a sample is not taken: a larger state takes longer to encode than a
/// read may. It must stay far below what `--call-timeout` allows.
const SAMPLE_GROWTH_MAX: i64 = 64 << 10;

/// Bytes of the state that lie in files: an image holds them too.
static ON_DISK: AtomicU64 = AtomicU64::new(0);

/// The largest size of the process before it held a state, in KiB.
static SIZE_AT_START: AtomicI64 = AtomicI64::new(0);

/// Growth of the process, in KiB, up to which the state is encoded once for each method that is undone, however long it takes.
const ONCE_GROWTH_MAX: i64 = 256 << 10;

/// What of the process's memory may be taken, in KiB, so that more is kept of calls that may be undone.
static KEEPING_MAX: AtomicI64 = AtomicI64::new(i64::MAX);

/// Whether the state is small enough that it may be encoded for a comparison.
pub(crate) fn is_process_small() -> bool {
    growth() < SAMPLE_GROWTH_MAX
}

/// Whether it is small enough that this may be done once.
pub(crate) fn is_small_enough_once() -> bool {
    growth() < ONCE_GROWTH_MAX
}

/// Whether there is room for what is kept of calls that may be undone: half of the memory, because a call that lacks some ends its host.
#[inline]
pub(crate) fn has_room_to_keep() -> bool {
    largest_size() < KEEPING_MAX.load(Ordering::Relaxed)
}

/// The half of the memory that the process may take, in KiB.
fn half_of_memory() -> i64 {
    let mut limit = std::mem::MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: the pointer is to a whole `rlimit`, which is valid as zeros and which the call only writes.
    let limit = unsafe {
        libc::getrlimit(libc::RLIMIT_AS, limit.as_mut_ptr());
        limit.assume_init().rlim_cur
    };
    i64::try_from(limit >> 11).unwrap_or(i64::MAX)
}

fn growth() -> i64 {
    let on_disk = i64::try_from(ON_DISK.load(Ordering::Relaxed) >> 10).unwrap_or(i64::MAX);
    (largest_size() - SIZE_AT_START.load(Ordering::Relaxed)).saturating_add(on_disk)
}

/// What the host asks of this module by itself.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(lies_on_disk, module)?)?;
    module.add_function(wrap_pyfunction!(note_inherited_size, module)?)?;
    module.add_function(wrap_pyfunction!(largest_size, module)?)
}

/// So many bytes of the state lie in files.
#[pyfunction]
fn lies_on_disk(size: u64) {
    ON_DISK.store(size, Ordering::Relaxed);
}

/// Methods that are kept in mind; a class has fewer.
const METHODS_KNOWN_MAX: usize = 1024;

/// Which reads are checked by image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Checking {
    /// None: the state has no image.
    Never,
    /// The first of each method and a sample.
    Sample,
    /// All: for tests.
    All,
}

/// Whether a method may run as a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Declared {
    Read,
    /// It was shown to change nothing, which is asked again before every read: types of attributes may change.
    Proven,
    Call,
    /// It was a read and changed its object.
    Lied,
}

struct Known {
    declared: Declared,
    is_checked: bool,
}

/// What is known about the methods of a host's objects.
pub(crate) struct ReadGuard {
    checking: Checking,
    methods: HashMap<(u32, Box<str>), Known>,
    check_at: Instant,
    check_cost: Duration,
}

/// The state of an object before a read.
pub(crate) struct Before<'py> {
    attributes: Option<Bound<'py, PyDict>>,
    image: Option<(Vec<u8>, Duration)>,
}

impl ReadGuard {
    pub(crate) fn new() -> ReadGuard {
        ReadGuard {
            checking: Checking::Sample,
            methods: HashMap::new(),
            check_at: Instant::now(),
            check_cost: Duration::ZERO,
        }
    }

    /// As the node wishes; `liars` are methods that changed their object although they are declared as reads.
    pub(crate) fn begin(&mut self, checking: Checking, liars: Vec<(u32, String)>) {
        self.checking = checking;
        // With the modules that the objects import, which are no state.
        SIZE_AT_START.store(largest_size(), Ordering::Relaxed);
        KEEPING_MAX.store(half_of_memory(), Ordering::Relaxed);
        for (object, method) in liars {
            let known = Known {
                declared: Declared::Lied,
                is_checked: true,
            };
            self.methods.insert((object, method.into()), known);
        }
    }

    /// What is known about a method; `ask` finds out, and says `declared`, `proven` or nothing.
    pub(crate) fn declared(
        &mut self,
        object: u32,
        method: &str,
        ask: impl FnOnce() -> PyResult<String>,
    ) -> PyResult<Declared> {
        let key = (object, method.into());
        if let Some(known) = self.methods.get(&key)
            && matches!(known.declared, Declared::Read | Declared::Lied)
        {
            return Ok(known.declared);
        }
        let declared = match ask()?.as_str() {
            "declared" => Declared::Read,
            "proven" => Declared::Proven,
            _ => Declared::Call,
        };
        if let Some(known) = self.methods.get_mut(&key) {
            known.declared = declared;
        } else if self.methods.len() < METHODS_KNOWN_MAX {
            let is_checked = false;
            let known = Known {
                declared,
                is_checked,
            };
            self.methods.insert(key, known);
        }
        Ok(declared)
    }

    /// Whether a method changed its object although it was a read.
    pub(crate) fn is_liar(&self, object: u32, method: &str) -> bool {
        let known = self.methods.get(&(object, method.into()));
        known.is_some_and(|known| known.declared == Declared::Lied)
    }

    /// What is compared after the read.
    pub(crate) fn before<'py>(
        &mut self,
        object: u32,
        method: &str,
        target: &Bound<'py, PyAny>,
    ) -> PyResult<Before<'py>> {
        let attributes = attributes(target).map(|now| now.copy()).transpose()?;
        let image = if self.is_due(object, method) {
            let began = Instant::now();
            // A state that cannot be encoded has no snapshots either, which is reported there.
            let image = encode::state(target).ok();
            image.map(|image| (image, began.elapsed()))
        } else {
            None
        };
        Ok(Before { attributes, image })
    }

    fn is_due(&mut self, object: u32, method: &str) -> bool {
        let is_sampled = match self.checking {
            Checking::Never => return false,
            Checking::All => return true,
            Checking::Sample => Instant::now() >= self.check_at,
        };
        let known = self.methods.get_mut(&(object, method.into()));
        let is_first = known.is_some_and(|known| !std::mem::replace(&mut known.is_checked, true));
        let is_wanted = is_sampled || (is_first && self.check_cost < FIRST_CHECK_MAX);
        is_wanted && is_process_small()
    }

    /// Whether the object is as it was.
    pub(crate) fn is_unchanged<'py>(
        &mut self,
        before: &Before<'py>,
        target: &Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        if let (Some(before), Some(now)) = (&before.attributes, attributes(target))
            && !is_bound_alike(before, &now)?
        {
            return Ok(false);
        }
        let Some((image, cost)) = &before.image else {
            return Ok(true);
        };
        let began = Instant::now();
        let is_same = encode::state(target).is_ok_and(|now| now == *image);
        self.check_cost = *cost + began.elapsed();
        self.check_at = Instant::now() + self.check_cost * CHECK_SHARE;
        Ok(is_same)
    }
}

impl Before<'_> {
    /// The image before the read, if one was made.
    pub(crate) fn image(&self) -> Option<&[u8]> {
        self.image.as_ref().map(|(image, _)| &image[..])
    }
}

/// The largest size that the process which started this one ever had, in KiB, where that is larger than this one's: the system counts
/// it for this one too.
static INHERITED: AtomicI64 = AtomicI64::new(0);

/// Where the system tells this process' own size, opened before the process is confined and only where the other number is of no use.
static OWN_SIZE: OnceLock<File> = OnceLock::new();

/// Sees whether the system counts the size of the process that started this one.
#[pyfunction]
fn note_inherited_size() {
    let counted = counted_size();
    if let Ok(file) = File::open("/proc/self/status")
        && own_size(&file).is_some_and(|own| own < counted)
        && OWN_SIZE.set(file).is_ok()
    {
        INHERITED.store(counted, Ordering::Relaxed);
    }
}

/// The largest size that this process ever had, in KiB.
#[pyfunction]
fn largest_size() -> i64 {
    let counted = counted_size();
    if counted > INHERITED.load(Ordering::Relaxed) {
        return counted;
    }
    OWN_SIZE.get().and_then(own_size).unwrap_or(counted)
}

/// As `/proc/self/status` tells it.
fn own_size(status: &File) -> Option<i64> {
    let mut text = [0; 4096];
    let length = status.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..length]).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}

/// As the system counts it for this process.
fn counted_size() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a whole `rusage`, which is valid as zeros and which the call only writes.
    unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init().ru_maxrss
    }
}

/// Whether nothing refers to an object but this one reference: not the state either.
pub(crate) fn is_held_once(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the reference keeps the object alive, and the interpreter is held while its count is read.
    unsafe { pyo3::ffi::Py_REFCNT(object.as_ptr()) == 1 }
}

/// The attributes of an object; none where its class keeps them in slots.
fn attributes<'py>(target: &Bound<'py, PyAny>) -> Option<Bound<'py, PyDict>> {
    target.getattr("__dict__").ok()?.cast_into().ok()
}

fn is_bound_alike(before: &Bound<'_, PyDict>, now: &Bound<'_, PyDict>) -> PyResult<bool> {
    if before.len() != now.len() {
        return Ok(false);
    }
    for (name, value) in now {
        if before.get_item(&name)?.is_none_or(|old| !old.is(&value)) {
            return Ok(false);
        }
    }
    Ok(true)
}

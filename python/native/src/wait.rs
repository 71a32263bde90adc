//! Waiting for descriptors, and dying with the node.

use pyo3::exceptions::PyProcessLookupError;
use pyo3::prelude::*;
use std::os::fd::RawFd;

/// Waits until one of the descriptors can be read or has ended.
pub(crate) fn until_readable(fds: &[RawFd]) -> std::io::Result<()> {
    let mut polled: Vec<libc::pollfd> = fds
        .iter()
        .map(|fd| libc::pollfd {
            fd: *fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // SAFETY: the pointer and the length describe `polled`, which lives during the call.
    let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
    if ready < 0 {
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(())
}

/// Asks the kernel to kill this process when `parent` dies; raises if that has happened already.
#[pyfunction]
pub(crate) fn die_with_parent(parent: u32) -> PyResult<()> {
    // SAFETY: takes no pointers; the argument is a signal number.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    if std::os::unix::process::parent_id() == parent {
        Ok(())
    } else {
        Err(PyProcessLookupError::new_err("the node is gone"))
    }
}

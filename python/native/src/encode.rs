//! Python objects to bytes, directly, without a value tree between.
//!
//! One walker serves two forms. A *value* travels between client and object: plain kinds, no sharing.
//! A *state* is kept in snapshots: everything mutable is remembered when first met and referred to by
//! number afterwards, so cycles and sharing survive; instances go in parts.

use crate::hooks::hooks;
use crate::layout::*;
use crate::reads;
use crate::walker::Walker;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

/// Encodes a travelling value; `root` names it in errors.
pub(crate) fn value(value: &Bound<'_, PyAny>, root: &str) -> PyResult<Vec<u8>> {
    let mut out = Vec::with_capacity(32);
    value_into(&mut out, value, root)?;
    Ok(out)
}

/// Appends a travelling value.
pub(crate) fn value_into(out: &mut Vec<u8>, value: &Bound<'_, PyAny>, root: &str) -> PyResult<()> {
    Walker::of_value(value.py(), out.len())?
        .put(out, value)
        .map_err(|fault| fault.into_error(value.py(), root))
}

/// Appends what a method of `target` returned; `target` itself travels as a mark, and arrives as the proxy.
pub(crate) fn result_into(
    out: &mut Vec<u8>,
    value: &Bound<'_, PyAny>,
    target: &Bound<'_, PyAny>,
    draws: Draws,
) -> PyResult<()> {
    let py = value.py();
    if value.is(target) {
        put_head(out, TAG, TAG_SINGLETON);
        put_text(out, "self");
        return Ok(());
    }
    let mut walker = Walker::of_value(py, out.len())?;
    if draws == Draws::Fresh {
        // Nobody else holds it, and it reads its container only: it is no part of the state.
        let is_fresh = reads::is_held_once(value) && hooks(py)?.is_own_iterator(value)?;
        walker.draw_only(is_fresh.then_some(value));
    }
    walker
        .put(out, value)
        .map_err(|fault| fault.into_error(py, "result"))
}

/// Which iterators in a result are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Draws {
    /// All: the call is ordered, or the method is declared to change nothing.
    All,
    /// Only one that the method has just made: another one may be kept in the state, which drawing it would change.
    Fresh,
}

/// Encodes a call.
pub(crate) fn call(
    method: &str,
    args: &Bound<'_, PyTuple>,
    kwargs: &Bound<'_, PyDict>,
) -> PyResult<Vec<u8>> {
    call_of(&call_head(method), args, Some(kwargs))
}

/// How every call of a method begins.
pub(crate) fn call_head(method: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(method.len() + 4);
    put_head(&mut out, ARRAY, 3);
    put_text(&mut out, method);
    out
}

/// Encodes a call that begins with `head`.
pub(crate) fn call_of(
    head: &[u8],
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<u8>> {
    let py = args.py();
    let mut walker = Walker::of_value(py, 0)?;
    let mut out = Vec::with_capacity(head.len() + 32);
    out.extend_from_slice(head);
    put_head(&mut out, ARRAY, args.len() as u64);
    for (index, item) in args.iter().enumerate() {
        walker
            .put(&mut out, &item)
            .map_err(|fault| fault.within(format!("[{index}]")).into_error(py, "args"))?;
    }
    put_head(
        &mut out,
        MAP,
        kwargs.map_or(0, |kwargs| kwargs.len()) as u64,
    );
    for (name, item) in kwargs.into_iter().flatten() {
        let name = name.cast::<PyString>()?.to_cow()?.into_owned();
        put_text(&mut out, &name);
        walker
            .put(&mut out, &item)
            .map_err(|fault| fault.within(format!("[{name:?}]")).into_error(py, "kwargs"))?;
    }
    Ok(out)
}

/// Encodes a state.
pub(crate) fn state(value: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut out = Vec::with_capacity(256);
    Walker::of_state(value.py())?
        .put(&mut out, value)
        .map_err(|fault| fault.into_error(value.py(), "self"))?;
    Ok(out)
}

/// Encodes a state of at most so many bytes, if nothing of it may run code of its classes, and it is soon done.
pub(crate) fn small_state(value: &Bound<'_, PyAny>, bytes_max: usize) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(256);
    // Whatever is wrong with it, a snapshot process finds again, and tells.
    let put = Walker::put_small(value.py(), &mut out, value, bytes_max);
    put.is_ok().then_some(out)
}

//! The Python functions that say what values of rare kinds mean.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// `quorate._values` and `quorate._state`, as the codec calls them.
pub(crate) struct Hooks {
    /// (value, is it in a state) -> (tag, plain content), a text that says why it does not travel, or None.
    pub(crate) reduce: Py<PyAny>,
    /// (tag, plain content) -> value.
    pub(crate) build: Py<PyAny>,
    /// value -> whether it is an iterator of a container that runs no code.
    own_iterator: Py<PyAny>,
    /// object -> (class name, arguments, state), or why it cannot be kept.
    pub(crate) take_apart: Py<PyAny>,
    /// What `reduce` or `take_apart` say of a value in a state; None where code of its class may run for that.
    pub(crate) parts_without_code: Py<PyAny>,
    /// (class name, arguments) -> object still without its state.
    pub(crate) make: Py<PyAny>,
    /// (object, state) -> None.
    pub(crate) fill: Py<PyAny>,
    /// a float that is no number -> the name that a module has for it, or None; and back.
    pub(crate) nan_name: Py<PyAny>,
    pub(crate) find_nan: Py<PyAny>,
}

impl Hooks {
    /// Whether it is an iterator of a container that runs no code.
    pub(crate) fn is_own_iterator(&self, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.own_iterator
            .bind(value.py())
            .call1((value,))?
            .extract()
    }
}

static HOOKS: PyOnceLock<Hooks> = PyOnceLock::new();

pub(crate) fn hooks(py: Python<'_>) -> PyResult<&Hooks> {
    HOOKS.get_or_try_init(py, || {
        let values = py.import("quorate._values")?;
        let state = py.import("quorate._state")?;
        let constants = py.import("quorate._constants")?;
        Ok(Hooks {
            reduce: values.getattr("reduce")?.unbind(),
            build: values.getattr("build")?.unbind(),
            own_iterator: values.getattr("is_own_iterator")?.unbind(),
            take_apart: state.getattr("take_apart")?.unbind(),
            parts_without_code: state.getattr("parts_without_code")?.unbind(),
            make: state.getattr("make")?.unbind(),
            fill: state.getattr("fill")?.unbind(),
            nan_name: constants.getattr("nan_name")?.unbind(),
            find_nan: constants.getattr("find_nan")?.unbind(),
        })
    })
}

/// The exception for a call without an answer; `quorate._errors` chooses its class.
#[cold]
pub(crate) fn call_error(py: Python<'_>, end: &str, cause: &str, message: String) -> PyErr {
    let made = py
        .import("quorate._errors")
        .and_then(|errors| errors.call_method1("of_call", (end, cause, message.as_str())));
    match made {
        Ok(instance) => PyErr::from_value(instance),
        Err(_) => PyRuntimeError::new_err(message),
    }
}

/// An exception of `quorate._errors` by name.
#[cold]
pub(crate) fn error(py: Python<'_>, class: &str, message: String) -> PyErr {
    let made = py
        .import("quorate._errors")
        .and_then(|errors| errors.getattr(class))
        .and_then(|class| class.call1((message.clone(),)));
    match made {
        Ok(instance) => PyErr::from_value(instance),
        Err(_) => PyRuntimeError::new_err(message),
    }
}

/// Whether it is an exception of that class of `quorate._errors`.
#[cold]
pub(crate) fn is_error(error: &PyErr, py: Python<'_>, class: &str) -> bool {
    let class = py
        .import("quorate._errors")
        .and_then(|errors| errors.getattr(class));
    class.is_ok_and(|class| error.is_instance(py, &class))
}

/// What calls need of Python.
pub(crate) struct CallHooks {
    /// The class of the futures of calls, and its `__new__`.
    pub(crate) future: Py<PyAny>,
    pub(crate) make_future: Py<PyAny>,
    /// (future, callbacks) -> None.
    pub(crate) call_back: Py<PyAny>,
    /// The class of the asyncio futures of calls.
    pub(crate) loop_call: Py<PyAny>,
    /// loop -> its end.
    pub(crate) loop_end: Py<PyAny>,
    pub(crate) running_loop: Py<PyAny>,
    /// What stands for the object where a method returns it.
    pub(crate) itself: Py<PyAny>,
    /// The class of the refusal of a read.
    pub(crate) not_read_only: Py<PyAny>,
}

static CALL_HOOKS: PyOnceLock<CallHooks> = PyOnceLock::new();

pub(crate) fn call_hooks(py: Python<'_>) -> PyResult<&CallHooks> {
    CALL_HOOKS.get_or_try_init(py, || {
        let futures = py.import("quorate._futures")?;
        let future = futures.getattr("CallFuture")?;
        Ok(CallHooks {
            make_future: future.getattr("__new__")?.unbind(),
            future: future.unbind(),
            call_back: futures.getattr("call_back")?.unbind(),
            loop_call: futures.getattr("LoopCall")?.unbind(),
            loop_end: futures.getattr("loop_end")?.unbind(),
            itself: py
                .import("quorate._rare_values")?
                .getattr("ITSELF")?
                .unbind(),
            not_read_only: py
                .import("quorate._errors")?
                .getattr("NotReadOnly")?
                .unbind(),
            running_loop: py.import("asyncio")?.getattr("get_running_loop")?.unbind(),
        })
    })
}

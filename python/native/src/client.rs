//! The client of `shell/client` for Python: a connection to a group, and the object that is called.
//!
//! Converts and calls. The interpreter is released wherever a thread may wait, and no lock of a client is awaited with it held.

use crate::asyncio::LoopEnd;
use crate::entrance;
use crate::failures::{call_error, connect_error};
use crate::inquiry::{Inquiry, Said};
use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use quorate_client::{
    CallCause, CallCell, CallError, Client, ClientHooks, ClientOpening, DriverOptions, Endpoint,
    FoundObject, OperationId, OperationOptions, Preference, SessionFile, SessionNews, SessionState,
    TlsClient,
};
use quorate_types::{ObjectId, ReadLevel};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a waiting call of the main thread leaves signals unseen that another thread took.
pub(crate) const SIGNALS_EVERY: Duration = Duration::from_millis(50);

/// How long other threads wait at a time: no signal is handled in them.
const WITHOUT_SIGNALS: Duration = Duration::from_secs(3600);

/// The longest span that is kept: a century, which overflows no clock.
pub(crate) const SPAN_MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// A session with a group, and the object that is called.
#[pyclass(frozen, name = "Client")]
pub(crate) struct NativeClient {
    client: Mutex<Option<Arc<Client>>>,
    /// The object's name; `None` for the only one.
    name: Option<String>,
    object: OnceLock<FoundObject>,
    inquiry: Arc<Inquiry>,
    /// How long a call may take that says nothing else.
    timeout: Duration,
    /// The level at which the object is looked up.
    found_at: ReadLevel,
}

/// What a connection asks of its session.
#[pyclass(frozen)]
pub(crate) struct SessionOptions {
    /// `None` for the usual one.
    expiry: Option<Duration>,
    /// How long it lives once this process has closed its connection, if that shall count.
    on_disconnect: Option<Duration>,
    /// The file of the session that it goes on with.
    resume: Option<PathBuf>,
    /// Whether it stays with whichever node answers.
    anyone: bool,
    /// Whether nobody waits for it, because what is read may be of any state.
    weak: bool,
}

#[pymethods]
impl SessionOptions {
    #[new]
    #[pyo3(signature = (*, expiry=None, on_disconnect=None, resume=None, anyone=false, weak=false))]
    fn new(
        expiry: Option<f64>,
        on_disconnect: Option<f64>,
        resume: Option<PathBuf>,
        anyone: bool,
        weak: bool,
    ) -> PyResult<SessionOptions> {
        Ok(SessionOptions {
            expiry: expiry.map(seconds).transpose()?,
            on_disconnect: on_disconnect.map(seconds).transpose()?,
            resume,
            anyone,
            weak,
        })
    }
}

/// What a client may count on at a moment.
#[pyclass(frozen)]
pub(crate) struct News(SessionNews);

#[pymethods]
impl News {
    /// The name of the state.
    #[getter]
    fn state(&self) -> &'static str {
        match self.0.life.state {
            SessionState::Connected => "connected",
            SessionState::Suspended => "suspended",
            SessionState::Lost => "lost",
        }
    }

    /// How many sessions of the client the group has ended.
    #[getter]
    fn ended(&self) -> u64 {
        self.0.life.ended
    }

    /// Whether another process had the session before.
    #[getter]
    fn resumed(&self) -> bool {
        self.0.life.is_resumed
    }

    /// Whether another process has resumed the newest session that ended.
    #[getter]
    fn superseded(&self) -> bool {
        self.0.life.is_superseded
    }

    /// Until when the session lives in any case, in seconds of the machine's clock.
    #[getter]
    fn until(&self) -> f64 {
        Duration::from_nanos(self.0.life.until.0).as_secs_f64()
    }
}

impl From<SessionNews> for News {
    fn from(news: SessionNews) -> News {
        News(news)
    }
}

/// What a connection is made of.
struct Way {
    endpoint: Endpoint,
    options: DriverOptions,
    timeout: Duration,
    name: Option<String>,
}

#[pymethods]
impl NativeClient {
    /// Connects and opens a session, within `timeout` seconds.
    #[new]
    #[pyo3(signature = (endpoint, timeout, name=None, *, session=None, tls=None))]
    fn new(
        py: Python<'_>,
        endpoint: &str,
        timeout: f64,
        name: Option<String>,
        session: Option<&SessionOptions>,
        tls: Option<[PathBuf; 3]>,
    ) -> PyResult<NativeClient> {
        let way = Way::new(py, endpoint, timeout, name, session, tls)?;
        let options = way.options.clone();
        let opened = py.detach(|| Client::open(&way.endpoint, options, hooks(), way.timeout));
        let (client, opening) = opened.map_err(|error| connect_error(py, &error))?;
        await_open(py, &client, &opening)?;
        let made = NativeClient::of(client, way);
        made.find_object(py)?;
        Ok(made)
    }

    /// Begins to connect; `future` of the loop behind `end` hears when that is done.
    #[staticmethod]
    #[pyo3(signature = (end, future, endpoint, timeout, name=None, *, session=None, tls=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of a Python function")]
    fn open(
        py: Python<'_>,
        end: &LoopEnd,
        future: Py<PyAny>,
        endpoint: &str,
        timeout: f64,
        name: Option<String>,
        session: Option<&SessionOptions>,
        tls: Option<[PathBuf; 3]>,
    ) -> PyResult<Py<NativeClient>> {
        let way = Way::new(py, endpoint, timeout, name, session, tls)?;
        let told = end.opened(future);
        let options = way.options.clone();
        let opened =
            py.detach(|| Client::open_with(&way.endpoint, options, hooks(), way.timeout, told));
        let client = opened.map_err(|error| connect_error(py, &error))?;
        Py::new(py, NativeClient::of(client, way))
    }

    /// Looks the object up, on a connection that is open.
    fn find_object(&self, py: Python<'_>) -> PyResult<()> {
        let client = self.client(py)?;
        let found = py.detach(|| client.find_reading(self.name.as_deref(), self.found_at));
        let found = found.map_err(|error| connect_error(py, &error))?;
        self.object.get_or_init(|| found);
        Ok(())
    }

    /// The object's number.
    #[getter]
    fn number(&self) -> u32 {
        self.object().0
    }

    /// The level of its reads where a proxy asks for no other one.
    #[getter]
    fn reads(&self) -> &'static str {
        self.read_level().name()
    }

    /// The same session, for another object.
    #[pyo3(signature = (object, reads="confirmed"))]
    fn beside(&self, py: Python<'_>, object: u32, reads: &str) -> PyResult<NativeClient> {
        let (object, reads) = (ObjectId(object), level_of(reads)?);
        Ok(NativeClient {
            client: Mutex::new(Some(self.client(py)?)),
            name: None,
            object: OnceLock::from(FoundObject { object, reads }),
            inquiry: Arc::clone(&self.inquiry),
            timeout: self.timeout,
            found_at: self.found_at,
        })
    }

    /// Nobody waits for a call any more: if it waits in the group, it is cancelled there.
    fn give_up(&self, py: Python<'_>, number: u64) {
        if let Ok(client) = self.client(py) {
            py.detach(|| client.give_up(OperationId(number)));
        }
    }

    /// Whether the session lives: count, state, ended sessions, and until when it does in any case; `None` when it is closed.
    fn news(&self, py: Python<'_>) -> PyResult<Option<News>> {
        let Some(client) = self.open_client(py)? else {
            return Ok(None);
        };
        Ok(py.detach(|| client.news()).map(News::from))
    }

    /// Waits for other news than these, at most for so many seconds.
    fn await_news(&self, py: Python<'_>, known: &News, patience: f64) -> PyResult<Option<News>> {
        let Some(client) = self.open_client(py)? else {
            return Ok(None);
        };
        let slice = seconds(patience)?;
        Ok(py
            .detach(|| client.await_news(known.0, slice))
            .map(News::from))
    }

    /// Has those who wait for news look at once.
    fn stir(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(client) = self.open_client(py)? {
            py.detach(|| client.stir());
        }
        Ok(())
    }

    /// What every node says of itself: number, address, and status document if it answers within so many seconds.
    fn statuses<'py>(&self, py: Python<'py>, patience: f64) -> PyResult<Vec<Said<'py>>> {
        Ok(self.inquiry.ask(py, seconds(patience)?))
    }

    /// Ends the session.
    fn close(&self, py: Python<'_>) {
        let client = self.place().take();
        py.detach(|| {
            if let Some(client) = client {
                client.close();
            }
        });
    }
}

impl NativeClient {
    fn of(client: Client, way: Way) -> NativeClient {
        NativeClient {
            client: Mutex::new(Some(Arc::new(client))),
            found_at: match way.options.is_for_any_state {
                true => ReadLevel::Any,
                false => ReadLevel::Confirmed,
            },
            name: way.name,
            object: OnceLock::new(),
            inquiry: Arc::new(Inquiry::new(way.endpoint, way.options.tls)),
            timeout: way.timeout,
        }
    }

    /// How long a call may take that says nothing else.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The client, unless it was closed or belongs to another process.
    pub(crate) fn client(&self, py: Python<'_>) -> PyResult<Arc<Client>> {
        let client = self.place().clone();
        match client {
            Some(client) if client.is_foreign() => Err(call_error(py, &CallError::Forked)),
            Some(client) => Ok(client),
            None => Err(call_error(py, &CallError::Closed)),
        }
    }

    /// The client, unless it was closed. Raises in another process.
    fn open_client(&self, py: Python<'_>) -> PyResult<Option<Arc<Client>>> {
        let is_closed = self.place().is_none();
        match is_closed {
            true => Ok(None),
            false => self.client(py).map(Some),
        }
    }

    pub(crate) fn object(&self) -> ObjectId {
        self.object.get().map_or(ObjectId(0), |found| found.object)
    }

    /// The level of the object's reads.
    pub(crate) fn read_level(&self) -> ReadLevel {
        let found = self.object.get();
        found.map_or(ReadLevel::Confirmed, |found| found.reads)
    }

    fn place(&self) -> std::sync::MutexGuard<'_, Option<Arc<Client>>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Way {
    fn new(
        py: Python<'_>,
        endpoint: &str,
        timeout: f64,
        name: Option<String>,
        session: Option<&SessionOptions>,
        tls: Option<[PathBuf; 3]>,
    ) -> PyResult<Way> {
        let endpoint: Endpoint = endpoint
            .parse()
            .map_err(|error| PyValueError::new_err(format!("{error}")))?;
        let timeout = seconds(timeout)?;
        let mut options = DriverOptions {
            timeout,
            ..DriverOptions::default()
        };
        if let Some([ca, cert, key]) = tls {
            let read = TlsClient::from_files(&ca, &cert, &key);
            let read = read.map_err(|error| connect_error(py, &error))?;
            options.tls = Some(Arc::new(read));
        }
        if let Some(session) = session {
            options.is_for_any_state = session.weak;
            if session.anyone {
                options.session.preference = Preference::Anyone;
            }
            if let Some(expiry) = session.expiry {
                options = options.expiring_after(expiry);
            }
            if let Some(after) = session.on_disconnect {
                options = options.ending_on_disconnect(after);
            }
            if let Some(path) = &session.resume {
                let file = SessionFile::open(path);
                let file = file.map_err(|error| connect_error(py, &error))?;
                options.session_file = Some(Arc::new(file));
            }
        }
        let name = endpoint.object.clone().or(name);
        Ok(Way {
            endpoint,
            options,
            timeout,
            name,
        })
    }
}

fn hooks() -> ClientHooks {
    ClientHooks {
        ended: entrance::run_callbacks,
        noted: entrance::log,
    }
}

/// The level of that name.
pub(crate) fn level_of(name: &str) -> PyResult<ReadLevel> {
    ReadLevel::of_name(name).ok_or_else(|| PyValueError::new_err(format!("no read level {name:?}")))
}

/// A span of time from Python; a longer one than [`SPAN_MAX`] never ends either.
pub(crate) fn seconds(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map(|span| span.min(SPAN_MAX))
        .map_err(|error| PyValueError::new_err(format!("timeout: {error}")))
}

fn await_open(py: Python<'_>, client: &Client, opening: &ClientOpening) -> PyResult<()> {
    loop {
        if let Some(opened) = py.detach(|| client.await_open(opening, SIGNALS_EVERY)) {
            return opened.map_err(|error| connect_error(py, &error));
        }
        py.check_signals()?;
    }
}

/// Waits until all cells are filled; raises what a signal's handler raises.
pub(crate) fn await_cells(
    py: Python<'_>,
    client: &Client,
    cells: &[Arc<CallCell>],
) -> PyResult<()> {
    let is_over = await_cells_until(py, client, cells, None)?;
    debug_assert!(is_over, "it waits until they are filled");
    Ok(())
}

/// Waits until all cells are filled, or until that time; says whether they are. Raises what a signal's handler raises.
pub(crate) fn await_cells_until(
    py: Python<'_>,
    client: &Client,
    cells: &[Arc<CallCell>],
    until: Option<Instant>,
) -> PyResult<bool> {
    let (mut first, mut slice) = (0, SIGNALS_EVERY);
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if client.is_foreign() {
            return Err(call_error(py, &CallError::Forked));
        }
        let longest = left.map_or(slice, |left| left.min(slice));
        if py.detach(|| client.wait(cells, &mut first, longest)) {
            return Ok(true);
        }
        py.check_signals()?;
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(false);
        }
        if !is_main_thread(py)? {
            slice = WITHOUT_SIGNALS;
        }
    }
}

/// Whether signals are handled in this thread.
fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import(intern!(py, "threading"))?;
    let main = threading.call_method0(intern!(py, "main_thread"))?;
    let own = threading.call_method0(intern!(py, "get_ident"))?;
    main.getattr(intern!(py, "ident"))?.eq(own)
}

/// Waits until another call may be begun, as long as it may take at most. Returns its options, with what is left of its time.
pub(crate) fn await_room(
    py: Python<'_>,
    client: &Client,
    options: OperationOptions,
) -> PyResult<OperationOptions> {
    if client.has_room() {
        return Ok(options);
    }
    let until = Instant::now() + client.timeout_of(options);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let late = CallError::NotExecuted(CallCause::DeadlinePassed);
            return Err(call_error(py, &late));
        }
        py.detach(|| client.await_room(left.min(SIGNALS_EVERY)));
        py.check_signals()?;
        if client.has_room() {
            let timeout = until.saturating_duration_since(Instant::now());
            return Ok(OperationOptions {
                timeout: Some(timeout),
                ..options
            });
        }
    }
}

/// This process was forked off: the connections of its parent are not its own.
#[pyfunction]
pub(crate) fn after_fork() {
    quorate_client::after_fork();
    entrance::after_fork();
}

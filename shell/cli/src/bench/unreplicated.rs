//! The yardstick of the benchmark: one process that executes the object's calls as they come.
//!
//! Same frames, same host, no session table, no agreement, nothing durable: what the object and the
//! network cost by themselves. Started by `quorate bench --unreplicated`; refuses to be a service.

use crate::error::CliError;
use crate::unfinished::Unfinished;
use bytes::BytesMut;
use clap::Args;
use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use quorate_host::{Host, HostConfig, HostEvent, HostedObject, PythonConfig};
use quorate_ordering::ReadId;
use quorate_receiving::append;
use quorate_types::{
    Call, ClusterId, CommandId, Duration, FromClient, GroupId, Incarnation, NodeId, ObjectId,
    SessionId, Slot, Stamp, ToClient, ViewNumber, Wall,
};
use quorate_wire::limits::CLIENT_BODY_BYTES_MAX;
use quorate_wire::{
    Frame, FrameReader, Kind, ObjectEntry, VERSION, Welcome, put_answer, put_frame, requests,
};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write};

const LISTENER: Token = Token(0);
const HOST: Token = Token(1);
const FIRST_PEER: usize = 2;

/// Connections of one run: as many as `--clients` allows.
const CONNECTIONS_MAX: usize = 1024;

/// Serve an object without replication, for `quorate bench --unreplicated`.
#[derive(Args, Clone, Debug)]
pub(crate) struct UnreplicatedArgs {
    /// `rust:counter` and the like, or `module:Class`.
    class: String,
    /// Constructor arguments, a JSON list.
    #[arg(long, default_value = "[]")]
    args: String,
}

struct Server {
    poll: Poll,
    listener: TcpListener,
    host: Host,
    connections: Vec<Option<Connection>>,
    /// Calls of this turn, and those that the host has not answered.
    turn: Vec<Call>,
    asked: VecDeque<(usize, CommandId)>,
    reads: VecDeque<(usize, u64)>,
    slot: Slot,
    sessions: u64,
    name: String,
    class: String,
    /// The directory of the host goes though the run ends this process by a signal.
    _scratch: Unfinished,
}

struct Connection {
    stream: TcpStream,
    reader: FrameReader,
    answers: Vec<ToClient>,
    out: BytesMut,
}

/// Serves until it is killed; prints the ready line of `quorate up`.
pub(crate) fn run(args: &UnreplicatedArgs) -> Result<(), CliError> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM)).ok();
    let system = |error: io::Error| CliError::failed(error.to_string());
    let mut server = Server::start(args)?;
    let address = server.listener.local_addr().map_err(system)?;
    let line = serde_json::json!({
        "endpoint": format!("quorate://{address}/{}", server.name),
        "nodes": [{"id": 1, "pid": std::process::id(), "address": address.to_string(), "admin": ""}],
        "dir": "",
    });
    println!("{line}");
    let mut events = Events::with_capacity(256);
    let mut answered = Vec::new();
    loop {
        match server.poll.poll(&mut events, None) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(system(error)),
        }
        for event in events.iter() {
            match event.token() {
                LISTENER => server.accept().map_err(system)?,
                HOST => {}
                Token(token) => server.read(token - FIRST_PEER),
            }
        }
        server.execute();
        server.host.poll(&mut answered);
        for event in answered.drain(..) {
            server.answer(event)?;
        }
        server.flush();
    }
}

impl Server {
    fn start(args: &UnreplicatedArgs) -> Result<Server, CliError> {
        let system = |error: io::Error| CliError::failed(error.to_string());
        let poll = Poll::new().map_err(system)?;
        let any_port = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listener = TcpListener::bind(any_port).map_err(system)?;
        let registry = poll.registry();
        registry
            .register(&mut listener, LISTENER, Interest::READABLE)
            .map_err(system)?;
        let name = args
            .class
            .rsplit(':')
            .next()
            .unwrap_or(&args.class)
            .to_owned();
        let arguments = quorate_node::constructor_arguments(Some(&args.args), None);
        let spec = HostedObject {
            id: ObjectId(0),
            name: name.clone(),
            class: args.class.clone(),
            arguments: arguments.map_err(CliError::usage)?,
        };
        let python = PythonConfig {
            paths: vec![std::env::current_dir().map_err(system)?],
            with_snapshots: false,
            ..PythonConfig::default()
        };
        let scratch = Unfinished::note(&python.scratch);
        let config = HostConfig {
            objects: vec![spec],
            python,
        };
        let host = Host::open(config).map_err(|e| CliError::usage(e.to_string()))?;
        registry
            .register(&mut SourceFd(&host.fd()), HOST, Interest::READABLE)
            .map_err(system)?;
        Ok(Server {
            poll,
            listener,
            host,
            connections: Vec::new(),
            turn: Vec::new(),
            asked: VecDeque::new(),
            reads: VecDeque::new(),
            slot: Slot(1),
            sessions: 0,
            name,
            class: args.class.clone(),
            _scratch: scratch,
        })
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((mut stream, _)) if self.connections.len() < CONNECTIONS_MAX => {
                    stream.set_nodelay(true)?;
                    let token = Token(FIRST_PEER + self.connections.len());
                    self.poll.registry().register(&mut stream, token, both())?;
                    let reader = FrameReader::new(CLIENT_BODY_BYTES_MAX);
                    let (answers, out) = (Vec::new(), BytesMut::new());
                    self.connections.push(Some(Connection {
                        stream,
                        reader,
                        answers,
                        out,
                    }));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn read(&mut self, index: usize) {
        loop {
            let Some(Some(connection)) = self.connections.get_mut(index) else {
                return;
            };
            let room = connection.reader.room();
            let offered = room.capacity() - room.len();
            let read = append(&connection.stream, room);
            connection.reader.appended(offered);
            match read {
                Ok(count) if count > 0 => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(_) | Err(_) => return self.connections[index] = None,
            }
            while let Some(Some(connection)) = self.connections.get_mut(index) {
                match connection.reader.next_frame() {
                    Ok(Some(frame)) => self.on_frame(index, frame),
                    Ok(None) => break,
                    Err(_) => self.connections[index] = None,
                }
            }
        }
    }

    fn on_frame(&mut self, index: usize, frame: Frame) {
        if frame.kind == Kind::Hello {
            return self.welcome(index);
        }
        for request in requests(frame.body).map_while(Result::ok) {
            match request {
                FromClient::Open { secret, .. } => {
                    self.sessions += 1;
                    let session = SessionId(self.sessions << 16);
                    let expiry = Duration::from_millis(3_600_000);
                    self.say(
                        index,
                        ToClient::Opened {
                            hash: secret.hash(),
                            session,
                            expiry,
                        },
                    );
                }
                FromClient::Call {
                    id,
                    object,
                    payload,
                    ..
                } => {
                    let place = self.turn.len() as u32;
                    self.turn.push(Call {
                        index: place,
                        id,
                        object,
                        payload,
                    });
                    self.asked.push_back((index, id));
                }
                FromClient::Read {
                    request,
                    object,
                    payload,
                    ..
                } => {
                    self.execute();
                    self.reads.push_back((index, request));
                    self.host.query(ReadId(request), object, payload);
                }
                FromClient::KeepAlive { session } => {
                    self.say(index, ToClient::KeptAlive { session });
                }
                // Its client knows no member whom it could tell of a read, and it executes nothing ahead.
                FromClient::Broadcast { .. }
                | FromClient::Early { .. }
                | FromClient::Announce { .. }
                | FromClient::Resume { .. }
                | FromClient::Attach { .. }
                | FromClient::Close { .. }
                | FromClient::Checkpoint { .. }
                | FromClient::Reset { .. }
                | FromClient::Skip { .. }
                | FromClient::Invite { .. }
                | FromClient::ChangeGroups { .. }
                | FromClient::MoveLeader { .. }
                | FromClient::Join { .. }
                | FromClient::SetLevel { .. }
                | FromClient::SwitchOrdering { .. }
                | FromClient::SetQuorums { .. }
                | FromClient::SetLimit { .. }
                | FromClient::ChangeView { .. } => {}
            }
        }
    }

    fn welcome(&mut self, index: usize) {
        let Ok(address) = self.listener.local_addr() else {
            return;
        };
        let entry = ObjectEntry {
            id: ObjectId(0),
            name: self.name.clone(),
            class: self.class.clone(),
        };
        let welcome = Welcome {
            version: VERSION,
            cluster: ClusterId(0),
            node: NodeId(1),
            incarnation: Incarnation(0),
            boot: 1,
            group: GroupId(1),
            view: ViewNumber(1),
            members: vec![(NodeId(1), address.to_string())],
            objects: vec![entry],
            leader: Some(NodeId(1)),
        };
        if let Some(Some(connection)) = self.connections.get_mut(index) {
            put_frame(&mut connection.out, Kind::Welcome, GroupId(1), |body| {
                welcome.put(body)
            });
        }
    }

    /// Hands the calls of the turn to the host.
    fn execute(&mut self) {
        if !self.turn.is_empty() {
            let stamp = Stamp {
                wall: Wall(self.slot.0),
                entropy: self.slot.0,
            };
            self.host
                .execute(self.slot, stamp, std::mem::take(&mut self.turn));
            self.slot = self.slot.next();
        }
        self.host.flush();
    }

    fn answer(&mut self, event: HostEvent) -> Result<(), CliError> {
        match event {
            HostEvent::Executed { results, .. } => {
                for outcome in results.outcomes().cloned() {
                    let Some((index, id)) = self.asked.pop_front() else {
                        break;
                    };
                    self.say(index, ToClient::Replied { id, outcome });
                }
            }
            HostEvent::Queried { outcome, .. } => {
                if let Some((index, request)) = self.reads.pop_front() {
                    let (slot, age) = (self.slot, Duration::ZERO);
                    self.say(
                        index,
                        ToClient::Read {
                            request,
                            slot,
                            age,
                            outcome,
                        },
                    );
                }
            }
            HostEvent::Down { reason, .. } => {
                return Err(CliError::failed(format!(
                    "the object's process ended: {reason}"
                )));
            }
            HostEvent::Imaged { .. }
            | HostEvent::ImageFailed { .. }
            | HostEvent::Restored { .. }
            | HostEvent::Due { .. }
            | HostEvent::Undone { .. }
            | HostEvent::RestoreFailed { .. }
            | HostEvent::Up
            | HostEvent::Hanging { .. } => {}
        }
        Ok(())
    }

    fn say(&mut self, index: usize, message: ToClient) {
        if let Some(Some(connection)) = self.connections.get_mut(index) {
            connection.answers.push(message);
        }
    }

    fn flush(&mut self) {
        for slot in &mut self.connections {
            let Some(connection) = slot else { continue };
            if !connection.answers.is_empty() {
                let answers = std::mem::take(&mut connection.answers);
                put_frame(&mut connection.out, Kind::ToClient, GroupId(1), |body| {
                    for answer in &answers {
                        put_answer(body, answer);
                    }
                });
            }
            if connection.write().is_err() {
                *slot = None;
            }
        }
    }
}

impl Connection {
    fn write(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            match self.stream.write(&self.out) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => bytes::Buf::advance(&mut self.out, count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn both() -> Interest {
    Interest::READABLE | Interest::WRITABLE
}

//! Which ports the nodes of a group listen on, and how they stay theirs.

use super::UpArgs;
use crate::error::CliError;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// Admin ports lie this far above the nodes' ports.
const ADMIN_ABOVE: u16 = 100;

/// The first node's port unless told otherwise.
const PORT: u16 = 7400;

/// Keeps the system from giving a port away while nobody listens there: before its node is up, and while that starts again. An
/// outgoing connection of any program would be given one of those that were picked.
///
/// Linux binds a port twice if both ask for it and at most one listens. Elsewhere nothing is kept.
pub(super) struct Reserved {
    _socket: Option<Socket>,
}

/// The nodes' ports.
pub(super) struct Ports {
    /// A port and an admin port for each node.
    pub(super) pairs: Vec<(u16, u16)>,
    _reserved: Vec<Reserved>,
}

impl Ports {
    /// Those of a new group.
    pub(super) fn choose(args: &UpArgs) -> Result<Ports, CliError> {
        let first = args.port.unwrap_or(PORT);
        if first == 0 {
            return Ports::pick(args.nodes).map_err(|error| no_port(&error));
        }
        let last = first.checked_add(args.nodes + ADMIN_ABOVE);
        last.ok_or_else(|| {
            CliError::usage(format!("--port {first} leaves no room for the other ports"))
        })?;
        let ports = (0..args.nodes).map(|index| (first + index, first + index + ADMIN_ABOVE));
        Ok(Ports {
            pairs: ports.collect(),
            _reserved: Vec::new(),
        })
    }

    fn pick(nodes: u16) -> io::Result<Ports> {
        // All are held until all are known, so that none is given twice.
        let sockets: Vec<Socket> = (0..nodes * 2)
            .map(|_| bind(loopback(0)))
            .collect::<Result<_, _>>()?;
        let port = |socket: &Socket| -> io::Result<u16> {
            let address = socket.local_addr()?.as_socket();
            Ok(address.map_or(0, |address| address.port()))
        };
        let ports: Vec<u16> = sockets.iter().map(port).collect::<Result<_, _>>()?;
        Ok(Ports {
            pairs: ports.chunks(2).map(|pair| (pair[0], pair[1])).collect(),
            _reserved: sockets.into_iter().map(Reserved::of).collect(),
        })
    }
}

impl Reserved {
    fn of(socket: Socket) -> Reserved {
        Reserved {
            _socket: cfg!(target_os = "linux").then_some(socket),
        }
    }
}

/// Keeps the port of a node, on which nobody listens yet.
pub(super) fn reserve(address: SocketAddr) -> Result<Reserved, CliError> {
    match bind(address) {
        Ok(socket) => Ok(Reserved::of(socket)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(CliError::failed(format!(
            "{address} is in use: stop the program that listens there, or choose another --port (0 picks free ports)"
        ))),
        Err(error) => Err(CliError::failed(format!(
            "cannot listen on {address}: {error}"
        ))),
    }
}

pub(super) fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// A socket with that address that does not listen.
fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn no_port(error: &io::Error) -> CliError {
    CliError::failed(format!("no free port: {error}"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::{loopback, reserve};
    use std::io;
    use std::net::TcpListener;

    #[test]
    fn a_port_is_kept_for_who_listens_there() {
        let reserved = reserve(loopback(0)).unwrap();
        let socket = reserved._socket.as_ref().unwrap();
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        // As an outgoing connection does it, which asks for no second use.
        let outgoing =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let refused = outgoing.bind(&address.into()).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        for _ in 0..2 {
            // A node that starts, and starts again.
            TcpListener::bind(address).unwrap();
        }
        let _listens = TcpListener::bind(address).unwrap();
        assert!(reserve(address).is_err());
    }
}

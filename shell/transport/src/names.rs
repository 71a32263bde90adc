//! Looks up addresses outside the loop, because a name server that does not answer must not stop agreement.
//!
//! Numeric addresses need no look-up. One thread per look-up under way, at most one per peer.

use mio::Waker;
use quorate_types::NodeId;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// What a look-up found.
pub(crate) type LookedUp = (NodeId, Result<SocketAddr, String>);

pub(crate) struct Names {
    waker: Arc<Waker>,
    sender: Sender<LookedUp>,
    found: Receiver<LookedUp>,
}

impl Names {
    pub(crate) fn new(waker: Arc<Waker>) -> Names {
        let (sender, found) = channel();
        Names {
            waker,
            sender,
            found,
        }
    }

    /// The address itself where it is numeric; otherwise a look-up begins.
    pub(crate) fn resolve(&self, node: NodeId, address: &str) -> io::Result<Option<SocketAddr>> {
        if let Ok(numeric) = address.parse() {
            return Ok(Some(numeric));
        }
        let (waker, sender) = (self.waker.clone(), self.sender.clone());
        let address = address.to_owned();
        std::thread::Builder::new()
            .name("resolve".to_owned())
            .spawn(move || {
                let answer = match address.to_socket_addrs() {
                    Ok(mut all) => all.next().ok_or_else(|| "no address".to_owned()),
                    Err(error) => Err(error.to_string()),
                };
                // A loop that has ended hears nothing, and needs to hear nothing.
                if sender.send((node, answer)).is_ok() {
                    let _ = waker.wake();
                }
            })?;
        Ok(None)
    }

    /// The next finished look-up.
    pub(crate) fn next(&self) -> Option<LookedUp> {
        self.found.try_recv().ok()
    }
}

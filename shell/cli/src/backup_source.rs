//! The nodes that give a backup's snapshot: one after the other, where one ends.
//!
//! All that they give is compared with what was agreed by who takes it; here only the same snapshot counts as the same.

use crate::error::{CliError, code};
use bytes::Bytes;
use quorate_client::{AdminConnection, TlsClient};
use quorate_storage::{BackupHead, BodySize};
use quorate_types::{GroupId, Slot};
use quorate_wire::{AdminReply, AdminRequest, BackupOffer};
use std::time::{Duration, Instant};

/// Bytes that are asked for at once.
pub(crate) const PIECE_BYTES: u32 = 1 << 20;

/// How long a node may take for one answer: it may read a large snapshot through before the first.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The pause after a node was too busy.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// How often each node may fail to give one piece: a node that was started again has another try.
const TRIES: usize = 3;

/// A node that gives the snapshot, and those that could go on.
pub(crate) struct BackupSource<'a> {
    tls: Option<&'a TlsClient>,
    /// In the order in which they are asked.
    addresses: Vec<String>,
    group: GroupId,
    connection: AdminConnection,
    offer: BackupOffer,
    /// Until when nodes may be too busy.
    end: Instant,
}

impl<'a> BackupSource<'a> {
    /// A node of the group at one of `addresses` that holds an agreed snapshot at `from` or later.
    pub(crate) fn of(
        (addresses, group): (Vec<String>, GroupId),
        tls: Option<&'a TlsClient>,
        from: Slot,
        end: Instant,
    ) -> Result<BackupSource<'a>, CliError> {
        let will_do = |offer: &BackupOffer| offer.slot >= from;
        let (connection, offer) = offered((&addresses, group), tls, end, will_do, from)?;
        Ok(BackupSource {
            tls,
            addresses,
            group,
            connection,
            offer,
            end,
        })
    }

    /// What the node says of its group.
    pub(crate) fn about(&self) -> &[u8] {
        &self.offer.about
    }

    pub(crate) fn head(&self) -> BackupHead {
        BackupHead {
            cluster: self.connection.welcome().cluster,
            group: self.connection.welcome().group,
            slot: self.offer.slot,
            digest: self.offer.digest,
            size: BodySize {
                front: self.offer.front,
                whole: self.offer.bytes,
            },
        }
    }

    /// The bytes from `offset` on, at least one.
    pub(crate) fn piece(&mut self, offset: u64) -> Result<Bytes, CliError> {
        let wanted = (self.offer.slot, offset);
        let request = AdminRequest::Piece {
            slot: self.offer.slot,
            offset,
            length: PIECE_BYTES,
        };
        let mut failed = 0;
        while failed < TRIES * self.addresses.len() {
            match self.connection.ask(&request) {
                Ok(AdminReply::Piece { slot, offset, data })
                    if (slot, offset) == wanted && !data.is_empty() =>
                {
                    return Ok(data);
                }
                Ok(AdminReply::Busy) if Instant::now() < self.end => {
                    std::thread::sleep(BUSY_PAUSE);
                }
                Ok(_) | Err(_) => {
                    failed += 1;
                    self.go_on_elsewhere()?;
                }
            }
        }
        Err(gone(self.offer.slot))
    }

    /// Another node, or this one again, must have the same snapshot.
    fn go_on_elsewhere(&mut self) -> Result<(), CliError> {
        let known = self.offer.clone();
        let cluster = self.connection.welcome().cluster;
        let is_same = |offer: &BackupOffer| {
            (offer.slot, offer.digest, offer.bytes, offer.front)
                == (known.slot, known.digest, known.bytes, known.front)
        };
        // Whoever failed last is asked last.
        self.addresses.rotate_left(1);
        let end = self.end.max(Instant::now() + ANSWER_MAX);
        let (connection, offer) = offered(
            (&self.addresses, self.group),
            self.tls,
            end,
            is_same,
            known.slot,
        )?;
        if connection.welcome().cluster != cluster {
            return Err(CliError::conflict(
                "another cluster answers at an address of this one; nothing is left of the backup",
            ));
        }
        (self.connection, self.offer) = (connection, offer);
        Ok(())
    }
}

/// The first node whose offer will do; nodes that are busy are asked again until `end`.
fn offered(
    (addresses, group): (&[String], GroupId),
    tls: Option<&TlsClient>,
    end: Instant,
    will_do: impl Fn(&BackupOffer) -> bool,
    from: Slot,
) -> Result<(AdminConnection, BackupOffer), CliError> {
    let mut last = None;
    loop {
        let mut is_busy = false;
        for address in addresses {
            let opened = AdminConnection::open(address, group, ANSWER_MAX, tls);
            let asked = opened.and_then(|mut connection| {
                let reply = connection.ask(&AdminRequest::Offer { from })?;
                Ok((connection, reply))
            });
            match asked {
                Ok((connection, AdminReply::Offered(offer))) if will_do(&offer) => {
                    return Ok((connection, offer));
                }
                Ok((_, AdminReply::Busy)) => is_busy = true,
                Ok(_) => {}
                Err(error) => last = Some(error),
            }
        }
        if !is_busy {
            break;
        }
        if Instant::now() >= end {
            return Err(taken(from));
        }
        std::thread::sleep(BUSY_PAUSE);
    }
    Err(last.map_or_else(|| gone(from), CliError::connect))
}

fn taken(slot: Slot) -> CliError {
    let text = format!(
        "the nodes that have the snapshot at slot {} give as many backups as they may at once",
        slot.0
    );
    CliError::with_code(code::NO_QUORUM, text)
        .advise("wait until the other backups are taken, or give it a longer --timeout")
}

fn gone(slot: Slot) -> CliError {
    let text = format!(
        "no node has the snapshot at slot {} any more, or none that a majority agrees on",
        slot.0
    );
    CliError::with_code(code::NO_QUORUM, text)
        .advise("take the backup again; see in `quorate status` whether the objects differ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use quorate_types::{ClusterId, Digest, Incarnation, NodeId, ViewNumber};
    use quorate_wire::{
        FrameReader, Kind, VERSION, Welcome, put_admin_reply, put_frame, take_admin_request,
    };
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    const BODY: &[u8] = b"the snapshot of the group";
    const PIECE: usize = 7;

    /// This digest is of a node that gives others their backups.
    const BUSY: u8 = 0;

    /// A node that gives so many pieces of a snapshot with this digest, and then ends.
    fn node(state: u8, pieces: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound").to_string();
        std::thread::spawn(move || {
            let mut left = pieces;
            for connection in listener.incoming() {
                serve(connection.expect("a client comes"), state, &mut left);
                if left == 0 {
                    return;
                }
            }
        });
        address
    }

    fn serve(mut connection: TcpStream, state: u8, left: &mut usize) {
        let mut reader = FrameReader::new(1 << 20);
        let mut bytes = [0; 4096];
        while let Ok(taken @ 1..) = connection.read(&mut bytes) {
            reader.push(&bytes[..taken]);
            while let Ok(Some(frame)) = reader.next_frame() {
                let mut out = BytesMut::new();
                if frame.kind == Kind::Hello {
                    put_frame(&mut out, Kind::Welcome, GroupId::FIRST, |body| {
                        welcome().put(body)
                    });
                } else {
                    let request = take_admin_request(&frame.body).expect("it is one");
                    let Some(reply) = answer(&request, state, left) else {
                        return;
                    };
                    put_frame(&mut out, Kind::AdminReply, GroupId::FIRST, |body| {
                        put_admin_reply(body, &reply);
                    });
                }
                connection.write_all(&out).expect("the client reads");
            }
        }
    }

    fn answer(request: &AdminRequest, state: u8, left: &mut usize) -> Option<AdminReply> {
        match request {
            _ if state == BUSY => Some(AdminReply::Busy),
            AdminRequest::Offer { from } => Some(AdminReply::Offered(BackupOffer {
                slot: *from,
                digest: Digest {
                    replicated: 1,
                    state: [state; 32],
                },
                bytes: BODY.len() as u64,
                front: 5,
                about: Bytes::new(),
            })),
            AdminRequest::Piece { slot, offset, .. } => {
                *left = left.checked_sub(1)?;
                let from = *offset as usize;
                let end = BODY.len().min(from + PIECE);
                Some(AdminReply::Piece {
                    slot: *slot,
                    offset: *offset,
                    data: Bytes::from_static(&BODY[from..end]),
                })
            }
            AdminRequest::Configuration { .. } => None,
        }
    }

    fn welcome() -> Welcome {
        Welcome {
            version: VERSION,
            cluster: ClusterId(7),
            node: NodeId(1),
            incarnation: Incarnation(0),
            boot: 1,
            group: GroupId::FIRST,
            view: ViewNumber(1),
            members: Vec::new(),
            objects: Vec::new(),
            leader: None,
        }
    }

    fn read(addresses: Vec<String>) -> Result<Vec<u8>, CliError> {
        let mut source =
            BackupSource::of((addresses, GroupId::FIRST), None, Slot(9), Instant::now())?;
        let mut whole = Vec::new();
        while whole.len() < BODY.len() {
            whole.extend_from_slice(&source.piece(whole.len() as u64)?);
        }
        Ok(whole)
    }

    #[test]
    fn another_node_goes_on_where_one_ends() {
        let addresses = vec![node(3, 2), node(3, 1), node(3, 9)];
        assert_eq!(read(addresses).expect("the third has all of it"), BODY);
    }

    #[test]
    fn nodes_that_give_others_their_backups_are_not_said_to_have_nothing() {
        let told = read(vec![node(BUSY, 9), "127.0.0.1:1".to_owned()]).expect_err("it is busy");
        assert_eq!(told.code, code::NO_QUORUM);
        assert!(told.text.contains("as many backups as they may"), "{told}");
    }

    #[test]
    fn a_node_with_another_state_does_not_go_on() {
        let told = read(vec![node(3, 2), node(4, 9)]).expect_err("nobody has the rest");
        assert_eq!(told.code, code::NO_QUORUM, "{told}");
    }
}

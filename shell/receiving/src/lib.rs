//! Reads a socket into a growing buffer, without writing zeros there first.
//!
//! A slice to read into must have been written before, so each byte that arrives is written twice: at a kilobyte a call that was a
//! thirtieth of all processor time of nodes and clients. It reads once and knows no frames. Called by the streams of
//! `shell/transport` and `shell/client`; bytes that come through a TLS session take another way.

use bytes::BytesMut;
use rustix::net::{RecvFlags, recv};
use std::io;
use std::os::fd::AsFd;

/// Appends to `buffer` what `socket` has, up to its capacity; says how many bytes. 0 when the other side has ended the stream.
///
/// # Errors
/// What the system says: `WouldBlock` where the socket does not block and has nothing.
///
/// # Panics
/// When the buffer is full: no bytes would look like the end of the stream.
///
/// ```
/// use bytes::BytesMut;
/// use std::io::Write;
/// use std::os::unix::net::UnixStream;
/// let (mut near, far) = UnixStream::pair()?;
/// near.write_all(b"frames")?;
/// let mut buffer = BytesMut::with_capacity(4);
/// assert_eq!(quorate_receiving::append(&far, &mut buffer)?, 4);
/// assert_eq!(&buffer[..], b"fram");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn append(socket: impl AsFd, buffer: &mut BytesMut) -> io::Result<usize> {
    let length = buffer.len();
    assert!(length < buffer.capacity(), "a full buffer takes no bytes");
    let ((received, _), count) = recv(socket, buffer.spare_capacity_mut(), RecvFlags::empty())?;
    assert_eq!(received.len(), count, "a stream cuts nothing off");
    // SAFETY: the system has written these bytes of the spare capacity, and they begin where the length ends.
    unsafe { buffer.set_len(length + count) };
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn reads_come_one_behind_the_other_and_none_twice() {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"frames").unwrap();
        let mut buffer = BytesMut::with_capacity(9);
        buffer.extend_from_slice(b"old");
        assert_eq!(append(&far, &mut buffer).unwrap(), 6);
        assert_eq!((&buffer[..], buffer.capacity()), (&b"oldframes"[..], 9));
        let mut buffer = BytesMut::with_capacity(8);
        far.set_nonblocking(true).unwrap();
        let nothing = append(&far, &mut buffer).unwrap_err();
        assert_eq!(
            (nothing.kind(), buffer.len()),
            (io::ErrorKind::WouldBlock, 0)
        );
        near.write_all(b"end").unwrap();
        drop(near);
        assert_eq!(append(&far, &mut buffer).unwrap(), 3);
        assert_eq!(append(&far, &mut buffer).unwrap(), 0);
        assert_eq!(&buffer[..], b"end");
    }

    #[test]
    #[should_panic(expected = "a full buffer takes no bytes")]
    fn a_full_buffer_is_not_taken_for_the_end() {
        let (mut near, far) = UnixStream::pair().unwrap();
        near.write_all(b"x").unwrap();
        drop(append(&far, &mut BytesMut::new()));
    }
}

//! The admin port's connections: few, short, and sealed by TLS where other machines reach the port.
//!
//! Whoever holds connections open delays nobody: a new connection ends the oldest one when all places are taken, and each
//! connection ends after a while. Called by [`crate::admin`]; knows no HTTP.

use crate::limits::{ADMIN_CONNECTION_MAX, ADMIN_CONNECTIONS, ADMIN_PAUSE};
use axum::serve::Listener;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::Sleep;
use tokio_rustls::{Accept, TlsAcceptor, server::TlsStream};

/// Accepts the connections of the admin port.
pub(crate) struct AdminListener {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    /// The places of open connections, the oldest first. A connection whose place is gone ends.
    places: VecDeque<oneshot::Sender<Infallible>>,
}

/// One connection of the admin port.
pub(crate) struct AdminStream {
    way: Way,
    ends: Pin<Box<Sleep>>,
    place: oneshot::Receiver<Infallible>,
}

enum Way {
    Plain(TcpStream),
    Greeting(Box<Accept<TcpStream>>),
    Sealed(Box<TlsStream<TcpStream>>),
}

impl AdminListener {
    /// Listens on `listener`, with certificates on both sides if there are any.
    pub(crate) fn new(
        listener: TcpListener,
        tls: Option<Arc<tokio_rustls::rustls::ServerConfig>>,
    ) -> AdminListener {
        AdminListener {
            listener,
            tls: tls.map(TlsAcceptor::from),
            places: VecDeque::new(),
        }
    }

    fn admit(&mut self, socket: TcpStream) -> AdminStream {
        self.places.retain(|place| !place.is_closed());
        while self.places.len() >= ADMIN_CONNECTIONS {
            self.places.pop_front();
        }
        let (held, place) = oneshot::channel();
        self.places.push_back(held);
        let way = match &self.tls {
            None => Way::Plain(socket),
            Some(tls) => Way::Greeting(Box::new(tls.accept(socket))),
        };
        AdminStream {
            way,
            ends: Box::pin(tokio::time::sleep(ADMIN_CONNECTION_MAX)),
            place,
        }
    }
}

impl Listener for AdminListener {
    type Io = AdminStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (AdminStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((socket, from)) => return (self.admit(socket), from),
                Err(error) => {
                    // The other side left, or the process is out of descriptors: both pass.
                    tracing::debug!(%error, "cannot accept on the admin port: pausing");
                    tokio::time::sleep(ADMIN_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl AdminStream {
    /// The way to the other side, once it is sealed where it has to be, while the connection may last.
    fn poll_way(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&mut Way>> {
        if self.ends.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if Pin::new(&mut self.place).poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        if let Way::Greeting(accept) = &mut self.way {
            let sealed = ready!(Pin::new(&mut **accept).poll(cx))?;
            self.way = Way::Sealed(Box::new(sealed));
        }
        Poll::Ready(Ok(&mut self.way))
    }
}

impl AsyncRead for AdminStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match ready!(self.poll_way(cx))? {
            Way::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Way::Sealed(tls) => Pin::new(&mut **tls).poll_read(cx, buf),
            Way::Greeting(_) => unreachable!("the way is sealed by then"),
        }
    }
}

impl AsyncWrite for AdminStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match ready!(self.poll_way(cx))? {
            Way::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Way::Sealed(tls) => Pin::new(&mut **tls).poll_write(cx, bytes),
            Way::Greeting(_) => unreachable!("the way is sealed by then"),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(self.poll_way(cx))? {
            Way::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Way::Sealed(tls) => Pin::new(&mut **tls).poll_flush(cx),
            Way::Greeting(_) => unreachable!("the way is sealed by then"),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(self.poll_way(cx))? {
            Way::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Way::Sealed(tls) => Pin::new(&mut **tls).poll_shutdown(cx),
            Way::Greeting(_) => unreachable!("the way is sealed by then"),
        }
    }
}

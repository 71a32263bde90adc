//! The admin port: `/livez`, `/readyz`, `/metrics`, `/status`, on a thread of its own.
//!
//! It only asks the loop and never changes anything. A loop that does not answer in time is reported
//! as not alive.

use crate::NodeError;
use crate::admin_listener::AdminListener;
use crate::limits::{ANSWER_MAX, CURRENT_WITHIN};
use crate::metrics;
use crate::questions::Asker;
use crate::status::NodeStatus;
use crate::timings::Histograms;
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use quorate_transport::Tls;
use std::borrow::Cow;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use tokio_rustls::rustls::ServerConfig;

/// Listens, if an address is given, and serves until the process ends. The address with the port that it got.
///
/// # Errors
/// When the address cannot be had.
pub(crate) fn serve(
    address: Option<SocketAddr>,
    tls: Option<&Tls>,
    asker: Asker,
    histograms: Histograms,
) -> Result<Option<SocketAddr>, NodeError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let refused = |error| NodeError::System("cannot listen on the admin address", error);
    let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => quorate_transport::TransportError::InUse(address).into(),
        _ => refused(error),
    })?;
    listener.set_nonblocking(true).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(refused)?;
    // Probes on the machine itself need no certificates.
    let tls = tls
        .filter(|_| !address.ip().is_loopback())
        .map(Tls::server_config);
    std::thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || runtime.block_on(run(listener, tls, (asker, histograms))))
        .map_err(refused)?;
    Ok(Some(bound))
}

async fn run(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    (asker, histograms): (Asker, Histograms),
) {
    let app = Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/status", get(status))
        .with_state(asker.clone())
        .route("/metrics", get(metrics_text))
        .with_state((asker, histograms));
    let served = async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(AdminListener::new(listener, tls), app).await
    };
    if let Err(error) = served.await {
        tracing::warn!(%error, "the admin port is closed");
    }
}

async fn livez(State(asker): State<Asker>) -> Response {
    match ask(&asker).await {
        Ok(_) => "ok\n".into_response(),
        Err(refusal) => refusal,
    }
}

/// A witness serves nothing: it is ready where it has kept up.
fn is_ready(status: &NodeStatus) -> bool {
    status.is_serving || status.is_keeping
}

/// Ready: it serves, somebody leads, and no call keeps the objects from going on. A node that observes is ready and says that it does not vote.
async fn readyz(State(asker): State<Asker>) -> Response {
    match ask(&asker).await {
        Ok(NodeStatus {
            stuck: Some(stuck), ..
        }) => unavailable(format!("{stuck}\n")),
        Ok(status) if is_ready(&status) && status.leader.is_some() => match status.observes {
            None => "ok\n".into_response(),
            Some(why) => format!("ok, and it does not vote: {why}\n").into_response(),
        },
        Ok(status) if is_ready(&status) => unavailable("no leader is known\n"),
        Ok(status) if status.age_ms.is_none() => unavailable(
            "this replica does not know how old its state is: it has heard no leader with a majority\n",
        ),
        Ok(NodeStatus {
            age_ms: Some(age), ..
        }) if age >= CURRENT_WITHIN.as_millis() => {
            unavailable("this replica is behind, or is cut off from the leader\n")
        }
        Ok(_) => unavailable("this replica does not serve its objects\n"),
        Err(refusal) => refusal,
    }
}

async fn metrics_text(State((asker, histograms)): State<(Asker, Histograms)>) -> Response {
    match ask(&asker).await {
        Ok(status) => (
            [(header::CONTENT_TYPE, metrics::CONTENT_TYPE)],
            metrics::text(&status, &histograms),
        )
            .into_response(),
        Err(refusal) => refusal,
    }
}

async fn status(State(asker): State<Asker>) -> Response {
    match ask(&asker).await {
        Ok(status) => {
            let json = serde_json::to_vec(&status).expect("every field has a form in JSON");
            ([(header::CONTENT_TYPE, "application/json")], json).into_response()
        }
        Err(refusal) => refusal,
    }
}

async fn ask(asker: &Asker) -> Result<NodeStatus, Response> {
    let Some(answer) = asker.ask() else {
        return Err(unavailable("too many questions wait\n"));
    };
    match tokio::time::timeout(ANSWER_MAX, answer).await {
        Ok(Ok(status)) => Ok(status),
        Ok(Err(_)) => Err(unavailable("the node has stopped\n")),
        Err(_) => Err(unavailable("the loop does not answer\n")),
    }
}

fn unavailable(text: impl Into<Cow<'static, str>>) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, text.into()).into_response()
}

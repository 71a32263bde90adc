//! What the nodes of a group say of themselves, for the error of a call that got no answer.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quorate_client::{Endpoint, NodeReport, TlsClient, node_status};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For so long what was said counts: many calls fail at once, and one inquiry explains them all.
const SAID_FOR: Duration = Duration::from_secs(1);

/// Number, address, and status document if the node answered.
pub(crate) type Said<'py> = (u16, String, Option<Bound<'py, PyBytes>>);

/// The nodes behind an endpoint, and what they said last.
pub(crate) struct Inquiry {
    endpoint: Endpoint,
    tls: Option<Arc<TlsClient>>,
    last: Mutex<Option<(Instant, Vec<Answer>)>>,
}

#[derive(Clone)]
struct Answer {
    node: u16,
    address: String,
    report: Option<NodeReport>,
}

impl Inquiry {
    pub(crate) fn new(endpoint: Endpoint, tls: Option<Arc<TlsClient>>) -> Inquiry {
        let last = Mutex::default();
        Inquiry {
            endpoint,
            tls,
            last,
        }
    }

    /// Asks all nodes at once, each for at most `patience`; without any answer there is nothing to say.
    pub(crate) fn ask<'py>(&self, py: Python<'py>, patience: Duration) -> Vec<Said<'py>> {
        let answers = py.detach(|| self.answers(patience));
        let said = answers.into_iter().map(|answer| {
            let status = answer.report.map(|report| PyBytes::new(py, &report.status));
            (answer.node, answer.address, status)
        });
        said.collect()
    }

    fn answers(&self, patience: Duration) -> Vec<Answer> {
        // Who comes second waits, and gets what the first one heard.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, answers)) = &*last
            && at.elapsed() < SAID_FOR
        {
            return answers.clone();
        }
        let heard = self.reports(&self.endpoint.addresses, patience);
        let members = heard.iter().flatten().map(|report| &report.welcome.members);
        let members = members.max_by_key(|members| members.len()).cloned();
        let addresses: Vec<String> = members
            .iter()
            .flatten()
            .map(|(_, at)| at.clone())
            .filter(|at| !self.endpoint.addresses.contains(at))
            .collect();
        let known = self.endpoint.addresses.iter().cloned().zip(heard);
        let others = self.reports(&addresses, patience);
        let reports: Vec<(String, Option<NodeReport>)> =
            known.chain(addresses.into_iter().zip(others)).collect();
        let answers = members.into_iter().flatten().map(|(node, address)| Answer {
            node: node.0,
            report: reports
                .iter()
                .find(|(at, report)| {
                    *at == address || report.as_ref().is_some_and(|r| r.welcome.node == node)
                })
                .and_then(|(_, report)| report.clone()),
            address,
        });
        let answers: Vec<Answer> = answers.collect();
        *last = Some((Instant::now(), answers.clone()));
        answers
    }

    fn reports(&self, addresses: &[String], patience: Duration) -> Vec<Option<NodeReport>> {
        let (group, tls) = (self.endpoint.group_id(), self.tls.as_deref());
        std::thread::scope(|scope| {
            let asked: Vec<_> = addresses
                .iter()
                .map(|at| {
                    let ask = move || node_status(at, group, patience, tls).ok();
                    // Where the system gives no thread, the node is taken for silent.
                    std::thread::Builder::new().spawn_scoped(scope, ask).ok()
                })
                .collect();
            let heard = asked.into_iter().map(|one| one?.join().ok().flatten());
            heard.collect()
        })
    }
}

//! A host is driven as the node does it, until a test has what it waits for.

use quorate_host::{Host, HostEvent};
use std::time::{Duration, Instant};

/// No test waits longer for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Lets `look` see what has come and was not taken out, each time that the host was polled, until it has found something.
pub(crate) fn drive_until<T>(
    host: &mut Host,
    mut look: impl FnMut(&mut Vec<HostEvent>) -> Option<T>,
) -> T {
    let mut poll = mio::Poll::new().unwrap();
    let fd = host.fd();
    let mut source = mio::unix::SourceFd(&fd);
    poll.registry()
        .register(&mut source, mio::Token(7), mio::Interest::READABLE)
        .unwrap();
    let began = Instant::now();
    let mut came = Vec::new();
    loop {
        host.flush();
        host.poll(&mut came);
        if let Some(found) = look(&mut came) {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "only these came: {came:?}");
        let wake = host.next_wake().unwrap_or(began + PATIENCE);
        let wait = wake.saturating_duration_since(Instant::now());
        let wait = wait.min(Duration::from_millis(100));
        poll.poll(&mut mio::Events::with_capacity(4), Some(wait))
            .unwrap();
    }
}

//! One node: the event loop that joins core, storage, transport and host.

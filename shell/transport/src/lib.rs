//! Framed connections between nodes and clients.

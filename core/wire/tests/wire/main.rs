//! Tests of all layouts: fixed bytes, round trips, refusals, and hostile input.

mod contradictions;
mod datagrams;
mod draw;
mod drawn;
mod drawn_announced;
mod drawn_fast;
mod drawn_handshake;
mod drawn_replica;
mod drawn_ring;
mod drawn_values;
mod drawn_views;
mod frames;
mod golden;
mod hostile;
mod levels;
mod readers;
mod refusals;
mod round_trips;
mod samples;
mod samples_fast;
mod samples_peer;
mod samples_ring;
mod samples_snapshot;
mod samples_values;
mod values;

#![forbid(unsafe_code)]
//! Bytes: frames, messages, records and values.

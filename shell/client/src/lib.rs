//! A blocking, pipelined client.

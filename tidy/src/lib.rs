//! Tests about the repository.

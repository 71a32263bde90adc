//! Python objects that executed slots ahead of decisions, and go back.

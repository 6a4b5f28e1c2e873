//! Shared-memory segments, rings, wake-ups and the ticket of a rank.

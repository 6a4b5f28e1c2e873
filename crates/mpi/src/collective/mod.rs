//! Collective operations.

/// What a communicator keeps for its collective operations.
#[derive(Debug, Default)]
pub struct State {
    /// How many collective operations this process has started on the communicator.
    pub started: u64,
}

//! Starts of persistent requests, as calls reach them.

use std::rc::Rc;

use super::extra::Part;
use crate::comm::Group;
use crate::error::Result;

/// A call that reaches the starts of persistent requests.
pub trait HasPersistents {
    /// Keeps how a persistent request starts.
    fn keep_start(&mut self, index: u32, start: impl Fn(&mut Self) -> Result<[Part; 2]> + 'static);

    /// Keeps how a persistent request gets other numbers of the ranks that it names: those of processes that
    /// have their places now.
    fn keep_renewal(&mut self, index: u32, renew: impl Fn(&dyn Fn(u32) -> u32) + 'static);

    /// Notes that a persistent request is of a collective operation: it names all ranks of its communicator,
    /// those of these groups.
    fn keep_collective(&mut self, index: u32, groups: Vec<Rc<Group>>);

    /// Starts the operation of a persistent request: the part that gives the status, then one more.
    ///
    /// # Errors
    /// Those of the operation.
    fn start_parts(&mut self, index: u32) -> Result<[Part; 2]>;

    /// Number of the next partition that this process sends ([`crate::partitioned`]).
    fn next_partition(&mut self) -> &mut u32;

    /// The request is gone.
    fn forget_start(&mut self, index: u32);
}

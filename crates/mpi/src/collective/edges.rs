//! Messages between neighbours as one step of a plan.

use tutti_datatype::Buffer;

use super::plan::Plan;

/// Messages to and from ranks of the communicator, in the order of matching.
#[derive(Debug, Default)]
pub struct Edges {
    pub(super) sends: Vec<(usize, Buffer)>,
    pub(super) receives: Vec<(usize, Buffer)>,
}

/// Receives first, then sends.
pub(super) fn exchange(plan: &mut Plan, edges: &Edges) {
    for (from, buffer) in &edges.receives {
        plan.receive(*from, buffer.clone());
    }
    for (to, buffer) in &edges.sends {
        plan.send(*to, buffer.clone());
    }
}

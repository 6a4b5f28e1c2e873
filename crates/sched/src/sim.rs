//! The simulator: a cluster of up to thousands of nodes, with every fault, in one thread and without a clock.
//!
//! Everything that decides is the real thing: [`crate::controller::Controller`] on node 0, an
//! [`crate::agent::Agent`] on each node. Simulated are the links of the tree (in order, late, lost with their
//! node; dialled anew, also before the parent has the list of nodes that says so), the lists of nodes, with
//! those that join while jobs run; the controller's daemon, that dies and is followed by one that knows
//! nothing; the freezers (slow, stuck), the processes (asleep, awake, dead), and time. A run is a function of
//! its [`Options`]; on a failure the seed is printed.
//!
//! What is checked at every step (`check`):
//!
//! | invariant | when |
//! |---|---|
//! | a job is thawed only in its row, unless its node hears nothing of the controller | every thaw |
//! | nobody is thawed beside a job that shares a slot, unless that one has been ordered to freeze before (strict: is frozen) | every thaw |
//! | FROZEN of a job means that all its parts on nodes that count are frozen | whenever the controller takes it so |
//! | strict: SAVE finds all parts frozen, RUN all restored | every save, every thaw |
//! | no two jobs of a row share a slot | every plan |
//! | when the faults are over: all know the same tree and hang in it, no job is lost, nobody is dying, every active job gets its share on all its nodes and the same on each, no suspended job runs | at the end |

mod calendar;
mod check;
mod costs;
mod coverage;
mod crash_points;
mod freezers;
pub mod measure;
mod membership;
pub mod mix;
mod node;
mod options;
mod world;

pub use costs::Costs;
pub use coverage::{FaultCoverage, KINDS, Kind, PHASES, Phase};
pub use options::{Options, Report};
pub use world::World;

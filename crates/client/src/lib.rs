//! Common parts of the commands of users: requests to the daemon of this node, the jobs of other users on
//! this machine, and how jobs, users and moments are shown.
#![forbid(unsafe_code)]

pub mod at;
pub mod configured;
pub mod filter;
pub mod follow;
pub mod gather;
pub mod history;
pub mod job_name;
pub mod line;
pub mod moments;
pub mod name_list;
pub mod node_list;
pub mod others;
pub mod report;
pub mod requests;
pub mod states;
pub mod table;
pub mod top_options;
pub mod users;

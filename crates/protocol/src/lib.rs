//! Messages between the programs of Tutti, without sockets: pure but for the paths of files.
//!
//! | module | subject |
//! |---|---|
//! | [`codec`] | values as bytes that a later release may add to |
//! | [`version`] | which versions programs speak, and on which they agree |
//! | [`wire`] | frames between front end and starter; the description of a job; how a job ended |
//! | [`writer`] | messages to and from the writer of a job's output files |
//! | [`users`] | requests of users to a daemon, and its answers |
//! | [`users::watch`] | changes of jobs, rows and nodes since a state, for readers that follow them |
//! | [`terms`], [`batch`], [`output`], [`environment`] | parts of a submitted job |
//! | [`linker_variables`] | variables that are kept from a starter of root's daemon |
//! | [`end`], [`wait_kind`] | how jobs have ended, why they wait: words that commands decide by |
//! | [`pmi`] | bounds of what ranks put over PMI |
//! | [`spread`] | which ranks are on which node |
//! | [`settings`] | what holds of a configuration, and where it comes from |
//! | [`size`], [`time_limit`] | memory and time as users write them |
//! | [`turns`], [`log_line`], [`public`] | what daemons publish: switches, log, jobs of all users |
//! | [`paths`] | folder, sockets and logs of daemons |
//! | [`daemon_lock`] | locks of daemons |
//! | [`job_numbers`] | numbers of the jobs of a user on a machine |
//! | [`variables`] | names of environment variables |
//! | `key`, `daemon_options`, `config` | with feature `cluster`: the key, the command line of `tuttid`, `tutti.toml` |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod array;
pub mod batch;
pub mod codec;
#[cfg(feature = "cluster")]
pub mod config;
pub mod daemon_lock;
#[cfg(feature = "cluster")]
pub mod daemon_options;
pub mod end;
pub mod environment;
pub mod gpus;
pub mod job_numbers;
#[cfg(feature = "cluster")]
pub mod key;
pub mod linker_variables;
pub mod log_line;
pub mod mail;
pub mod output;
pub mod paths;
pub mod pmi;
pub mod ports;
pub mod public;
pub mod reservation;
pub mod settings;
pub mod sight;
pub mod size;
pub mod spread;
pub mod terms;
pub mod time_limit;
pub mod turns;
pub mod users;
pub mod variables;
pub mod version;
pub mod wait_kind;
pub mod wire;
pub mod writer;

//! Output of a program at its start when the user asks for it (OpenSHMEM 1.5, section 8): the version of the
//! library, and which variables it reads.

use tutti_runtime::log;

use crate::size;

/// Names of the variables: the present ones, and those before OpenSHMEM 1.4.
const VERSION: [&str; 2] = ["SHMEM_VERSION", "SMA_VERSION"];
const INFO: [&str; 2] = ["SHMEM_INFO", "SMA_INFO"];

/// Prints what is asked for; called by one PE.
pub(crate) fn print() {
    let is_set = |names: [&str; 2]| names.iter().any(|name| std::env::var_os(name).is_some());
    if is_set(VERSION) || is_set(INFO) {
        log::line(format_args!("Tutti {}, OpenSHMEM 1.5", env!("CARGO_PKG_VERSION")));
    }
    if is_set(INFO) {
        let variables = [
            (size::VARIABLE, "bytes of each PE's symmetric heap, with K, M, G or T behind them (512M)"),
            (VERSION[0], "set: the version is printed at the start"),
            (INFO[0], "set: this text is printed at the start"),
            ("TUTTI_CHECK", "1: calls are checked for mistakes"),
            ("TUTTI_DEBUG", "1: the launcher prints what it does"),
        ];
        for (name, meaning) in variables {
            log::line(format_args!("{name:20} {meaning}"));
        }
    }
}

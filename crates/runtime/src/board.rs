//! The board of this node, as this process reads it.

use std::sync::OnceLock;

use tutti_shm::board::{Reader, VARIABLE};

/// The board that the variable of this process names; it is looked for once and stays mapped.
pub fn of_node() -> Option<&'static Reader> {
    static BOARD: OnceLock<Option<Reader>> = OnceLock::new();
    let find = || Reader::find(&std::env::var_os(VARIABLE)?).ok();
    BOARD.get_or_init(find).as_ref()
}

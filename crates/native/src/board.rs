//! `tutti_board_open`.

use tutti_runtime::board;

/// The board of this node, mapped for reading until the process ends; null if there is none. Found by the
/// variable TUTTI_BOARD, which each rank has.
pub fn open() -> *const u8 {
    board::of_node().map_or(std::ptr::null(), |reader| reader.base().as_ptr().cast_const())
}

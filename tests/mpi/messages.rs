//! Requests and partitioned messages.

use crate::conforms;

#[test]
fn wildcards_match_in_order() {
    conforms("wildcards", &[2, 4]);
}

#[test]
fn send_modes_work_blocking_nonblocking_and_persistent() {
    conforms("send_modes", &[2, 3]);
}

#[test]
fn request_get_status_and_freed_handles_work() {
    conforms("requests", &[2, 3]);
}

#[test]
fn partitioned_transfers_work_with_different_partitions() {
    conforms("partitioned", &[1, 2, 3]);
}

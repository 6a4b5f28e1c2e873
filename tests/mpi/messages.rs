//! Requests and partitioned messages.

use crate::conforms;

#[test]
fn m13_wildcards_match_any_source_and_any_tag_in_order() {
    conforms("wildcards", &[2, 4]);
}

#[test]
fn m14_four_modes_send_blocking_nonblocking_and_persistent() {
    conforms("send_modes", &[2, 3]);
}

#[test]
fn requests_are_looked_at_without_an_end_and_outlive_the_handles_they_were_made_with() {
    conforms("requests", &[2, 3]);
}

#[test]
fn partitions_arrive_one_by_one_however_both_sides_cut_the_data() {
    conforms("partitioned", &[1, 2, 3]);
}

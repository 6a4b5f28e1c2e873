//! Requests and partitioned messages.

use crate::conforms;

#[test]
fn requests_are_looked_at_without_an_end_and_outlive_the_handles_they_were_made_with() {
    conforms("requests", &[2, 3]);
}

#[test]
fn partitions_arrive_one_by_one_however_both_sides_cut_the_data() {
    conforms("partitioned", &[1, 2, 3]);
}

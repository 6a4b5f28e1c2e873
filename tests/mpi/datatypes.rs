//! Datatypes: bounds, contents, messages between different types, packing, errors.

use crate::conforms;

#[test]
fn datatypes_have_standard_sizes_and_bounds() {
    conforms("types_bounds", &[1, 2]);
}

#[test]
fn datatypes_report_their_contents_and_outlive_handles() {
    conforms("types_contents", &[1, 2]);
}

#[test]
fn datatypes_with_different_gaps_transfer_exactly() {
    conforms("types_transfer", &[2, 3]);
}

#[test]
fn pack_works_in_steps_and_as_external32() {
    conforms("types_pack", &[2, 4]);
}

#[test]
fn datatype_wrong_arguments_give_the_standard_error_class() {
    conforms("types_errors", &[1, 2]);
}

#[test]
fn datatypes_of_unaligned_elements_end_behind_the_last_one() {
    conforms("nested_extents", &[1]);
}

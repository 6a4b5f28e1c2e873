//! Datatypes: bounds, contents, messages between different types, packing, errors.

use crate::conforms;

#[test]
fn types_have_the_sizes_and_bounds_of_the_standard() {
    conforms("types_bounds", &[1, 2]);
}

#[test]
fn types_tell_how_they_were_made_and_outlive_their_handles_in_other_types() {
    conforms("types_contents", &[1, 2]);
}

#[test]
fn messages_between_types_with_different_gaps_arrive_byte_for_byte() {
    conforms("types_transfer", &[2, 3]);
}

#[test]
fn data_pack_in_steps_and_as_external32() {
    conforms("types_pack", &[2, 4]);
}

#[test]
fn wrong_arguments_for_types_give_the_classes_of_the_standard() {
    conforms("types_errors", &[1, 2]);
}

//! Answers of daemons that are nearly right, with keys between them: nothing panics. `make fuzz` looks for
//! more with the same reader, guided by coverage.

use tutti_testkit::{Random, nearly, seed};

use crate::{readers, seeds};

#[test]
fn top_draws_what_is_nearly_right_without_a_panic() {
    let seeds = seeds::seeds();
    seeds.iter().for_each(|seed| readers::read(seed));
    let mut random = Random::new(seed());
    // Each is many pictures: fewer than of those that are only read.
    for _ in 0..nearly::count() / 40 {
        readers::read(&nearly::frame(&mut random, &seeds));
    }
}

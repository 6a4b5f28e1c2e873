//! Answers, lines of logs and output that are nearly right: nothing panics. `make fuzz` looks for more with
//! the same readers, guided by coverage.

use tutti_testkit::{Random, nearly, seed};

use crate::{readers, seeds};

#[test]
fn sight_reads_what_is_nearly_right_without_a_panic() {
    let mut random = Random::new(seed());
    for which in 0..readers::READERS {
        let seeds: Vec<Vec<u8>> =
            seeds::seeds().iter().filter(|seed| seed[0] == which).map(|seed| seed[1..].to_vec()).collect();
        seeds.iter().for_each(|seed| readers::read(&[&[which], &seed[..]].concat()));
        // Each is several frames and scrapes: fewer than of those that are only read.
        for _ in 0..nearly::count() / 10 {
            readers::read(&[&[which], &nearly::frame(&mut random, &seeds)[..]].concat());
        }
    }
}

use std::ptr::NonNull;

use super::*;

#[repr(C, align(64))]
#[derive(Clone)]
struct Cell([u8; LINE_BYTES]);

fn directory(cells: &mut Vec<Cell>) -> Directory {
    cells.resize(Directory::bytes(2) / LINE_BYTES, Cell([0; LINE_BYTES]));
    let base = NonNull::from(&mut cells[0]).cast();
    // SAFETY: the cells outlive the directory in every test.
    Directory::new(unsafe { Opened::new(base, cells.len() * LINE_BYTES) }, 2).unwrap()
}

const LINE: Line = Line { rights: 3, range: Range { offset: 4096, bytes: 8192 }, begin: 64, bytes: 100 };

#[test]
fn directory_shows_what_is_open() {
    let mut cells = Vec::new();
    let directory = directory(&mut cells);
    let generation = directory.open(5, LINE);
    let visit = directory.visit(1, 5, generation).expect("it is open");
    assert_eq!(visit.line, LINE);
    assert!(directory.is_visited(5) && !directory.is_visited(4));
    drop(visit);
    assert!(!directory.is_visited(5));
}

#[test]
fn directory_knows_a_region_that_was_opened_anew() {
    let mut cells = Vec::new();
    let directory = directory(&mut cells);
    let first = directory.open(0, LINE);
    assert!(directory.close(0, first) && !directory.close(0, first));
    assert!(directory.visit(0, 0, first).is_none());
    let second = directory.open(0, LINE);
    assert_ne!(first, second);
    assert!(directory.visit(0, 0, first).is_none() && !directory.close(0, first));
    assert!(directory.visit(0, 0, second).is_some());
    assert!(!directory.is_visited(0), "who was refused is not inside");
}

#[test]
fn directory_takes_any_numbers() {
    let mut cells = Vec::new();
    let directory = directory(&mut cells);
    for (rank, region, generation) in
        [(0, REGIONS_MAX, 1), (2, 0, 1), (0, 0, 0), (0, 0, u64::MAX), (usize::MAX, usize::MAX, 1)]
    {
        assert!(directory.visit(rank, region, generation).is_none());
        assert!(!directory.close(region, generation));
    }
}

//! Which bytes of a copy are not those of its twin. A byte that is the same belongs to another writer,
//! perhaps (false sharing): nothing but bytes that differ may go to the home, whatever lies around them.

use std::ops::Range;

/// Bytes that are compared at once.
const WORD_BYTES: usize = 8;

/// The first run of bytes from `from` on that differ; none when there is none.
pub fn next(copy: &[u8], twin: &[u8], from: usize) -> Option<Range<usize>> {
    assert_eq!(copy.len(), twin.len(), "a twin is as long as its copy");
    let begin = first_where(copy, twin, from, false)?;
    let end = first_where(copy, twin, begin, true).unwrap_or(copy.len());
    Some(begin..end)
}

/// The first byte from `from` on that is equal, or not.
fn first_where(copy: &[u8], twin: &[u8], mut from: usize, equal: bool) -> Option<usize> {
    while from < copy.len() {
        if !equal && from.is_multiple_of(WORD_BYTES) && from + WORD_BYTES <= copy.len() {
            let word = from..from + WORD_BYTES;
            if copy[word.clone()] == twin[word] {
                from += WORD_BYTES;
                continue;
            }
        }
        if (copy[from] == twin[from]) == equal {
            return Some(from);
        }
        from += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::next;
    use tutti_testkit::random::Random;

    #[test]
    fn difference_has_exactly_the_bytes_that_differ() {
        let mut random = Random::new(1);
        for _ in 0..200 {
            let twin: Vec<u8> = (0..100).map(|_| random.below(3) as u8).collect();
            let copy: Vec<u8> =
                twin.iter().map(|byte| if random.chance(300) { byte ^ 1 } else { *byte }).collect();
            let mut found = Vec::new();
            let mut from = 0;
            while let Some(run) = next(&copy, &twin, from) {
                from = run.end;
                found.extend(run);
            }
            let expected: Vec<usize> = (0..100).filter(|&at| copy[at] != twin[at]).collect();
            assert_eq!(found, expected);
        }
    }
}

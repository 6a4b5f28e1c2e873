//! How a bounded number of places is shared by users who want more.

/// The most that each may have, so that all together have no more than that: who has less leaves it to the
/// others.
pub(super) fn fair_share(counts: impl Iterator<Item = usize>, all: usize) -> usize {
    let mut counts: Vec<usize> = counts.collect();
    counts.sort_unstable();
    let (mut rest, mut others) = (all, counts.len());
    for count in counts {
        if count > rest / others {
            return rest / others;
        }
        rest -= count;
        others -= 1;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_shared_fairly_among_users() {
        for (counts, all, most) in [
            (&[][..], 10, usize::MAX),
            (&[10], 10, usize::MAX),
            (&[11], 10, 10),
            (&[3, 8], 10, 7),
            (&[8, 3, 3], 10, 4),
            (&[5, 5, 5, 5], 10, 2),
            (&[1, 1, 1, 900], 100, 97),
        ] {
            assert_eq!(fair_share(counts.iter().copied(), all), most, "{counts:?}");
        }
    }
}

//! Tests of contexts, step by step and by any memory.

use proptest::prelude::*;

use super::*;

const FIFO_BYTES: usize = 256;

/// Words of a flow whose records lie from one offset to another.
fn words(first: u64, end: u64) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    words[FlowWord::SndUna as usize] = first << 32 | 3;
    words[FlowWord::SndNxt as usize] = end << 32 | 7;
    words
}

fn context(words: &[u64; WORDS], fifo: &[u8]) -> Context {
    let mut writer = ContextWriter::new(Key(5));
    writer.flow(Rank(0), Rank(2), &[0; WORDS], &[]);
    writer.flow(Rank(1), Rank(2), words, fifo);
    writer.finish()
}

#[test]
fn context_of_the_same_memory_does_not_differ() {
    let fifo: Vec<u8> = (0..FIFO_BYTES).map(|at| at as u8).collect();
    for (first, end) in [(16, 64), (200, 32), (64, 64), (0, 0)] {
        let (saved, now) = (context(&words(first, end), &fifo), context(&words(first, end), &fifo));
        assert_eq!(saved.difference(&now), None, "from {first} to {end}");
        assert_eq!(Context(saved.0.clone()).difference(&now), None);
    }
}

// Paper: S17
#[test]
fn context_differs_where_a_word_or_a_waiting_record_does() {
    let fifo = vec![9; FIFO_BYTES];
    for (first, end, used, unused) in [(16, 64, 16, 64), (200, 32, 31, 32), (64, 64, 0, usize::MAX)] {
        let saved = context(&words(first, end), &fifo);
        let changed = |at: usize| {
            let mut fifo = fifo.clone();
            fifo[at] ^= 1;
            saved.difference(&context(&words(first, end), &fifo))
        };
        assert_eq!(changed(used), Some(Difference::Records { from: 1, to: 2 }), "from {first} to {end}");
        if unused != usize::MAX {
            assert_eq!(changed(unused), None, "what lies there is no record");
        }
        let mut others = words(first, end);
        others[FlowWord::RcvNxt as usize] += 1;
        let moved = saved.difference(&context(&others, &fifo));
        assert_eq!(moved, Some(Difference::Words { from: 1, to: 2 }));
    }
    let more = {
        let mut writer = ContextWriter::new(Key(5));
        writer.flow(Rank(0), Rank(2), &[0; WORDS], &[]);
        writer.finish()
    };
    let saved = context(&words(16, 64), &fifo);
    assert_eq!(saved.difference(&more), Some(Difference::Words { from: 1, to: 2 }), "a flow is gone");
}

#[test]
fn context_that_is_damaged_is_refused() {
    let fifo = vec![9; FIFO_BYTES];
    let whole = context(&words(16, 64), &fifo);
    for at in 0..whole.bytes() {
        let mut bytes = whole.0.clone();
        bytes[at] ^= 0x10;
        let found = Context(bytes).difference(&whole);
        assert!(matches!(found, Some(Difference::Damaged(_))), "byte {at}: {found:?}");
    }
}

proptest! {
    #[test]
    fn context_of_any_memory_is_bounded(
        words in any::<[u64; WORDS]>(),
        fifo in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let saved = context(&words, &fifo);
        prop_assert!(saved.bytes() < 400 + fifo.len());
        prop_assert_eq!(saved.difference(&context(&words, &fifo)), None);
    }
}

//! Loom: every interleaving of an opener and a helper over two messages of two pieces. The pieces are cells,
//! so a piece that two copy, or that is looked at before it is copied, is noticed.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::*;
use crate::model::explore;

const PIECES: u32 = 2;
const MESSAGES: u32 = 2;

#[derive(Default)]
struct Memory {
    claims: PieceWord,
    counts: [PieceWord; 2],
    pieces: [[UnsafeCell<u32>; PIECES as usize]; MESSAGES as usize],
}

// SAFETY: the cells are what the model is about: loom checks every access.
unsafe impl Sync for Memory {}

fn work(end: &mut Joint, memory: &Memory, opens: bool) {
    for message in 1..=MESSAGES {
        if opens {
            end.open(message);
        }
        let pieces = &memory.pieces[message as usize - 1];
        while end.state(message, PIECES) != State::Complete {
            match end.claim(message, PIECES) {
                Some(piece) => {
                    // SAFETY: loom reports any other access at the same time.
                    pieces[piece as usize].with_mut(|cell| unsafe { *cell += 1 });
                    end.finish_piece(message);
                }
                None => loom::thread::yield_now(),
            }
        }
        for piece in pieces {
            // SAFETY: as above.
            assert_eq!(piece.with(|cell| unsafe { *cell }), 1, "message {message} is complete");
        }
    }
}

#[test]
fn coop_copy_model_copies_each_piece_once() {
    explore("joint copy", Some(1), || {
        let memory = Arc::new(Memory::default());
        let claims = NonNull::from(&memory.claims);
        let [first, second] = [NonNull::from(&memory.counts[0]), NonNull::from(&memory.counts[1])];
        let kept = memory.clone();
        // SAFETY: both ends live as long as the memory, and each is made once.
        let mut helper = unsafe { Joint::new(Parts { claims, own: second, other: first }) };
        let helping = loom::thread::spawn(move || work(&mut helper, &kept, false));
        // SAFETY: as above.
        let mut opener = unsafe { Joint::new(Parts { claims, own: first, other: second }) };
        work(&mut opener, &memory, true);
        helping.join().unwrap();
    });
}

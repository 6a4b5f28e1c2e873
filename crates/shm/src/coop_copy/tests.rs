//! Two ends in one process, one after the other and in threads.

use super::*;

struct Memory {
    claims: PieceWord,
    counts: [PieceWord; 2],
}

fn block() -> (Joint, Joint, Box<Memory>) {
    let memory = Box::new(Memory { claims: PieceWord::default(), counts: Default::default() });
    let claims = NonNull::from(&memory.claims);
    let [first, second] = [NonNull::from(&memory.counts[0]), NonNull::from(&memory.counts[1])];
    // SAFETY: the boxed memory is zeroed and outlives the ends in every test; each end is made once.
    unsafe {
        let opener = Joint::new(Parts { claims, own: first, other: second });
        let helper = Joint::new(Parts { claims, own: second, other: first });
        (opener, helper, memory)
    }
}

#[test]
fn coop_copy_completes_when_all_pieces_are_counted() {
    let (mut opener, mut helper, _memory) = block();
    assert_eq!(helper.state(1, 3), State::Closed);
    opener.open(1);
    assert_eq!((opener.claim(1, 3), helper.claim(1, 3)), (Some(0), Some(1)));
    opener.finish_piece(1);
    assert_eq!((opener.claim(1, 3), helper.claim(1, 3)), (Some(2), None));
    opener.finish_piece(1);
    assert_eq!((opener.state(1, 3), helper.state(1, 3)), (State::Open, State::Open));
    helper.finish_piece(1);
    assert_eq!((opener.state(1, 3), helper.state(1, 3)), (State::Complete, State::Complete));
    opener.open(2);
    assert_eq!(
        (helper.state(1, 3), helper.state(2, 1), helper.state(3, 1)),
        (State::Complete, State::Open, State::Closed)
    );
    assert_eq!((helper.claim(1, 3), helper.claim(3, 1)), (None, None), "only the open message has pieces");
}

#[test]
fn coop_copy_opener_can_copy_alone() {
    let (mut opener, helper, _memory) = block();
    for message in 1..100 {
        opener.open(message);
        while opener.claim(message, message).is_some() {
            opener.finish_piece(message);
        }
        assert_eq!(
            (opener.state(message, message), helper.state(message, message)),
            (State::Complete, State::Complete)
        );
    }
}

#[test]
fn coop_copy_failure_is_seen_by_both() {
    let (mut opener, mut helper, _memory) = block();
    opener.open(1);
    assert_eq!((opener.claim(1, 2), helper.claim(1, 2)), (Some(0), Some(1)));
    helper.give_up(1);
    opener.finish_piece(1);
    assert_eq!((opener.state(1, 2), helper.state(1, 2)), (State::Broken, State::Broken));
}

#[test]
fn coop_copy_piece_is_claimed_once() {
    const PIECES: u32 = 1000;
    const MESSAGES: u32 = 200;
    let (mut opener, mut helper, _memory) = block();
    let work = |end: &mut Joint, opens: bool| {
        let mut claimed = vec![0u32; MESSAGES as usize + 1];
        for message in 1..=MESSAGES {
            if opens {
                end.open(message);
            }
            while end.state(message, PIECES) != State::Complete {
                match end.claim(message, PIECES) {
                    Some(piece) => {
                        claimed[message as usize] += piece;
                        end.finish_piece(message);
                    }
                    None => std::thread::yield_now(),
                }
            }
        }
        claimed
    };
    let sums = std::thread::scope(|scope| {
        let other = scope.spawn(|| work(&mut helper, false));
        let own = work(&mut opener, true);
        (own, other.join().expect("the helper ends well"))
    });
    for message in 1..=MESSAGES as usize {
        assert_eq!(sums.0[message] + sums.1[message], PIECES * (PIECES - 1) / 2, "message {message}");
    }
}

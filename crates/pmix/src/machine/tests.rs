use proptest::prelude::*;

use super::*;
use crate::spaces::AmongAll;

/// Machines of three nodes: ranks 0 and 1 on node 0, 2 on node 1, 3 on node 2.
fn machines() -> Vec<Machine> {
    let (nodes, numbers) = (vec![0, 0, 1, 2], vec![0, 1, 2, 3]);
    let space = Space {
        name: "job".into(),
        nodes,
        numbers,
        programs: vec![4],
        parent: None,
        among_all: AmongAll::default(),
    };
    (0..3).map(|node| Machine::new(node, space.clone())).collect()
}

fn process(rank: u32) -> Process {
    Process { space: "job".into(), rank }
}

/// A word of a node, through its pieces, for all; what each is to do.
fn tell(all: &mut [Machine], node: u32, word: &Word) -> Vec<Vec<Deed>> {
    all.iter_mut()
        .map(|machine| {
            let mut incoming = Pieces::default();
            let words: Vec<Word> =
                pieces(word).iter().filter_map(|piece| incoming.take(node, piece)).collect();
            assert_eq!(words, std::slice::from_ref(word));
            machine.handle_word(node, word.clone())
        })
        .collect()
}

fn answer(number: u64, answer: Answer) -> Vec<Deed> {
    vec![Deed::Answer(number, answer)]
}

fn gather(number: u64, kind: Kind, ranks: &[u32], bytes: &[u8]) -> Word {
    let processes = ranks.iter().map(|rank| process(*rank)).collect();
    let wants_context = matches!(kind, Kind::Construct(_));
    Word::Gather { number, kind, processes, bytes: bytes.to_vec(), wants_context }
}

#[test]
fn fence_of_some_is_over_on_their_nodes_alone() {
    let mut all = machines();
    assert_eq!(tell(&mut all, 1, &gather(7, Kind::Fence, &[0, 2], b"b")), [vec![], vec![], vec![]]);
    let over = |number| answer(number, Answer::Gathered(b"ab".to_vec(), None, vec![]));
    let deeds = tell(&mut all, 0, &gather(9, Kind::Fence, &[0, 2], b"a"));
    assert_eq!(deeds, [over(9), over(7), vec![]]);
    // One that has no process in it, or names one that is not there, is refused.
    let refused = |number| answer(number, Answer::Status(status::NOT_FOUND));
    assert_eq!(tell(&mut all, 2, &gather(1, Kind::Fence, &[0, 2], b"")), [vec![], vec![], refused(1)]);
    assert_eq!(tell(&mut all, 0, &gather(2, Kind::Fence, &[0, 9], b"")), [refused(2), vec![], vec![]]);
}

#[test]
fn groups_have_numbers_of_their_own_and_know_their_members() {
    let mut all = machines();
    let mut made = |name: &str, number| {
        let kind = Kind::Construct(name.into());
        tell(&mut all, 0, &gather(number, kind.clone(), &[1, 3], b""));
        tell(&mut all, 2, &gather(number, kind, &[1, 3], b""))
    };
    let members = || vec![process(1), process(3)];
    let over = |number, context| answer(number, Answer::Gathered(vec![], Some(context), members()));
    assert_eq!(made("a", 1), [over(1, FIRST_CONTEXT), vec![], over(1, FIRST_CONTEXT)]);
    assert_eq!(made("b", 2), [over(2, FIRST_CONTEXT - 1), vec![], over(2, FIRST_CONTEXT - 1)]);
}

#[test]
fn operation_that_one_gives_up_is_over_for_all() {
    let mut all = machines();
    tell(&mut all, 0, &gather(1, Kind::Fence, &[0, 2, 3], b""));
    tell(&mut all, 1, &gather(2, Kind::Fence, &[0, 2, 3], b""));
    let late = |number| answer(number, Answer::Status(status::TIMEOUT));
    assert_eq!(tell(&mut all, 1, &Word::GiveUp { number: 2 }), [late(1), late(2), vec![]]);
    assert_eq!(tell(&mut all, 0, &Word::GiveUp { number: 1 }), [vec![], vec![], vec![]]);
}

#[test]
fn keys_come_from_the_node_of_their_process() {
    let mut all = machines();
    let ask = Word::AskKeys { number: 4, process: process(3) };
    assert_eq!(tell(&mut all, 0, &ask), [vec![], vec![], vec![Deed::AskRank(0, 4, process(3))]]);
    let keys = Word::Keys { to: 0, number: 4, status: status::SUCCESS, bytes: b"k".to_vec() };
    let given = answer(4, Answer::Gathered(b"k".to_vec(), None, vec![]));
    assert_eq!(tell(&mut all, 2, &keys), [given, vec![], vec![]]);
    let ask = Word::AskKeys { number: 5, process: process(4) };
    assert_eq!(tell(&mut all, 1, &ask)[1], answer(5, Answer::Status(status::NOT_FOUND)));
}

#[test]
fn names_are_answered_on_the_node_of_their_asker() {
    let mut all = machines();
    let lookup = |wanted| Lookup { asker: process(2), keys: vec!["a".into()], wanted };
    let none = answer(1, Answer::Status(status::NOT_FOUND));
    assert_eq!(tell(&mut all, 1, &Word::Lookup { number: 1, lookup: lookup(0) }), [vec![], none, vec![]]);
    assert_eq!(tell(&mut all, 1, &Word::Lookup { number: 2, lookup: lookup(1) }), [vec![], vec![], vec![]]);
    let value = Value { kind: 3, bytes: vec![7; 3 * PIECE_BYTES] };
    let publish = |number| Word::Publish {
        number,
        owner: process(0),
        range: Range::Job,
        is_read_once: true,
        entries: vec![("a".into(), value.clone())],
    };
    let found = Found { key: "a".into(), value: value.clone(), owner: process(0) };
    let deeds = tell(&mut all, 0, &publish(8));
    assert_eq!(deeds, [answer(8, Answer::Status(0)), answer(2, Answer::Found(vec![found])), vec![]]);
    assert_eq!(tell(&mut all, 0, &publish(9))[0], answer(9, Answer::Status(0)));
    assert_eq!(tell(&mut all, 0, &publish(10))[0], answer(10, Answer::Status(status::DUPLICATE_KEY)));
    let unpublish = |number| Word::Unpublish { number, owner: process(0), keys: vec!["a".into()] };
    assert_eq!(tell(&mut all, 0, &unpublish(11))[0], answer(11, Answer::Status(0)));
    assert_eq!(tell(&mut all, 0, &unpublish(12))[0], answer(12, Answer::Status(status::NOT_FOUND)));
}

proptest! {
    #[test]
    fn pieces_of_any_bytes_are_survived(pieces in proptest::collection::vec(
        (0_u32..3, proptest::collection::vec(any::<u8>(), 0..40)), 0..20)) {
        let (mut incoming, mut all) = (Pieces::default(), machines());
        for (node, piece) in pieces {
            if let Some(word) = incoming.take(node, &piece) {
                all.iter_mut().for_each(|machine| drop(machine.handle_word(node, word.clone())));
            }
        }
    }
}

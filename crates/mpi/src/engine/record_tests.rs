//! Records of a rank that is out of its mind.

use proptest::prelude::*;
use tutti_runtime::wrong::{self, Wrong};
use tutti_shm::envelope::{
    CANCEL, CTS, EAGER, FAR_RTR, FAR_WRITE, FIN, HEAD_BYTES, Head, NAMED, PART, RTR_VOID, RTR_VOIDED, RTS,
    STREAM,
};

use super::message::{
    EAGER_CREDIT_BYTES, EAGER_OVERHEAD_BYTES, Mode, REMOTE_EAGER_BYTES_MAX, REMOTE_WRITE_BYTES_MIN,
};
use super::remote_tests::{CONTEXT, receive, send, single};
use super::*;
use crate::abi::MPI_ANY_TAG;

const FROM: usize = 0;
const GUARD: u8 = 0xa5;

/// Records come in as if the channel had brought them.
fn take(engine: &mut Engine, record: &[u8]) {
    engine.lend_client(&mut |client| {
        client.record(FROM, record);
    });
}

fn record(head: Head, data: &[u8]) -> Vec<u8> {
    [&head.encode()[..HEAD_BYTES], data].concat()
}

/// Bytes behind the head of a receive that is advertised.
fn body_of_rtr(number: u64, pending_from: u64, seen: u64) -> Vec<u8> {
    [number, pending_from, seen].map(u64::to_le_bytes).concat()
}

/// How many records are refused for a reason by that.
fn refused(wrong: Wrong, what: impl FnOnce()) -> u64 {
    let before = wrong::counted(wrong);
    what();
    wrong::counted(wrong) - before
}

#[test]
fn records_that_are_wrong_are_refused_by_reason() {
    let mut engine = single();
    let head = Head { context: CONTEXT, ..Head::default() };
    let long = REMOTE_EAGER_BYTES_MAX as u64 + 1;
    let cases = [
        (Wrong::Form, vec![EAGER; HEAD_BYTES - 1]),
        (Wrong::Kind, record(Head { kind: 0x1f, ..head }, &[])),
        (Wrong::Length, record(Head { kind: EAGER, length: 5, ..head }, b"four")),
        (Wrong::Length, record(Head { kind: STREAM, length: 4, ..head }, b"four")),
        (Wrong::Length, record(Head { kind: STREAM, length: long, ..head }, b"four")),
        (Wrong::Length, record(Head { kind: RTS, length: u64::MAX, ..head }, &[])),
        (Wrong::Length, record(Head { kind: RTS, length: 4, ..head }, b"four")),
        (Wrong::Order, record(Head { kind: PART, ..head }, b"four")),
        (Wrong::Answer, record(Head { kind: CTS, number: 7, ..head }, &[])),
        (Wrong::Answer, record(Head { kind: FIN, number: 7, ..head }, &[])),
        (Wrong::Answer, record(Head { kind: NAMED, number: 7, ..head }, &[])),
        (Wrong::Credit, record(Head { kind: EAGER, word: 1, ..head }, &[])),
        (Wrong::Form, record(Head { kind: FAR_RTR, length: long, ..head }, b"four")),
        (Wrong::Length, record(Head { kind: FAR_RTR, length: u64::MAX, ..head }, &body_of_rtr(1, 1, 0))),
        (Wrong::Length, record(Head { kind: FAR_RTR, length: 0, ..head }, &body_of_rtr(1, 1, 0))),
        (Wrong::Order, record(Head { kind: FAR_RTR, length: long, ..head }, &body_of_rtr(1, 2, 0))),
        (Wrong::Order, record(Head { kind: FAR_RTR, length: long, ..head }, &body_of_rtr(1, 1, 1))),
        (Wrong::Order, record(Head { kind: FAR_RTR, length: long, ..head }, &body_of_rtr(0, 0, 0))),
        (Wrong::Answer, record(Head { kind: FAR_WRITE, length: long, word: 1, ..head }, &[])),
        (Wrong::Answer, record(Head { kind: RTR_VOID, word: 1, ..head }, &[])),
        (Wrong::Answer, record(Head { kind: RTR_VOIDED, word: 1, ..head }, &[])),
    ];
    for (reason, record) in cases {
        assert_eq!(refused(reason, || take(&mut engine, &record)), 1, "{reason:?}: {record:?}");
    }
    take(&mut engine, &record(Head { kind: STREAM, length: 8, ..head }, b"four"));
    let second = record(Head { kind: STREAM, length: 8, ..head }, b"four");
    assert_eq!(refused(Wrong::Order, || take(&mut engine, &second)), 1, "the first has not ended");
    let rest = record(Head { kind: PART, ..head }, b"more5");
    assert_eq!(refused(Wrong::Length, || take(&mut engine, &rest)), 1, "it is too long");
    take(&mut engine, &record(Head { kind: PART, ..head }, b"rest"));
    let mut into = [0; 8];
    let index = receive(&mut engine, FROM as i32, MPI_ANY_TAG, &mut into);
    assert!(engine.requests.get(index).done && into == *b"fourrest", "what is right is taken");
}

#[test]
fn messages_beyond_the_credit_of_their_sender_are_refused() {
    let mut engine = single();
    let eager = record(Head { kind: EAGER, context: CONTEXT, length: 1000, ..Head::default() }, &[1; 1000]);
    let most = EAGER_CREDIT_BYTES / (1000 + EAGER_OVERHEAD_BYTES);
    let over = refused(Wrong::Credit, || (0..most + 50).for_each(|_| take(&mut engine, &eager)));
    assert_eq!(over, 50);
    let mut into = [0; 1000];
    receive(&mut engine, FROM as i32, MPI_ANY_TAG, &mut into);
    assert_eq!(refused(Wrong::Credit, || take(&mut engine, &eager)), 0, "there is room for one more");
}

#[test]
fn send_that_was_cleared_under_a_wrong_name_waits_for_a_right_one() {
    let mut engine = single();
    let data = vec![1; 300_000];
    let request = send(&mut engine, FROM as u32, 3, &data, Mode::Standard).expect("it is announced");
    let refused = refused(Wrong::Answer, || {
        let number = engine.requests.get(request).posted as u32;
        take(&mut engine, &record(Head { kind: CTS, number, word: 99, ..Head::default() }, &[]));
        engine.lend_client(&mut |client| client.bulk_refused(FROM, request.into()));
    });
    let remote = engine.remote.as_deref().expect("there is a network");
    let number = engine.requests.get(request).posted as u32;
    assert!(refused == 1 && remote.is_rendezvous(FROM, number, request));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Checks that nothing panics, and that nothing beside the buffers of receives changes.
    #[test]
    fn records_of_any_kind_do_no_harm(
        records in proptest::collection::vec(
            (0_u8..0x20, 0_u32..3, -2_i32..3, 0_u32..4, (0_u64..5, any::<u64>()), (0_u64..3, any::<u64>()),
             proptest::collection::vec(any::<u8>(), 0..100), 0_usize..HEAD_BYTES * 20),
            1..40,
        ),
    ) {
        let mut engine = single();
        let data = vec![7; 300_000];
        send(&mut engine, FROM as u32, 1, &data, Mode::Standard);
        let mut places = vec![[GUARD; 192]; 6];
        for (tag, place) in (-1..).zip(&mut places) {
            receive(&mut engine, FROM as i32, if tag < 0 { MPI_ANY_TAG } else { tag % 3 }, &mut place[64..128]);
        }
        for (kind, context, tag, number, length, word, data, cut) in records {
            // Mostly what fits, sometimes what does not.
            let length = match length { (0, any) => any, (1, _) => data.len() as u64 + 9, _ => data.len() as u64 };
            let word = if word.0 == 0 { word.1 } else { 0 };
            let head = Head { kind, context: CONTEXT - 1 + context, tag, number, length, word, signature: 0 };
            let mut record = record(head, &data);
            record.truncate(cut.max(1));
            take(&mut engine, &record);
            engine.progress(None);
        }
        for place in &places {
            prop_assert!(place[..64].iter().chain(&place[128..]).all(|byte| *byte == GUARD));
        }
        let cancel = record(Head { kind: CANCEL, ..Head::default() }, &[]);
        take(&mut engine, &cancel);
    }
}

#[test]
fn records_of_a_write_that_does_not_fit_its_receive_are_refused() {
    let mut engine = single();
    let bytes = REMOTE_WRITE_BYTES_MIN + 1;
    let (mut first, mut second) = (vec![GUARD; bytes], vec![GUARD; bytes]);
    let receives = [&mut first, &mut second].map(|into| receive(&mut engine, FROM as i32, 3, into));
    assert_eq!(engine.counters.rtr, 2);
    let head =
        Head { kind: FAR_WRITE, context: CONTEXT, tag: 3, length: bytes as u64, word: 1, ..Head::default() };
    let cases = [
        (Wrong::Length, record(Head { length: 1 << 41, ..head }, &[])),
        (Wrong::Length, record(head, b"data")),
        (Wrong::Length, record(Head { length: 3, ..head }, b"data")),
        (Wrong::Order, record(Head { tag: 4, ..head }, &[])),
        (Wrong::Order, record(Head { word: 2, ..head }, &[])),
        (Wrong::Answer, record(Head { word: 3, ..head }, &[])),
    ];
    for (reason, record) in cases {
        assert_eq!(refused(reason, || take(&mut engine, &record)), 1, "{reason:?}: {record:?}");
    }
    take(&mut engine, &record(head, &[]));
    assert_eq!(refused(Wrong::Length, || take(&mut engine, &record(head, &[]))), 1, "it is written already");
    assert!(!engine.requests.get(receives[0]).done, "its bytes have not come");
    // More is advertised than any right receiver advertises.
    let told = |number| record(Head { kind: FAR_RTR, ..head }, &body_of_rtr(number, 1, 0));
    (1..=64).for_each(|number| take(&mut engine, &told(number)));
    assert_eq!(refused(Wrong::Order, || take(&mut engine, &told(65))), 1);
    assert!(first.iter().chain(&second).all(|byte| *byte == GUARD));
}

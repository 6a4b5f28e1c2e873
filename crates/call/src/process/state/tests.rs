use super::*;

/// Rank 0 of so many, whose numbers in the job are 10 and up, and which have no queues.
fn state(ranks: usize) -> State {
    let places = (0..ranks).map(|place| (10 + place as u32, place)).collect();
    State::new(0, &vec![[Handle::default(); 2]; ranks], places, Functions::default(), false)
}

#[test]
fn state_refuses_calls_that_are_none_and_nothing_of_them_is_left() {
    let mut state = state(2);
    let long = vec![0; LONG_BYTES_MAX + 1];
    let short = &long[..8];
    let mut call = |to, flags, arguments: &[u8], result_bytes, answer| {
        state.call(to, std::ptr::null(), flags, arguments, result_bytes, answer)
    };
    assert_eq!(call(-1, 0, short, 0, None), Err(NO_RANK));
    assert_eq!(call(2, 0, short, 0, None), Err(NO_RANK));
    assert_eq!(call(1, 8, short, 0, None), Err(INVALID));
    assert_eq!(call(1, QUICK | LONG, short, 0, None), Err(INVALID));
    assert_eq!(call(1, QUICK | PACKED, short, 0, None), Err(INVALID));
    assert_eq!(call(1, PACKED, short, 0, Some(8)), Err(INVALID));
    assert_eq!(call(1, QUICK, &long[..ARGUMENT_BYTES_MAX + 1], 0, None), Err(TOO_LONG));
    assert_eq!(call(1, 0, &long, 0, None), Err(TOO_LONG));
    assert_eq!(call(1, 0, short, RESULT_BYTES_MAX + 1, Some(8)), Err(TOO_LONG));
    assert_eq!(call(1, 0, short, 0, Some(8)), Err(NO_FUNCTION), "no function is there");
    assert_eq!((state.is_at_rest(), state.under_way()), (true, (0, 0)));
}

#[test]
fn state_answers_no_more_than_its_caller_has_room_for() {
    let mut state = state(2);
    let reply = Reply { to: 1, number: 3, room: 8, direct: 8 };
    assert_eq!(state.answer(reply, 0, &[0; 9]), Err(TOO_LONG));
    assert_eq!(state.answer(Reply { to: 2, ..reply }, 0, &[0; 8]), Err(INVALID));
    assert_eq!(state.answer(reply, 128, &[0; 8]), Err(INVALID), "a status has a byte");
    assert_eq!(state.redirect(Number::of(7), None), Err(INVALID), "no call is open");
}

#[test]
fn state_counts_a_function_without_an_answer_as_ended() {
    let mut state = state(1);
    assert_eq!(state.answer(NO_REPLY, 0, &[]), Ok(()));
    assert_eq!(state.arrive(), Ok(()));
    assert_eq!(state.arrived(), Ok(Sums { sent: 0, ended: 1 }));
}

#[test]
fn state_is_in_a_meeting_until_all_have_come() {
    let mut state = state(2);
    assert_eq!((state.arrive(), state.arrive(), state.arrived()), (Ok(()), Err(BUSY), Err(PENDING)));
    assert!(!state.is_at_rest());
    let up = Message::Up(Sums { sent: 4, ended: 2 }).encode();
    assert!(matches!(state.handle(99, &up), Ok(Act::Nothing)), "that is no rank of the job");
    assert_eq!(state.arrived(), Err(PENDING));
    // The other one hears that it is over, and has no queue.
    assert!(matches!(state.handle(11, &up), Err(GONE)));
    assert_eq!(state.arrived(), Ok(Sums { sent: 4, ended: 2 }));
}

#[test]
fn state_takes_messages_that_are_none_for_nothing() {
    let mut state = state(2);
    for bytes in [&[][..], &[0; 3], &[255; 64]] {
        assert!(matches!(state.handle(11, bytes), Ok(Act::Nothing)), "{bytes:?}");
        assert!(matches!(state.handle_quick(11, bytes), Ok(Act::Nothing)), "{bytes:?}");
    }
    assert!(state.is_at_rest());
}

#[test]
fn numbers_of_calls_are_the_same_packed_and_apart() {
    for packed in [0, 1, 0x1_0000, 0x1234_5678, u32::MAX] {
        assert_eq!(Number::of(packed).packed(), packed);
    }
    assert_eq!(Number::of(0x3_0001), Number { index: 3, check: 1 });
}

#[test]
fn data_is_cut_into_pieces_and_a_rest_of_their_length_at_most() {
    for (length, parts, rest) in [(0, 0, 0), (1, 0, 1), (8, 0, 8), (9, 1, 1), (16, 1, 8), (17, 2, 1)] {
        let data: Vec<u8> = (0..length).collect();
        let (pieces, last) = cut(&data, 8);
        assert_eq!((pieces.len(), last.len()), (parts, rest), "{length}");
        let whole: Vec<u8> = pieces.flatten().chain(last).copied().collect();
        assert_eq!(whole, data);
    }
}

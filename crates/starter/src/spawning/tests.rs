use super::*;

fn allocation(began: u32, rooms: &[u32]) -> Allocation {
    Allocation::of(began, rooms.to_vec())
}

#[test]
fn spawn_numbers_go_round_the_nodes_that_have_room() {
    let mut of = allocation(4, &[2, 2, 1]);
    assert_eq!(of.take(&[(2, None)]), Ok(vec![4, 5]));
    assert_eq!(of.take(&[(1, Some(0)), (1, None)]), Ok(vec![7, 6]));
    assert_eq!(of.later(), 4);
    assert!(of.take(&[(2, None)]).is_err());
    assert_eq!(of.take(&[(1, None)]), Ok(vec![8]));
}

#[test]
fn spawn_numbers_are_taken_all_or_none() {
    let mut of = allocation(2, &[3, 3]);
    let text = of.take(&[(2, None), (3, Some(1))]).unwrap_err();
    assert!(
        text.contains("5 more ranks") && text.contains("room for 8") && text.contains("3 more on that node"),
        "{text}"
    );
    assert_eq!((of.later(), of.take(&[(u32::MAX, None)]).is_err()), (0, true));
    assert_eq!(of.take(&[(6, None)]), Ok(vec![2, 3, 4, 5, 6, 7]));
}

#[test]
fn spawn_numbers_of_ranks_that_have_ended_are_taken_again() {
    let mut of = allocation(1, &[3]);
    assert_eq!(of.take(&[(3, None)]), Ok(vec![1, 2, 3]));
    assert!(of.take(&[(1, None)]).is_err());
    of.give_back(3);
    of.give_back(1);
    assert_eq!((of.later(), of.room(), of.is_free(1), of.is_free(2)), (1, 2, true, false));
    assert!(of.take(&[(3, None)]).unwrap_err().contains("started 2"));
    assert_eq!(of.take(&[(1, None), (1, None)]), Ok(vec![1, 3]));
    assert_eq!((of.later(), of.room()), (3, 0));
}

#[test]
fn spawn_numbers_are_free_when_all_nodes_have_forgotten_them() {
    let mut of = allocation(2, &[2, 2]);
    assert_eq!(of.take(&[(4, None)]), Ok(vec![2, 3, 4, 5]));
    assert_eq!((of.note_ended(1), of.note_ended(6), of.note_ended(5)), (None, None, Some(1)));
    assert_eq!((of.note_ended(5), of.has_ended(5), of.has_ended(4)), (None, true, false));
    assert_eq!((of.remembered(0).collect(), of.remembered(1).collect()), (vec![5], vec![5]));
    of.note_forgotten(4, 0);
    for _ in 0..2 {
        of.note_forgotten(5, 1);
        of.note_forgotten(5, 2);
    }
    assert_eq!((of.remembered(0).count(), of.remembered(1).count(), of.room()), (1, 0, 0));
    of.note_forgotten(5, 0);
    assert_eq!((of.room(), of.is_free(5), of.has_ended(5)), (1, true, false));
    assert!(of.take(&[(1, Some(0))]).unwrap_err().contains("0 more on that node"));
    assert_eq!(of.take(&[(1, None)]), Ok(vec![5]));
    assert_eq!(of.note_ended(5), Some(2), "the second process of this number");
}

#[test]
fn spawn_outcomes_of_all_nodes_are_one() {
    let missing = Outcome { failed: vec![3, 1], text: "no such program".into(), ..Outcome::default() };
    let lines = [Outcome::default().encode(), missing.encode(), Outcome::default().encode()].concat();
    let all = |lines: &[u8]| Outcome::of_all(Outcome::each(lines));
    assert_eq!(all(&lines), Outcome { failed: vec![1, 3], ..missing });
    assert_eq!(all(&Outcome::default().encode()), Outcome::default());
    assert!(!all(b"{}\n").text.is_empty());
    let ask = Ask { parent: 3, request: Request { number: 1, context: 6, programs: Vec::new() } };
    assert_eq!(Ask::decode(&ask.encode().unwrap()), Some(ask));
    assert_eq!(Ask::decode(b"abc"), None);
}

#[test]
fn spawn_failures_of_any_number_of_ranks_are_kept() {
    // Two nodes of three lack the program.
    let on_node = |node: u32| Outcome {
        failed: (node..1500).step_by(3).collect(),
        text: "no such program".into(),
        node,
        ..Outcome::default()
    };
    let lines = [on_node(0).encode(), on_node(2).encode()].concat();
    assert!(lines.len() < 1000, "{} bytes", lines.len());
    let expected: Vec<u32> = (0..1500).filter(|rank| rank % 3 != 1).collect();
    assert_eq!(Outcome::of_all(Outcome::each(&lines)).failed, expected);
    let endless = b"{\"failed\":[[0,1,4000000000],[5,4000000000,2]],\"text\":\"\"}\n";
    assert_eq!(Outcome::each(endless)[0].failed.len(), 2048);
}

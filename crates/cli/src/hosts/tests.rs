use super::*;
use crate::options::{Request, parse};

fn options(line: &str) -> Options {
    let words: Vec<_> = line.split_ascii_whitespace().map(Into::into).collect();
    match parse(&words) {
        Ok(Request::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

/// The hosts with their ranks, and the ranks of each program.
fn chosen(line: &str) -> Result<(String, Vec<Option<u32>>), HostError> {
    let options = options(line);
    let chosen = Chosen::of(&options, &groups(&options.programs)?)?;
    let count = |host: &Host| host.ranks.map_or(host.name.clone(), |ranks| format!("{}:{ranks}", host.name));
    let programs = chosen.with_ranks(&options, true).programs;
    let ranks = programs.iter().map(|program| program.ranks).collect();
    Ok((chosen.hosts.iter().map(count).collect::<Vec<_>>().join(" "), ranks))
}

#[test]
fn hosts_of_each_program_get_its_ranks() {
    for (line, hosts, ranks) in [
        ("-host a -n 1 x : -host b -n 3 y", "a:1 b:3", &[1, 3][..]),
        ("-host c -n 2 x : -host c,a -n 2 y", "c:3 a:1", &[2, 2]),
        ("-host a:2 x : -host b:1,c:2 y", "a:2 b:1 c:2", &[2, 3]),
        ("-host a:2,b:2 -n 3 x : -host b -n 1 y", "a:2 b:2", &[3, 1]),
        ("-n 1 w : -host a -n 1 x : -n 2 y : -host b,b z", "a:4 b:2", &[1, 1, 2, 2]),
        ("-ppn 2 -host a,b -n 3 x : -host c -n 1 y", "a:2 b:1 c:1", &[3, 1]),
    ] {
        let expected = (hosts.to_owned(), ranks.iter().copied().map(Some).collect());
        assert_eq!(chosen(line), Ok(expected), "{line}");
    }
    // One list is for all programs, and the controller deals their ranks out.
    assert_eq!(chosen("-host a,b -n 2 x : -n 2 y"), Ok(("a b".into(), vec![Some(2), Some(2)])));
    for (line, error) in [
        ("-host a -n 1 x : -host b -n 1 y : -host a -n 1 z", HostError::Apart("a".into())),
        ("-host a:1 -n 2 x : -host b -n 1 y", HostError::NoRoom { ranks: 2, room: 1 }),
        ("-ppn 1 -host a -n 2 x : -host b -n 1 y", HostError::NoRoom { ranks: 2, room: 1 }),
        ("-host a x : -host b -n 1 y", HostError::NoRanks),
        ("--nodes 2 -host a -n 1 x : -host b -n 1 y", HostError::Counted),
    ] {
        assert_eq!(chosen(line), Err(error), "{line}");
    }
}

#[test]
fn hosts_that_are_repeated_have_a_slot_for_each_time() {
    for (line, hosts, ranks) in [
        ("-host a,a,a x", "a:3", Some(3)),
        ("-host a,b,a x", "a:2 b:1", Some(3)),
        ("-host a:2,a x", "a:3", Some(3)),
        ("-host a,b x", "a b", None),
        ("-host a,,b x", "a b", None),
        ("-host a,a -n 1 x", "a:2", Some(1)),
    ] {
        assert_eq!(chosen(line), Ok((hosts.into(), vec![ranks])), "{line}");
    }
}

#[test]
fn host_words_are_names_or_addresses_with_a_number() {
    let host = |name: &str, ranks| Ok(Host { name: name.into(), ranks });
    for (word, expected) in [
        ("node1", host("node1", None)),
        ("node1:4", host("node1", Some(4))),
        ("node1:*", host("node1", None)),
        ("node1:auto", host("node1", None)),
        ("10.0.0.1:4", host("10.0.0.1", Some(4))),
        ("[::1]:4", host("::1", Some(4))),
        ("[::1]", host("::1", None)),
        ("::1", host("::1", None)),
        ("[fe80::1%eth0]:2", host("fe80::1%eth0", Some(2))),
    ] {
        assert_eq!(of_word(word), expected, "{word}");
    }
    for word in [
        "a:many",
        "a:-1",
        "a:2:3",
        "a:0",
        "a:",
        "a:+2",
        "a:99999999999",
        ":4",
        "[::1",
        "[a]",
        "[::1]4",
        "a b",
    ] {
        assert_eq!(of_word(word), Err(HostError::Word(word.into())), "{word}");
    }
}

#[test]
fn hostfile_bounds_the_ranks_where_each_host_has_a_bound() {
    let scratch = tutti_testkit::Scratch::new("hosts-most");
    let write = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).expect("a file of ours");
        path.display().to_string()
    };
    let (both, one) =
        (write("both", "a slots=2 max_slots=3\nb max-slots=2\n"), write("one", "a slots=1 max_slots=1\nb\n"));
    for (file, ranks, room) in [(&both, 5, None), (&both, 6, Some(5)), (&one, 9, None)] {
        let found = chosen(&format!("-hostfile {file} -n {ranks} x")).map(drop);
        let expected = room.map_or(Ok(()), |room| Err(HostError::NoRoom { ranks, room }));
        assert_eq!(found, expected, "{file}, {ranks}");
    }
    let of_two = chosen(&format!("-hostfile {both} -n 3 x : -n 3 y")).map(drop);
    assert_eq!(of_two, Err(HostError::NoRoom { ranks: 6, room: 5 }));
}

#[test]
fn hostfile_lines_of_both_families_are_parsed() {
    let of_both = |name: &str, ranks, most| Ok(Some(Line { host: Host { name: name.into(), ranks }, most }));
    let host = |name: &str, ranks| of_both(name, ranks, None);
    for (line, expected) in [
        ("node1", host("node1", None)),
        ("node1:4", host("node1", Some(4))),
        ("  node1 slots=4 max_slots=8 # comment", of_both("node1", Some(4), Some(8))),
        ("node1 max-slots=8", of_both("node1", None, Some(8))),
        ("node1 slots = 4\r", host("node1", Some(4))),
        ("node1 cpu=2 slots_max= 3", of_both("node1", Some(2), Some(3))),
        ("node1 count =2", host("node1", Some(2))),
        ("node1 slots=4 max_slots=3", Err(())),
        ("node1 slots=", Err(())),
        ("node1 =4", Err(())),
        ("node1 slots 4", Err(())),
        ("[::1] slots=2", host("::1", Some(2))),
        ("# comment", Ok(None)),
        ("", Ok(None)),
        ("node1:many", Err(())),
        ("node1 slots=many", Err(())),
        ("node1 node2", Err(())),
        (":4", Err(())),
        ("\u{0}\u{1}", Err(())),
    ] {
        assert_eq!(host_of(line), expected, "{line:?}");
    }
}

use proptest::prelude::*;

use super::*;

#[test]
fn pmi_requests_are_parsed() {
    let parse = |line: &'static str| Request::parse(line.as_bytes());
    assert_eq!(parse("cmd=init pmi_version=1 pmi_subversion=1"), Ok(Request::Init { version: 1 }));
    assert_eq!(parse("cmd=get_maxes"), Ok(Request::Maxes));
    assert_eq!(parse(" cmd=barrier_in \r"), Ok(Request::Barrier));
    assert_eq!(
        parse("cmd=put kvsname=kvs_1 key=card value=tcp://a=b\\ c;d"),
        Ok(Request::Put { space: Some(b"kvs_1"), key: b"card", value: b"tcp://a=b\\ c;d" })
    );
    assert_eq!(parse("cmd=get key=card"), Ok(Request::Get { space: None, key: b"card" }));
    assert_eq!(parse("cmd=getbyidx kvsname=k idx=7"), Ok(Request::GetByIndex(7)));
    assert_eq!(parse("cmd=abort exitcode=-1 message=it is over"), Ok(Request::Abort(u32::MAX)));
    let published = Request::Publish { service: b"a", port: b"b" };
    assert_eq!(parse("cmd=publish_name service=a port=b"), Ok(published));
    assert_eq!(parse("cmd=lookup_name service=a"), Ok(Request::Lookup(b"a")));
    assert_eq!(parse("cmd=unpublish_name"), Err(NoPmi));
    assert_eq!(parse("cmd=spawn_me"), Ok(Request::Other(b"spawn_me")));
    assert_eq!(parse("mcmd=spawn"), Ok(Request::Spawn));
}

#[test]
fn pmi_other_text_is_refused() {
    for line in [
        "",
        "hello",
        "cmd",
        "cmd=",
        "cmd=a/b",
        "put key=a",
        "mcmd=put",
        "cmd=put",
        "cmd=put key= value=b",
        "cmd=get",
        "cmd=getbyidx idx=-1",
        "cmd=\0",
        "cmd=get key=a\x1b",
    ] {
        assert_eq!(Request::parse(line.as_bytes()), Err(NoPmi), "{line:?}");
    }
}

#[test]
fn pmi_endless_line_is_refused_early() {
    let mut lines = Lines::default();
    lines.extend(&vec![b'a'; LINE_BYTES_MAX]);
    assert_eq!(lines.next_line(), Ok(None));
    lines.extend(b"a");
    assert_eq!(lines.next_line(), Err(NoPmi));
    let mut lines = Lines::default();
    lines.extend(&[&vec![b'a'; LINE_BYTES_MAX - 1][..], b"\nb\n"].concat());
    assert_eq!(lines.next_line().map(|line| line.map(<[u8]>::len)), Ok(Some(LINE_BYTES_MAX - 1)));
    assert_eq!(lines.next_line(), Ok(Some(&b"b"[..])));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(line in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = Request::parse(&line);
        let _ = Request::parse(&[b"cmd=put key=a value=", &line[..]].concat());
        let _ = Request::parse(&[b"cmd=abort exitcode=", &line[..]].concat());
    }

    #[test]
    fn pmi_value_round_trips(
        key in "[!-<>-~&&[^\\\\]]{1,64}",
        value in "([!-\\[\\]-~]|\\\\[ -~]){0,200}",
    ) {
        let line = format!("cmd=put kvsname=kvs key={key} value={value}");
        let put = Request::Put { space: Some(b"kvs"), key: key.as_bytes(), value: value.as_bytes() };
        prop_assert_eq!(Request::parse(line.as_bytes()), Ok(put));
    }

    #[test]
    fn pmi_lines_do_not_depend_on_read_sizes(
        bytes in proptest::collection::vec(prop_oneof![3 => any::<u8>(), 1 => Just(b'\n')], 0..400),
        cuts in proptest::collection::vec(1_usize..40, 1..50),
    ) {
        let mut lines = Lines::default();
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut rest = &bytes[..];
        let mut cuts = cuts.iter().cycle();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at((*cuts.next().expect("endless")).min(rest.len()));
            rest = after;
            lines.extend(piece);
            while let Some(line) = lines.next_line().expect("short") {
                found.push(line.to_vec());
            }
        }
        let mut complete: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        complete.pop();
        prop_assert_eq!(found, complete);
    }
}

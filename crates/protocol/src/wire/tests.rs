use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStringExt;

use super::*;

#[test]
fn wire_frames_survive_any_split() {
    let mut stream = Vec::new();
    put(&mut stream, Kind::Output, 3, b"hello\n");
    put(&mut stream, Kind::Resume, 0, b"");
    put_json(&mut stream, Kind::Report, &Report::InputTaken);
    for step in 1..stream.len() {
        let mut decoder = Decoder::default();
        let mut seen = Vec::new();
        for part in stream.chunks(step) {
            decoder.extend(part);
            while let Some((head, payload)) = decoder.next_frame().unwrap() {
                assert_eq!(head.bytes, payload.len());
                seen.push((head.kind, head.rank, payload.to_vec()));
            }
        }
        assert_eq!(seen.len(), 3, "in steps of {step}");
        assert_eq!(seen[0], (Kind::Output, 3, b"hello\n".to_vec()));
        assert_eq!(serde_json::from_slice::<Report>(&seen[2].2).unwrap(), Report::InputTaken);
    }
}

#[test]
fn wire_datagram_size_is_the_minimum_of_all_nodes() {
    let node = |last: u8, datagram_bytes| Reached {
        addresses: vec![SocketAddr::new([10, 0, 0, last].into(), 7)],
        later: (0..u16::from(last != 3)).map(|at| SocketAddr::new([10, 0, 0, last].into(), 8 + at)).collect(),
        datagram_bytes,
    };
    let all = Reached::of_all(&[node(1, 8972), node(2, 1472), node(3, 65507)]);
    assert_eq!((all.addresses.len(), all.datagram_bytes), (5, 1472));
    let ports: Vec<_> = all.addresses.iter().map(|address| (address.to_string(), address.port())).collect();
    assert_eq!(
        ports.last(),
        Some(&("10.0.0.2:8".into(), 8)),
        "ranks that are started later go round the nodes"
    );
    assert_eq!(all.addresses[2].ip(), IpAddr::from([10, 0, 0, 3]));
}

#[test]
fn wire_refuses_invalid_frames() {
    let mut decoder = Decoder::default();
    decoder.extend(&[0xff; HEAD_BYTES]);
    assert!(decoder.next_frame().is_err());
}

#[test]
fn wire_non_utf8_text_round_trips() {
    for text in [Text::from("plain"), Text::from(OsString::from_vec(vec![b'a', 0xff, b'b']))] {
        let json = serde_json::to_string(&text).unwrap();
        assert_eq!(serde_json::from_str::<Text>(&json).unwrap(), text);
    }
}

#[test]
fn exit_status_follows_shell_rules() {
    assert_eq!(Cause::Signal { signal: 11, core_dumped: true }.status(), 139);
    assert_eq!(Cause::Status(3).status(), 3);
    assert_eq!(Cause::NotFinalized.status(), 1);
    assert_eq!(Cause::Abort(77).status(), 77);
    assert_eq!(Cause::Abort(256).status(), 1);
}

#[test]
fn wire_frame_of_a_later_release_is_skipped_by_its_length() {
    let mut bytes = Vec::new();
    put(&mut bytes, Kind::Output, 1, b"before");
    let mut later = Vec::new();
    put(&mut later, Kind::Output, 7, &[0xff; 3000]);
    later[..4].copy_from_slice(&LATER.end().to_ne_bytes());
    bytes.extend(&later);
    bytes.extend(&later);
    put(&mut bytes, Kind::Output, 2, b"behind");
    for step in [1, 999, bytes.len()] {
        let mut decoder = Decoder::default();
        let mut seen = Vec::new();
        for piece in bytes.chunks(step) {
            decoder.extend(piece);
            while let Some((head, payload)) = decoder.next_frame().unwrap() {
                seen.push((head.rank, payload.to_vec()));
            }
        }
        assert_eq!(seen, [(1, b"before".to_vec()), (2, b"behind".to_vec())], "in steps of {step}");
        assert_eq!(decoder.waiting(), 0);
    }
    let mut decoder = Decoder::default();
    decoder.extend(&[&(LATER.end() + 1).to_ne_bytes()[..], &[0; 8]].concat());
    assert_eq!(
        decoder.next_frame().unwrap_err().to_string(),
        "a frame of kind 256 with 0 bytes is not one of this version"
    );
}

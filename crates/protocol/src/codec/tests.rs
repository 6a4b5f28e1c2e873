use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{DecodeError, decode, encode, encode_behind};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Kind {
    Plain,
    Number(i64),
    Pair(u32, Option<String>),
    Named { at: SocketAddr, inner: Inner },
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Inner {
    id: u64,
    texts: Vec<String>,
    map: BTreeMap<u32, (i8, bool)>,
    ratio: f64,
}

/// The same types in a later release.
mod later {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    pub(super) enum Kind {
        Plain,
        Number(i64),
        Pair(u32, Option<String>, #[serde(default)] u8),
        Named {
            at: SocketAddr,
            inner: Inner,
            #[serde(default)]
            more: Option<Inner>,
        },
        New(Vec<Inner>),
    }

    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub(super) struct Inner {
        pub(super) id: u64,
        pub(super) texts: Vec<String>,
        pub(super) map: BTreeMap<u32, (i8, bool)>,
        pub(super) ratio: f64,
        #[serde(default)]
        pub(super) added: Vec<u32>,
    }
}

fn inner(texts: usize) -> Inner {
    let texts = (0..texts).map(|number| format!("text {number}")).collect();
    Inner { id: u64::MAX, texts, map: BTreeMap::from([(7, (-3, true)), (300, (127, false))]), ratio: -0.25 }
}

fn later_inner(texts: usize) -> later::Inner {
    let Inner { id, texts, map, ratio } = inner(texts);
    later::Inner { id, texts, map, ratio, added: vec![1, 1 << 20] }
}

fn at() -> SocketAddr {
    "[fd00::7]:7411".parse().expect("an address")
}

fn samples() -> Vec<Kind> {
    let numbers = [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN].map(Kind::Number);
    let mut samples = vec![
        Kind::Plain,
        Kind::Pair(u32::MAX, None),
        Kind::Pair(0, Some("x".repeat(200))),
        Kind::Named { at: at(), inner: inner(1) },
        Kind::Named { at: at(), inner: inner(3000) },
    ];
    samples.extend(numbers);
    samples
}

#[test]
fn codec_values_round_trip() {
    for sample in samples() {
        assert_eq!(decode::<Kind>(&encode(&sample)), Ok(sample));
    }
    assert_eq!(encode_behind(&7_u8, vec![9]), [9, 7]);
    assert_eq!(decode::<Vec<Kind>>(&encode(&samples())), Ok(samples()));
}

#[test]
fn codec_older_reader_skips_fields_of_a_later_release() {
    let sent = [
        later::Kind::Pair(5, Some("five".into()), 6),
        later::Kind::Named { at: at(), inner: later_inner(9), more: Some(later_inner(200)) },
        later::Kind::Plain,
    ];
    let read = [Kind::Pair(5, Some("five".into())), Kind::Named { at: at(), inner: inner(9) }, Kind::Plain];
    assert_eq!(decode::<Vec<Kind>>(&encode(&sent[..])), Ok(read.to_vec()));
}

#[test]
fn codec_newer_reader_takes_defaults_for_fields_that_are_not_there() {
    let sent = [Kind::Pair(5, None), Kind::Named { at: at(), inner: inner(2) }];
    let without = later::Inner { added: Vec::new(), ..later_inner(2) };
    let read = [later::Kind::Pair(5, None, 0), later::Kind::Named { at: at(), inner: without, more: None }];
    assert_eq!(decode::<Vec<later::Kind>>(&encode(&sent[..])), Ok(read.to_vec()));
}

#[test]
fn codec_variant_of_a_later_release_is_named() {
    let sent = encode(&later::Kind::New(vec![later_inner(1)]));
    let unknown = DecodeError::UnknownVariant { name: "Kind", variant: 4 };
    assert_eq!(unknown.to_string(), "Kind number 4 is of a later release");
    assert_eq!(decode::<Kind>(&sent), Err(unknown.clone()));
    // So is one among others: what it is part of is left out as a whole.
    assert_eq!(decode::<(u8, Vec<Kind>)>(&[&[1, 1], &sent[..]].concat()), Err(unknown));
}

#[test]
fn codec_any_bytes_are_a_value_or_an_error() {
    for sample in samples().into_iter().filter(|sample| encode(sample).len() < 400) {
        let bytes = encode(&sample);
        for end in 0..bytes.len() {
            assert!(decode::<Kind>(&bytes[..end]).is_err(), "{sample:?} to {end}");
        }
        assert_eq!(decode::<Kind>(&[&bytes[..], &[0]].concat()), Err(DecodeError::Rest(1)));
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                let _ = decode::<Kind>(&changed);
            }
        }
    }
    // A list of so many values takes no memory before they come.
    assert_eq!(decode::<Vec<u64>>(&[0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]), Err(DecodeError::Short));
    assert!(decode::<u64>(&[0xff; 11]).is_err());
    assert!(decode::<u8>(&[0x80, 2]).is_err());
}

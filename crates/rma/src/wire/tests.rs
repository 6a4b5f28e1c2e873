use proptest::prelude::*;

use super::*;

fn all_elements() -> Vec<Element> {
    let sizes = [1, 2, 4, 8, 16];
    let mut all: Vec<Element> = sizes
        .iter()
        .flat_map(|size| {
            [
                Element::Signed(*size),
                Element::Unsigned(*size),
                Element::Float(*size),
                Element::Complex(*size),
                Element::Logical(*size),
                Element::Character(*size),
                Element::Pair(PairValue::Same { bytes: *size, integer: true }),
                Element::Pair(PairValue::Same { bytes: *size, integer: false }),
            ]
        })
        .collect();
    all.extend([Element::Byte, Element::Quad { complex: false }, Element::Quad { complex: true }]);
    use PairValue::{Double, Float, Int, Long, LongDouble, Quad, Short};
    all.extend([Float, Double, LongDouble, Quad, Short, Int, Long].map(Element::Pair));
    all
}

#[test]
fn wire_element_survives_its_code() {
    let all = all_elements();
    for element in &all {
        assert_eq!(decode_element(encode_element(*element)), Some(*element));
    }
    let known = (0..=u16::MAX).filter_map(decode_element).count();
    assert_eq!(known, all.len(), "no code has a meaning that no element has");
}

const REGION: Name = Name { id: 7, generation: 3 };

fn sum_of_ints() -> Code {
    Code { element: Element::Signed(4), update: Update::Reduce(Operation::SUM) }
}

fn written(begin: Begin, number: u32, ranges: &[Range], data: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    write_request(begin, REGION, number, ranges, &mut record);
    record.extend_from_slice(data);
    record
}

fn samples() -> Vec<Vec<u8>> {
    let two = [Range { offset: 8, bytes: 4 }, Range { offset: 64, bytes: 8 }];
    let one = [Range { offset: 16, bytes: 8 }];
    vec![
        written(Begin::Write, NO_REPLY, &two, b"twelve bytes"),
        written(Begin::Read, 5, &two, b""),
        written(Begin::Change(sum_of_ints()), NO_REPLY, &two, b"twelve bytes"),
        written(Begin::Change(sum_of_ints()), 9, &two, b"twelve bytes"),
        written(Begin::Change(Code { update: Update::Keep, ..sum_of_ints() }), 9, &two, b""),
        written(Begin::Swap, 1, &one, b"sixteen bytes 16"),
        written(Begin::Lock(Mode::Exclusive), 2, &[], b""),
        written(Begin::Lock(Mode::Shared), 2, &[], b""),
        written(Begin::Unlock, NO_REPLY, &[], b""),
        written(Begin::Count(Count::Completed, 11), NO_REPLY, &[], b""),
        written(Begin::Settle, 4, &[], b""),
        [reply(3, 5), b"found".to_vec()].concat(),
        status(3, REGION, Refusal::OutOfRange),
        written(Begin::Offer, 5, &one, b""),
        written(Begin::Fetch, 6, &one, b"its name"),
        clear(5, 77),
    ]
}

#[test]
fn wire_records_say_what_was_written() {
    let records = samples();
    for record in &records {
        assert!(parse(record).is_some(), "{record:?}");
        assert_eq!(names(record).map(|(_, number)| number), Some(u32_at(record, 16)));
    }
    let Some(Record::Request { region: REGION, number: NO_REPLY, request: Request::Write { ranges, data } }) =
        parse(&records[0])
    else {
        panic!("a write");
    };
    assert_eq!(ranges.iter().map(|range| (range.offset, range.bytes)).collect::<Vec<_>>(), [(8, 4), (64, 8)]);
    assert_eq!(data, b"twelve bytes");
    let Some(Record::Request { number: 1, request: Request::Swap { offset, compare, new }, .. }) =
        parse(&records[5])
    else {
        panic!("a swap");
    };
    assert_eq!((offset, compare, new), (16, &b"sixteen "[..], &b"bytes 16"[..]));
    assert_eq!(parse(&records[11]), Some(Record::Reply { number: 3, data: b"found" }));
    let refusal = Refusal::OutOfRange;
    assert_eq!(parse(&records[12]), Some(Record::Status { number: 3, region: REGION, refusal }));
    let Some(Record::Request { number: 5, request: Request::Offer(Range { offset: 16, .. }), .. }) =
        parse(&records[13])
    else {
        panic!("an offer");
    };
    let Some(Record::Request { number: 6, request: Request::Fetch(_, name), .. }) = parse(&records[14])
    else {
        panic!("a fetch");
    };
    assert_eq!(name.to_le_bytes(), *b"its name");
    assert_eq!(parse(&records[15]), Some(Record::Clear { number: 5, name: 77 }));
}

#[test]
fn wire_records_that_do_not_fit_together_are_none() {
    let one = [Range { offset: 0, bytes: 6 }];
    for record in [
        written(Begin::Write, NO_REPLY, &one, b"seven b"),
        written(Begin::Read, NO_REPLY, &one, b""),
        written(Begin::Read, 1, &one, b"x"),
        written(Begin::Change(sum_of_ints()), NO_REPLY, &one, b"sixbyt"),
        written(Begin::Swap, 1, &one, b"twelve bytes"),
        written(Begin::Swap, NO_REPLY, &[Range { offset: 0, bytes: 2 }], b"four"),
        written(Begin::Lock(Mode::Shared), NO_REPLY, &[], b""),
        written(Begin::Unlock, NO_REPLY, &[], b"x"),
        written(Begin::Offer, NO_REPLY, &one, b""),
        written(Begin::Offer, 1, &[one[0], one[0]], b""),
        written(Begin::Offer, 1, &one, b"x"),
        written(Begin::Fetch, 1, &one, b"no name"),
        written(Begin::Fetch, NO_REPLY, &one, b"its name"),
        written(Begin::Fetch, 1, &[], b"its name"),
    ] {
        assert_eq!(parse(&record), None, "{record:?}");
    }
    for record in samples() {
        for length in 0..HEAD_BYTES {
            assert_eq!(parse(&record[..length]), None);
        }
    }
}

proptest! {
    #[test]
    fn wire_parser_takes_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0x20_u8..0x30) {
        let _ = parse(&bytes);
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        let _ = parse(&bytes);
    }

    #[test]
    fn wire_parser_takes_changed_records(which in 0_usize..16, changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6), cut in any::<usize>()) {
        let mut record = samples().swap_remove(which);
        for (at, byte) in changes {
            let at = at % record.len();
            record[at] = byte;
        }
        record.truncate(cut % (2 * record.len()));
        let _ = parse(&record);
    }
}

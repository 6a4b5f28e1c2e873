use super::*;
use proptest::prelude::*;

fn any_kind() -> impl Strategy<Value = Kind> {
    (1u8..=13).prop_map(|byte| kind_of(byte).unwrap())
}

fn any_header() -> impl Strategy<Value = Header> {
    let who = (any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>());
    let what = (any_kind(), 0..=FLAGS, any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<u16>());
    (who, what).prop_map(|((key, incarnation, from, to), (kind, flags, seq, ack, rewind, echo, credit))| {
        Header {
            key: Key(key),
            incarnation: Incarnation(incarnation),
            from: Rank(from),
            to: Rank(to),
            kind,
            flags,
            seq: Seq(seq),
            ack: Seq(ack),
            rewind,
            echo,
            credit,
        }
    })
}

/// A valid packet of the header's kind with `bytes` as what it carries.
fn packet(header: &Header, bytes: &[u8]) -> Vec<u8> {
    let mut body = match header.kind {
        Kind::Data => {
            let mut record = vec![0; record_bytes(bytes.len())];
            write_record_head(header.seq, bytes.len() as u32, &mut record);
            record[8..8 + bytes.len()].copy_from_slice(bytes);
            record
        }
        Kind::Fragment => {
            let mut body = vec![0; FRAGMENT_HEAD_BYTES];
            write_fragment_head(BulkId { slot: 3, turn: 9 }, 77, &mut body);
            body.extend_from_slice(bytes);
            body.push(1);
            body
        }
        Kind::BulkAck => {
            let mut body = vec![0; 32];
            assert_eq!(write_bulk_ack(BulkId { slot: 3, turn: 9 }, 5, &[1, 1 << 63], &mut body), 32);
            body
        }
        Kind::BulkProbe => BulkId { slot: 3, turn: 9 }.to_bits().to_le_bytes().to_vec(),
        Kind::Piece => {
            let mut body = vec![0; PIECE_HEAD_BYTES];
            write_piece_head(2 * PIECE_BYTES, 2 * PIECE_BYTES + bytes.len() + 1, &mut body);
            body.extend_from_slice(bytes);
            body.push(1);
            body
        }
        Kind::PathProbe => vec![0; 100],
        _ => Vec::new(),
    };
    let mut datagram = vec![0; HEADER_BYTES];
    write_header(header, body.len(), &mut datagram);
    datagram.append(&mut body);
    datagram
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn packet_round_trips(header in any_header(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let datagram = packet(&header, &bytes);
        let (read, body) = parse(&datagram).unwrap();
        prop_assert_eq!(read, header);
        match body {
            Body::Data(records) => {
                let mut walk = Records::new(header.seq, records);
                prop_assert_eq!(walk.next(), Some((header.seq, &bytes[..])));
                prop_assert_eq!((walk.next(), walk.rest().len()), (None, 0));
            }
            Body::Fragment { id, offset, bytes: carried } => {
                prop_assert_eq!((id, offset), (BulkId { slot: 3, turn: 9 }, 77));
                prop_assert_eq!(&carried[..bytes.len()], &bytes[..]);
            }
            Body::BulkAck { base, words, .. } => prop_assert_eq!((base, words.len()), (5, 16)),
            Body::BulkProbe { id } => prop_assert_eq!(id, BulkId { slot: 3, turn: 9 }),
            Body::Piece { offset, whole, bytes: carried } => {
                prop_assert_eq!((offset, whole), (2 * PIECE_BYTES, 2 * PIECE_BYTES + bytes.len() + 1));
                prop_assert_eq!(&carried[..bytes.len()], &bytes[..]);
            }
            Body::Empty if header.kind == Kind::PathProbe => {}
            Body::Empty => prop_assert_eq!(datagram.len(), HEADER_BYTES),
        }
    }

    #[test]
    fn packet_parser_rejects_any_other_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
        let walk = Records::new(Seq(0), &bytes);
        prop_assert!(walk.count() * RECORD_HEAD_BYTES <= bytes.len());
    }

    #[test]
    fn packet_parser_survives_mutated_packets(
        header in any_header(),
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut datagram = packet(&header, &bytes);
        let cut = cut.index(datagram.len());
        prop_assert!(parse(&datagram[..cut]).is_err(), "a packet cut at {} was taken", cut);
        for (at, byte) in changes {
            let at = at.index(datagram.len());
            datagram[at] = byte;
        }
        if let Ok((read, Body::Data(records))) = parse(&datagram) {
            prop_assert!(Records::new(read.seq, records).all(|(_, record)| record.len() <= records.len()));
        }
        if parse(&datagram[..cut]).is_ok() {
            let announced = u16::from_le_bytes([datagram[26], datagram[27]]);
            prop_assert_eq!(usize::from(announced), cut - HEADER_BYTES, "its length was changed to where it is cut");
        }
    }
}

#[test]
fn packet_refusals_are_named() {
    let header = Header {
        key: Key(1),
        incarnation: Incarnation(2),
        from: Rank(3),
        to: Rank(4),
        kind: Kind::Ack,
        flags: 0,
        seq: Seq(0),
        ack: Seq(0),
        rewind: 0,
        echo: 0,
        credit: 0,
    };
    let good = packet(&header, &[]);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        parse(&bytes).unwrap_err()
    };
    assert_eq!(parse(&good[..47]), Err(Rejection::Short(47)));
    assert_eq!(with(0, b'X'), Rejection::Foreign);
    assert_eq!(with(24, 0), Rejection::Kind(0));
    assert_eq!(with(24, 14), Rejection::Kind(14));
    assert_eq!(with(24, Kind::Piece as u8), Rejection::Body(Kind::Piece, 0));
    assert_eq!(with(25, 0x80), Rejection::Reserved);
    assert_eq!(with(47, 1), Rejection::Reserved);
    assert_eq!(with(26, 9), Rejection::Length { announced: 9, found: 0 });
    assert_eq!(with(24, Kind::Data as u8), Rejection::Body(Kind::Data, 0));
    assert_eq!(with(24, Kind::Fragment as u8), Rejection::Body(Kind::Fragment, 0));
}

use super::*;
use rustix::pipe::{PipeFlags, pipe_with};
use tutti_protocol::wire::Decoder;

const ROOM: usize = 1 << 20;
const NOW: u64 = 1_000_000_000;

fn pipe() -> (OwnedFd, OwnedFd) {
    pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap()
}

fn two() -> (Streams, OwnedFd, OwnedFd) {
    let mut streams = Streams::default();
    let ((first, to_first), (second, to_second)) = (pipe(), pipe());
    streams.add(0, Kind::Output, first, PROMPT_NS);
    streams.add(1, Kind::Output, second, PROMPT_NS);
    (streams, to_first, to_second)
}

fn write(to: &OwnedFd, bytes: &[u8]) {
    assert_eq!(rustix::io::write(to, bytes).unwrap(), bytes.len());
}

fn round(streams: &mut Streams, now_ns: u64) -> Vec<(u32, Vec<u8>)> {
    for index in 0..streams.streams.len() {
        while streams.handle_readable(index, now_ns) {}
    }
    forwarded(streams, now_ns)
}

fn forwarded(streams: &mut Streams, now_ns: u64) -> Vec<(u32, Vec<u8>)> {
    let mut out = Vec::new();
    streams.forward(&mut out, ROOM, now_ns);
    let mut decoder = Decoder::default();
    decoder.extend(&out);
    let mut frames = Vec::new();
    while let Some((head, payload)) = decoder.next_frame().unwrap() {
        frames.push((head.rank, payload.to_vec()));
    }
    frames
}

#[test]
fn output_whole_lines_go_at_once_partial_ones_after_a_pause() {
    let (mut streams, first, second) = two();
    write(&first, b"one\ntw");
    write(&second, b"part");
    assert_eq!(round(&mut streams, NOW), [(0, b"one\n".to_vec())]);
    assert_eq!(streams.silence_ends_ns(), Some(NOW + PROMPT_NS));
    write(&first, b"o\n");
    let mut frames = round(&mut streams, NOW + PROMPT_NS);
    frames.sort();
    assert_eq!(frames, [(0, b"two\n".to_vec()), (1, b"part".to_vec())]);
    assert_eq!(streams.silence_ends_ns(), None);
}

#[test]
fn output_is_complete_at_the_end() {
    let (mut streams, first, second) = two();
    write(&first, &vec![b'x'; 30_000]);
    write(&first, b"\nno newline \0\xff");
    drop((first, second));
    let mut all = Vec::new();
    while !streams.are_finished() {
        streams.handle_end(NOW);
        forwarded(&mut streams, NOW).into_iter().for_each(|(_, bytes)| all.extend(bytes));
    }
    assert_eq!(all.len(), 30_000 + 14);
    assert!(all.ends_with(b"\nno newline \0\xff"));
}

#[test]
fn output_long_line_is_not_interleaved() {
    let (mut streams, first, second) = two();
    write(&first, &vec![b'x'; BUFFER_BYTES]);
    write(&second, b"other\n");
    assert_eq!(round(&mut streams, NOW), [(0, vec![b'x'; BUFFER_BYTES])]);
    assert_eq!(round(&mut streams, NOW + 1), [], "the other one waits");
    write(&first, b"yyy");
    assert_eq!(round(&mut streams, NOW + 2), [(0, b"yyy".to_vec())]);
    write(&first, b"z\nnext");
    assert_eq!(round(&mut streams, NOW + 3), [(0, b"z\n".to_vec()), (1, b"other\n".to_vec())]);
}

#[test]
fn output_silent_long_line_yields() {
    let (mut streams, first, second) = two();
    write(&first, &vec![b'x'; BUFFER_BYTES]);
    write(&second, b"other\n");
    assert_eq!(round(&mut streams, NOW).len(), 1);
    assert_eq!(streams.silence_ends_ns(), Some(NOW + PROMPT_NS));
    assert_eq!(round(&mut streams, NOW + PROMPT_NS), [(1, b"other\n".to_vec())]);
}

#[test]
fn output_backpressure_stops_reading() {
    let (mut streams, first, _second) = two();
    write(&first, &vec![b'\n'; BUFFER_BYTES]);
    assert!(streams.handle_readable(0, NOW));
    assert_eq!(streams.readable().count(), 1, "the full one is not read");
    let mut out = vec![0; ROOM];
    streams.forward(&mut out, ROOM, NOW);
    assert_eq!(out.len(), ROOM);
    assert_eq!(forwarded(&mut streams, NOW).len(), 1);
}

#[test]
fn output_labels_begin_each_line_once() {
    let (mut streams, first, second) = two();
    streams.set_label(true);
    write(&first, b"one\ntw");
    write(&second, b"x\n\ny\n");
    let mut frames = round(&mut streams, NOW);
    frames.sort();
    assert_eq!(frames, [(0, b"[0] one\n".to_vec()), (1, b"[1] x\n[1] \n[1] y\n".to_vec())]);
    assert_eq!(forwarded(&mut streams, NOW + PROMPT_NS), [(0, b"[0] tw".to_vec())]);
    write(&first, b"o\nthree\n");
    assert_eq!(round(&mut streams, NOW + 2 * PROMPT_NS), [(0, b"o\n[0] three\n".to_vec())]);
}

#[test]
fn output_labels_make_no_frame_too_long() {
    let (mut streams, first, _second) = two();
    streams.set_label(true);
    write(&first, &vec![b'\n'; BUFFER_BYTES]);
    let mut frames = round(&mut streams, NOW);
    assert!(frames.len() > 1 && frames.iter().all(|(_, bytes)| bytes.len() <= wire::DATA_BYTES_MAX));
    assert!(frames.iter().all(|(_, bytes)| bytes.ends_with(b"\n")), "frames end at lines");
    assert_eq!(frames.iter().map(|(_, bytes)| bytes.len()).sum::<usize>(), 5 * BUFFER_BYTES);
    // A line that fills the buffer.
    write(&first, &vec![b'x'; BUFFER_BYTES]);
    frames = round(&mut streams, NOW + 1);
    assert_eq!(frames.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(), [BUFFER_BYTES, 4]);
    assert!(frames[0].1.starts_with(b"[0] xxx"));
    write(&first, b"y\n");
    assert_eq!(round(&mut streams, NOW + 2), [(0, b"y\n".to_vec())]);
}

#[test]
fn output_of_many_ranks_one_after_the_other_needs_the_room_of_a_few() {
    let (mut streams, first, _second) = two();
    // It has the floor, which goes by its place.
    write(&first, &vec![b'x'; BUFFER_BYTES]);
    assert_eq!(round(&mut streams, NOW).len(), 1);
    drop(first);
    for rank in 2..100 {
        let (reading, writing) = pipe();
        streams.add(rank, Kind::Output, reading, PROMPT_NS);
        write(&writing, b"line\npart");
        drop(writing);
        let mut seen: Vec<u8> = Vec::new();
        for _ in 0..2 {
            let frames = round(&mut streams, NOW).into_iter();
            frames.filter(|(of, _)| *of == rank).for_each(|(_, bytes)| seen.extend(bytes));
        }
        assert_eq!(seen, b"line\npart", "rank {rank}");
    }
    assert!(streams.streams.len() <= 4, "{} streams", streams.streams.len());
    let over = streams.streams.iter().filter(|stream| stream.is_finished());
    assert!(over.clone().count() >= 2 && over.clone().all(|stream| stream.bytes.capacity() == 0));
}

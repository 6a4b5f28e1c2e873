//! Lives of a lane as its neighbour would shape them.

/// A step: what, how much, and the text that comes.
fn text(asks: bool, echo: u64, have: u64, first: u64, words: &[&[u8]]) -> Vec<u8> {
    let mut text = vec![u8::from(asks)];
    [echo, have, first].iter().for_each(|number| text.extend_from_slice(&number.to_le_bytes()));
    for word in words {
        text.extend_from_slice(&(word.len() as u16).to_le_bytes());
        text.extend_from_slice(word);
    }
    [&[2, text.len() as u8], &text[..]].concat()
}

/// Some lives.
pub fn samples() -> Vec<Vec<u8>> {
    let (push, pass, poll, link) = ([0, 20], [1, 10], [3, 0], [4, 1]);
    let opened = [&poll[..], &text(true, 1, 0, 0, &[])].concat();
    vec![
        opened.clone(),
        [&opened[..], &push, &poll, &text(false, 2, 1, 0, &[b"switch"])].concat(),
        [&opened[..], &push, &push, &poll, &pass, &poll, &pass, &pass, &pass, &poll].concat(),
        [&opened[..], &text(false, 1, 0, 0, &[b"a", b"b"]), &text(false, 1, 0, 1, &[b"b", b"c"]), &poll]
            .concat(),
        [&opened[..], &link, &text(false, 1, 0, 1, &[b"next"]), &text(true, 9, 9, u64::MAX, &[b"", b""])]
            .concat(),
        [&push[..], &push, &pass, &poll, &text(true, 1, 2, 0, &[]), &[0, 255], &push, &poll].concat(),
    ]
}

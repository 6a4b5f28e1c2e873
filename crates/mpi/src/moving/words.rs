//! Numbers as which what is handed over travels: lists and texts with their lengths before them.

/// Appends the words of a list, behind its length.
pub(super) fn put_list(words: &mut Vec<u32>, list: impl IntoIterator<Item = u32>) {
    let at = words.len();
    words.push(0);
    words.extend(list);
    words[at] = (words.len() - at - 1) as u32;
}

/// Appends numbers of two words, behind their number.
pub(super) fn put_longs(words: &mut Vec<u32>, list: &[i64]) {
    put_list(words, list.iter().flat_map(|number| [*number as u32, (*number >> 32) as u32]));
}

/// Appends bytes, behind their number.
pub(super) fn put_bytes(words: &mut Vec<u32>, bytes: &[u8]) {
    words.push(bytes.len() as u32);
    words.extend(words_of(bytes));
}

/// Takes the next words.
pub(super) fn take<const N: usize>(rest: &mut &[u32]) -> Option<[u32; N]> {
    let (words, behind) = rest.split_at_checked(N)?;
    *rest = behind;
    words.try_into().ok()
}

/// Takes a list.
pub(super) fn take_list(rest: &mut &[u32]) -> Option<Vec<u32>> {
    let [length] = take(rest)?;
    let (words, behind) = rest.split_at_checked(length as usize)?;
    *rest = behind;
    Some(words.to_vec())
}

/// Takes numbers of two words.
pub(super) fn take_longs(rest: &mut &[u32]) -> Option<Vec<i64>> {
    let long = |pair: &[u32]| (u64::from(pair[0]) | u64::from(pair[1]) << 32) as i64;
    Some(take_list(rest)?.chunks_exact(2).map(long).collect())
}

/// Takes bytes.
pub(super) fn take_bytes(rest: &mut &[u32]) -> Option<Vec<u8>> {
    let [bytes] = take(rest)?;
    let (words, behind) = rest.split_at_checked((bytes as usize).div_ceil(4))?;
    *rest = behind;
    Some(bytes_of(words, bytes as usize))
}

/// Takes so many things.
pub(super) fn take_all<T>(
    rest: &mut &[u32],
    number: u32,
    one: impl Fn(&mut &[u32]) -> Option<T>,
) -> Option<Vec<T>> {
    (0..number).map(|_| one(rest)).collect()
}

/// Bytes as words, the last one filled up with zeros.
fn words_of(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_ne_bytes(word)
    })
}

/// Bytes of words, so many.
fn bytes_of(words: &[u32], bytes: usize) -> Vec<u8> {
    let mut all: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    all.truncate(bytes);
    all
}

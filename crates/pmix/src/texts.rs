//! Texts that a library wants its user to read.
//!
//! Open MPI 4 sends one as its daemon would get it, packed, each value behind their number (32 bits, the
//! highest byte first):
//!
//! ```text
//! 1, length, name of a file of texts and a zero | 1, length, name of the text in it and a zero |
//! 1, whether the text follows (a byte) | 1, length, the text and a zero
//! ```

/// The text of a message; one that is not packed is its own.
pub fn of_message(bytes: Vec<u8>) -> Vec<u8> {
    match packed(&bytes) {
        Some(text) => text.to_vec(),
        None => bytes,
    }
}

fn packed(mut rest: &[u8]) -> Option<&[u8]> {
    let (_file, _topic) = (string(&mut rest)?, string(&mut rest)?);
    let is_there = number(&mut rest)? == 1 && *rest.split_off_first()? == 1;
    let text = string(&mut rest).filter(|_| is_there)?;
    rest.is_empty().then_some(text)
}

/// A number behind which a value stands, or a length.
fn number(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(u32::from_be_bytes(*bytes))
}

/// One string, without its zero.
fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = (number(rest)? == 1).then(|| number(rest)).flatten()?;
    rest.split_off(..length as usize)?.strip_suffix(&[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Vec<u8> {
        let string = |text: &str| {
            let length = text.len() as u32 + 1;
            [&[0, 0, 0, 1], &length.to_be_bytes()[..], text.as_bytes(), &[0]].concat()
        };
        [
            string("help-mpi-api.txt"),
            string("mpi-abort"),
            vec![0, 0, 0, 1, 1],
            string("MPI_ABORT was invoked\n"),
        ]
        .concat()
    }

    #[test]
    fn text_of_a_packed_message_comes_without_its_packing() {
        assert_eq!(of_message(message()), b"MPI_ABORT was invoked\n");
    }

    #[test]
    fn text_that_is_not_packed_or_not_whole_is_its_own() {
        assert_eq!(of_message(b"PML ucx cannot be selected".to_vec()), b"PML ucx cannot be selected");
        let whole = message();
        for end in 0..whole.len() {
            assert_eq!(of_message(whole[..end].to_vec()), &whole[..end]);
        }
        let more = [&whole[..], b"x"].concat();
        assert_eq!(of_message(more.clone()), more);
        let mut long = whole.clone();
        long[4..8].fill(255);
        assert_eq!(of_message(long.clone()), long);
    }
}

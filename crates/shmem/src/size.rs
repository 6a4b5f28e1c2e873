//! The size of the symmetric heap, as the environment says it.

use std::fmt;

/// Variable that sets the size.
pub const VARIABLE: &str = "SHMEM_SYMMETRIC_SIZE";
/// The name that it had before OpenSHMEM 1.4.
const OLD_VARIABLE: &str = "SMA_SYMMETRIC_SIZE";
/// Address space, not memory: pages come on first use.
const DEFAULT_BYTES: usize = 512 << 20;
/// Half of the address space of a process is for all heaps.
const BYTES_END: u128 = 1 << 46;

/// Bytes of a PE's heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// As wanted.
    pub bytes: usize,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bytes {
            bytes if bytes >= 10 << 20 => write!(f, "{} MiB", bytes >> 20),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// The size that the user wants.
///
/// # Errors
/// When the variable holds no size; a line for the user.
pub fn wanted() -> Result<Size, String> {
    for name in [VARIABLE, OLD_VARIABLE] {
        if let Ok(text) = std::env::var(name) {
            let bytes = parse(&text).ok_or_else(|| {
                format!("{name}={text} is no size: a number is expected, then K, M, G, T or nothing")
            })?;
            if bytes >= BYTES_END {
                return Err(format!("{name}={text} is not less than 64T"));
            }
            // No mapping is empty.
            return Ok(Size { bytes: (bytes as usize).max(1) });
        }
    }
    Ok(Size { bytes: DEFAULT_BYTES })
}

/// `1.5G` and the like.
fn parse(text: &str) -> Option<u128> {
    let text = text.trim();
    let (number, shift) = match text.char_indices().last()? {
        (at, letter) if letter.is_ascii_alphabetic() => {
            let shift = "KMGT".find(letter.to_ascii_uppercase())? as u32;
            (&text[..at], 10 * (shift + 1))
        }
        _ => (text, 0),
    };
    let (whole, part) = number.trim().split_once('.').unwrap_or((number.trim(), "0"));
    if part.is_empty() || !whole.bytes().chain(part.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let unit = 1_u128 << shift;
    let part = part.get(..part.len().min(9))?;
    let below = part.parse::<u128>().ok()? * unit / 10_u128.pow(part.len() as u32);
    u128::from(whole.parse::<u64>().ok()?).checked_mul(unit)?.checked_add(below)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn symmetric_size_takes_letters_and_fractions() {
        for (text, bytes) in
            [("4096", 4096), ("64K", 64 << 10), ("2m", 2 << 20), ("1.5G", 3 << 29), (" 1T ", 1 << 40)]
        {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
        for text in ["", "M", "-1", "1X", "1.M", "1e9", "1 2M", "ä"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}

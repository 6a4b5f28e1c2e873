//! Amounts of memory as users write and read them.

use tutti_sched::Bytes;

/// An amount as users write it, as for Slurm's --mem: K, M, G or T behind the number (KiB and KB are the
/// same); M if there is none.
///
/// # Errors
/// When it is none; a line for the user.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "{text:?} is not an amount of memory: a number with K, M, G or T after it, such as 512M or 1.5G"
        )
    };
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let shift = match text[digits..].to_ascii_uppercase().as_str() {
        "K" | "KB" | "KIB" => 10,
        "" | "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return Err(wrong()),
    };
    let number: f64 = text[..digits].parse().map_err(|_| wrong())?;
    let bytes = number * (1_u64 << shift) as f64;
    if (1.0..9e18).contains(&bytes) { Ok(bytes as u64) } else { Err(wrong()) }
}

/// The same as people read it.
pub fn text(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_size_is_parsed_as_in_slurm() {
        for (text, bytes) in [
            ("512", 512 << 20),
            ("1K", 1 << 10),
            ("1.5G", 3 << 29),
            ("2g", 2 << 30),
            ("2GiB", 2 << 30),
            ("2GB", 2 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "5B", "-1G", "1X", "1.2.3G", "0", "1 G", "99999999T"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

//! Random bytes of the kernel, for numbers and secrets.

use std::io;

/// Fills a buffer with random bytes of the kernel.
///
/// # Errors
/// When there are none.
pub fn fill_random(buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        filled += rustix::rand::getrandom(&mut buffer[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(())
}

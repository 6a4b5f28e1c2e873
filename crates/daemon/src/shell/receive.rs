//! Reading from a local connection.

use std::io;

use tokio::net::unix::OwnedReadHalf;
use tutti_protocol::wire::Decoder;

/// Bytes that are read at once.
const READ_BYTES: usize = 32 << 10;

/// Reads what has come, at most [`READ_BYTES`], into a buffer that no connection keeps; 0: the other end is
/// gone.
pub(super) async fn read_some(reader: &OwnedReadHalf, decoder: &mut Decoder) -> usize {
    while reader.readable().await.is_ok() {
        let mut bytes = [0; READ_BYTES];
        match reader.try_read(&mut bytes) {
            Ok(read) => {
                decoder.extend(&bytes[..read]);
                return read;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return 0,
        }
    }
    0
}

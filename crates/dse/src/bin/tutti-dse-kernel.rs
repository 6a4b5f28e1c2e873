//! The kernel of an element as a process of its own: `tutti_dse_init` starts it where `TUTTI_DSE_KERNEL` is
//! `apart`, with the bytes of global memory as its argument and the connection to its DSE process as its
//! standard input. Everything is in [`tutti_dse::server`].

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

fn main() -> ExitCode {
    let bytes = std::env::args().nth(1).and_then(|bytes| bytes.parse().ok());
    let stream = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from);
    match (bytes, stream) {
        (Some(bytes), Ok(stream)) if !io::stdin().is_terminal() => tutti_dse::server::run(&stream, bytes),
        _ => {
            eprintln!("tutti-dse-kernel: tutti_dse_init starts this program, nobody else");
            ExitCode::FAILURE
        }
    }
}

//! The promises of the lab itself: its machines share nothing but a cable, the cable does what it is asked
//! to, and nothing is left behind. What is shown between nodes is shown in it, so it must not lie.
#![allow(unreachable_pub, reason = "a program: no other crate uses it")]

mod cables;
mod leftovers;
mod machines;
mod refusals;

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tutti_testkit::lab::Lab;

/// Makes something, such as a socket, in the network namespace of a machine.
fn made_at<T: Send + 'static>(lab: &Lab, node: u32, make: impl FnOnce() -> T + Send + 'static) -> T {
    let pid = lab.status().expect("it runs").nodes[node as usize].pid.expect("it is on");
    let namespace = File::open(format!("/proc/{pid}/ns/net")).expect("its namespace");
    let made = std::thread::spawn(move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("root's right");
        make()
    });
    made.join().expect("it is made")
}

/// A socket of a machine, on a port that the kernel chooses.
fn udp_at(lab: &Lab, node: u32) -> UdpSocket {
    let address = lab.node(node).address();
    made_at(lab, node, move || UdpSocket::bind((address, 0)).expect("a port"))
}

/// The command for people.
fn tutti_lab(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tutti-lab"));
    command.args(words);
    command
}

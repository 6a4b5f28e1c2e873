//! Words that a test and its children share beside the rings.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64};

use tutti_testkit::stepper::{Shareable, Shared};

/// Words by which the test and its children talk.
#[repr(C)]
pub(crate) struct Script {
    /// Operations that the child has finished.
    pub operations: AtomicU32,
    /// A word for the doorbell tests to publish.
    pub word: AtomicU32,
    /// Round up to which the child may go.
    pub gate: AtomicU32,
    /// Messages of each side so far, and how often each has slept.
    pub progress: [AtomicU64; 2],
    pub sleeps: [AtomicU64; 2],
    /// Data that the child has received; read by the parent when `operations` says so.
    pub data: UnsafeCell<[u8; 4096 - 64]>,
}

// SAFETY: zeroes are a valid script; the words are atomics; `data` is written by one child and read by its
// parent after the child said so.
unsafe impl Shareable for Script {}

/// A script that forked children share.
pub(crate) type SharedScript = Shared<Script>;

//! Mappings by which the program and the kernel see shared memory: the arena, and variables that are shared.
//! Called at the start of a rank, where it is created, and for units whose home moves.

use std::ptr::NonNull;

use tutti_runtime::job::Job;
use tutti_shm::arena::Range;

use crate::arena::{BASE, OwnFrames};
use crate::core::unit::{Run, UNIT_BYTES};
use crate::permissions::Backend;
use crate::process::{Running, Stage, Way};
use crate::{executor, failure, globals, note, os, present};

/// Memory that the program sees at the arena's address until it is created: rank 0 the arena itself.
pub(crate) fn show(running: &Running) {
    if running.stage == Stage::Replaying {
        if let Err(error) = os::map_private(BASE, running.view.bytes) {
            failure::end(format_args!("memory for main before CREATE cannot be mapped: {error}"));
        }
        return;
    }
    open(running);
}

/// From now on this rank sees the shared memory.
pub(crate) fn open(running: &Running) {
    show_arena(running);
    if let Way::Nodes = running.way {
        if let Err(error) = executor::close_arena() {
            failure::end(format_args!("shared memory cannot be protected: {error}"));
        }
        note::open();
    }
}

fn show_arena(running: &Running) {
    show_at(running, BASE);
    show_globals(running);
    if executor::backend() == Some(Backend::Userfaultfd) {
        let view = present::reserved_view();
        show_at(running, view);
        present::show_to_kernel(view);
    }
}

/// Maps the memory of the arena at an address that is reserved for it.
fn show_at(running: &Running, address: usize) {
    let range = Range { offset: running.view.range.offset, bytes: running.view.bytes as u64 };
    let base = NonNull::new(std::ptr::with_exposed_provenance_mut(address)).expect("an address");
    // SAFETY: the library has reserved the range, for the arena or for the kernel's view of it. At the
    // arena's address lies at most what a replaying main has stored there, which is to be lost; no code of
    // the library has a reference into it.
    let mapped = unsafe { running.job.map_over(range, base) }.and_then(|()| show_shared(running, address));
    if let Err(error) = mapped.and_then(|()| os::advise_view(address, running.view.bytes)) {
        failure::end(format_args!("shared memory cannot be mapped at {address:#x}: {error}"));
    }
}

/// Maps the memory of shared variables in the place of the program's own.
fn show_globals(running: &Running) {
    let Some((address, window)) = globals::window() else { return };
    let base = base_of_globals(address, window);
    let shown = show_units(&running.job, running.view.range, window, base).and_then(|()| {
        let Some((frames, placement)) = &running.view.shared else { return Ok(()) };
        for run in placement.runs_here((running.view.bytes / UNIT_BYTES) as u32) {
            let (first, end) = (run.first.max(window.first), run.end().min(window.end()));
            if first < end {
                show_units(&running.job, *frames, Run { first, count: end - first }, base)?;
            }
        }
        Ok(())
    });
    if let Err(error) = shown.and_then(|()| os::advise_view(address, globals::bytes())) {
        failure::end(format_args!("shared variables cannot be mapped at {address:#x}: {error}"));
    }
}

/// Where the arena would begin if shared variables lay in their place of it; it may be before address 0.
fn base_of_globals(address: usize, window: Run) -> usize {
    address.wrapping_sub(window.first as usize * UNIT_BYTES)
}

/// Frames of this rank alone.
#[derive(Debug)]
pub(crate) struct Own {
    /// The job.
    pub(crate) job: Job,
    /// Where they lie in the memory of the node.
    pub(crate) range: Range,
}

impl OwnFrames for Own {
    fn show(&self, run: Run) -> std::io::Result<()> {
        let window = globals::window().filter(|(_, window)| window.units().contains(&run.first));
        let program = window.map_or(BASE, |(address, window)| base_of_globals(address, window));
        for view in [Some(program), present::view_of_kernel()].into_iter().flatten() {
            show_units(&self.job, self.range, run, view)?;
            let address = view.wrapping_add(run.first as usize * UNIT_BYTES);
            os::advise_view(address, run.count as usize * UNIT_BYTES)?;
        }
        Ok(())
    }
}

/// Units of a view of the arena are those of such frames.
fn show_units(job: &Job, frames: Range, run: Run, view: usize) -> std::io::Result<()> {
    let (offset, bytes) = (run.first as u64 * UNIT_BYTES as u64, run.count as u64 * UNIT_BYTES as u64);
    let at = std::ptr::with_exposed_provenance_mut(view.wrapping_add(offset as usize));
    let range = Range { offset: frames.offset + offset, bytes };
    // SAFETY: the units lie in a view of the arena, which the library has reserved, or they are the window,
    // at the pages that the linker gave to the program's variables alone (parmacs_globals.ld). What lies
    // there is to be lost: copies that are parted from their mates, or variables of which rank 0 has kept
    // what they held. Only the program refers to them, by their addresses.
    unsafe { job.map_over(range, NonNull::new(at).expect("an address")) }
}

/// Units that have their home on this node are those frames that all ranks of the node see.
fn show_shared(running: &Running, address: usize) -> std::io::Result<()> {
    let Some((frames, placement)) = &running.view.shared else { return Ok(()) };
    for run in placement.runs_here((running.view.bytes / UNIT_BYTES) as u32) {
        show_units(&running.job, *frames, run, address)?;
    }
    Ok(())
}

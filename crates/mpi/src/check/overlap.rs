//! Memory that two pending operations use at the same time, one of them a receive (MPI 3.7.2, 3.10), or that
//! a collective call reads and writes.

use core::ffi::CStr;

use tutti_datatype::Buffer;
use tutti_rma::device::is_readable;

use super::inspection::Inspection;
use super::{Severity, function, name_of};
use crate::abi::MPI_Comm;
use crate::collective::work::{Reduction, Work};
use crate::comm::CONTEXTS_PER_COMM;
use crate::engine::device_memory;
use crate::request::{Request, RequestKind};

/// Runs of a buffer that are looked at; of a buffer with more nothing is said.
const RUNS_MAX: usize = 4096;

impl Inspection<'_> {
    /// Looks whether a send or receive that is about to start shares memory with a pending one.
    #[cold]
    pub fn check_overlap(&mut self, buffer: &Buffer, kind: RequestKind) {
        if buffer.bytes == 0 {
            return;
        }
        self.check_device_memory(buffer, kind);
        let Some(mine) = runs(buffer) else { return };
        let conflicts = |request: &Request| {
            let moves_data = matches!(request.kind, RequestKind::Send | RequestKind::Receive);
            let writes = kind == RequestKind::Receive || request.kind == RequestKind::Receive;
            !request.done && moves_data && writes && request.buffer.bytes > 0
        };
        let shared = self
            .engine
            .requests
            .iter()
            .filter(|(_, request)| conflicts(request))
            .find_map(|(index, request)| Some((index, common(&mine, &runs(&request.buffer)?)?)));
        let Some((other, (address, bytes))) = shared else { return };
        let request = self.engine.requests.get(other);
        let maker = self
            .check
            .as_deref()
            .and_then(|check| check.kept[0].maker(self.engine.requests.handle(other), other).map(name_of));
        let (is_users, verb) = (request.context.is_multiple_of(CONTEXTS_PER_COMM), verb(request.kind));
        let earlier = match maker {
            Some(maker) => maker.into(),
            None if is_users => "another pending operation".to_string(),
            None => "a pending collective operation".to_string(),
        };
        let text = format!(
            "overlapping buffers on rank {}: {bytes} bytes from address {address:#x} are in use by two operations\n    \
             {} {} {}\n    {earlier}, which is not complete, {verb} {} on {}",
            self.engine.job.rank(),
            function(),
            self::verb(kind),
            buffer.describe(),
            request.buffer.describe(),
            self.context_name(request.context),
        );
        self.find(Severity::Error, text);
    }

    /// Looks whether a buffer that cannot be read is memory of a GPU.
    fn check_device_memory(&mut self, buffer: &Buffer, kind: RequestKind) {
        let Some(at) = runs(buffer).and_then(|runs| Some(runs.first()?.0)) else { return };
        let at = std::ptr::without_provenance(at);
        if !is_readable(at)
            && let Some(driver) = device_memory::driver(kind, at)
        {
            let text = device_memory::text(kind, at, buffer.bytes, &driver);
            self.find(Severity::Error, format!("device memory on rank {}: {text}", self.engine.job.rank()));
        }
    }

    /// Looks whether a collective call reads and writes the same memory, which is what MPI_IN_PLACE is for
    /// (MPI 6.2, 2.6.2).
    pub fn check_aliasing(&mut self, comm: MPI_Comm, work: &Work, function: &'static CStr) {
        let Ok(ranks) = self.comms.find(comm).map(|comm| comm.peers().size()) else { return };
        let of_reduction = |reduction: &Reduction| {
            let gets = !reduction.is_in_place && !reduction.receive.is_null() && !reduction.send.is_null();
            if gets {
                (vec![reduction.contribution()], vec![reduction.buffer_at(reduction.receive)])
            } else {
                nothing()
            }
        };
        let (read, written) = match work {
            Work::Gather { own: Some(own), all: Some(all), .. } => (vec![own.clone()], all.buffers(ranks)),
            Work::Allgather { own: Some(own), all, .. } => (vec![own.clone()], all.buffers(ranks)),
            Work::Scatter { all: Some(all), own: Some(own), .. } => (all.buffers(ranks), vec![own.clone()]),
            Work::Alltoall { send: Some(send), receive, .. } => (send.buffers(ranks), receive.buffers(ranks)),
            Work::Reduce(reduction, _) | Work::Allreduce(reduction) | Work::Scan { reduction, .. } => {
                of_reduction(reduction)
            }
            _ => nothing(),
        };
        let (Some(read), Some(written)) = (all_runs(&read), all_runs(&written)) else { return };
        let Some((_, bytes)) = common(&read, &written) else { return };
        let text = format!(
            "overlapping buffers on rank {}: {bytes} bytes of sendbuf are in recvbuf too\n    \
             {} on {}, where one memory for both is said by MPI_IN_PLACE",
            self.engine.job.rank(),
            name_of(function),
            self.comm_name(comm),
        );
        self.find(Severity::Error, text);
    }
}

fn nothing() -> (Vec<Buffer>, Vec<Buffer>) {
    (Vec::new(), Vec::new())
}

/// The runs of several buffers, in ascending order; none when there are too many.
fn all_runs(buffers: &[Buffer]) -> Option<Vec<(usize, usize)>> {
    let mut all = Vec::new();
    for buffer in buffers.iter().filter(|buffer| buffer.bytes > 0) {
        all.extend(runs(buffer)?);
        if all.len() > RUNS_MAX {
            return None;
        }
    }
    all.sort_unstable();
    Some(all)
}

fn verb(kind: RequestKind) -> &'static str {
    if kind == RequestKind::Receive { "receives" } else { "sends" }
}

/// The runs of a buffer as address and bytes, in ascending order; none when there are too many or it is a
/// part of a message.
fn runs(buffer: &Buffer) -> Option<Vec<(usize, usize)>> {
    let Some(map) = &buffer.map else { return Some(vec![(buffer.at as usize, buffer.bytes)]) };
    // A part of some data is not whole elements.
    map.note()?;
    let mut runs = Vec::new();
    map.runs(buffer.at as usize, buffer.bytes, &mut |at, bytes| {
        runs.push((at, bytes));
        runs.len() <= RUNS_MAX
    });
    runs.sort_unstable();
    (runs.len() <= RUNS_MAX).then_some(runs)
}

/// The first run of bytes that is in both.
fn common(mine: &[(usize, usize)], theirs: &[(usize, usize)]) -> Option<(usize, usize)> {
    let (mut i, mut j) = (0, 0);
    while let (Some(a), Some(b)) = (mine.get(i), theirs.get(j)) {
        let (start, end) = (a.0.max(b.0), (a.0 + a.1).min(b.0 + b.1));
        if start < end {
            return Some((start, end - start));
        }
        if a.0 + a.1 <= b.0 + b.1 { i += 1 } else { j += 1 }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_adjacent_columns_do_not_overlap() {
        let even: Vec<_> = (0..10).map(|i| (i * 16, 8)).collect();
        let odd: Vec<_> = (0..10).map(|i| (i * 16 + 8, 8)).collect();
        assert_eq!(common(&even, &odd), None);
        assert_eq!(common(&even, &[(44, 6)]), Some((48, 2)));
        assert_eq!(common(&[(0, 4)], &[(4, 4)]), None);
        assert_eq!(common(&[(0, 5)], &[(4, 4)]), Some((4, 1)));
    }
}

//! Operations between the two groups of an intercommunicator (MPI 6.2.3): what one group contributes, the
//! other receives.

use std::rc::Rc;

use tutti_datatype::Buffer;

use super::op::Reducer;
use super::plan::Plan;
use super::work::{Reduction, Root, Work};

/// The steps of a call on an intercommunicator.
pub(super) fn steps(plan: &mut Plan, work: &Work) {
    let ranks = plan.remote_size();
    match work {
        Work::Barrier => {
            (0..ranks).for_each(|rank| plan.post_receive_across(rank));
            (0..ranks).for_each(|rank| plan.notify_across(rank));
        }
        Work::Broadcast { buffer, root } => match root {
            Root::Myself => (0..ranks).for_each(|to| plan.send_across(to, buffer.clone())),
            Root::Remote(from) => plan.receive_across(*from, buffer.clone()),
            _ => {}
        },
        Work::Gather { own, all, root, .. } => match (root, all, own) {
            (Root::Myself, Some(all), _) => {
                (0..ranks).for_each(|from| plan.receive_across(from, all.piece(from)))
            }
            (Root::Remote(to), _, Some(own)) => plan.send_across(*to, own.clone()),
            _ => {}
        },
        Work::Scatter { all, own, root, .. } => match (root, all, own) {
            (Root::Myself, Some(all), _) => (0..ranks).for_each(|to| plan.send_across(to, all.piece(to))),
            (Root::Remote(from), _, Some(own)) => plan.receive_across(*from, own.clone()),
            _ => {}
        },
        Work::Allgather { own, all, .. } => {
            let own = own.clone().unwrap_or(Buffer::empty());
            (0..ranks).for_each(|rank| plan.receive_across(rank, all.piece(rank)));
            (0..ranks).for_each(|rank| plan.send_across(rank, own.clone()));
        }
        Work::Alltoall { send, receive, .. } => {
            for rank in 0..ranks {
                plan.receive_across(rank, receive.piece(rank));
            }
            if let Some(send) = send {
                (0..ranks).for_each(|rank| plan.send_across(rank, send.piece(rank)));
            }
        }
        Work::Reduce(reduction, root) => match root {
            Root::Myself => {
                let reducer = Rc::new(reduction.reducer.clone());
                let operands = receive_all(plan, reduction, &reducer);
                combine_all(plan, reduction, &reducer, &operands, reduction.receive);
            }
            Root::Remote(to) => plan.send_across(*to, reduction.contribution()),
            _ => {}
        },
        Work::Allreduce(reduction) => {
            let reducer = Rc::new(reduction.reducer.clone());
            let operands = receive_all(plan, reduction, &reducer);
            (0..ranks).for_each(|to| plan.send_across(to, reduction.contribution()));
            combine_all(plan, reduction, &reducer, &operands, reduction.receive);
        }
        Work::ReduceScatter { reduction, counts } => reduce_scatter(plan, reduction, counts),
        Work::Scan { .. } => panic!("an intercommunicator has no scan"),
        Work::Neighbours(_) => panic!("an intercommunicator has no topology"),
    }
}

/// Starts the receives of the whole contribution of every remote rank.
fn receive_all(plan: &mut Plan, reduction: &Reduction, reducer: &Rc<Reducer>) -> Vec<*mut u8> {
    (0..plan.remote_size())
        .map(|from| {
            let operand = plan.schedule.elements(&reducer.datatype, reduction.count);
            plan.receive_across(from, reduction.buffer_at(operand));
            operand
        })
        .collect()
}

/// Combines them in the order of ranks.
fn combine_all(
    plan: &mut Plan,
    reduction: &Reduction,
    reducer: &Rc<Reducer>,
    operands: &[*mut u8],
    result: *mut u8,
) {
    plan.schedule.await_all();
    let (last, lower) = operands.split_last().expect("a remote group has members");
    for operand in lower.iter().rev() {
        plan.schedule.combine(reducer, *operand, *last, reduction.count);
    }
    plan.schedule.copy(reduction.buffer_at(*last), reduction.buffer_at(result));
}

/// The ranks of one group do not know the counts of the other, so rank 0 of each group reduces and scatters
/// to its own.
fn reduce_scatter(plan: &mut Plan, reduction: &Reduction, counts: &[usize]) {
    let mine = reduction.elements(reduction.receive, counts[plan.me]);
    if plan.me != 0 {
        plan.receive(0, mine);
        plan.send_across(0, reduction.contribution());
        return;
    }
    let reducer = Rc::new(reduction.reducer.clone());
    let operands = receive_all(plan, reduction, &reducer);
    plan.send_across(0, reduction.contribution());
    let result = plan.schedule.elements(&reducer.datatype, reduction.count);
    combine_all(plan, reduction, &reducer, &operands, result);
    let mut begin = counts[0];
    for (to, &count) in counts.iter().enumerate().skip(1) {
        plan.send(to, reduction.elements(reduction.element(result, begin), count));
        begin += count;
    }
    plan.schedule.copy(reduction.elements(result, counts[0]), mine);
}

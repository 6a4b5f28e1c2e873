//! Reductions of much data, scans, and those whose result stays in parts. Each process reduces one part of
//! the elements: it receives that part of every other's contribution and combines them in the order of ranks,
//! so the result is the same on all ranks, whatever the operation.

use std::rc::Rc;

use super::op::Reducer;
use super::plan::Plan;
use super::work::Reduction;

/// Parts of `count` elements for `size` ranks, as even as can be: where they begin; one more for the end.
fn even_parts(count: usize, size: usize) -> Vec<usize> {
    (0..=size).map(|rank| rank * (count / size) + rank.min(count % size)).collect()
}

/// Reduces this process's part; returns where it stands. `parts` gives the beginnings.
fn reduce_part(plan: &mut Plan, reduction: &Reduction, reducer: &Rc<Reducer>, parts: &[usize]) -> *const u8 {
    let (me, size) = (plan.me, plan.size());
    let mine = parts[me + 1] - parts[me];
    let operands: Vec<*mut u8> =
        (0..size)
            .map(|from| {
                if from == me {
                    std::ptr::null_mut()
                } else {
                    plan.schedule.elements(&reducer.datatype, mine)
                }
            })
            .collect();
    let received: Vec<_> = (0..size)
        .map(|from| match from == me {
            true => None,
            false => plan.receive(from, reduction.elements(operands[from], mine)),
        })
        .collect();
    for to in plan.others() {
        let part = reduction.element(reduction.send, parts[to]);
        plan.send(to, reduction.elements(part, parts[to + 1] - parts[to]));
    }
    // From the last rank to the first: the memory of the last operand takes the result.
    let own = reduction.element(reduction.send, parts[me]);
    let mut result: *mut u8 = if me + 1 == size {
        let memory = plan.schedule.elements(&reducer.datatype, mine);
        plan.schedule.copy(reduction.elements(own, mine), reduction.elements(memory, mine));
        memory
    } else {
        operands[size - 1]
    };
    if let Some(operation) = received[size - 1] {
        plan.schedule.await_one(operation);
    }
    for from in (0..size - 1).rev() {
        let operand = if from == me { own } else { operands[from] };
        if let Some(operation) = received[from] {
            plan.schedule.await_one(operation);
        }
        plan.schedule.combine(reducer, operand, result, mine);
    }
    if mine == 0 {
        result = own;
    }
    result
}

/// Everybody reduces a part and sends it to everybody.
pub(super) fn allreduce(plan: &mut Plan, reduction: &Reduction) {
    let reducer = Rc::new(reduction.reducer.clone());
    let (me, size) = (plan.me, plan.size());
    let parts = even_parts(reduction.count, size);
    let result = reduce_part(plan, reduction, &reducer, &parts);
    let (begin, length) = (parts[me], parts[me + 1] - parts[me]);
    // In place the sends of the contribution must be finished before the result overwrites it.
    plan.schedule.await_all();
    for from in plan.others() {
        let part = reduction.element(reduction.receive, parts[from]);
        plan.receive(from, reduction.elements(part, parts[from + 1] - parts[from]));
    }
    for to in plan.others() {
        plan.send(to, reduction.elements(result, length));
    }
    let part = reduction.element(reduction.receive, begin);
    plan.schedule.copy(reduction.elements(result, length), reduction.elements(part, length));
}

/// Everybody reduces a part and sends it to the root.
pub(super) fn reduce(plan: &mut Plan, reduction: &Reduction, root: usize) {
    let reducer = Rc::new(reduction.reducer.clone());
    let (me, size) = (plan.me, plan.size());
    let parts = even_parts(reduction.count, size);
    let result = reduce_part(plan, reduction, &reducer, &parts);
    let length = parts[me + 1] - parts[me];
    plan.schedule.await_all();
    if me != root {
        plan.send(root, reduction.elements(result, length));
        return;
    }
    for from in plan.others() {
        let part = reduction.element(reduction.receive, parts[from]);
        plan.receive(from, reduction.elements(part, parts[from + 1] - parts[from]));
    }
    let part = reduction.element(reduction.receive, parts[me]);
    plan.schedule.copy(reduction.elements(result, length), reduction.elements(part, length));
}

/// Everybody reduces its part and keeps it.
pub(super) fn reduce_scatter(plan: &mut Plan, reduction: &Reduction, counts: &[usize]) {
    let reducer = Rc::new(reduction.reducer.clone());
    let mut parts = vec![0];
    for count in counts {
        parts.push(parts[parts.len() - 1] + count);
    }
    let result = reduce_part(plan, reduction, &reducer, &parts);
    let mine = counts[plan.me];
    plan.schedule.await_all();
    plan.schedule.copy(reduction.elements(result, mine), reduction.elements(reduction.receive, mine));
}

/// Prefixes in the logarithm of rounds: in each, a process exchanges the result of its group of ranks with
/// the neighbouring group.
pub(super) fn scan(plan: &mut Plan, reduction: &Reduction, exclusive: bool) {
    let Reduction { send, receive, count, .. } = reduction;
    let reducer = Rc::new(reduction.reducer.clone());
    let (me, size) = (plan.me, plan.size());
    // The result of the own group so far, and that of the lower ranks in it (with this one, unless
    // exclusive).
    let mut group = plan.schedule.elements(&reducer.datatype, *count);
    plan.schedule.copy(reduction.contribution(), reduction.buffer_at(group));
    let mut has_prefix = !exclusive;
    if has_prefix && *send != receive.cast_const() {
        plan.schedule.copy(reduction.contribution(), reduction.buffer_at(*receive));
    }
    let mut distance = 1;
    while distance < size {
        let partner = me ^ distance;
        if partner < size {
            let mut operand = plan.schedule.elements(&reducer.datatype, *count);
            plan.receive(partner, reduction.buffer_at(operand));
            plan.send(partner, reduction.buffer_at(group));
            plan.schedule.await_all();
            if partner < me {
                if has_prefix {
                    plan.schedule.combine(&reducer, operand, *receive, *count);
                } else {
                    plan.schedule.copy(reduction.buffer_at(operand), reduction.buffer_at(*receive));
                    has_prefix = true;
                }
                plan.schedule.combine(&reducer, operand, group, *count);
            } else {
                plan.schedule.combine(&reducer, group, operand, *count);
                std::mem::swap(&mut group, &mut operand);
            }
        }
        distance *= 2;
    }
}

//! Operations along a binomial tree, and exchanges of all with all in as many rounds as it has storeys.

use std::rc::Rc;

use tutti_datatype::Buffer;

use super::op::Reducer;
use super::plan::Plan;
use super::work::Reduction;

/// Every process hears, in the logarithm of rounds, directly or not, from every other (dissemination).
pub(super) fn barrier(plan: &mut Plan) {
    let (me, size) = (plan.me, plan.size());
    let mut distance = 1;
    while distance < size {
        plan.post_receive((me + size - distance) % size);
        plan.notify((me + distance) % size);
        plan.schedule.await_all();
        distance *= 2;
    }
}

/// Down the tree whose root is `root`.
pub(super) fn broadcast(plan: &mut Plan, buffer: &Buffer, root: usize) {
    let size = plan.size();
    let relative = (plan.me + size - root) % size;
    let absolute = |relative: usize| (relative + root) % size;
    let mut distance = 1;
    while distance < size && relative & distance == 0 {
        distance *= 2;
    }
    if relative != 0 {
        plan.receive(absolute(relative - distance), buffer.clone());
        plan.schedule.await_all();
    }
    while distance > 1 {
        distance /= 2;
        if relative + distance < size {
            plan.send(absolute(relative + distance), buffer.clone());
        }
    }
}

/// Up the tree. Operands meet in the order of ranks; where they may change places the order begins at the
/// root, else rank 0 collects and passes the result on.
pub(super) fn reduce(plan: &mut Plan, reduction: &Reduction, root: usize) {
    let Reduction { reducer, send, receive, count, .. } = reduction;
    let reducer = Rc::new(reducer.clone());
    let (size, me) = (plan.size(), plan.me);
    let top = if reducer.commutative { root } else { 0 };
    let relative = (me + size - top) % size;
    let absolute = |relative: usize| (relative + top) % size;
    let mut result = *send;
    let mut distance = 1;
    while distance < size {
        if relative & distance != 0 {
            plan.send(absolute(relative - distance), reduction.buffer_at(result));
            break;
        }
        if relative + distance < size {
            let operand = plan.schedule.elements(&reducer.datatype, *count);
            plan.receive(absolute(relative + distance), reduction.buffer_at(operand));
            plan.schedule.await_all();
            // The lower ranks' result is the left operand; the other memory holds the sum.
            plan.schedule.combine(&reducer, result, operand, *count);
            result = operand;
        }
        distance *= 2;
    }
    if relative == 0 && me == root {
        plan.schedule.copy(reduction.buffer_at(result), reduction.buffer_at(*receive));
    } else if relative == 0 {
        plan.send(root, reduction.buffer_at(result));
    } else if me == root {
        // In place the result comes to where the contribution was, which must have left.
        plan.schedule.await_all();
        plan.receive(0, reduction.buffer_at(*receive));
    }
}

/// Every process has the whole result: in each round it exchanges that of its group of neighbouring ranks
/// with the neighbouring group. Operands meet in the order of ranks, and in the same groups at all, so all
/// have the same result. Where the ranks are no power of two the first ones go in pairs, of which the lower
/// rank stands for both.
pub(super) fn allreduce(plan: &mut Plan, reduction: &Reduction) {
    let reducer = Rc::new(reduction.reducer.clone());
    let (me, size, count) = (plan.me, plan.size(), reduction.count);
    let groups = 1_usize << size.ilog2();
    let pairs = size - groups;
    let is_paired = me < 2 * pairs;
    let mut own = plan.schedule.elements(&reducer.datatype, count);
    plan.schedule.copy(reduction.contribution(), reduction.buffer_at(own));
    if is_paired && me % 2 == 1 {
        plan.receive(me - 1, reduction.buffer_at(reduction.receive));
        plan.send(me - 1, reduction.buffer_at(own));
        return;
    }
    let mut exchange = |plan: &mut Plan, partner: usize, sends: bool| {
        let mut other = plan.schedule.elements(&reducer.datatype, count);
        plan.receive(partner, reduction.buffer_at(other));
        if sends {
            plan.send(partner, reduction.buffer_at(own));
        }
        plan.schedule.await_all();
        // The lower ranks' result is the left operand; the other memory holds the sum.
        if partner > me {
            std::mem::swap(&mut own, &mut other);
        }
        plan.schedule.combine(&reducer, other, own, count);
    };
    if is_paired {
        exchange(plan, me + 1, false);
    }
    let group = if is_paired { me / 2 } else { me - pairs };
    let rank_of = |group: usize| if group < pairs { 2 * group } else { group + pairs };
    let mut distance = 1;
    while distance < groups {
        exchange(plan, rank_of(group ^ distance), true);
        distance *= 2;
    }
    if is_paired {
        plan.send(me + 1, reduction.buffer_at(own));
    }
    plan.schedule.copy(reduction.buffer_at(own), reduction.buffer_at(reduction.receive));
}

/// Every process has the contributions of all after the logarithm of rounds: in each, it passes on what it
/// has to a rank below and gets as much from one above. Then each combines them itself, in the order of
/// [`fold`].
pub(super) fn allreduce_in_order(plan: &mut Plan, reduction: &Reduction) {
    let (me, size, bytes) = (plan.me, plan.size(), reduction.bytes);
    // As they travel: that of this rank, of the next one, and so on, around.
    let gathered = plan.schedule.memory(size * bytes);
    let pieces =
        |first: usize, ranks: usize| Buffer::contiguous(gathered.wrapping_add(first * bytes), ranks * bytes);
    plan.schedule.copy(reduction.contribution(), pieces(0, 1));
    let mut distance = 1;
    while distance < size {
        let ranks = distance.min(size - distance);
        let received = plan.receive((me + distance) % size, pieces(distance, ranks));
        plan.send((me + size - distance) % size, pieces(0, ranks));
        if let Some(received) = received {
            plan.schedule.await_one(received);
        }
        distance *= 2;
    }
    let laid_out = laid_out(plan, &reduction.reducer, reduction.count);
    fold(plan, reduction, laid_out, |rank| pieces((rank + size - me) % size, 1));
}

/// Up the tree whose root is `root`, all contributions side by side; the root combines them in the order of
/// [`fold`]. In portions of so many bytes of each rank, or of one element.
pub(super) fn reduce_in_order(plan: &mut Plan, reduction: &Reduction, root: usize, room: usize) {
    let each = room.checked_div(reduction.bytes_per_element()).unwrap_or(reduction.count).max(1);
    let relative = (plan.me + plan.size() - root) % plan.size();
    // Each portion is where the one before it was.
    let most = each.min(reduction.count);
    let bytes = branch(relative, plan.size()) * most * reduction.bytes_per_element();
    let gathered = plan.schedule.memory(bytes);
    let laid_out = if relative == 0 { laid_out(plan, &reduction.reducer, most) } else { None };
    let mut first = 0;
    loop {
        let count = each.min(reduction.count - first);
        let portion = Reduction {
            send: reduction.element(reduction.send, first),
            receive: reduction.element(reduction.receive, first),
            count,
            bytes: count * reduction.bytes_per_element(),
            reducer: reduction.reducer.clone(),
            is_in_place: reduction.is_in_place,
        };
        reduce_portion_in_order(plan, &portion, root, gathered, laid_out);
        first += count;
        if first >= reduction.count {
            return;
        }
        plan.schedule.await_all();
    }
}

/// How far above a rank, counted from the root, the next one is in the tree.
fn distance_up(relative: usize) -> usize {
    1 << relative.trailing_zeros()
}

/// Ranks of the branch that begins at one, with itself.
fn branch(relative: usize, size: usize) -> usize {
    match relative {
        0 => size,
        _ => distance_up(relative).min(size - relative),
    }
}

/// `gathered` has room for the portion of this rank and of those below it in the tree, as they travel.
fn reduce_portion_in_order(
    plan: &mut Plan,
    reduction: &Reduction,
    root: usize,
    gathered: *mut u8,
    laid_out: Option<*mut u8>,
) {
    let (size, bytes) = (plan.size(), reduction.bytes);
    let relative = (plan.me + size - root) % size;
    let absolute = |relative: usize| (relative + root) % size;
    let mine = branch(relative, size);
    let pieces =
        |first: usize, ranks: usize| Buffer::contiguous(gathered.wrapping_add(first * bytes), ranks * bytes);
    plan.schedule.copy(reduction.contribution(), pieces(0, 1));
    let mut distance = 1;
    while distance < mine {
        let from = relative + distance;
        plan.receive(absolute(from), pieces(distance, branch(from, size)));
        distance *= 2;
    }
    plan.schedule.await_all();
    if relative == 0 {
        fold(plan, reduction, laid_out, |rank| pieces((rank + size - root) % size, 1));
    } else {
        plan.send(absolute(relative - distance_up(relative)), pieces(0, mine));
    }
}

/// Memory for operands of a function of the user, which sees elements of its type: they may have gaps.
fn laid_out(plan: &mut Plan, reducer: &Reducer, count: usize) -> Option<*mut u8> {
    reducer.kernel().is_none().then(|| plan.schedule.elements(&reducer.datatype, count))
}

/// Combines the contributions of all ranks, which are in these places as they travel, from the last rank to
/// the first, as the members of a node do (`flags`): the result does not depend on where ranks are.
fn fold(plan: &mut Plan, reduction: &Reduction, laid_out: Option<*mut u8>, place: impl Fn(usize) -> Buffer) {
    let reducer: Rc<Reducer> = Rc::new(reduction.reducer.clone());
    let (last, count, result) = (plan.size() - 1, reduction.count, reduction.receive);
    plan.schedule.copy(place(last), reduction.buffer_at(result));
    for rank in (0..last).rev() {
        let contribution = place(rank);
        let operand = match laid_out {
            Some(operand) => {
                plan.schedule.copy(contribution, reduction.buffer_at(operand));
                operand
            }
            None => contribution.at,
        };
        plan.schedule.combine(&reducer, operand, result, count);
    }
}

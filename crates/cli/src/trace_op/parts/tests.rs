use super::*;

fn at(mark: u32, begin_ns: u64, end_ns: u64) -> Stamp {
    Stamp { mark, begin_ns, end_ns, arrived_ns: 0 }
}

fn came(begin_ns: u64, end_ns: u64, arrived_ns: u64) -> Stamp {
    Stamp { mark: RECEIVED, begin_ns, end_ns, arrived_ns }
}

/// One request and its answer, the clock of B `ahead` of A's.
fn exchange(start_ns: u64, ahead: u64) -> (Vec<Stamp>, Vec<Stamp>) {
    let a = vec![
        at(CALL, start_ns, start_ns),
        at(HANDED, start_ns + 100, start_ns + 100),
        at(SENT, start_ns + 200, start_ns + 1200),
        came(start_ns + 5000, start_ns + 5400, start_ns + 4900),
        at(APPLIED, start_ns + 5500, start_ns + 5600),
        at(RETURN, start_ns + 5900, start_ns + 5900),
    ];
    let there = start_ns + ahead;
    let b = vec![
        came(there + 1500, there + 1900, there + 1100),
        at(APPLIED, there + 2000, there + 2100),
        at(HANDED, there + 2200, there + 2200),
        at(SENT, there + 2300, there + 3300),
    ];
    (a, b)
}

fn adds_up(operation: &Operation) {
    let parts = (operation.ta_ns + operation.tb_ns + operation.tc_ns) as i64 + operation.rest_ns();
    assert_eq!(parts, operation.t_ns as i64, "{operation:?}");
    let shares: f64 = Shares::of(operation).named().iter().map(|(_, ns)| ns).sum();
    assert_eq!(shares, operation.t_ns as f64, "{operation:?}");
}

// Paper: D10
#[test]
fn trace_parts_of_an_exchange_add_up_to_t() {
    let (mut a, mut b) = exchange(10_000, 0);
    let (more_a, more_b) = exchange(20_000, 0);
    a.extend(more_a);
    b.extend(more_b);
    let (found, incomplete) = operations(&a, &b, true);
    assert_eq!((found.len(), incomplete), (2, 0));
    assert_eq!(found[0], found[1]);
    let one = &found[0];
    assert_eq!((one.t_ns, one.ta_ns, one.tb_ns, one.tc_ns), (5900, 1200, 1800, 900));
    assert_eq!((one.rest_ns(), one.td_ns), (2000, Some(3800)));
    let calls = |send_ns, recv_ns| Calls { send_ns, recv_ns };
    assert_eq!(one.calls, [calls(1000, 0), calls(1000, 400), calls(0, 400)]);
    adds_up(one);
    let shares = Shares::of(one);
    assert_eq!((shares.calls_ns(), shares.between_ns), (2800.0, 2000.0));
    assert_eq!((shares.a_library_ns, shares.b_library_ns), (700.0, 400.0));
}

/// The exchange of the test above, which a process has asked its kernel for: 800 ns before it and 700 behind.
/// The process is back before the kernel's call that answers is.
#[test]
fn trace_parts_of_a_kernel_apart_are_those_of_the_kernel() {
    let (kernel, b) = exchange(10_000, 0);
    let (alone, _) = operations(&kernel, &b, true);
    let mut a = vec![
        at(ASKED, 5000, 5100),
        at(CALL, 9200, 9200),
        at(ASKED, 9300, 9900),
        at(RETURN, 16_600, 16_600),
        at(ASKED, 17_000, 17_500),
        at(GIVEN, 1000, 1100),
        at(TAKEN, 5200, 5200),
        at(GIVEN, 5300, 5500),
        at(TAKEN, 10_000, 10_000),
    ];
    a.extend(kernel.iter().filter(|stamp| stamp.mark < CALL));
    a.extend([at(GIVEN, 15_700, 15_900), at(TAKEN, 17_600, 17_600)]);
    let (found, incomplete) = operations(&a, &b, true);
    assert_eq!((found.len(), incomplete), (1, 0));
    let one = &found[0];
    assert_eq!((one.t_ns, one.asks_ns, one.given_ns), (7400, 800, 700));
    let parts = |of: &Operation| (of.ta_ns, of.tb_ns, of.tc_ns, of.rest_ns(), of.td_ns);
    assert_eq!(parts(one), parts(&alone[0]));
    assert_eq!(one.calls[2].send_ns, 200, "the answer to the process");
    let shares = Shares::of(one);
    assert_eq!((shares.a_process_ns, shares.between_ns), (1500.0, 2000.0));
    assert_eq!(shares.named().iter().map(|(_, ns)| ns).sum::<f64>(), 7400.0);

    let given = a.iter().rposition(|stamp| stamp.mark == GIVEN).expect("it is there");
    a[given].end_ns = 16_700;
    let (found, _) = operations(&a, &b, true);
    assert_eq!((found[0].t_ns, found[0].given_ns), (7400, 0));
    a.remove(given);
    assert_eq!(operations(&a, &b, true), (Vec::new(), 1), "no answer");
}

/// A write that is confirmed by the acknowledgement of the network.
#[test]
fn trace_parts_end_with_the_acknowledgement_where_no_record_answers() {
    let (mut a, mut b) = exchange(10_000, 0);
    a.retain(|stamp| stamp.mark != APPLIED);
    b.retain(|stamp| stamp.mark != HANDED);
    let (found, incomplete) = operations(&a, &b, true);
    assert_eq!((found.len(), incomplete), (1, 0));
    let one = &found[0];
    assert_eq!((one.ta_ns, one.tb_ns, one.tc_ns, one.rest_ns()), (1200, 1800, 900, 2000));
    adds_up(one);
    a.retain(|stamp| stamp.mark != RECEIVED);
    assert_eq!(operations(&a, &b, true), (Vec::new(), 1), "no acknowledgement");
}

/// Inside a node, with a write and its confirmation: two questions, one answer.
#[test]
fn trace_parts_of_a_kernel_apart_inside_a_node_have_no_message() {
    let a = [
        at(CALL, 1000, 1000),
        at(ASKED, 1100, 1300),
        at(ASKED, 1350, 1500),
        at(RETURN, 4000, 4000),
        at(TAKEN, 1800, 1800),
        at(MAPPED, 2000, 2100),
        at(TAKEN, 2300, 2300),
        at(GIVEN, 2500, 3000),
    ];
    let (found, incomplete) = operations(&a, &[], true);
    assert_eq!((found.len(), incomplete), (1, 0));
    let one = &found[0];
    assert_eq!((one.asks_ns, one.ta_ns, one.tb_ns, one.tc_ns, one.given_ns), (800, 200, 100, 900, 1000));
    assert_eq!((one.t_ns, one.rest_ns(), one.calls[2].send_ns), (3000, 0, 500));
    let shares = Shares::of(one);
    assert_eq!((shares.a_process_ns, shares.b_memory_ns, shares.a_send_ns), (1800.0, 100.0, 500.0));
    assert_eq!(shares.named().iter().map(|(_, ns)| ns).sum::<f64>(), 3000.0);
}

#[test]
fn trace_parts_need_no_common_clock() {
    let (a, b) = exchange(10_000, 0);
    let (_, far) = exchange(10_000, 1 << 40);
    let (one, _) = operations(&a, &b, true);
    let (other, incomplete) = operations(&a, &far, false);
    assert_eq!(incomplete, 0);
    assert_eq!(
        Operation { td_ns: None, spans: Vec::new(), ..one[0].clone() },
        Operation { spans: Vec::new(), ..other[0].clone() }
    );
    adds_up(&other[0]);
    assert_eq!(Shares::of(&other[0]).between_ns, 2000.0);
}

/// B takes the request in while A is still in its system call, and A the answer while B is in its own.
#[test]
fn trace_parts_that_overlap_add_up_too() {
    let (mut a, mut b) = exchange(10_000, 0);
    a[2].end_ns = 12_000;
    b[3].end_ns = 15_200;
    let (found, _) = operations(&a, &b, true);
    assert_eq!(found[0].rest_ns(), 5900 - 2000 - 3700 - 900);
    assert!(found[0].rest_ns() < 0);
    adds_up(&found[0]);
}

#[test]
fn trace_parts_of_long_operations_go_from_the_first_record_to_the_last() {
    // Two records, each with an answer; what A warmed up with comes first.
    let (mut a, mut b) = exchange(1000, 0);
    a.retain(|stamp| stamp.mark < CALL);
    a.extend([
        at(CALL, 10_000, 10_000),
        at(HANDED, 10_010, 10_010),
        at(HANDED, 10_020, 10_020),
        at(SENT, 10_100, 10_200),
        came(10_500, 10_600, 0),
        at(APPLIED, 10_610, 10_620),
        came(10_800, 10_850, 0),
        at(APPLIED, 10_860, 10_870),
        at(RETURN, 10_900, 10_900),
    ]);
    b.extend([
        came(10_250, 10_300, 0),
        at(APPLIED, 10_310, 10_320),
        at(HANDED, 10_330, 10_330),
        at(SENT, 10_400, 10_450),
        at(APPLIED, 10_460, 10_470),
        at(HANDED, 10_480, 10_480),
        at(SENT, 10_500, 10_550),
        at(SENT, 10_560, 10_700),
        // An acknowledgement of the answer, and what follows from it, belong to nothing.
        came(10_950, 10_960, 0),
        at(SENT, 10_970, 10_980),
    ]);
    let (found, incomplete) = operations(&a, &b, true);
    assert_eq!((found.len(), incomplete), (1, 0));
    let one = &found[0];
    assert_eq!((one.t_ns, one.ta_ns, one.tb_ns, one.tc_ns), (900, 200, 450, 100));
    assert_eq!(one.calls[1], Calls { send_ns: 50 + 50 + 140, recv_ns: 50 });
    adds_up(one);
}

#[test]
fn trace_parts_inside_a_node_have_no_message() {
    let a = [
        at(CALL, 500, 500),
        at(MAPPED, 540, 560),
        at(RETURN, 590, 590),
        at(CALL, 600, 600),
        at(RETURN, 700, 700),
    ];
    let (found, incomplete) = operations(&a, &[], true);
    assert_eq!((found.len(), incomplete), (1, 1), "the second has no stamp of its work");
    let one = &found[0];
    assert_eq!((one.t_ns, one.ta_ns, one.tb_ns, one.tc_ns, one.td_ns), (90, 40, 20, 30, Some(20)));
    assert_eq!((one.rest_ns(), one.calls), (0, [Calls::default(); 3]));
    adds_up(one);
    assert_eq!(Shares::of(one).b_memory_ns, 20.0);
}

#[test]
fn trace_operations_that_lack_a_stamp_are_counted() {
    let (a, b) = exchange(10_000, 0);
    for missing in 0..b.len() {
        let mut b = b.clone();
        let mark = b.remove(missing).mark;
        let (found, incomplete) = operations(&a, &b, true);
        // That an answer was handed over is seen by its leaving too.
        let wanted = if mark == HANDED { (1, 0) } else { (0, 1) };
        assert_eq!((found.len(), incomplete), wanted, "without {mark}");
    }
    for missing in [SENT, RECEIVED, APPLIED] {
        let a: Vec<Stamp> = a.iter().copied().filter(|stamp| stamp.mark != missing).collect();
        assert_eq!(operations(&a, &b, true).1, 1, "without {missing}");
    }
}

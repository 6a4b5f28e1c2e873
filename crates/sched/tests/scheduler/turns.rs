//! Turns: rows, weights, slices, windows.

use tutti_sched::{Config, ConfigError, Demand, Scheduler, Switch, Window};

use crate::{Bench, SLICE_NS, given};

#[test]
fn gang_ranks_share_the_slice() {
    let mut bench = Bench::plain(2, 2);
    let (a, b) = (bench.submit(&Demand::any(2, 4)), bench.submit(&Demand::any(2, 4)));
    bench.run(10);
    assert_eq!(bench.plan().rows, [vec![a], vec![b]]);
    assert_eq!((bench.service(a), bench.service(b)), (5 * SLICE_NS, 5 * SLICE_NS));
    bench.check();
}

#[test]
fn one_row_switches_only_when_forced() {
    let mut bench = Bench::plain(2, 2);
    let a = bench.submit(&Demand::any(2, 2));
    let b = bench.submit(&Demand::any(2, 2));
    bench.run(10);
    assert_eq!(bench.switches.len(), 1, "both fit into one row");
    assert_eq!(bench.scheduler.next_at_ns(), None);
    assert_eq!((bench.service(a), bench.service(b)), (10 * SLICE_NS, 10 * SLICE_NS));

    let mut bench = Bench::new(2, 2, Config { force_switch: true, ..Config::default() });
    bench.submit(&Demand::any(2, 2));
    bench.run(10);
    let off = bench.switches.iter().filter(|switch| switch.row == Switch::NOBODY).count();
    assert_eq!((bench.switches.len(), off), (21, 10), "off and on again at the end of each slice");
}

#[test]
fn weights_are_shares_of_slices() {
    let mut bench = Bench::plain(1, 1);
    let jobs = [100, 300, 600].map(|weight| bench.submit(&Demand { weight, ..Demand::any(1, 1) }));
    bench.run(1000);
    for (job, share) in jobs.into_iter().zip([100, 300, 600]) {
        let slices = bench.service(job) / SLICE_NS;
        assert!(slices.abs_diff(share) <= 2, "{slices} of 1000 slices for a weight of {share}");
    }
    bench.scheduler.set_weight(bench.now_ns, jobs[0], 600).unwrap();
    let before = bench.service(jobs[0]);
    bench.run(1500);
    let slices = (bench.service(jobs[0]) - before) / SLICE_NS;
    assert!(slices.abs_diff(600) <= 2, "{slices} of 1500 slices");
}

#[test]
fn matrix_job_in_both_rows_runs_through() {
    let mut bench = Bench::plain(4, 1);
    let wide = bench.submit(&Demand::any(3, 3));
    let other = bench.submit(&Demand::any(3, 3));
    let free = bench.nodes(wide).iter().fold(6, |rest, node| rest - node);
    let small = bench.submit(&given(&[(free, 1)]));
    assert_eq!(bench.nodes(other), bench.nodes(wide), "best fit leaves the same node free");
    bench.run(10);
    assert_eq!(bench.service(small), 10 * SLICE_NS, "it is in both rows");
    assert_eq!(bench.service(wide), 5 * SLICE_NS);
    assert!(bench.plan().rows.iter().all(|row| row.contains(&small)));

    let mut bench = Bench::new(4, 1, Config { fill_holes: false, ..Config::default() });
    bench.submit(&Demand::any(3, 3));
    bench.submit(&Demand::any(3, 3));
    let small = bench.submit(&given(&[(3, 1)]));
    bench.run(10);
    assert_eq!(bench.service(small), 5 * SLICE_NS);
}

#[test]
fn matrix_fitting_job_runs_at_once() {
    let mut bench = Bench::plain(1, 2);
    let a = bench.submit(&Demand::any(1, 1));
    bench.turn();
    bench.now_ns += 1_000_000;
    let b = bench.submit(&Demand::any(1, 1));
    bench.turn();
    assert_eq!(bench.scheduler.running(), [a, b]);
}

// Paper: S24
#[test]
fn slice_length_is_a_setting() {
    for (slice_ns, allowed) in
        [(4_999_999, false), (5_000_000, true), (60_000_000_000, true), (3_600_000_000_001, false)]
    {
        let made = Scheduler::new(Config { slice_ns, ..Config::default() });
        assert_eq!(made.err(), (!allowed).then_some(ConfigError::Slice { slice_ns }));
    }
    let mut bench = Bench::new(1, 1, Config { slice_ns: 5_000_000, ..Config::default() });
    bench.submit(&Demand::any(1, 1));
    bench.submit(&Demand::any(1, 1));
    bench.turn();
    assert_eq!(bench.scheduler.next_at_ns(), Some(5_000_000));
}

#[test]
fn users_sharing_a_machine_run_in_their_own_windows() {
    for count in 2..5 {
        let mut benches: Vec<Bench> = (0..count).map(|_| Bench::plain(1, 2)).collect();
        for (index, bench) in (0..).zip(&mut benches) {
            for _ in 0..2 {
                bench.submit(&Demand::any(1, 2));
            }
            bench.scheduler.set_window(0, Some(Window { index, count }));
        }
        let mut ran = vec![[0; 2]; count as usize];
        for step in 0..u64::from(count) * 40 {
            // Four looks a window.
            let now_ns = step * Window::NS / 4;
            for (index, bench) in benches.iter_mut().enumerate() {
                bench.now_ns = now_ns;
                bench.turn();
                let running = bench.scheduler.running();
                assert_eq!(running.len(), usize::from(step / 4 % u64::from(count) == index as u64), "{step}");
                running.iter().for_each(|job| ran[index][job.0 as usize - 1] += 1);
                let next_ns = bench.scheduler.next_at_ns().unwrap();
                assert!(next_ns > now_ns && next_ns % Window::NS == 0, "{step}: {next_ns}");
            }
        }
        assert_eq!(ran, vec![[20; 2]; count as usize]);
        // Who is alone again has the whole of it.
        let last = &mut benches[1];
        last.scheduler.set_window(last.now_ns, None);
        last.turn();
        assert_eq!(last.scheduler.running().len(), 1);
    }
}

#[test]
fn filler_never_delays_a_gangs_turn() {
    let mut bench = Bench::plain(2, 2);
    let filler = bench.submit(&Demand { fill: true, weight: 10_000, ..Demand::any(2, 4) });
    bench.run(5);
    assert_eq!(bench.service(filler), 5 * SLICE_NS, "nobody else wants the slots");
    let gangs = [100, 300].map(|weight| bench.submit(&Demand { weight, ..Demand::any(2, 4) }));
    let before = bench.now_ns;
    // Longer than anybody else ever waits.
    bench.run(1000);
    assert_eq!(bench.service(filler), 5 * SLICE_NS);
    let served: u64 = gangs.iter().map(|gang| bench.service(*gang)).sum();
    assert_eq!(served, bench.now_ns - before, "all of the time is the gangs'");
    assert!(bench.service(gangs[0]).abs_diff(served / 4) <= 2 * SLICE_NS, "by their weights");
    bench.check();
}

#[test]
fn filler_gives_its_turn_up_when_a_gang_wakes() {
    let mut bench = Bench::plain(1, 1);
    let gang = bench.submit(&Demand::any(1, 1));
    let filler = bench.submit(&Demand { fill: true, ..Demand::any(1, 1) });
    bench.turn();
    assert_eq!(bench.scheduler.running(), [gang]);
    bench.scheduler.handle_idle(bench.now_ns, gang, bench.scheduler.generation());
    bench.turn();
    assert_eq!(bench.scheduler.running(), [filler], "the gang sleeps");
    bench.now_ns += SLICE_NS / 10;
    bench.scheduler.handle_woken(bench.now_ns, gang);
    bench.turn();
    assert_eq!(bench.scheduler.running(), [gang], "at once: not at the end of the slice");
    assert_eq!(bench.service(filler), SLICE_NS / 10);
}

#[test]
fn fillers_alone_take_turns_and_two_of_a_gang_side_by_side_fill_holes() {
    let mut bench = Bench::plain(1, 2);
    let offered = Demand { fill: true, ..Demand::any(1, 2) };
    let (a, b) = (bench.submit(&offered), bench.submit(&offered));
    bench.run(10);
    assert_eq!((bench.service(a), bench.service(b)), (5 * SLICE_NS, 5 * SLICE_NS));

    let mut bench = Bench::plain(1, 2);
    let narrow = bench.submit(&Demand::any(1, 1));
    let filler = bench.submit(&Demand { fill: true, ..Demand::any(1, 1) });
    bench.run(10);
    assert_eq!((bench.service(narrow), bench.service(filler)), (10 * SLICE_NS, 10 * SLICE_NS));
    let refused = bench.try_submit(&Demand { exclusive: true, fill: true, ..Demand::any(1, 1) });
    let said = refused.unwrap_err().to_string();
    assert_eq!(said, "--fill is for jobs that take turns: not with --exclusive, --no-gang or --phases");
}

/// An exclusive job runs all the time, whatever its weight, and is no measure for the others.
#[test]
fn turns_are_by_weight_beside_an_exclusive_job() {
    for weight in [1, 100, 1000] {
        let mut bench = Bench::plain(2, 1);
        let alone = bench.submit(&Demand { exclusive: true, weight, ..given(&[(1, 1)]) });
        let [light, heavy] = [10, 30].map(|weight| bench.submit(&Demand { weight, ..given(&[(0, 1)]) }));
        bench.run(800);
        let [light, heavy] = [light, heavy].map(|job| bench.service(job) / SLICE_NS);
        assert!((180..=220).contains(&light), "{light} and {heavy} beside weight {weight}");
        assert!(bench.service(alone) >= 790 * SLICE_NS);
    }
}

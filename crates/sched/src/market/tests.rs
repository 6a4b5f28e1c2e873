use super::*;

const NODE: NodeId = NodeId(0);

fn narrow(sent: &[(u64, u64)], unclaimed: u64) -> NodeUse {
    let jobs =
        sent.iter().map(|&(job, sent_bytes)| JobUse { job: JobId(job), sent_bytes, ..JobUse::default() });
    let jobs: Vec<JobUse> = jobs.collect();
    let sent_bytes = unclaimed + jobs.iter().map(|used| used.sent_bytes).sum::<u64>();
    let network = Wanted { demand: 2 * sent_bytes, supply: sent_bytes };
    NodeUse { passed_ms: 1000, network, sent_bytes, is_counted: true, jobs, ..NodeUse::default() }
}

/// Debts of users after so many seconds; jobs are their users' by their hundreds.
fn bills(market: &mut Market, seconds: u64, found: &NodeUse) -> BTreeMap<u32, u64> {
    let mut bills = BTreeMap::new();
    for _ in 0..seconds {
        market.handle_use(
            NODE,
            found,
            |job| Some((job.0 / 100) as u32),
            (2, 4),
            |charge| {
                let ns = u128::from(charge.ns) * u128::from(charge.part) / u128::from(charge.whole);
                *bills.entry(charge.user).or_default() += ns as u64;
            },
        );
    }
    bills
}

#[test]
fn market_price_is_demand_over_supply_smoothed_over_ten_seconds() {
    let mut market = Market::default();
    let quiet = NodeUse { network: Wanted { demand: 500, supply: 1000 }, ..narrow(&[(100, 1)], 0) };
    bills(&mut market, 20, &quiet);
    let price = |market: &Market| market.prices().next().unwrap().network_price;
    assert_eq!((price(&market), market.is_congested(NODE)), (500, false));
    let loud = NodeUse { network: Wanted { demand: 4000, supply: 1000 }, ..quiet.clone() };
    bills(&mut market, 1, &loud);
    assert_eq!(price(&market), 850, "one second of ten");
    bills(&mut market, 60, &loud);
    assert!((3900..=4000).contains(&price(&market)) && market.is_congested(NODE), "{}", price(&market));
    bills(&mut market, 30, &quiet);
    assert!(!market.is_congested(NODE));
    let unknown = NodeUse { network: Wanted { demand: 4000, supply: 0 }, ..quiet };
    bills(&mut market, 100, &unknown);
    assert_eq!(price(&market), 0, "nobody knows what there is");
    market.forget(NODE);
    assert_eq!(market.prices().count(), 0);
}

#[test]
fn market_does_not_charge_a_lone_user() {
    let mut market = Market::default();
    assert!(bills(&mut market, 10, &narrow(&[(100, 1000), (101, 9000)], 50)).is_empty(), "one user");
    assert!(bills(&mut market, 10, &narrow(&[(100, 1000), (200, 0)], 50)).is_empty(), "one who sends");
    assert_eq!(bills(&mut market, 10, &narrow(&[(100, 1000), (200, 10)], 0)).len(), 2);
}

#[test]
fn market_does_not_charge_where_there_is_enough() {
    let mut market = Market::default();
    let found =
        NodeUse { network: Wanted { demand: 1000, supply: 1000 }, ..narrow(&[(100, 9), (200, 9)], 0) };
    assert!(bills(&mut market, 100, &found).is_empty());
}

// Paper: C26
#[test]
fn market_one_job_pays_as_much_as_sixteen_that_send_as_much() {
    let mut market = Market::default();
    let mut sent: Vec<(u64, u64)> = (200..216).map(|job| (job, 1000)).collect();
    sent.push((100, 16_000));
    let bills = bills(&mut market, 60, &narrow(&sent, 0));
    assert!(bills[&1].abs_diff(bills[&2]) * 1000 <= bills[&1], "{bills:?}");
}

#[test]
fn market_charges_a_user_for_short_jobs_that_have_ended_as_for_a_long_one() {
    let found = narrow(&[(100, 9000), (200, 1000)], 0);
    let long = bills(&mut Market::default(), 10, &found);
    // In each second another job, which the controller does not know any more.
    let mut market = Market::default();
    let mut short = BTreeMap::new();
    for second in 0..10 {
        let mut found = found.clone();
        (found.jobs[0].job, found.jobs[0].account) = (JobId(7_000 + second), Some(1));
        let owner = |job: JobId| (job.0 < 7_000).then_some((job.0 / 100) as u32);
        market.handle_use(NODE, &found, owner, (2, 4), |charge| {
            let ns = u128::from(charge.ns) * u128::from(charge.part) / u128::from(charge.whole);
            *short.entry(charge.user).or_default() += ns as u64;
        });
    }
    assert!(short.get(&1) > Some(&0) && short == long, "{short:?} {long:?}");
}

#[test]
fn market_does_not_charge_unclaimed_bytes() {
    let mut market = Market::default();
    let bills = bills(&mut market, 60, &narrow(&[(100, 1000), (200, 1000)], 8000));
    // Price 2, half of the slots, a tenth of the bytes: six of sixty seconds each, not thirty.
    for user in [1, 2] {
        assert!(bills[&user].abs_diff(6_000_000_000) < 60_000_000, "{bills:?}");
    }
    let prices = market.prices().next().unwrap();
    assert!(prices.unclaimed.abs_diff(8000) < 80, "{prices:?}");
}

#[test]
fn market_does_not_charge_a_sleeping_job() {
    let mut market = Market::default();
    bills(&mut market, 5, &narrow(&[(100, 1000), (200, 1000)], 0));
    let bills = bills(&mut market, 1, &narrow(&[(100, 2000), (200, 0)], 0));
    assert_eq!(bills.keys().copied().collect::<Vec<_>>(), [1], "{bills:?}");
}

#[test]
fn market_memory_costs_only_where_it_is_scarce() {
    let mut market = Market::default();
    let job = |job, memory_bytes| JobUse { job: JobId(job), memory_bytes, ..JobUse::default() };
    let found = |demand| NodeUse {
        passed_ms: 1000,
        memory: Wanted { demand, supply: 900 },
        jobs: vec![job(100, 600), job(200, 100)],
        ..NodeUse::default()
    };
    assert!(bills(&mut market, 60, &found(900)).is_empty());
    let bills = bills(&mut market, 60, &found(990));
    assert!((5..=7).contains(&(bills[&1] / bills[&2].max(1))), "{bills:?}");
    assert_eq!(market.prices().next().unwrap().unclaimed_memory, 290);
}

#[test]
fn market_bills_are_bounded_whatever_a_node_says() {
    for seed in 0..1000_u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if state.is_multiple_of(7) { u64::MAX } else { state >> (state % 64) }
        };
        let mut market = Market::default();
        for _ in 0..20 {
            let wanted = |random: &mut dyn FnMut() -> u64| Wanted { demand: random(), supply: random() };
            let jobs = (0..random() % 5).map(|_| JobUse {
                job: JobId(random() % 1000),
                sent_bytes: random(),
                memory_bytes: random(),
                ..JobUse::default()
            });
            let jobs = jobs.collect();
            let found = NodeUse {
                passed_ms: random(),
                network: wanted(&mut random),
                memory: wanted(&mut random),
                sent_bytes: random(),
                is_counted: true,
                jobs,
            };
            market.handle_use(
                NODE,
                &found,
                |job| Some((job.0 / 100) as u32),
                (random(), random()),
                |charge| {
                    assert!(charge.part <= charge.whole, "seed {seed}: {charge:?}");
                },
            );
            assert!(market.prices().all(|node| node.network_price.max(node.memory_price) <= PRICE_MAX));
        }
    }
}

#[test]
fn flood_lasts_until_everybody_has_had_his_part() {
    let flood_ns = |own, all, jobs, ran_ms| flood_ns(of_part_milli(own, all, jobs), ran_ms);
    // One of four that sends all has a quarter of the time.
    assert_eq!(flood_ns(1000, 1000, 4, 1000), 3_000_000_000);
    assert_eq!(flood_ns(250, 1000, 4, 1000), 0);
    assert_eq!(flood_ns(300, 1000, 4, 1000), 0, "a little more is no flood");
    assert_eq!(flood_ns(500, 1000, 4, 1000), 1_000_000_000);
    assert_eq!(flood_ns(1000, 1000, 1, 1000), 0, "alone in its row there is nothing to do");
    assert_eq!(flood_ns(u64::MAX, u64::MAX, u64::MAX, u64::MAX), FLOOD_NS_MAX);
    assert_eq!(flood_ns(1, 0, 4, 1000), 0);
}

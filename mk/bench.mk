# Measurement beside peers; nothing here decides a test. BENCH gives options, e.g. make bench BENCH="--quick --markdown".
.PHONY: bench
BENCH ?=
bench: testing bench-setup ## measure beside MPICH 5 and Open MPI 5 (10 to 15 minutes; BENCH=--quick: 2)
	@$(CARGO) build --quiet --release --package tutti-runtime --example network_limits
	@$(CARGO) run --quiet --package tutti-bench -- $(BENCH)

.PHONY: bench-setup
bench-setup:
	@mk/setup.sh gcc venv taskset

# Jobs that share the machine, and the experiments of SCore-D's paper; pictures go to target/bench-gang.
.PHONY: bench-gang
bench-gang: dist bench-setup ## two jobs at once beside the peers, and what a gang switch costs (root; 17 minutes; BENCH=--quick: 2; --list, --only)
	@$(CARGO) build --quiet --release --package tutti-channel --example save_time --package tutti-sched --example switch_time
	@$(CARGO) run --quiet --package tutti-bench -- --gang $(BENCH)

# What the daemons of a cluster cost, and how fast they start jobs. CLUSTER_QUICK=1: everything once, shortly.
.PHONY: bench-cluster
bench-cluster: dist ## daemons that do nothing, launch on 1, 4, 32 of them, 1,000 submissions (3 minutes)
	@mk/cluster.sh

# What daemons without jobs cost by their boards: CPU, wake-ups, and bytes on a link. BOARD_NODES="2 8 64", BOARD_S=20.
.PHONY: bench-board
bench-board: dist ## the board of 2, 8 and 64 daemons: CPU of each, and traffic of a link (root; 90 seconds)
	@mk/board.sh

# The experiments of DSE's paper, with kernel and process of an element in one process and apart.
.PHONY: bench-dse
bench-dse: dist ## DSE: one access, and the relaxation on 1 to 16 elements, in both configurations (2 minutes on a quiet machine)
	@mk/dse.sh

# Two PEs that wait for each other, by four ways, beside competing processes. WAITING gives options, e.g. WAITING="--rounds 9".
.PHONY: bench-waiting
bench-waiting: dist ## SS-Wait beside spinning, blocking, and spinning then blocking (30 seconds)
	@mk/waiting.sh

# Start to end, processor time and memory of many ranks on this node. RANKS="64 2048", PEERS="" for ours alone.
.PHONY: bench-ranks
bench-ranks: dist bench-setup ## 64 to 2,048 ranks on this node: start, barrier, ring, alltoall, beside the peers (5 GB of memory; minutes)
	@mk/ranks.sh

# The native interface: NATIVE gives options of the program, e.g. NATIVE="--budget-ms 1000".
.PHONY: bench-native
bench-native: dist ## writes, queues and signals of tutti.h, of several sizes, inside a node and between two (root; 20 seconds)
	@mk/native.sh

# NPB's programs, whose sources are the user's: NPB=DIR. BENCH="--class W --only cg,is --rounds 3 --peers mpich".
.PHONY: bench-npb
bench-npb: dist bench-setup ## NPB 3.4 with the write protocol on (SR) and off (NSR), beside MPICH (NPB=DIR, its sources for MPI; minutes)
	@$(CARGO) run --quiet --package tutti-bench -- --npb "$(NPB)" $(BENCH)

# Measurement beside peers; nothing here decides a test. BENCH gives options, e.g. make bench BENCH="--quick --markdown".
.PHONY: bench
BENCH ?=
bench: dist bench-setup ## measure beside MPICH 5 and Open MPI 5 (10 to 15 minutes; BENCH=--quick: 2)
	@$(CARGO) build --quiet --release --package tutti-runtime --example network_limits
	@$(CARGO) run --quiet --package tutti-bench -- $(BENCH)

.PHONY: bench-setup
bench-setup:
	@$(ROOT)/mk/setup.sh gcc venv taskset

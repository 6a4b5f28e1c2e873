# Everything random, with fresh seeds, for HOURS. A seed with which a test fails is kept in tests/seeds.txt, which `make test`
# replays; what was tried becomes a row of docs/benchmarks/nightly.md. Both are to be committed.
HOURS ?= 8

.PHONY: nightly
nightly: testing ## fresh seeds for all simulators, loom, fuzzing, freezes and random kills for HOURS (8); keeps seeds that fail
	@CARGO="$(CARGO)" MAKE="$(MAKE)" mk/nightly.sh "$(HOURS)" $(PARTS)

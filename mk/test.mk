# All that must hold before a change lands. What tests need comes first, before anything is built; the tests come last, so that
# the runner's closing lines are in view.
.PHONY: test fmt clippy doc unit
test: test-setup peer-setup fmt dsm-plugin testing clippy doc loom unit ## build target/dist, then format, lints, documentation, all tests

fmt: setup ## the format is rustfmt's
	$(CARGO) fmt --all --check

clippy: setup ## no warning of the compiler or of clippy
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

.PHONY: test-quick
test-quick: setup ## the tests of the crates alone, without the whole-system tests (a minute after a build)
	@mk/test.sh quick

# MPICH, beside which some tests run; where it cannot be had they are skipped.
.PHONY: peer-setup
peer-setup: test-setup
	@{ mk/peer.sh mpich 2>&1 || true; } | sed 's/^/setup: tests beside MPICH are skipped: /'

unit: test-setup ## all tests, each with a time limit
	@mk/test.sh

doc: setup ## rustdoc without a warning
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

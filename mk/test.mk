# All that must hold before a change lands. The tests come last, so that the runner's closing lines are in view.
.PHONY: test fmt clippy doc unit
test: testing fmt clippy doc loom unit ## build target/dist, then format, lints, documentation, all tests

fmt: ## the format is rustfmt's
	$(CARGO) fmt --all --check

clippy: ## no warning of the compiler or of clippy
	$(CARGO) clippy --workspace --all-targets --quiet -- -D warnings

.PHONY: test-quick
test-quick: ## the tests of the crates alone, without the whole-system tests (a minute after a build)
	@$(ROOT)/mk/test.sh quick

# Without gfortran, and where it cannot be installed, its tests are skipped.
.PHONY: fortran-setup
fortran-setup:
	@$(ROOT)/mk/setup.sh gfortran || true

unit: fortran-setup ## all tests, each with a time limit
	@$(ROOT)/mk/test.sh

doc: ## rustdoc without a warning
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --quiet

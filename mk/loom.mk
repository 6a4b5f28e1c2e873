# Loom searches the interleavings of the structures in shared memory, weak memory included; its atomics need a build of
# their own. The models are bounded so that they take seconds.
.PHONY: loom
loom: setup ## search every interleaving of the structures in shared memory
	@$(CARGO) fetch --quiet || { echo "loom: its crates cannot be fetched here, so nothing was searched"; exit 0; }; \
	RUSTFLAGS="--cfg loom -D warnings" CARGO_TARGET_DIR=$(TARGET)/loom \
		CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 timeout --kill-after=5 900 \
		$(CARGO) test -p tutti-shm --release --lib --quiet model

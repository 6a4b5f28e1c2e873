# Coverage-guided fuzzing of everything in the channels, in remote memory, in a job's start, in the switch threads, in sight and in top that reads bytes of
# others. libFuzzer comes with a crate; neither cargo-fuzz nor a nightly compiler is needed. Seeds are real packets and messages; what is found stays in target/fuzz.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= packet endpoint record starter switch sight top
FUZZ := $(TARGET)/fuzz
FUZZ_TRIPLE = $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ_FLAGS := --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
	-Cllvm-args=-sanitizer-coverage-trace-compares -Clink-dead-code -Ccodegen-units=1

.PHONY: fuzz
fuzz: ## fuzz the channels, records of remote memory, the starter's readers, the switch threads' datagrams, what sight and top read, guided by coverage, for FUZZ_SECONDS (60) a target
	@for crate in channel rma starter daemon sight top; do \
		$(CARGO) run --quiet -p tutti-$$crate --example $${crate}_seeds -- $(FUZZ)/seeds && \
		RUSTFLAGS="$(FUZZ_FLAGS)" $(CARGO) build --quiet --release --manifest-path crates/$$crate/fuzz/Cargo.toml \
			--target-dir $(FUZZ)/build --target $(FUZZ_TRIPLE) --bins || exit 1; \
	done
	@for target in $(FUZZ_TARGETS); do \
		mkdir -p $(FUZZ)/found-$$target; \
		timeout --kill-after=5 $$(($(FUZZ_SECONDS) + 60)) $(FUZZ)/build/$(FUZZ_TRIPLE)/release/$$target -max_total_time=$(FUZZ_SECONDS) \
			-max_len=4096 -print_final_stats=1 -artifact_prefix=$(FUZZ)/$$target- $(FUZZ)/found-$$target $(FUZZ)/seeds/$$target || exit 1; \
	done

# Every reader of others' bytes, of these crates, in the tests' own process: real frames with parts cut, doubled and replaced.
# `make test` does the same with a few thousand; TUTTI_TEST_SEED=... repeats what failed. TUTTI_HOSTILE_FRAMES: frames for each reader.
FRAMES ?= 1000000

.PHONY: malformed
malformed: ## give FRAMES (1000000) frames that are nearly right to each reader of others' bytes, each reader within a minute and two milliseconds a frame
	mk/malformed.sh $(FRAMES)

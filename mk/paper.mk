# The papers: docs/internals/checklist.md is made from docs/internals/checklist.toml and the marks above the tests.
.PHONY: checklist
checklist: ## write docs/internals/checklist.md, the papers' items and what shows each
	@CHECKLIST=write $(CARGO) test --quiet --package tutti-tests --test house checklist_page

# The papers' tables and figures: WHAT=mbcf/table3 redoes one; BENCH="--quick --rounds 1 --peers openmpi" as for make bench.
# Tables 5 to 12 of MPI/MBCF and table 6 of SSS-CORE run NPB's programs: NPB=DIR, their sources.
.PHONY: paper
ifeq ($(WHAT),)
paper: ## list the tables and figures of the papers; WHAT=mbcf/table3 redoes one, beside the paper's figures and today's limit
	@$(CARGO) run --quiet --package tutti-bench -- --paper
else
paper: dist bench-setup
	@$(CARGO) build --quiet --release --package tutti-runtime --example network_limits --package tutti-channel --example save_time
	@$(CARGO) run --quiet --package tutti-bench -- --paper $(WHAT) $(if $(NPB),--npb "$(NPB)") $(BENCH)
endif

# The papers: docs/internals/checklist.md is made from docs/internals/checklist.toml and the marks above the tests.
.PHONY: checklist
checklist: ## write docs/internals/checklist.md, the papers' items and what shows each
	@CHECKLIST=write $(CARGO) test --quiet --package tutti-tests --test house checklist_page

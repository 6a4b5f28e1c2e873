# The installation tree: bin/ lib/ libexec/ include/ share/ under target/dist, and its copy under PREFIX.
PREFIX ?= /usr/local

.PHONY: dist build install uninstall testing
build: dist ## the same as dist
dist: setup ## build everything and leave the installation tree in target/dist
	@mkdir -p $(DIST)-work && touch $(TARGET)/.build-started
	$(CARGO) build --release --workspace --exclude tutti-bench --exclude tutti-tests
	@$(TARGET)/release/tutti-dist "$(CURDIR)" "$(CURDIR)/$(TARGET)" release
	@touch -r $(TARGET)/.build-started $(DIST)-work/complete

# The same library with faults on purpose between nodes (TUTTI_FAULTS, TUTTI_FORGE). Tests preload it; it is never
# installed.
testing: dist ## build the library that makes faults on purpose, for tests, in target/testing
	$(CARGO) build --profile testing --package tutti-libtutti --features testing

# Copies a finished tree without cargo, so that sudo needs no Rust; builds first only where there is none, or an older one.
install: ## copy the installation tree to PREFIX (/usr/local), under DESTDIR if given
	@status=0; CARGO="$(CARGO)" mk/install.sh is-current || status=$$?; \
		if [ $$status = 1 ]; then $(MAKE) --no-print-directory dist; else exit $$status; fi
	@mk/install.sh copy "$(DESTDIR)" "$(PREFIX)"

uninstall: ## remove from PREFIX what install has put there
	@mk/install.sh remove "$(DESTDIR)" "$(PREFIX)"

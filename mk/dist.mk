# The installation tree: bin/ lib/ libexec/ include/ share/ under target/dist, and its copy under PREFIX.
#
# There is one tree, and it is what users get. What stands on a message's path is built with link-time optimisation in one
# unit (profile release: a chain of compilers on one core); everything else without (profile commands), at the same time.
PREFIX ?= /usr/local
# Debug information lies beside it in target/dist-debug, by build id; debuggers look for it here.
DEBUG_PREFIX ?= /usr/lib/debug

ON_THE_PATH := --package tutti-libtutti --package tutti-libmpifort --package tutti-libmpich --package tutti-libmpichfort --package tutti-libtutti-ompt --package tutti-native --package tutti-dse
COMMANDS := --package tutti-cli --package tutti-top --package tutti-sight --package tutti-slurm --package tutti-daemon --package tutti-starter --package tutti-pmix --package tutti-table

.PHONY: dist build install uninstall install-debug uninstall-debug testing
build: dist ## the same as dist
dist: setup ## build everything and leave the installation tree in target/dist
	@CARGO="$(CARGO)" mk/build.sh "--release $(ON_THE_PATH)" "--profile commands $(COMMANDS)"
	@$(TARGET)/commands/tutti-dist "$(CURDIR)" "$(CURDIR)/$(TARGET)" release commands
	@touch -r $(TARGET)/.build-started $(DIST)-work/complete

# The same library with faults on purpose between nodes (TUTTI_FAULTS, TUTTI_FORGE). Tests preload it; it is never
# installed.
testing: dist ## build the library that makes faults on purpose, for tests, in target/testing
	$(CARGO) build --profile commands --package tutti-libtutti --features testing
	@mkdir -p $(TARGET)/testing && ln -f $(TARGET)/commands/libtutti.so $(TARGET)/testing/libtutti.so

# Copies a finished tree without cargo, so that sudo needs no Rust; builds first only where there is none, or an older one.
install: ## copy the installation tree to PREFIX (/usr/local), under DESTDIR if given
	@status=0; CARGO="$(CARGO)" mk/install.sh is-current || status=$$?; \
		if [ $$status = 1 ]; then $(MAKE) --no-print-directory dist; else exit $$status; fi
	@mk/install.sh copy "$(DESTDIR)" "$(PREFIX)"

uninstall: ## remove from PREFIX what install has put there
	@mk/install.sh remove "$(DESTDIR)" "$(PREFIX)"

install-debug: ## copy the debug information to DEBUG_PREFIX (/usr/lib/debug), where gdb and perf find it
	@status=0; CARGO="$(CARGO)" mk/install.sh is-current || status=$$?; \
		if [ $$status = 1 ]; then $(MAKE) --no-print-directory dist; else exit $$status; fi
	@mk/install.sh copy-debug "$(DESTDIR)" "$(DEBUG_PREFIX)"

uninstall-debug: ## remove from DEBUG_PREFIX what install-debug has put there
	@mk/install.sh remove-debug "$(DESTDIR)" "$(DEBUG_PREFIX)"

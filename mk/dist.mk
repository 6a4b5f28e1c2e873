# The installation tree: bin/ lib/ libexec/ include/ share/ under target/dist, and its copy under PREFIX.
PREFIX ?= /usr/local

.PHONY: dist build install testing
build: dist ## the same as dist
dist: setup ## build everything and leave the installation tree in target/dist
	$(CARGO) build --release --workspace --exclude tutti-bench --exclude tutti-tests
	$(TARGET)/release/tutti-dist $(ROOT) $(TARGET) release

# The same library with faults on purpose between nodes (TUTTI_FAULTS, TUTTI_FORGE). Tests preload it; it is never
# installed.
testing: dist ## build the library that makes faults on purpose, for tests, in target/testing
	$(CARGO) build --profile testing --package tutti-libtutti --features testing

# Files only, so that folders that are there keep their owner and mode; each is replaced, so that a running program keeps its old one.
install: dist ## copy the installation tree to PREFIX (/usr/local), under DESTDIR if given
	mkdir -p "$(DESTDIR)$(PREFIX)"
	cd $(DIST) && find . ! -type d -print0 | tar -c --null -T - | tar -x --no-same-owner -C "$(DESTDIR)$(PREFIX)"

# The installation tree: bin/ lib/ libexec/ include/ share/ under target/dist, and its copy under PREFIX.
PREFIX ?= /usr/local

.PHONY: dist build install
build: dist ## the same as dist
dist: setup ## build everything and leave the installation tree in target/dist
	$(CARGO) build --release --workspace
	$(TARGET)/release/tutti-dist $(ROOT) $(TARGET) release

# Every file is replaced, not overwritten: a program that runs keeps its old one.
install: dist ## copy the installation tree to PREFIX (/usr/local), under DESTDIR if given
	mkdir -p "$(DESTDIR)$(PREFIX)"
	cp -a --remove-destination --no-preserve=ownership $(DIST)/. "$(DESTDIR)$(PREFIX)"

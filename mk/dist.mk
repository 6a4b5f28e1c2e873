# The installation tree: bin/ lib/ libexec/ include/ share/ under target/dist.
.PHONY: dist build
build: dist ## the same as dist
dist: setup ## build everything and leave the installation tree in target/dist
	$(CARGO) build --release --workspace

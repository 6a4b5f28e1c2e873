# What the build needs beside a Rust toolchain: Debian packages, installed when we are root, else named in one line.
.PHONY: setup
setup: ## install the missing Debian packages when root, else name them
	@$(ROOT)/mk/setup.sh gcc make pkg-config

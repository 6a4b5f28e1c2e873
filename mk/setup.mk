# What is needed beside this tree: Rust, and Debian's packages, installed when we are root, else named in one line. First in
# every target that builds.
.PHONY: setup test-setup
setup: ## install the missing Debian packages when root, else name them
	@mk/setup.sh rust gcc make pkg-config

# All that any test needs, before anything is built: what the build finds decides what it lays out (gfortran's modules).
test-setup:
	@mk/setup.sh rust gcc make pkg-config -- g++ gfortran m4 cmake venv ip pgrep readelf script setpriv taskset tmux clang-19 llvm-config-19

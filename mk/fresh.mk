# README's commands as a newcomer types them: a root of Debian with nothing in it but ca-certificates, make, git and this toolchain of
# Rust (mounted). DEBIAN=12 or 13, FRESH_AS=root or user (with sudo's password unknown), FRESH="demo", "test", or other targets.
DEBIAN ?= 12
FRESH ?= demo test
FRESH_AS ?= root

.PHONY: fresh
fresh: ## make demo and make test in a bare root of Debian (DEBIAN=12|13, FRESH_AS=root|user, FRESH="demo test"; needs root and mmdebstrap)
	@mk/fresh.sh "$(DEBIAN)" "$(FRESH_AS)" $(FRESH)

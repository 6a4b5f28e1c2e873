# Licences, advisories and sources of the crates we use. Needs cargo-deny; it is never installed by another target.
DENY := $(shell command -v cargo-deny || echo $(TARGET)/tools/bin/cargo-deny)
DENY_INSTALL_S ?= 1500

.PHONY: deny
deny: ## licences, advisories and sources of all crates (installs cargo-deny into target/tools if it is missing)
	@if [ ! -x "$(DENY)" ]; then \
	    echo "deny: installing cargo-deny into target/tools (a long build, at most $(DENY_INSTALL_S) s)"; \
	    mkdir -p "$(TARGET)/tools"; \
	    timeout --kill-after=5 $(DENY_INSTALL_S) $(CARGO) install --quiet --locked --root "$(TARGET)/tools" --target-dir "$(TARGET)/tools/build" cargo-deny \
	        </dev/null >"$(TARGET)/tools/cargo-deny.log" 2>&1 || \
	    { echo "deny: not checked: cargo-deny could not be installed: $$(tail -1 "$(TARGET)/tools/cargo-deny.log")" >&2; exit 1; }; \
	fi
	@"$(DENY)" --workspace check bans licenses sources
	@if ! "$(DENY)" --workspace check advisories 2>"$(TARGET)/tools/advisories.log"; then \
	    if grep -q "failed to fetch advisory database" "$(TARGET)/tools/advisories.log"; then \
	        echo "deny: advisories not checked: their database cannot be fetched from here"; \
	    else cat "$(TARGET)/tools/advisories.log" >&2; exit 1; fi; \
	fi

# Tutti: every entry is a target of one of the files in mk/. `make` alone leaves the installation tree in target/dist;
# `make help` lists the rest.
.DEFAULT_GOAL := dist
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
# A recipe's order is its meaning here; cargo runs its own jobs in parallel.
.NOTPARALLEL:

# Relative, so that a path with blanks is no matter. Recipes that hand a path to another folder say "$(CURDIR)/$(TARGET)".
TARGET := target
DIST := $(TARGET)/dist
CARGO ?= cargo

include $(wildcard mk/*.mk)

.PHONY: help clean
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

clean: ## remove everything that was built
	rm -rf $(TARGET)

# RCOP, the plugin of clang 19 that makes notes of stores to shared memory (docs/internals/dsm.md). Plain `make` needs no LLVM.
RCOP := $(TARGET)/rcop
LLVM_CONFIG ?= llvm-config-19

.PHONY: dsm dsm-setup dsm-plugin
dsm: dsm-setup dsm-plugin ## build the compiler plugin of tutticc, too (clang-19 and llvm-19-dev, some 120 MB of packages)
	@$(MAKE) --no-print-directory dist

dsm-setup:
	@mk/setup.sh g++ clang-19 llvm-config-19

# Where LLVM is there; one line where not.
dsm-plugin:
	@mk/rcop.sh "$(RCOP)" "$(LLVM_CONFIG)"

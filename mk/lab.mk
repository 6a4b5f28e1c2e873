# Machines of namespaces on this machine (docs/internals/lab.md): target/lab/tutti-lab up 3
.PHONY: lab
lab: dist ## build target/lab/tutti-lab: machines on this one that share nothing but a cable
	$(CARGO) build --quiet --package tutti-tests --bin tutti-lab
	@mkdir -p $(TARGET)/lab && cp $(TARGET)/debug/tutti-lab $(TARGET)/lab/tutti-lab

# Everything of the lab: what `make test` runs of it, and the larger set.
.PHONY: test-lab
test-lab: dist ## all tests between machines of the lab, on several numbers of ranks and on cables that lose frames (minutes)
	timeout --kill-after=5 3600 $(CARGO) test --quiet --package tutti-tests --test lab --test machines -- --include-ignored --test-threads 1

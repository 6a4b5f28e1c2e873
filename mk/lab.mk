# Machines of namespaces on this machine (docs/internals/lab.md): target/lab/tutti-lab up 3
.PHONY: lab
lab: dist ## build target/lab/tutti-lab: machines on this one that share nothing but a cable
	$(CARGO) build --quiet --package tutti-tests --bin tutti-lab
	@mkdir -p $(TARGET)/lab && cp $(TARGET)/debug/tutti-lab $(TARGET)/lab/tutti-lab

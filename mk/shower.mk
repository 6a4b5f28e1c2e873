# Ten million forged packets against running jobs; `make test` sends some 200,000.
.PHONY: shower
shower: dist ## shower running jobs with ten million forged packets (minutes)
	timeout --kill-after=5 3600 $(CARGO) test -p tutti-tests --test network -- --ignored --nocapture ten_million_forged

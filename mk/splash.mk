# SPLASH-3's programs, whose sources are the user's: SPLASH=DIR. ONLY="lu fft", RANKS=2.
.PHONY: splash
splash: dist ## SPLASH-3 with tutticc on one node and on two, small inputs: verified or not (SPLASH=DIR, its sources; minutes)
	@mk/splash.sh "$(SPLASH)"

# Everything random, with fresh seeds, for as long as one likes: make soak SECONDS=36000. Each part ends at the first failure
# and prints its seed; TUTTI_SIM_SEED=... make soak-channel repeats it.
SECONDS ?= 600
.PHONY: soak
soak: soak-channel soak-operations soak-writes soak-gang soak-cluster soak-hostile fuzz ## simulators with fresh seeds for SECONDS (600) each, faults of jobs and daemons, then the fuzzers

.PHONY: soak-channel
soak-channel: ## run the channels' simulator with fresh seeds for SECONDS
	TUTTI_SIM_SECONDS=$(SECONDS) $(CARGO) test -p tutti-channel --test simulation -- --nocapture \
		$(if $(TUTTI_SIM_SEED),simulation_delivers,--ignored soak)

# Operations on the memory of other ranks over such channels; TUTTI_TEST_SEED=... repeats what failed.
.PHONY: soak-operations
soak-operations: ## run the simulator of remote operations with SEEDS (5000) fresh seeds
	TUTTI_SIM_SEEDS=$(or $(SEEDS),5000) $(CARGO) test -p tutti-runtime --test remote_operations -- --nocapture --ignored soak

# The same for the gang switch and its scheduler.
.PHONY: soak-gang
soak-gang: testing ## run the gang switch's simulator with fresh seeds for SECONDS, then TURNS (20000) of 5 ms on real processes
	TUTTI_SIM_SECONDS=$(SECONDS) $(CARGO) test -p tutti-sched --test simulation -- --nocapture --ignored soak
	TUTTI_TURNS=$(or $(TURNS),20000) $(CARGO) test -p tutti-tests --test gang -- --nocapture --ignored messages_arrive_once_in_order_soak

# The write protocol between nodes: its model, and jobs whose messages are written while they take turns on a network that loses 1 %.
# TUTTI_TEST_SEED=... repeats what failed.
.PHONY: soak-writes
soak-writes: testing ## run the model of messages written between nodes with SEEDS (150000) fresh seeds, then TURNS (2000) of 5 ms of jobs that send such messages where 1 % of datagrams are lost, by overlapped and by strict switches (root)
	TUTTI_SIM_SEEDS=$(or $(SEEDS),150000) $(CARGO) test -p tutti-mpi --lib -- --nocapture --ignored rtr_model_between_nodes_soak
	TUTTI_TURNS=$(or $(TURNS),2000) $(CARGO) test -p tutti-tests --test gang -- --nocapture --ignored written_messages_arrive_once_soak

# Every fault of a cluster FAULTS times, on machines of the lab, with two jobs beside that must not notice.
.PHONY: soak-cluster
soak-cluster: dist ## kill and stop all parts of a cluster of lab machines, each FAULTS (50) times; jobs that only look dead for SECONDS; then the daemons' simulator, SIMS (20) times as long
	TUTTI_FAULT_TIMES=$(or $(FAULTS),50) $(CARGO) test -p tutti-tests --test cluster -- --nocapture --ignored --test-threads 1 each_fault
	TUTTI_HEALTHY_SECONDS=$(SECONDS) $(CARGO) test -p tutti-tests --test cluster -- --nocapture --ignored look_dead_soak
	TUTTI_SIM_TIMES=$(or $(SIMS),20) $(CARGO) test -p tutti-daemon --lib -- --nocapture sim

# The notes of random loop nests, byte by byte; TUTTI_TEST_SEED=... repeats what failed.
.PHONY: soak-nests
soak-nests: dsm-plugin testing ## compile NESTS (10000) random loop nests with the plugin of tutticc and compare what they store with what they note
	TUTTI_SIM_TIMES=$(or $(NESTS),10000) $(CARGO) test -p tutti-tests --test dsm -- --nocapture --ignored nests_store_soak

# Programs of shared memory that are frozen at their turns, on machines whose cables lose and double frames.
.PHONY: soak-shared
soak-shared: dist ## two programs of shared memory on two machines take TURNS (1000) of 5 ms where 1 % of frames are lost and doubled; each picture is that of one process; then all programs in every mode and environment (minutes)
	TUTTI_TURNS=$(or $(TURNS),1000) $(CARGO) test -p tutti-tests --test machines -- --nocapture --ignored share_memory_through_freezes_soak
	$(CARGO) test -p tutti-tests --test machines -- --nocapture --ignored share_memory_in_every_environment_soak

# Calls of a service on machines of the lab, while server, clients and daemons are killed; TUTTI_TEST_SEED=... repeats the seeds.
.PHONY: soak-calls
soak-calls: dist ## end CALLS (10000) calls of services while server, clients and daemons are killed, each once (minutes)
	TUTTI_CALLS=$(or $(CALLS),10000) $(CARGO) test -p tutti-tests --test machines -- --nocapture --ignored under_kills_soak

# Ranks of a job on three machines that lose frames, one after the other from node to node.
.PHONY: soak-moves
soak-moves: dist ## move ranks MOVES (1000) times between machines that lose 1 % of all frames; no message is lost or doubled (minutes)
	TUTTI_MOVES=$(or $(MOVES),1000) $(CARGO) test -p tutti-tests --test machines -- --nocapture --ignored move_soak

.PHONY: soak-output
soak-output: dist ## a submitted job writes 1 GiB into its file, once while each daemon is killed and replaced (2 GiB of disk; minutes)
	@$(CARGO) test --quiet --package tutti-tests --test cluster -- --ignored --test-threads 1 gib

.PHONY: soak-history
soak-history: dist ## compare 1,000 random moments of the history with the log of turns; switches beside 64 readers; TUTTI_JOBS (10000) jobs that come and go (an hour)
	$(CARGO) test -p tutti-tests --test cluster -- --nocapture --ignored --test-threads 1 history_has_the_rows_that_the_log_has_soak watchers_beside_switches_soak many_jobs_come_and_go_soak

.PHONY: soak-submissions
soak-submissions: dist ## 1,000 submissions a minute by sbatch for MINUTES (10): the daemon's memory is bounded, and squeue answers
	TUTTI_TEST_MINUTES=$(or $(MINUTES),10) $(CARGO) test -p tutti-tests --test slurm -- --nocapture --ignored submissions_by_the_thousand

# Two users of root's daemons who do not trust each other. Needs root.
.PHONY: soak-hostile
soak-hostile: dist ## one of two users attacks the other's jobs and the daemons for HOSTILE (600) seconds, FRAMES (1000000) malformed frames go to each door and 10,000 jobs are submitted, then all parts of two users' jobs are killed and stopped, each FAULTS (20) times
	TUTTI_HOSTILE_SECONDS=$(or $(HOSTILE),600) $(CARGO) test -p tutti-tests --test hostile -- --nocapture --ignored --test-threads 1 harms_no_job_of_another_user_soak
	TUTTI_HOSTILE_FRAMES=$(FRAMES) $(CARGO) test -p tutti-tests --test hostile -- --nocapture --ignored --test-threads 1 malformed_frames_at_each_door_harm_nobody_soak
	$(CARGO) test -p tutti-tests --test hostile -- --nocapture --ignored --test-threads 1 thousands_of_submissions_of_a_user_leave_another_its_answers_soak
	TUTTI_FAULT_TIMES=$(or $(FAULTS),20) $(CARGO) test -p tutti-tests --test hostile -- --nocapture --ignored --test-threads 1 faults_of_two_users_jobs_repeated

# What 1,000 random programs print before they end is delivered, here and by MPICH's launcher.
.PHONY: endings
endings: dist ## run ENDINGS (1000) random programs that end in twelve ways, beside MPICH's launcher
	@mk/peer.sh mpich
	TUTTI_ENDINGS=$(or $(ENDINGS),1000) $(CARGO) test -p tutti-tests --test launch -- --nocapture --ignored endings

/*
 * A rank that believes to be alone on its core, and is not: a process of somebody else is bound there too, and
 * works all the time. The rank looks in vain by one of the calls that do not wait. Between two seizures of the
 * core by the kernel it must give the core away by itself. What is counted does not depend on the load of the
 * machine.
 */
#define _GNU_SOURCE
#include "../../mpi/programs/check.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <shmem.h>

enum { SEIZURES = 40, GIFTS = 20 };

static MPI_Request request;
static MPI_Win window;
static long *word;

static void look(const char *way) {
    MPI_Message message;
    int done = 0, index;
    if (!strcmp(way, "test")) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    } else if (!strcmp(way, "testall")) {
        MPI_Testall(1, &request, &done, MPI_STATUSES_IGNORE);
    } else if (!strcmp(way, "testany")) {
        MPI_Testany(1, &request, &index, &done, MPI_STATUS_IGNORE);
    } else if (!strcmp(way, "testsome")) {
        MPI_Testsome(1, &request, &done, &index, MPI_STATUSES_IGNORE);
    } else if (!strcmp(way, "iprobe")) {
        MPI_Iprobe(MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &done, MPI_STATUS_IGNORE);
    } else if (!strcmp(way, "improbe")) {
        MPI_Improbe(MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &done, &message, MPI_STATUS_IGNORE);
    } else if (!strcmp(way, "status")) {
        MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
    } else if (!strcmp(way, "window")) {
        MPI_Win_test(window, &done);
    } else if (!strcmp(way, "partition")) {
        MPI_Parrived(request, 0, &done);
    } else {
        done = shmem_long_test(word, SHMEM_CMP_NE, 0);
    }
    CHECK(!done);
}

/* Asks for what nobody sends, or ends that. */
static void prepare(const char *way) {
    static int value, memory;
    if (!strcmp(way, "window")) {
        MPI_Group all;
        MPI_Win_create(&memory, sizeof memory, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        MPI_Win_get_group(window, &all);
        MPI_Win_post(all, 0, window);
        MPI_Group_free(&all);
    } else if (!strcmp(way, "partition")) {
        MPI_Precv_init(&value, 1, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, MPI_INFO_NULL, &request);
        MPI_Start(&request);
    } else if (!strcmp(way, "word")) {
        word = shmem_calloc(1, sizeof *word);
    } else if (!strcmp(way, "test")) {
        MPI_Irecv(&value, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, &request);
    }
}

/* Looks until the core has been given away often enough, or taken too often. */
static void search(const char *way) {
    struct rusage begin, now;
    getrusage(RUSAGE_THREAD, &begin);
    do {
        int i;
        for (i = 0; i < 1000; i++) {
            look(way);
        }
        getrusage(RUSAGE_THREAD, &now);
        now.ru_nvcsw -= begin.ru_nvcsw;
        now.ru_nivcsw -= begin.ru_nivcsw;
    } while (now.ru_nvcsw < GIFTS && now.ru_nivcsw < SEIZURES);
    printf("%s: given away %ld times, taken %ld times\n", way, now.ru_nvcsw, now.ru_nivcsw);
    CHECK(now.ru_nvcsw >= GIFTS);
}

int main(int argc, char **argv) {
    static const char *const ways[] = {"test",    "testall", "testany", "testsome",  "status",
                                       "iprobe",  "improbe", "window",  "partition", "word"};
    pid_t parent = getpid(), worker = fork();
    size_t i;
    if (worker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (getppid() == parent) {
        }
        _exit(0);
    }
    MPI_Init(&argc, &argv);
    shmem_init();
    for (i = 0; i < sizeof ways / sizeof *ways; i++) {
        prepare(ways[i]);
        search(ways[i]);
    }
    kill(worker, SIGKILL);
    waitpid(worker, NULL, 0);
    printf("testing_beside_others: %s\n", failures == 0 ? "ok" : "failed");
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, failures != 0);
}

/* Static variables of the program are symmetric: put, get, atomics, waiting; their values survive the start, and a forked child
 * has its own. */
#define _DEFAULT_SOURCE
#include "check.h"
#include <sys/wait.h>
#include <unistd.h>

static long zero[3000];
long with_value = 42;
static const char *text = "text";
static char page[8192];
static long in_function(void)
{
    static long calls;
    return ++calls;
}

int main(void)
{
    with_value++;
    page[5000] = 'x';
    in_function();
    setenv("BEFORE", "1", 1);
    shmem_init();
    int me = shmem_my_pe(), n = shmem_n_pes(), right = (me + 1) % n, left = (me + n - 1) % n;
    CHECK(with_value == 43 && page[5000] == 'x' && in_function() == 2 && strcmp(text, "text") == 0);
    CHECK(getenv("BEFORE") != NULL);
    CHECK(shmem_addr_accessible(zero, right) == 1 && shmem_addr_accessible(&with_value, right) == 1);
    shmem_barrier_all();
    shmem_long_p(&zero[2999], me + 1, right);
    shmem_long_atomic_add(&with_value, 100, right);
    shmem_barrier_all();
    CHECK(zero[2999] == left + 1 && with_value == 143);
    CHECK(shmem_long_g(&zero[2999], right) == me + 1);
    shmem_char_put(page, "0123456789", 10, right);
    shmem_fence();
    shmem_long_p(&zero[0], 1, right);
    shmem_long_wait_until(&zero[0], SHMEM_CMP_EQ, 1);
    CHECK(memcmp(page, "0123456789", 10) == 0);
    CHECK((shmem_ptr(&zero[1], right) != NULL) == is_mapped(right));
    CHECK(right == me || shmem_ptr(&zero[1], right) != &zero[1]);
    /* A child's stores are its own. */
    zero[7] = 1;
    shmem_barrier_all();
    pid_t child = fork();
    if (child == 0) {
        int same = zero[7] == 1 && zero[2999] == left + 1 && memcmp(page, "0123456789", 10) == 0;
        for (int i = 0; i < 3000; i++)
            zero[i] = -5;
        setenv("CHILD", "1", 1);
        _exit(same ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(zero[7] == 1 && zero[2999] == left + 1 && getenv("CHILD") == NULL);
    CHECK(system("true") == 0);
    return finish("statics");
}

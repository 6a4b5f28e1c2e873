// A lock that element 0 keeps, or a semaphore that no element posts: all wait for ever.
#include <string.h>
#include <tutti_dse.h>

int main(int count, char **words) {
    if (count != 2 || tutti_dse_init(100)) return 1;
    if (strcmp(words[1], "semaphore") == 0) {
        tutti_dse_semaphore_wait(3);
    } else {
        if (tutti_dse_element() == 0) tutti_dse_lock(0);
        tutti_dse_barrier();
        if (tutti_dse_element() != 0) tutti_dse_lock(0);
        tutti_dse_barrier();
    }
    return tutti_dse_finish();
}

/* Functions that load, and check nothing. */
#include <stddef.h>

static const long *kept;

long readers_sum(const long *words, size_t count);
void readers_keep(const long *words);
long readers_sum_kept(size_t count);

long readers_sum(const long *words, size_t count) {
    long sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += words[i];
    return sum;
}

void readers_keep(const long *words) {
    kept = words;
}

long readers_sum_kept(size_t count) {
    return readers_sum(kept, count);
}

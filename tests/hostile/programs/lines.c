/* A rank that sends its starter lines of PMI, most of them wrong, from a seed: lines SEED COUNT. Each of them
 * has what its command needs, and is answered. Prints how many were, then sends what is no line at all, which
 * ends its job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned long long state;

static unsigned below(unsigned end) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(state >> 33) % end;
}

#define PICK(list) list[below(sizeof list / sizeof *list)]

int main(int argc, char **argv) {
    static const char *const words[] = {
        "put", "get", "getbyidx", "get_maxes", "get_appnum", "get_universe_size", "get_my_kvsname", "publish_name",
        "lookup_name", "unpublish_name", "nothing", "putt", "GET", "create_kvs", "destroy_kvs"};
    static const char *const keys[] = {"kvsname", "key", "value", "service", "port", "idx", "pmi_version", "pmi_subversion",
                                       "rank", "x"};
    static const char *const values[] = {"0", "1", "-1", "4294967295", "18446744073709551616", "a", "kvs_0", "=", "==", "\t",
                                         "\xff\xfe", "%s%n", "../../etc"};
    int socket = getenv("PMI_FD") ? atoi(getenv("PMI_FD")) : -1, count = argc == 3 ? atoi(argv[2]) : 0, answered = 0;
    if (socket < 0 || count <= 0) {
        fprintf(stderr, "lines SEED COUNT, as a rank that has PMI_FD\n");
        return 1;
    }
    state = strtoull(argv[1], NULL, 10);
    for (int at = 0; at < count; at++) {
        char line[8192], answer[8192];
        const char *word = PICK(words), *key = PICK(values);
        int used = snprintf(line, sizeof line, "cmd=%s key=k%s service=s%s idx=%u", word, key, key, below(9));
        for (unsigned more = below(6); more > 0; more--) {
            used += snprintf(line + used, sizeof line - used, " %s=%s", PICK(keys), PICK(values));
            if (!below(20))
                for (unsigned long_value = below(900); long_value > 0; long_value--)
                    line[used++] = 'v';
        }
        line[used++] = '\n';
        if (write(socket, line, used) != used)
            break;
        /* An answer ends with a newline. */
        ssize_t got;
        do
            got = read(socket, answer, sizeof answer);
        while (got > 0 && answer[got - 1] != '\n');
        if (got <= 0)
            break;
        answered++;
    }
    printf("%d answered\n", answered);
    fflush(stdout);
    if (write(socket, "no line of it\n", 14) == 14)
        pause();
    return 2;
}

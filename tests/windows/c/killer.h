/* For programs of which one process kills another one while the rest waits. The file that includes it defines
 * _DEFAULT_SOURCE first. */
#ifndef TUTTI_TEST_KILLER_H
#define TUTTI_TEST_KILLER_H

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Whether the first thread of a process sleeps. */
static inline int sleeps(int pid)
{
    char path[64], text[512] = "", *end;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    end = strrchr(text, ')');
    return end && end[2] == 'S';
}

/* Kills a process when so many others sleep, which they do in their waits alone, and waits for its own end. */
static inline void kill_when_asleep(int victim, const int *pids, int count)
{
    for (int i = 0; i < count; i++)
        for (int times = 0; times < 20; times++) {
            while (!sleeps(pids[i]))
                usleep(1000);
            usleep(100);
        }
    kill(victim, SIGKILL);
    for (;;)
        pause();
}

#endif

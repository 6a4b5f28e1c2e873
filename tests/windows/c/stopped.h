/* For programs that stop a process and rely on its standing still. The file that includes it defines
 * _DEFAULT_SOURCE or _POSIX_C_SOURCE first. */
#ifndef TUTTI_TEST_STOPPED_H
#define TUTTI_TEST_STOPPED_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* Whether all threads of a process are stopped: after SIGSTOP each one stops by itself. */
static inline int is_stopped(int pid)
{
    char path[300], text[512];
    int threads = 0, stopped = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    for (struct dirent *task; tasks && (task = readdir(tasks)) != NULL;) {
        if (task->d_name[0] == '.')
            continue;
        threads++;
        snprintf(path, sizeof path, "/proc/%d/task/%s/stat", pid, task->d_name);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
        const char *behind = strrchr(text, ')');
        stopped += behind && behind[1] == ' ' && behind[2] == 'T';
    }
    if (tasks)
        closedir(tasks);
    return threads > 0 && stopped == threads;
}

#endif

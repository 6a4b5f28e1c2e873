/* A rank that opens one connection after the other to the PMIx server, says nothing on them and never ends by itself. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

int main(void)
{
    const char *at = NULL;
    unsigned port = 0;
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct rlimit limit;

    for (char **text = environ; *text && !at; text++)
        if (!strncmp(*text, "PMIX_SERVER_URI", 15))
            at = strstr(*text, "tcp4://127.0.0.1:");
    if (!at || sscanf(at, "tcp4://127.0.0.1:%u", &port) != 1)
        return 2;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    puts("crowds");
    fflush(stdout);
    for (int opened = 0; opened < 3000; opened++) {
        int connection = socket(AF_INET, SOCK_STREAM, 0);
        if (connection < 0 || connect(connection, (struct sockaddr *)&address, sizeof address))
            break;
    }
    for (;;)
        pause();
}

/* Names are published, looked up and taken back; what is wrong gives the class that the standard has for it.
 * With a file as argument: rank 0 computes until the last rank has looked a name up and made the file. With
 * "late": the last rank asks when rank 0 has left. */
#include "../../mpi/programs/require.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int rank, size;

/* Every rank publishes a name, looks all up, and takes its own back. */
static void everybody(void)
{
    char service[32], port[MPI_MAX_PORT_NAME], wanted[32];
    snprintf(service, sizeof service, "service %d", rank);
    snprintf(wanted, sizeof wanted, "port of %d", rank);
    for (int round = 0; round < 20; round++) {
        FAILS(MPI_Lookup_name(service, MPI_INFO_NULL, port), MPI_ERR_NAME);
        FAILS(MPI_Unpublish_name(service, MPI_INFO_NULL, wanted), MPI_ERR_SERVICE);
        CHECK(MPI_Publish_name(service, MPI_INFO_NULL, wanted));
        FAILS(MPI_Publish_name(service, MPI_INFO_NULL, wanted), MPI_ERR_SERVICE);
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        for (int other = 0; other < size; other++) {
            char name[32], expected[32];
            snprintf(name, sizeof name, "service %d", other);
            snprintf(expected, sizeof expected, "port of %d", other);
            CHECK(MPI_Lookup_name(name, MPI_INFO_NULL, port));
            WANT(strcmp(port, expected) == 0, "%s has %s, expected %s", name, port, expected);
            if (other != rank)
                FAILS(MPI_Unpublish_name(name, MPI_INFO_NULL, expected), MPI_ERR_SERVICE);
        }
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        FAILS(MPI_Unpublish_name(service, MPI_INFO_NULL, "another port"), MPI_ERR_SERVICE);
        CHECK(MPI_Unpublish_name(service, MPI_INFO_NULL, wanted));
    }
    CHECK(MPI_Barrier(MPI_COMM_WORLD));
}

/* Of several that publish one name at once, one does. */
static void at_once(void)
{
    for (int round = 0; round < 50; round++) {
        int code = MPI_Publish_name("the same", MPI_INFO_NULL, "port"), class, mine, sum;
        MPI_Error_class(code, &class);
        WANT(code == MPI_SUCCESS || class == MPI_ERR_SERVICE, "class %d", class);
        mine = code == MPI_SUCCESS;
        CHECK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        WANT(sum == 1, "%d ranks have published one name", sum);
        if (mine)
            CHECK(MPI_Unpublish_name("the same", MPI_INFO_NULL, "port"));
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
    }
}

static void limits(void)
{
    char service[400], port[MPI_MAX_PORT_NAME], found[MPI_MAX_PORT_NAME];
    memset(service, 's', sizeof service);
    memset(port, 'p', sizeof port);
    service[257] = port[512] = 0;
    if (rank == size - 1) {
        FAILS(MPI_Publish_name(service, MPI_INFO_NULL, port), MPI_ERR_SERVICE);
        FAILS(MPI_Lookup_name(service, MPI_INFO_NULL, found), MPI_ERR_NAME);
        service[256] = 0;
        CHECK(MPI_Publish_name(service, MPI_INFO_NULL, port));
        CHECK(MPI_Lookup_name(service, MPI_INFO_NULL, found));
        WANT(strcmp(found, port) == 0, "the port is %s", found);
        CHECK(MPI_Unpublish_name(service, MPI_INFO_NULL, port));
        port[512] = 'p';
        port[513] = 0;
        FAILS(MPI_Publish_name(service, MPI_INFO_NULL, port), MPI_ERR_PORT);
        FAILS(MPI_Publish_name(NULL, MPI_INFO_NULL, "port"), MPI_ERR_ARG);
        FAILS(MPI_Publish_name("service", MPI_INFO_NULL, NULL), MPI_ERR_ARG);
        FAILS(MPI_Lookup_name("service", MPI_INFO_NULL, NULL), MPI_ERR_ARG);
        FAILS(MPI_Lookup_name("service", (MPI_Info)12345, found), MPI_ERR_INFO);
        CHECK(MPI_Publish_name("", MPI_INFO_NULL, ""));
        CHECK(MPI_Lookup_name("", MPI_INFO_NULL, found));
        WANT(found[0] == 0, "the port is %s", found);
        CHECK(MPI_Unpublish_name("", MPI_INFO_NULL, ""));
        for (int i = 0; i < 1024; i++) {
            snprintf(service, sizeof service, "%d", i);
            CHECK(MPI_Publish_name(service, MPI_INFO_NULL, "port"));
        }
        FAILS(MPI_Publish_name("one more", MPI_INFO_NULL, "port"), MPI_ERR_SERVICE);
        for (int i = 0; i < 1024; i++) {
            snprintf(service, sizeof service, "%d", i);
            CHECK(MPI_Unpublish_name(service, MPI_INFO_NULL, "port"));
        }
    }
    CHECK(MPI_Barrier(MPI_COMM_WORLD));
}

/* What names are for: groups that know nothing but a service meet. */
static void meet(void)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm part, inter;
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank == size - 1, 0, &part));
    if (rank == size - 1) {
        CHECK(MPI_Open_port(MPI_INFO_NULL, port));
        CHECK(MPI_Publish_name("meeting", MPI_INFO_NULL, port));
        CHECK(MPI_Comm_accept(port, MPI_INFO_NULL, 0, part, &inter));
        CHECK(MPI_Unpublish_name("meeting", MPI_INFO_NULL, port));
        CHECK(MPI_Close_port(port));
    } else {
        if (rank == 0)
            while (MPI_Lookup_name("meeting", MPI_INFO_NULL, port) != MPI_SUCCESS)
                ;
        CHECK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, part, &inter));
    }
    int others;
    CHECK(MPI_Comm_remote_size(inter, &others));
    WANT(others == (rank == size - 1 ? size - 1 : 1), "%d ranks there", others);
    CHECK(MPI_Comm_disconnect(&inter));
    CHECK(MPI_Comm_free(&part));
}

static void compute(const char *file)
{
    if (rank == 0) {
        CHECK(MPI_Publish_name("computing", MPI_INFO_NULL, "port"));
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        for (time_t end = time(NULL) + 60; access(file, F_OK) != 0;)
            WANT(time(NULL) < end, "nobody answers while rank 0 computes");
    } else {
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
    }
    if (rank == size - 1) {
        char port[MPI_MAX_PORT_NAME];
        CHECK(MPI_Lookup_name("computing", MPI_INFO_NULL, port));
        FILE *made = fopen(file, "w");
        WANT(made, "cannot make %s", file);
        fclose(made);
    }
    CHECK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        CHECK(MPI_Unpublish_name("computing", MPI_INFO_NULL, "port"));
}

int main(int argc, char **argv)
{
    CHECK(MPI_Init(&argc, &argv));
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    if (argc > 1 && strcmp(argv[1], "late") == 0) {
        char port[MPI_MAX_PORT_NAME];
        if (rank == size - 1) {
            sleep(1);
            FAILS(MPI_Lookup_name("late", MPI_INFO_NULL, port), MPI_ERR_NAME);
            FAILS(MPI_Lookup_name("later", MPI_INFO_NULL, port), MPI_ERR_NAME);
            printf("names are late\n");
        }
        CHECK(MPI_Finalize());
        return 0;
    }
    if (argc > 1)
        compute(argv[1]);
    everybody();
    at_once();
    limits();
    meet();
    CHECK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        printf("names are right\n");
    CHECK(MPI_Finalize());
    return 0;
}

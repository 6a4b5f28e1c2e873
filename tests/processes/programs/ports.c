/* Groups of one job meet at ports, talk, merge and part; what is wrong gives MPI_ERR_PORT and nobody hangs. */
#define _GNU_SOURCE
#include "../../mpi/programs/require.h"
#include <fcntl.h>
#include <mpi.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int rank, size;

/* Messages and collective operations between both groups, then as one communicator. */
static void talk(MPI_Comm inter, int accepts, int remote)
{
    int is_inter, other, me, local, got = -1, sum, one = 1;
    MPI_Comm merged;
    CHECK(MPI_Comm_test_inter(inter, &is_inter));
    CHECK(MPI_Comm_remote_size(inter, &other));
    CHECK(MPI_Comm_rank(inter, &me));
    CHECK(MPI_Comm_size(inter, &local));
    WANT(is_inter && other == remote, "%d processes at the other side, expected %d", other, remote);
    if (me == 0) {
        int mine = 1000 + rank;
        MPI_Status status;
        CHECK(MPI_Sendrecv(&mine, 1, MPI_INT, 0, 7, &got, 1, MPI_INT, MPI_ANY_SOURCE, 7, inter, &status));
        WANT(got >= 1000 && got != mine && status.MPI_SOURCE == 0, "got %d from %d", got, status.MPI_SOURCE);
    }
    CHECK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, inter));
    WANT(sum == remote, "sum %d of the other side, expected %d", sum, remote);
    CHECK(MPI_Intercomm_merge(inter, !accepts, &merged));
    CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, merged));
    CHECK(MPI_Comm_rank(merged, &me));
    CHECK(MPI_Comm_size(merged, &other));
    WANT(other == local + remote && (me < (accepts ? local : remote)) == accepts, "rank %d of %d", me, other);
    CHECK(MPI_Comm_disconnect(&merged));
}

/* Rank 0 accepts alone, all others connect as one group. */
static void one_and_the_rest(void)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm part, inter;
    if (rank == 0)
        CHECK(MPI_Open_port(MPI_INFO_NULL, port));
    CHECK(MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD));
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &part));
    for (int round = 0; round < 20; round++) {
        /* The name means something at the root only. */
        char *name = rank <= 1 ? port : NULL;
        CHECK(rank == 0 ? MPI_Comm_accept(name, MPI_INFO_NULL, 0, part, &inter)
                        : MPI_Comm_connect(name, MPI_INFO_NULL, 0, part, &inter));
        talk(inter, rank == 0, rank == 0 ? size - 1 : 1);
        CHECK(MPI_Comm_disconnect(&inter));
        WANT(inter == MPI_COMM_NULL, "the handle stays");
    }
    if (rank == 0)
        CHECK(MPI_Close_port(port));
    CHECK(MPI_Comm_free(&part));
}

/* Every rank connects alone to rank 0, to two ports in different order. */
static void many_at_two_ports(void)
{
    char ports[2][MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    int got;
    memset(ports, 0, sizeof ports);
    for (int i = 0; rank == 0 && i < 2; i++)
        CHECK(MPI_Open_port(MPI_INFO_NULL, ports[i]));
    WANT(rank || strcmp(ports[0], ports[1]), "two ports have the name %s", ports[0]);
    CHECK(MPI_Bcast(ports, sizeof ports, MPI_CHAR, 0, MPI_COMM_WORLD));
    for (int i = 0; i < 2; i++) {
        if (rank == 0) {
            int sum = 0;
            for (int from = 1; from < size; from++) {
                CHECK(MPI_Comm_accept(ports[i], MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
                CHECK(MPI_Recv(&got, 1, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE));
                CHECK(MPI_Comm_disconnect(&inter));
                sum += got;
            }
            WANT(sum == size * (size - 1) / 2, "ranks with the sum %d have connected", sum);
        } else {
            CHECK(MPI_Comm_connect(ports[i], MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter));
            CHECK(MPI_Send(&rank, 1, MPI_INT, 0, 1, inter));
            CHECK(MPI_Comm_disconnect(&inter));
        }
    }
    for (int i = 0; rank == 0 && i < 2; i++)
        CHECK(MPI_Close_port(ports[i]));
}

static void errors(void)
{
    char port[MPI_MAX_PORT_NAME] = "", forged[MPI_MAX_PORT_NAME];
    MPI_Comm inter = MPI_COMM_NULL, part;
    FAILS(MPI_Close_port("nonsense"), MPI_ERR_PORT);
    FAILS(MPI_Comm_connect("tutti:0:1:0123456789abcdef", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT);
    FAILS(MPI_Comm_accept("", MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), MPI_ERR_PORT);
    FAILS(MPI_Comm_accept("", MPI_INFO_NULL, size, MPI_COMM_WORLD, &inter), MPI_ERR_ROOT);
    FAILS(MPI_Comm_accept("", MPI_INFO_NULL, 0, MPI_COMM_NULL, &inter), MPI_ERR_COMM);
    FAILS(MPI_Comm_connect(NULL, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_ARG);
    WANT(inter == MPI_COMM_NULL, "a failed call has written a handle");
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &part));
    if (rank == 0)
        CHECK(MPI_Open_port(MPI_INFO_NULL, port));
    CHECK(MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD));
    strcpy(forged, port);
    forged[strlen(forged) - 1] ^= 1;
    FAILS(MPI_Comm_connect(forged, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter), MPI_ERR_PORT);
    if (rank == 0) {
        FAILS(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT);
        CHECK(MPI_Close_port(port));
        FAILS(MPI_Close_port(port), MPI_ERR_PORT);
        FAILS(MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter), MPI_ERR_PORT);
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
    } else {
        FAILS(MPI_Comm_accept(port, MPI_INFO_NULL, 0, part, &inter), MPI_ERR_PORT);
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        /* All ranks of the group learn that the port is closed; rank 0 is in the barrier below. */
        FAILS(MPI_Comm_connect(port, MPI_INFO_NULL, 0, part, &inter), MPI_ERR_PORT);
    }
    CHECK(MPI_Barrier(MPI_COMM_WORLD));
    /* A connection that waits when the port is closed is refused. */
    if (rank == 0)
        CHECK(MPI_Open_port(MPI_INFO_NULL, port));
    CHECK(MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 0, MPI_COMM_WORLD));
    if (rank == 0) {
        double until = MPI_Wtime() + 0.02;
        while (MPI_Wtime() < until) {
            int flag;
            CHECK(MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
        }
        CHECK(MPI_Close_port(port));
    } else {
        FAILS(MPI_Comm_connect(port, MPI_INFO_NULL, 0, part, &inter), MPI_ERR_PORT);
    }
    CHECK(MPI_Comm_free(&part));
    CHECK(MPI_Barrier(MPI_COMM_WORLD));
}

/* The address at which rank 0 listens. On one machine a name that holds the job's number, so two runs do not meet;
 * between machines a port of the host. */
static socklen_t place(struct sockaddr_storage *address, int between_machines)
{
    memset(address, 0, sizeof *address);
    if (between_machines) {
        char host[256];
        struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
        WANT(gethostname(host, sizeof host) == 0 && getaddrinfo(host, NULL, &hints, &found) == 0, "no address");
        socklen_t length = found->ai_addrlen;
        memcpy(address, found->ai_addr, length);
        freeaddrinfo(found);
        return length;
    }
    struct sockaddr_un *name = (struct sockaddr_un *)address;
    name->sun_family = AF_UNIX;
    int bytes = 1 + snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "tutti-test-join-%d", (int)getpid());
    return (socklen_t)(sizeof name->sun_family + (size_t)bytes);
}

/* Ranks 0 and 1 join over a socket. */
static void join(int between_machines)
{
    struct sockaddr_storage address;
    socklen_t length = 0;
    int socket_ = -1, listener = -1;
    MPI_Comm inter = MPI_COMM_NULL;
    if (rank == 0) {
        length = place(&address, between_machines);
        listener = socket(address.ss_family, SOCK_STREAM, 0);
        WANT(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 1) == 0, "no socket");
        if (between_machines)
            WANT(getsockname(listener, (struct sockaddr *)&address, &length) == 0, "no port");
    }
    CHECK(MPI_Bcast(&length, (int)sizeof length, MPI_BYTE, 0, MPI_COMM_WORLD));
    CHECK(MPI_Bcast(&address, (int)sizeof address, MPI_BYTE, 0, MPI_COMM_WORLD));
    if (rank == 0) {
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        socket_ = accept(listener, NULL, NULL);
        close(listener);
    } else {
        CHECK(MPI_Barrier(MPI_COMM_WORLD));
        if (rank == 1) {
            socket_ = socket(address.ss_family, SOCK_STREAM, 0);
            WANT(connect(socket_, (struct sockaddr *)&address, length) == 0, "no connection");
            WANT(fcntl(socket_, F_SETFL, O_NONBLOCK) == 0, "no flag");
        }
    }
    if (rank <= 1) {
        char byte = 'x';
        CHECK(MPI_Comm_join(socket_, &inter));
        talk(inter, rank == 0, 1);
        CHECK(MPI_Comm_disconnect(&inter));
        /* Quiet: what comes next is the user's. */
        WANT(send(socket_, &byte, 1, 0) == 1, "the socket is closed");
        while (recv(socket_, &byte, 1, 0) != 1)
            ;
        WANT(byte == 'x', "the library has left a byte in the socket");
        close(socket_);
    }
    FAILS(MPI_Comm_join(-1, &inter), MPI_ERR_ARG);
    int pair[2];
    WANT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "no pair of sockets");
    close(pair[1]);
    FAILS(MPI_Comm_join(pair[0], &inter), MPI_ERR_ARG);
    close(pair[0]);
}

int main(int argc, char **argv)
{
    CHECK(MPI_Init(&argc, &argv));
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    CHECK(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    one_and_the_rest();
    many_at_two_ports();
    errors();
    join(argc > 1);
    CHECK(MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0)
        printf("ports are right\n");
    CHECK(MPI_Finalize());
    return 0;
}

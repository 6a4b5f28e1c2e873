/* Messages of many sizes both ways between ranks of all nodes; with "shrink" every node's link ("tutti") takes only packets of 1280 bytes
 * from the third round on; with "vanish" that of the last rank's node only, so that what others send to it vanishes without a word. */
#define _GNU_SOURCE
#include <mpi.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { ROUNDS = 8 };

static const int sizes[] = {0, 1, 700, 1300, 1472, 5000, 8900, 40000, 65536, 300000, 3000000};

static void shrink(void)
{
    struct ifreq request = {.ifr_mtu = 0};
    int asked = socket(AF_INET, SOCK_DGRAM, 0);

    strcpy(request.ifr_name, "tutti");
    request.ifr_mtu = 1280;
    if (asked < 0 || ioctl(asked, SIOCSIFMTU, &request) != 0) {
        perror("SIOCSIFMTU");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Every datagram by itself on the way: the kernel lets runs through, however long their datagrams are. */
static void single(void)
{
    if (system("ip link set dev tutti gso_max_segs 1") != 0) {
        fprintf(stderr, "narrow: no ip to set gso_max_segs with\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static unsigned char byte_of(int round, int from, int at)
{
    return (unsigned char)(round * 31 + from * 7 + at + (at >> 8));
}

static void exchange(int round, int me, int peer, int bytes, unsigned char *out, unsigned char *in)
{
    MPI_Status status;
    int count, at;

    for (at = 0; at < bytes; at++)
        out[at] = byte_of(round, me, at);
    MPI_Sendrecv(out, bytes, MPI_BYTE, peer, bytes, in, bytes, MPI_BYTE, peer, bytes, MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_BYTE, &count);
    for (at = 0; at < bytes && count == bytes; at++)
        if (in[at] != byte_of(round, peer, at))
            break;
    if (count != bytes || at != bytes) {
        printf("rank %d: round %d: byte %d of %d from rank %d is wrong (%d came)\n", me, round, at, bytes, peer, count);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    int me, ranks, round, shift, last = sizeof sizes / sizeof *sizes - 1, i;
    unsigned char *out, *in;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    out = malloc(sizes[last]);
    in = malloc(sizes[last]);
    for (round = 0; round < ROUNDS; round++) {
        if (round == 2 && argc > 1 && strcmp(argv[1], "shrink") == 0)
            shrink();
        if (round == 2 && argc > 1 && strcmp(argv[1], "vanish") == 0) {
            single();
            if (me == ranks - 1)
                shrink();
        }
        for (shift = 1; shift < ranks; shift <<= 1)
            for (i = 0; i <= last; i++)
                if ((me ^ shift) < ranks)
                    exchange(round, me, me ^ shift, sizes[i], out, in);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (me == 0)
        printf("narrow: all right\n");
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}

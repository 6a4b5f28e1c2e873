/* Sends frames that are nearly right to a port: nearly tcp|udp ADDRESS PORT SEED COUNT HEX...
 * HEX are real frames. With FROM in the environment datagrams come from that address and port (ADDRESS:PORT),
 * for which root of this machine is needed. Prints how many were taken. */
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { BYTES_MAX = 1400, SAMPLES_MAX = 16, FRAMES_EACH = 16 };

static uint64_t state;

static uint64_t below(uint64_t end)
{
    uint64_t value = state += 0x9e3779b97f4a7c15u;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return (value ^ value >> 31) % end;
}

struct frame {
    unsigned char bytes[BYTES_MAX];
    size_t length;
};

static struct frame samples[SAMPLES_MAX];
static size_t count;

static void read_sample(const char *hex)
{
    struct frame *to = &samples[count++];
    unsigned byte;
    while (to->length < BYTES_MAX && sscanf(hex + 2 * to->length, "%2x", &byte) == 1)
        to->bytes[to->length++] = (unsigned char)byte;
}

static void change(struct frame *frame)
{
    static const uint64_t words[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, UINT64_MAX, INT64_MAX};
    for (uint64_t changes = below(4); changes > 0; changes--) {
        size_t at = below(frame->length + 1);
        uint64_t word = words[below(sizeof words / sizeof *words)];
        switch (below(4)) {
        case 0:
            frame->length = at > 0 ? at : 1;
            break;
        case 1:
            at &= ~(size_t)3;
            if (at + 8 <= frame->length)
                memcpy(frame->bytes + at, &word, below(2) ? 4 : 8);
            break;
        case 2:
            if (frame->length + 32 < BYTES_MAX)
                frame->length += below(32);
            break;
        default:
            if (at < frame->length)
                frame->bytes[at] = (unsigned char)below(256);
        }
    }
}

static struct frame next(void)
{
    struct frame frame = samples[below(count)];
    change(&frame);
    return frame;
}

/* A datagram with any sender: the kernel adds the checksum of the head, and that of UDP may be none. */
static ssize_t send_from(int raw, const struct sockaddr_in *from, const struct sockaddr_in *to, const struct frame *frame)
{
    unsigned char packet[sizeof(struct iphdr) + sizeof(struct udphdr) + BYTES_MAX];
    size_t bytes = sizeof(struct iphdr) + sizeof(struct udphdr) + frame->length;
    struct iphdr ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_UDP, .tot_len = htons((uint16_t)bytes)};
    struct udphdr udp = {.source = from->sin_port, .dest = to->sin_port,
                         .len = htons((uint16_t)(sizeof udp + frame->length))};
    ip.saddr = from->sin_addr.s_addr;
    ip.daddr = to->sin_addr.s_addr;
    memcpy(packet, &ip, sizeof ip);
    memcpy(packet + sizeof ip, &udp, sizeof udp);
    memcpy(packet + sizeof ip + sizeof udp, frame->bytes, frame->length);
    return sendto(raw, packet, bytes, 0, (const struct sockaddr *)to, sizeof *to);
}

static unsigned long send_datagrams(const struct sockaddr_in *to, unsigned long frames)
{
    const char *text = getenv("FROM");
    struct sockaddr_in from = {.sin_family = AF_INET};
    unsigned long taken = 0;
    if (text != NULL) {
        char address[64];
        unsigned port = 0;
        if (sscanf(text, "%63[0-9.]:%u", address, &port) != 2 || inet_pton(AF_INET, address, &from.sin_addr) != 1)
            return 0;
        from.sin_port = htons((uint16_t)port);
    }
    int one = socket(AF_INET, text != NULL ? SOCK_RAW : SOCK_DGRAM, text != NULL ? IPPROTO_RAW : 0);
    for (unsigned long number = 0; number < frames; number++) {
        struct frame frame = next();
        ssize_t sent = text != NULL ? send_from(one, &from, to, &frame)
                                    : sendto(one, frame.bytes, frame.length, 0, (const struct sockaddr *)to, sizeof *to);
        taken += sent > 0;
    }
    close(one);
    return taken;
}

static unsigned long send_streams(const struct sockaddr_in *to, unsigned long frames)
{
    struct timeval patience = {.tv_usec = 200000};
    unsigned long taken = 0;
    for (unsigned long number = 0; number < frames;) {
        int one = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(one, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        int is_open = connect(one, (const struct sockaddr *)to, sizeof *to) == 0;
        for (int part = 0; part < FRAMES_EACH; part++, number++) {
            struct frame frame = next();
            is_open = is_open && send(one, frame.bytes, frame.length, MSG_NOSIGNAL) > 0;
            taken += is_open;
        }
        close(one);
    }
    return taken;
}

int main(int argc, char **argv)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    if (argc < 7 || argc - 6 > SAMPLES_MAX || inet_pton(AF_INET, argv[2], &to.sin_addr) != 1)
        return 2;
    to.sin_port = htons((uint16_t)atoi(argv[3]));
    state = strtoull(argv[4], NULL, 10);
    for (int at = 6; at < argc; at++)
        read_sample(argv[at]);
    unsigned long frames = strtoul(argv[5], NULL, 10);
    int is_stream = strcmp(argv[1], "tcp") == 0;
    printf("%lu\n", is_stream ? send_streams(&to, frames) : send_datagrams(&to, frames));
    return 0;
}

/* Runs the functions that tests/dsm/nests.rs has written, once compiled with notes and once without, in the place of the
 * run time: at each call that may synchronise and at the end, the bytes noted must be those stored, and both the same.
 * All stores are of bytes that are not 0, to memory that is 0. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "nests.h"

enum { REGION = 1 << 18, INDICES = 256 };

/* What nests find places by; the lists grow as they go. */
unsigned indices[INDICES];
static long long_places[16];
static int int_places[16];

struct open {
    uintptr_t tag, end, begin;
    uint64_t extended;
    uintptr_t states;
};

__thread struct open tutti_dsm_open = {UINTPTR_MAX, 0, 0, 0, 0};

static unsigned char *const region = (unsigned char *)0x200000000000;
static unsigned char noted[REGION], expected[REGION];
static long notes, gathered, synchronised;
static int is_checked, nest, wrong;
static long arguments[3];

static void add(uintptr_t address, size_t bytes) {
    uintptr_t offset = address - (uintptr_t)region;
    if (bytes > 0 && (offset >= REGION || bytes > REGION - offset)) {
        printf("nest %d (%ld %ld %ld): %zu bytes from %#jx on are noted\n", nest, arguments[0], arguments[1], arguments[2],
               bytes, (uintmax_t)address);
        exit(1);
    }
    memset(noted + offset, 1, bytes);
}

static void close_range(void) {
    if (tutti_dsm_open.begin != tutti_dsm_open.end)
        add(tutti_dsm_open.begin, tutti_dsm_open.end - tutti_dsm_open.begin);
    tutti_dsm_open.begin = tutti_dsm_open.end;
}

void tutti_dsm_note(void *address, size_t bytes);
void tutti_dsm_note_rows(void *address, size_t bytes, ptrdiff_t stride, size_t rows);
void tutti_dsm_rearm(void);

void tutti_dsm_note(void *address, size_t bytes) {
    notes++;
    gathered += bytes > 8;
    close_range();
    tutti_dsm_open.begin = (uintptr_t)address;
    tutti_dsm_open.end = tutti_dsm_open.begin + bytes;
}

void tutti_dsm_note_rows(void *address, size_t bytes, ptrdiff_t stride, size_t rows) {
    notes++;
    gathered++;
    close_range();
    for (size_t row = 0; bytes > 0 && row < rows; row++)
        add((uintptr_t)address + (uintptr_t)stride * row, bytes);
}

void tutti_dsm_rearm(void) {}

/* Loads are checked (--dsm=udsm): at the beginning of an interval no page is here, and bytes that come by no check and no
 * store are wrong. A page that comes is zero, but for what is noted. */
enum { PAGE_BYTES = 4096, PAGES = REGION / PAGE_BYTES, ABSENT = 1, OPENED = 2, WRONG = 0xa5 };

static unsigned char states[PAGES];
static int is_udsm;
static long brought;

void tutti_dsm_load(const void *address, size_t bytes);
void tutti_dsm_store(void *address, size_t bytes);
void tutti_dsm_load_rows(const void *address, size_t bytes, ptrdiff_t stride, size_t rows);
void tutti_dsm_store_rows(void *address, size_t bytes, ptrdiff_t stride, size_t rows);
void tutti_dsm_cover(void);

static void bring(size_t page) {
    if (!(states[page] & ABSENT))
        return;
    brought++;
    states[page] &= (unsigned char)~ABSENT;
    for (size_t byte = page * PAGE_BYTES; byte < (page + 1) * PAGE_BYTES; byte++)
        if (!noted[byte])
            region[byte] = 0;
}

static void visit(uintptr_t address, size_t bytes, void (*each)(size_t page)) {
    uintptr_t offset = address - (uintptr_t)region;
    close_range();
    for (size_t page = offset / PAGE_BYTES; bytes > 0 && page < PAGES && page <= (offset + bytes - 1) / PAGE_BYTES; page++)
        each(page);
}

static void open_page(size_t page) { states[page] |= OPENED; }

void tutti_dsm_load(const void *address, size_t bytes) { visit((uintptr_t)address, bytes, bring); }

void tutti_dsm_store(void *address, size_t bytes) { visit((uintptr_t)address, bytes, open_page); }

void tutti_dsm_load_rows(const void *address, size_t bytes, ptrdiff_t stride, size_t rows) {
    for (size_t row = 0; bytes > 0 && row < rows; row++)
        visit((uintptr_t)address + (uintptr_t)stride * row, bytes, bring);
}

void tutti_dsm_store_rows(void *address, size_t bytes, ptrdiff_t stride, size_t rows) {
    for (size_t row = 0; bytes > 0 && row < rows; row++)
        visit((uintptr_t)address + (uintptr_t)stride * row, bytes, open_page);
}

void tutti_dsm_cover(void) { visit((uintptr_t)region, REGION, bring); }

static void begin_interval(void) {
    memset(region, is_checked && is_udsm ? WRONG : 0, REGION);
    memset(states, is_checked && is_udsm ? ABSENT : 0, sizeof states);
}

/* A copy of a loop that runs ahead: which bytes the loop will store, and where that comes from. What may be changed by the
 * loop itself is refused, as the run time does. */
enum { SITES = 64, TOLD = 1 << 12 };

static struct site {
    size_t slot_bytes, bytes, told;
    uintptr_t base, slots[TOLD];
    int64_t indices[TOLD];
} sites[SITES];
static size_t site_count, load_count;
static uintptr_t loads[SITES][2];
static long aheads, ahead_refused;

void tutti_dsm_ahead_begin(void);
void tutti_dsm_ahead_site(size_t slot_bytes, uintptr_t base, size_t bytes);
void tutti_dsm_ahead_load(const void *first, const void *last, size_t bytes);
void tutti_dsm_ahead_store(size_t site, const void *slot, int64_t index);
int tutti_dsm_ahead_end(void);

void tutti_dsm_ahead_begin(void) { site_count = load_count = 0; }

void tutti_dsm_ahead_site(size_t slot_bytes, uintptr_t base, size_t bytes) {
    struct site *site = &sites[site_count++];
    site->slot_bytes = slot_bytes, site->base = base, site->bytes = bytes, site->told = 0;
}

void tutti_dsm_ahead_load(const void *first, const void *last, size_t bytes) {
    uintptr_t one = (uintptr_t)first, other = (uintptr_t)last;
    loads[load_count][0] = one < other ? one : other;
    loads[load_count++][1] = (one < other ? other : one) + bytes;
}

void tutti_dsm_ahead_store(size_t number, const void *slot, int64_t index) {
    struct site *site = &sites[number];
    /* An index that was seen has grown. */
    for (size_t other = 0; site->base != 0 && other < site->told; other++)
        index += site->slots[other] == (uintptr_t)slot;
    site->slots[site->told] = (uintptr_t)slot;
    site->indices[site->told++] = index;
}

static int are_apart(uintptr_t begin, uintptr_t end, size_t of) {
    for (size_t load = 0; load < load_count; load++)
        if (begin < loads[load][1] && loads[load][0] < end)
            return 0;
    for (size_t other = 0; other < site_count; other++)
        for (size_t told = 0; sites[other].base != 0 && other != of && told < sites[other].told; told++)
            if (begin < sites[other].slots[told] + sites[other].slot_bytes && sites[other].slots[told] < end)
                return 0;
    return 1;
}

int tutti_dsm_ahead_end(void) {
    for (int adds = 0; adds <= 1; adds++)
        for (size_t number = 0; number < site_count; number++)
            for (size_t told = 0; told < sites[number].told; told++) {
                struct site *site = &sites[number];
                uintptr_t slot = site->slots[told], place = site->base + (uintptr_t)site->indices[told] * site->bytes;
                int appends = site->base != 0;
                if (!adds && (!are_apart(slot, slot + site->slot_bytes, number) ||
                              (appends && !are_apart(place, place + site->bytes, SITES)))) {
                    ahead_refused++;
                    return 0;
                }
                if (adds && slot - (uintptr_t)region < REGION)
                    close_range(), add(slot, site->slot_bytes);
                if (adds && appends && place - (uintptr_t)region < REGION)
                    close_range(), add(place, site->bytes);
            }
    aheads++;
    return 1;
}

static void check(const char *where) {
    close_range();
    for (size_t page = 0; page < PAGES; page++)
        bring(page);
    for (size_t byte = 0; byte < REGION; byte++)
        if ((region[byte] != 0) != noted[byte]) {
            wrong++;
            printf("nest %d (%ld %ld %ld): %s byte %zu is %s\n", nest, arguments[0], arguments[1], arguments[2], where, byte,
                   noted[byte] ? "noted, and not stored" : "stored, and not noted");
            break;
        }
    memset(noted, 0, sizeof noted);
}

/* A call that may synchronise. */
void opaque(void) {
    if (is_checked)
        check("at a call");
    synchronised++;
    begin_interval();
}

static void run(nest_function *function, int checks) {
    long limit = 5;
    for (int index = 0; index < INDICES; index++)
        indices[index] = (unsigned)index * 2654435761u >> 7;
    for (int list = 0; list < 16; list++)
        long_places[list] = 40 * list, int_places[list] = 30 * (15 - list);
    is_checked = checks;
    begin_interval();
    tutti_dsm_open.tag = checks ? (uintptr_t)region >> 40 : UINTPTR_MAX;
    function(region + REGION / 2, arguments[0], arguments[1], arguments[2], &limit, long_places, int_places);
}

int main(int argc, char **argv) {
    static const long sets[][3] = {{0, 0, 1}, {1, 1, 1}, {4, 3, 1}, {7, 5, 2}, {5, 7, 40}, {6, 6, -3}, {-2, 4, 5}, {3, 0, 0}};
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (mmap(region, REGION, PROT_READ | PROT_WRITE, flags, -1, 0) != region) {
        perror("the arena's address");
        return 1;
    }
    is_udsm = argc > 1 && strcmp(argv[1], "udsm") == 0;
    tutti_dsm_open.states = (uintptr_t)states - (uintptr_t)region / PAGE_BYTES;
    for (nest = 0; nest < NESTS; nest++)
        for (size_t set = 0; set < sizeof sets / sizeof sets[0]; set++) {
            memcpy(arguments, sets[set], sizeof arguments);
            run(plain_nests[nest], 0);
            memcpy(expected, region, REGION);
            run(noted_nests[nest], 1);
            if (is_udsm)
                tutti_dsm_cover();
            if (memcmp(expected, region, REGION) != 0) {
                wrong++;
                printf("nest %d (%ld %ld %ld): another result\n", nest, arguments[0], arguments[1], arguments[2]);
            }
            check("at the end");
        }
    printf("nests: %d wrong, %ld notes, %ld gathered, %ld extended, %ld synchronised, %ld ahead, %ld refused, %ld brought\n",
           wrong, notes, gathered, (long)tutti_dsm_open.extended, synchronised, aheads, ahead_refused, brought);
    return wrong != 0;
}

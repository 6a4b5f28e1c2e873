/* What tutticc links into a program: its ranks share memory from before main on.
 *
 * tutti_dsm_open is the open range of notes (crates/dsm/src/note.rs), which code of the plugin extends. Each thread has
 * one. A tag that no address has: nothing is noted. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

struct tutti_dsm_open {
    uintptr_t tag, end, begin;
    uint64_t extended;
    /* Where the states of pages are, for code that looks at them before loads and stores. */
    uintptr_t states;
};

__thread struct tutti_dsm_open tutti_dsm_open = {UINTPTR_MAX, 0, 0, 0, 0};

/* One byte of each object that makes notes: 1, or 2 where it checks its loads too. */
#pragma weak __start_tutti_rcop
#pragma weak __stop_tutti_rcop
extern const unsigned char __start_tutti_rcop[], __stop_tutti_rcop[];

/* Another object defines it where all objects of a program make notes. */
#pragma weak tutti_dsm_all_noted
extern const char tutti_dsm_all_noted;

/* Where the program's own variables are, if they are to be shared: parmacs_globals.ld defines them. */
#pragma weak tutti_dsm_globals_begin
#pragma weak tutti_dsm_globals_end
extern const char tutti_dsm_globals_begin[], tutti_dsm_globals_end[];
void tutti_dsm_share_globals(const void *begin, const void *end);

/* Programs that older objects were linked into call these. */
void tutti_dsm_begin(void);
void tutti_dsm_begin_noted(struct tutti_dsm_open *open);
void tutti_dsm_begin_as(struct tutti_dsm_open *open, const unsigned char *modes, size_t objects, int are_all);
/* The library reads so much of the open range as there is, and refuses a longer one than it knows. */
void tutti_dsm_begin_sized(struct tutti_dsm_open *open, size_t open_bytes, const unsigned char *modes, size_t objects,
                           int are_all);

/* Compiled code calls these. */
void tutti_dsm_note(void *address, size_t bytes);
void tutti_dsm_note_rows(void *address, size_t bytes, ptrdiff_t stride, size_t rows);
void tutti_dsm_rearm(void);
void tutti_dsm_cover(void);
void tutti_dsm_ahead_begin(void);
void tutti_dsm_ahead_site(size_t slot_bytes, uintptr_t base, size_t bytes);
void tutti_dsm_ahead_load(const void *first, const void *last, size_t bytes);
void tutti_dsm_ahead_store(size_t site, const void *slot, int64_t index);
int tutti_dsm_ahead_end(void);

/* Variables that are shared may lead to the arguments of the program, which the system puts at other addresses in each
 * process. Here they are at the same: in a variable, or where there are more, in a mapping in front of the shared memory. */
static char arguments_here[1 << 16];
#define ARGUMENTS_AT ((char *)0x1fff00000000)

static void place_arguments(int count, char **arguments) {
    size_t bytes = 0;
    char *place = arguments_here;
    for (int i = 0; i < count; i++)
        bytes += strlen(arguments[i]) + 1;
    if (bytes > sizeof arguments_here) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
        place = mmap(ARGUMENTS_AT, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
        /* Something else is there: they stay where they are. */
        if (place != ARGUMENTS_AT)
            return;
    }
    for (int i = 0; i < count; i++) {
        bytes = strlen(arguments[i]) + 1;
        arguments[i] = memcpy(place, arguments[i], bytes);
        place += bytes;
    }
}

/* The C library gives constructors what it gives main. */
__attribute__((constructor)) static void begin(int argument_count, char **arguments) {
    if (tutti_dsm_globals_begin != tutti_dsm_globals_end) {
        tutti_dsm_share_globals(tutti_dsm_globals_begin, tutti_dsm_globals_end);
        place_arguments(argument_count, arguments);
    }
    size_t objects = (size_t)(__stop_tutti_rcop - __start_tutti_rcop);
    tutti_dsm_begin_sized(&tutti_dsm_open, sizeof tutti_dsm_open, __start_tutti_rcop, objects, &tutti_dsm_all_noted != NULL);
}

/* Checks of loads and stores, with the place of the code that makes them. */
void tutti_dsm_load_from(const void *address, size_t bytes, const void *site);
void tutti_dsm_store_from(void *address, size_t bytes, const void *site);
void tutti_dsm_load_rows_from(const void *address, size_t bytes, ptrdiff_t stride, size_t rows, const void *site);
void tutti_dsm_store_rows_from(void *address, size_t bytes, ptrdiff_t stride, size_t rows, const void *site);

#define SITE ((const char *)__builtin_return_address(0) - 1)

void tutti_dsm_load(const void *address, size_t bytes) { tutti_dsm_load_from(address, bytes, SITE); }

void tutti_dsm_store(void *address, size_t bytes) { tutti_dsm_store_from(address, bytes, SITE); }

void tutti_dsm_load_rows(const void *address, size_t bytes, ptrdiff_t stride, size_t rows) {
    tutti_dsm_load_rows_from(address, bytes, stride, rows, SITE);
}

void tutti_dsm_store_rows(void *address, size_t bytes, ptrdiff_t stride, size_t rows) {
    tutti_dsm_store_rows_from(address, bytes, stride, rows, SITE);
}

/* What tutticc links into a program: its ranks share memory from before main on.
 *
 * tutti_dsm_open is the open range of notes (crates/dsm/src/note.rs), which code of the plugin extends. Each thread has
 * one. A tag that no address has: nothing is noted. */
#include <stddef.h>
#include <stdint.h>

struct tutti_dsm_open {
    uintptr_t tag, end, begin;
    uint64_t extended;
};

__thread struct tutti_dsm_open tutti_dsm_open = {UINTPTR_MAX, 0, 0, 0};

/* Another object defines it where all objects of a program make notes. */
#pragma weak tutti_dsm_all_noted
extern const char tutti_dsm_all_noted;

void tutti_dsm_begin_noted(struct tutti_dsm_open *open);
void tutti_dsm_begin(void);

/* Compiled code calls these. */
void tutti_dsm_note(void *address, size_t bytes);
void tutti_dsm_note_rows(void *address, size_t bytes, ptrdiff_t stride, size_t rows);
void tutti_dsm_rearm(void);
void tutti_dsm_ahead_begin(void);
void tutti_dsm_ahead_site(size_t slot_bytes, uintptr_t base, size_t bytes);
void tutti_dsm_ahead_load(const void *first, const void *last, size_t bytes);
void tutti_dsm_ahead_store(size_t site, const void *slot, int64_t index);
int tutti_dsm_ahead_end(void);

__attribute__((constructor)) static void begin(void) {
    if (&tutti_dsm_all_noted)
        tutti_dsm_begin_noted(&tutti_dsm_open);
    else
        tutti_dsm_begin();
}

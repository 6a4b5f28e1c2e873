/* Start objects of programs that other versions of tutticc have linked; START says which. In the place of
 * parmacs_start.o. */
#include <stddef.h>
#include <stdint.h>

#define FIRST 1
#define NOTED 2
#define CHECKED 3
#define SIZED 4
#define LONGER 5
#define MODE 6

struct open {
    uintptr_t tag, end, begin;
    uint64_t extended;
#if START != NOTED
    uintptr_t states;
#endif
#if START == LONGER
    uintptr_t more;
#endif
};

__thread struct open tutti_dsm_open = {.tag = UINTPTR_MAX};

#pragma weak __start_tutti_rcop
#pragma weak __stop_tutti_rcop
extern const unsigned char __start_tutti_rcop[], __stop_tutti_rcop[];

#if START == MODE
/* What an object leaves that a compiler of tomorrow has made. */
__attribute__((section("tutti_rcop"), used)) static const unsigned char mode = 9;
#endif

void tutti_dsm_begin(void);
void tutti_dsm_begin_noted(struct open *open);
void tutti_dsm_begin_as(struct open *open, const unsigned char *modes, size_t objects, int are_all);
void tutti_dsm_begin_sized(struct open *open, size_t open_bytes, const unsigned char *modes, size_t objects, int are_all);

#if START == CHECKED || START == SIZED || START == LONGER || START == MODE
void tutti_dsm_load_from(const void *address, size_t bytes, const void *site);
void tutti_dsm_store_from(void *address, size_t bytes, const void *site);
void tutti_dsm_load_rows_from(const void *address, size_t bytes, ptrdiff_t stride, size_t rows, const void *site);
void tutti_dsm_store_rows_from(void *address, size_t bytes, ptrdiff_t stride, size_t rows, const void *site);
void tutti_dsm_load(const void *address, size_t bytes);
void tutti_dsm_store(void *address, size_t bytes);
void tutti_dsm_load_rows(const void *address, size_t bytes, ptrdiff_t stride, size_t rows);
void tutti_dsm_store_rows(void *address, size_t bytes, ptrdiff_t stride, size_t rows);

void tutti_dsm_load(const void *address, size_t bytes) { tutti_dsm_load_from(address, bytes, 0); }
void tutti_dsm_store(void *address, size_t bytes) { tutti_dsm_store_from(address, bytes, 0); }
void tutti_dsm_load_rows(const void *address, size_t bytes, ptrdiff_t stride, size_t rows) {
    tutti_dsm_load_rows_from(address, bytes, stride, rows, 0);
}
void tutti_dsm_store_rows(void *address, size_t bytes, ptrdiff_t stride, size_t rows) {
    tutti_dsm_store_rows_from(address, bytes, stride, rows, 0);
}
#endif

__attribute__((constructor)) static void begin(void) {
    size_t objects = (size_t)(__stop_tutti_rcop - __start_tutti_rcop);
    (void)objects;
#if START == FIRST
    tutti_dsm_begin();
#elif START == NOTED
    tutti_dsm_begin_noted(&tutti_dsm_open);
#elif START == CHECKED
    tutti_dsm_begin_as(&tutti_dsm_open, __start_tutti_rcop, objects, 1);
#else
    tutti_dsm_begin_sized(&tutti_dsm_open, sizeof tutti_dsm_open, __start_tutti_rcop, objects, 1);
#endif
}

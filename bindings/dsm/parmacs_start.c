/* What tutticc links into a program: its ranks share memory from before main on. */
extern void tutti_dsm_begin(void);

__attribute__((constructor)) static void begin(void) {
    tutti_dsm_begin();
}

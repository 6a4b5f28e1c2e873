/* Functions that make no notes of their stores. */
static long *kept;

void foreign_store(long *place, long value);
void foreign_keep(long *place);
void foreign_store_kept(long value);

void foreign_store(long *place, long value) {
    *place = value;
}

void foreign_keep(long *place) {
    kept = place;
}

void foreign_store_kept(long value) {
    *kept = value;
}

/* Fills a table and walks it: `table_walk MODE MIB STEPS [LABEL]`.
 *
 * random      each load's address depends on the value loaded before, anywhere in the table
 * sequential  sums the table from end to end until STEPS words are read
 * The suffix `-small` (random-small, sequential-small) keeps the table on base pages.
 * Prints a checksum that depends on every load. LABEL is ignored; it makes the process findable.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static uint64_t walk_random(const uint64_t *table, uint64_t mask, uint64_t steps) {
    uint64_t state = 88172645463325252u;
    for (uint64_t i = 0; i < steps; i++)
        state = state * 6364136223846793005u + table[(state >> 20) & mask];
    return state;
}

static uint64_t walk_sequential(const uint64_t *table, uint64_t mask, uint64_t steps) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < steps; i++)
        sum = sum * 3 + table[i & mask];
    return sum;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: %s random|sequential[-small] MIB STEPS [LABEL]\n", argv[0]);
        return 2;
    }
    const uint64_t mib = strtoull(argv[2], NULL, 10), steps = strtoull(argv[3], NULL, 10);
    if (mib == 0 || (mib & (mib - 1)) != 0 || mib > 1024) {
        fprintf(stderr, "%s: MIB must be a power of two up to 1024\n", argv[0]);
        return 2;
    }
    const uint64_t bytes = mib << 20, words = bytes / sizeof(uint64_t);
    uint64_t *table = malloc(bytes);
    if (table == NULL) {
        perror("malloc");
        return 1;
    }
    if (strstr(argv[1], "-small") != NULL) {
        const uintptr_t page = 65536, start = ((uintptr_t)table + page - 1) & ~(page - 1);
        if (madvise((void *)start, (bytes - page) & ~(page - 1), MADV_NOHUGEPAGE) != 0)
            perror("madvise");
    }
    for (uint64_t i = 0; i < words; i++)
        table[i] = i * 2654435761u + 1;
    const int random = strncmp(argv[1], "random", 6) == 0;
    const uint64_t sum = random ? walk_random(table, words - 1, steps)
                                : walk_sequential(table, words - 1, steps);
    printf("%016llx\n", (unsigned long long)sum);
    return 0;
}

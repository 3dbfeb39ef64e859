/* Touches pages by a function that is inlined at two places: PAGES at the first, twice as many at the second, there
 * through another one.
 *
 *   inlined PAGES
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define ALWAYS static inline __attribute__((always_inline)) void

ALWAYS touches(volatile char *at, long pages, long page) {
    for (long i = 0; i < pages; i++)
        at[i * page] = 1; /* TOUCH */
}

ALWAYS grows(volatile char *at, long pages, long page) {
    touches(at, 2 * pages, page);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    long pages = atol(argv[1]), page = sysconf(_SC_PAGESIZE);
    /* Each page for itself, whatever the machine's setting. */
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    char *at = mmap(NULL, 3 * pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return 1;
    touches(at, pages, page); /* FIRST */
    grows(at + pages * page, pages, page); /* SECOND */
    return 0;
}

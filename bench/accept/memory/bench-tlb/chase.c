/* A random walk over cache lines, each load needing the one before: ns for each load on base or huge
   pages, one line for each of COUNT fresh mappings.

   usage: chase BYTES base|huge COUNT

   Written apart from pagewise: the order is a shuffle of all lines (Sattolo, one cycle), the lines hold
   plain pointers, the loop is unrolled. A lap of at most 2^20 loads goes before; the time is the median of
   nine pieces of 2 ms of CPU time. Behind it stands how much of the mapping smaps shows on huge pages, in kB. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { LINE = 64, PIECES = 9, UNROLLED = 16 };
static const size_t HUGE_PAGE = (size_t)2 << 20;

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(2);
}

/* One cycle through all lines; gives the first. */
static void **link_lines(char *memory, size_t lines) {
    uint32_t *order = malloc(lines * sizeof *order);
    if (!order)
        fail("malloc");
    for (size_t i = 0; i < lines; i++)
        order[i] = (uint32_t)i;
    for (size_t i = lines - 1; i > 0; i--) {
        size_t other = next_random() % i;
        uint32_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (size_t i = 0; i < lines; i++)
        *(void **)(memory + (size_t)i * LINE) = memory + (size_t)order[i] * LINE;
    free(order);
    return (void **)memory;
}

static void **follow(void **at, uint64_t loads) {
    for (uint64_t i = 0; i < loads / UNROLLED; i++) {
#define STEP at = *(void *volatile *)at;
        STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP
    }
    return at;
}

/* kB of the mapping at `start` on huge pages. */
static long huge_kilobytes(const char *start) {
    FILE *smaps = fopen("/proc/self/smaps", "r");
    if (!smaps)
        fail("smaps");
    char line[512];
    int inside = 0;
    long found = 0, value;
    while (fgets(line, sizeof line, smaps)) {
        uintptr_t from, to;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            inside = from <= (uintptr_t)start && (uintptr_t)start < to;
        else if (inside && sscanf(line, "AnonHugePages: %ld kB", &value) == 1)
            found += value;
    }
    fclose(smaps);
    return found;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double timed(void **at, size_t lines) {
    uint64_t lap = lines < (1u << 20) ? lines : 1u << 20;
    at = follow(at, lap < 20000 ? 20000 : lap);
    double start = now_ns();
    at = follow(at, 20000);
    uint64_t loads = (uint64_t)(2e6 / ((now_ns() - start) / 20000));
    double pieces[PIECES];
    for (int i = 0; i < PIECES; i++) {
        start = now_ns();
        at = follow(at, loads);
        pieces[i] = (now_ns() - start) / (loads / UNROLLED * UNROLLED);
    }
    if (!at)
        exit(2);
    qsort(pieces, PIECES, sizeof *pieces, by_value);
    return pieces[PIECES / 2];
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fputs("usage: chase BYTES base|huge COUNT\n", stderr);
        return 2;
    }
    size_t bytes = strtoull(argv[1], NULL, 0);
    int huge = strcmp(argv[2], "huge") == 0;
    if (bytes < 2 * LINE || (bytes & (bytes - 1))) {
        fputs("BYTES must be a power of two\n", stderr);
        return 2;
    }
    struct timespec seed;
    clock_gettime(CLOCK_REALTIME, &seed);
    random_state ^= (uint64_t)seed.tv_nsec << 20;
    for (int i = atoi(argv[3]); i > 0; i--) {
        size_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE + HUGE_PAGE;
        char *mapped = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (mapped == MAP_FAILED)
            fail("mmap");
        char *start = (char *)(((uintptr_t)mapped + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
        if (madvise(mapped, whole, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE))
            fail("madvise");
        memset(start, 0, bytes);
        double ns = timed(link_lines(start, bytes / LINE), bytes / LINE);
        printf("%.4f %ld\n", ns, huge_kilobytes(start));
        munmap(mapped, whole);
    }
    return 0;
}

/* First touch of memory: ns for each base page, made, touched and given back, one line for each of COUNT
   fresh mappings of BYTES.

   usage: touch BYTES demand|populate|thp COUNT

   Written apart from pagewise: plain mmap, madvise, a store to each page, munmap, each on the monotonic
   clock. Before each mapping a quarter more memory is touched and freed in the same way, so that a host has
   backed it. A line holds the three times, the minor faults of the stores, and how much of the mapping smaps
   shows on huge pages, in kB. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const size_t HUGE_PAGE = (size_t)2 << 20;
enum kind { DEMAND, POPULATE, THP };

static double now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void fail(const char *what) {
    perror(what);
    exit(2);
}

static long minor_faults(void) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage))
        fail("getrusage");
    return usage.ru_minflt;
}

/* `bytes` from a huge page boundary on; `mapped` is what to unmap. */
static char *make(size_t bytes, enum kind kind, char **mapped) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (kind == POPULATE ? MAP_POPULATE : 0);
    size_t slack = kind == THP ? HUGE_PAGE : 0;
    *mapped = mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (*mapped == MAP_FAILED)
        fail("mmap");
    if (kind == THP && madvise(*mapped, bytes + slack, MADV_HUGEPAGE))
        fail("madvise");
    if (kind == DEMAND && madvise(*mapped, bytes, MADV_NOHUGEPAGE))
        fail("madvise");
    return *mapped + (slack ? HUGE_PAGE - (uintptr_t)*mapped % HUGE_PAGE : 0);
}

static void give_back(char *mapped, size_t bytes, enum kind kind) {
    if (munmap(mapped, bytes + (kind == THP ? HUGE_PAGE : 0)))
        fail("munmap");
}

static void store(char *start, size_t bytes, size_t page) {
    for (size_t i = 0; i < bytes; i += page)
        ((volatile char *)start)[i] = 1;
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

int main(int argc, char **argv) {
    if (argc != 4) {
        fputs("usage: touch BYTES demand|populate|thp COUNT\n", stderr);
        return 2;
    }
    size_t bytes = strtoull(argv[1], NULL, 0), page = (size_t)sysconf(_SC_PAGESIZE);
    enum kind kind = strcmp(argv[2], "thp") == 0 ? THP : strcmp(argv[2], "populate") == 0 ? POPULATE : DEMAND;
    if (bytes == 0 || bytes % HUGE_PAGE) {
        fputs("BYTES must be whole huge pages\n", stderr);
        return 2;
    }
    double pages = (double)(bytes / page);
    for (int i = atoi(argv[3]); i > 0; i--) {
        char *mapped;
        size_t before = bytes / 4 * 5 / HUGE_PAGE * HUGE_PAGE;
        store(make(before, kind, &mapped), before, page);
        give_back(mapped, before, kind);

        double begin = now_ns();
        char *start = make(bytes, kind, &mapped);
        double made = now_ns();
        long faults = minor_faults();
        double touching = now_ns();
        store(start, bytes, page);
        double touched = now_ns();
        faults = minor_faults() - faults;
        long huge = huge_kilobytes(start);
        double leaving = now_ns();
        give_back(mapped, bytes, kind);
        double left = now_ns();
        printf("%.2f %.2f %.2f %ld %ld\n", (made - begin) / pages, (touched - touching) / pages,
               (left - leaving) / pages, faults, huge);
    }
    return 0;
}

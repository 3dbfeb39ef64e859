/*
 * What the kernel alone takes for the records of a page fault, by what is in them.
 *
 * Every way opens its events on this very process, one ring for each CPU that is written over and over
 * and that nobody reads, and touches PAGES fresh base pages. Each of ROUNDS rounds runs all ways once.
 * Printed: for each way its name and the median nanoseconds of a touch less those without events.
 *
 *   records PAGES ROUNDS
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096L
/* One page of control and 64 of records: what kernel.perf_event_mlock_kb gives anybody, or less. */
#define RING_BYTES (65 * PAGE)
#define MOST_ROUNDS 1000
#define MOST_DESCRIPTORS 4096

struct event {
    unsigned config;
    unsigned long fields;
    unsigned long registers;
};

struct way {
    const char *name;
    int events;
    struct event event[2];
};

enum {
    ID = PERF_SAMPLE_IDENTIFIER,
    IP = PERF_SAMPLE_IP,
    TID = PERF_SAMPLE_TID,
    TIME = PERF_SAMPLE_TIME,
    ADDR = PERF_SAMPLE_ADDR,
    SIZE = PERF_SAMPLE_DATA_PAGE_SIZE,
    REGS = PERF_SAMPLE_REGS_USER,
};
/* RSI, RDI, RSP. */
#define THREE (1ul << 4 | 1ul << 5 | 1ul << 7)
#define BEGIN PERF_COUNT_SW_PAGE_FAULTS
#define END PERF_COUNT_SW_PAGE_FAULTS_MIN

static const struct way ways[] = {
    {"plain", 0, {{0}}},
    {"perf -d", 1, {{BEGIN, IP | TID | TIME | ADDR, 0}}},
    {"begin", 1, {{BEGIN, ID | IP | TID | TIME | ADDR | SIZE | REGS, THREE}}},
    {"begin and end", 2,
     {{BEGIN, ID | IP | TID | TIME | ADDR | SIZE | REGS, THREE},
      {END, ID | TID | TIME | ADDR | SIZE, 0}}},
    {"begin and end, places and times alone", 2,
     {{BEGIN, ID | IP | TID | TIME | ADDR, 0}, {END, ID | TID | TIME, 0}}},
};
enum { WAYS = sizeof ways / sizeof *ways };

static int descriptors[MOST_DESCRIPTORS], opened;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int open_event(struct perf_event_attr *attr, int cpu) {
    attr->size = sizeof *attr;
    attr->type = PERF_TYPE_SOFTWARE;
    attr->exclude_kernel = 1;
    attr->use_clockid = 1;
    attr->clockid = CLOCK_MONOTONIC;
    attr->watermark = 1;
    attr->wakeup_watermark = 1u << 30;
    int event = (int)syscall(SYS_perf_event_open, attr, 0, cpu, -1, 0);
    if (event < 0 || opened == MOST_DESCRIPTORS)
        fail("perf_event_open");
    return descriptors[opened++] = event;
}

/* The events of a way on one CPU; returns their ring. */
static void *record(const struct way *way, int cpu) {
    struct perf_event_attr dummy = {.config = PERF_COUNT_SW_DUMMY};
    int ring = open_event(&dummy, cpu);
    void *mapped = mmap(NULL, RING_BYTES, PROT_READ, MAP_SHARED, ring, 0);
    if (mapped == MAP_FAILED)
        fail("mmap of a ring");
    for (int i = 0; i < way->events; i++) {
        struct perf_event_attr attr = {
            .config = way->event[i].config,
            .sample_period = 1,
            .sample_type = way->event[i].fields,
            .sample_regs_user = way->event[i].registers,
            .inherit = 1,
            .sample_id_all = 1,
        };
        if (ioctl(open_event(&attr, cpu), PERF_EVENT_IOC_SET_OUTPUT, ring) != 0)
            fail("PERF_EVENT_IOC_SET_OUTPUT");
    }
    return mapped;
}

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1e9 + at.tv_nsec;
}

/* Nanoseconds of a first touch. */
static double touch(long pages) {
    char *memory = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap");
    double start = now();
    for (long page = 0; page < pages; page++)
        *(volatile char *)(memory + page * PAGE) = 1;
    double took = now() - start;
    munmap(memory, pages * PAGE);
    return took / pages;
}

static double measure(const struct way *way, long cpus, long pages) {
    void *rings[cpus];
    for (int cpu = 0; way->events > 0 && cpu < cpus; cpu++)
        rings[cpu] = record(way, cpu);
    double took = touch(pages);
    for (int cpu = 0; way->events > 0 && cpu < cpus; cpu++)
        munmap(rings[cpu], RING_BYTES);
    while (opened > 0)
        close(descriptors[--opened]);
    return took;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **words) {
    static double times[WAYS][MOST_ROUNDS];
    long pages = count == 3 ? atol(words[1]) : 0, rounds = count == 3 ? atol(words[2]) : 0;
    if (pages < 1 || rounds < 1 || rounds > MOST_ROUNDS) {
        fputs("usage: records PAGES ROUNDS\n", stderr);
        return 2;
    }
    /* Base pages, whatever the default is. */
    if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0)
        fail("PR_SET_THP_DISABLE");
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    for (long round = 0; round < rounds; round++)
        for (int way = 0; way < WAYS; way++)
            times[way][round] = measure(&ways[way], cpus, pages);
    for (int way = 0; way < WAYS; way++) {
        qsort(times[way], rounds, sizeof(double), compare);
        printf("%s\t%.1f\n", ways[way].name, times[way][rounds / 2] - times[0][rounds / 2]);
    }
    return 0;
}

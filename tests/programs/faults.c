// Takes page faults whose number is known: says which pages on standard output, then touches them.
//
//   faults HOW PAGES [TIMES]
//
// HOW is one of: write, read-write, populate, read-call, fork, huge, threads (TIMES of them), exec,
// vfork, killed, handler, churn (TIMES over the same pages). Each line "range START END" is a range of addresses in hexadecimal.

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t page;

static volatile char *fresh(size_t bytes, int protection, int flags) {
    void *got = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (got == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    // Each page for itself, whatever the machine's setting.
    madvise(got, bytes, MADV_NOHUGEPAGE);
    printf("range %lx %lx\n", (unsigned long)got, (unsigned long)got + bytes);
    fflush(stdout);
    return got;
}

static void write_all(volatile char *from, size_t pages) {
    for (size_t i = 0; i < pages; i++) from[i * page] = 1;
}

static void read_all(volatile char *from, size_t pages) {
    for (size_t i = 0; i < pages; i++) (void)from[i * page];
}

struct part {
    volatile char *from;
    size_t pages;
};

static void *write_part(void *argument) {
    struct part *part = argument;
    write_all(part->from, part->pages);
    return NULL;
}

static volatile char *volatile closed;

static void open_up(int signal) {
    (void)signal;
    mprotect((void *)closed, page, PROT_READ | PROT_WRITE);
}

static void run_itself(size_t pages) {
    char count[32];
    snprintf(count, sizeof count, "%zu", pages);
    execl("/proc/self/exe", "faults", "write", count, (char *)NULL);
    _exit(127);
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *how = argv[1];
    size_t pages = strtoul(argv[2], NULL, 10);
    size_t times = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
    page = sysconf(_SC_PAGESIZE);
    // Whatever goes wrong, it ends.
    alarm(120);
    int both = PROT_READ | PROT_WRITE;
    if (!strcmp(how, "write")) {
        write_all(fresh(pages * page, both, 0), pages);
    } else if (!strcmp(how, "read-write")) {
        volatile char *from = fresh(pages * page, both, 0);
        read_all(from, pages);
        write_all(from, pages);
    } else if (!strcmp(how, "populate")) {
        write_all(fresh(pages * page, both, MAP_POPULATE), pages);
    } else if (!strcmp(how, "read-call")) {
        volatile char *from = fresh(pages * page, both, 0);
        int zero = open("/dev/zero", O_RDONLY);
        if (read(zero, (void *)from, pages * page) != (ssize_t)(pages * page)) return 2;
    } else if (!strcmp(how, "fork")) {
        volatile char *from = fresh(pages * page, both, 0);
        write_all(from, pages);
        if (fork() == 0) {
            write_all(from, pages);
            _exit(0);
        }
        wait(NULL);
    } else if (!strcmp(how, "huge")) {
        size_t huge = 2 << 20;
        uintptr_t from = (uintptr_t)fresh(2 * huge, both, 0);
        volatile char *aligned = (volatile char *)((from + huge - 1) / huge * huge);
        madvise((void *)aligned, huge, MADV_HUGEPAGE);
        write_all(aligned, huge / page);
    } else if (!strcmp(how, "threads")) {
        pthread_t *ids = calloc(times, sizeof *ids);
        struct part *parts = calloc(times, sizeof *parts);
        volatile char *from = fresh(times * pages * page, both, 0);
        for (size_t i = 0; i < times; i++) {
            parts[i] = (struct part){from + i * pages * page, pages};
            if (pthread_create(&ids[i], NULL, write_part, &parts[i])) return 2;
        }
        for (size_t i = 0; i < times; i++) pthread_join(ids[i], NULL);
    } else if (!strcmp(how, "churn")) {
        volatile char *from = fresh(pages * page, both, 0);
        for (size_t i = 0; i < times; i++) {
            write_all(from, pages);
            madvise((void *)from, pages * page, MADV_DONTNEED);
        }
    } else if (!strcmp(how, "exec")) {
        run_itself(pages);
    } else if (!strcmp(how, "vfork")) {
        if (vfork() == 0) run_itself(pages);
        wait(NULL);
    } else if (!strcmp(how, "killed")) {
        write_all(fresh(pages * page, both, 0), pages);
        raise(SIGKILL);
    } else if (!strcmp(how, "handler")) {
        signal(SIGSEGV, open_up);
        closed = fresh(pages * page, PROT_NONE, 0);
        for (size_t i = 0; i < pages; i++, closed += page) closed[0] = 1;
    } else {
        return 2;
    }
    return 0;
}

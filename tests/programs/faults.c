// Takes page faults whose number is known: says which pages on standard output, then touches them.
//
//   faults HOW PAGES [TIMES]
//
// HOW is one of: write, read-write, populate, locked, read-call, fork, huge, threads (TIMES of
// them), race (TIMES threads on the same pages), exec, chain (of TIMES execs), vfork, killed, dies,
// handler, in-handler, shared, file, churn (TIMES over the same pages), cached, cached-fork and
// cached-windows (reads PAGES of a file that it has just written and whose descriptor it says; a
// child as well; the first page of each 64 KiB alone), map (reads PAGES of the file TIMES, no two
// neighbours in turn), serve (for each byte of standard input TIMES threads that were there, a new
// one and a child take PAGES each; then it says "done"). Each line "range START END" is a range of addresses in hexadecimal.

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

// What one fault on a cached file maps.
#define WINDOW (64 << 10)

static size_t page;

// What mmap gave, said as a range.
static volatile char *range(void *got, size_t bytes) {
    if (got == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    printf("range %lx %lx\n", (unsigned long)got, (unsigned long)got + bytes);
    fflush(stdout);
    return got;
}

static volatile char *fresh(size_t bytes, int protection, int flags) {
    void *got = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    // Each page for itself, whatever the machine's setting.
    madvise(got, bytes, MADV_NOHUGEPAGE);
    return range(got, bytes);
}

// PAGES of a file, whose descriptor is said, mapped for reading from a multiple of 64 KiB on.
static volatile char *mapped(int file, size_t pages) {
    size_t bytes = pages * page;
    printf("descriptor %d\n", file);
    char *room = mmap(NULL, bytes + WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED) exit(2);
    char *from = room + (WINDOW - (uintptr_t)room % WINDOW) % WINDOW;
    return range(mmap(from, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0), bytes);
}

// The same of a file that has just been written and has no name.
static volatile char *cached(size_t pages) {
    char path[] = "/tmp/pagewise-faults-XXXXXX";
    int file = mkstemp(path);
    char *text = calloc(pages, page);
    if (file < 0 || !text || write(file, text, pages * page) != (ssize_t)(pages * page)) {
        perror(path);
        exit(2);
    }
    unlink(path);
    return mapped(file, pages);
}

static void write_all(volatile char *from, size_t pages) {
    for (size_t i = 0; i < pages; i++) from[i * page] = 1;
}

static void read_all(volatile char *from, size_t pages) {
    for (size_t i = 0; i < pages; i++) (void)from[i * page];
}

// Has a child touch these pages.
static void in_child(void (*touch)(volatile char *, size_t), volatile char *from, size_t pages) {
    if (fork() == 0) {
        touch(from, pages);
        _exit(0);
    }
    wait(NULL);
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

static pthread_barrier_t all_there;

static void *write_together(void *argument) {
    pthread_barrier_wait(&all_there);
    return write_part(argument);
}

static volatile char *kept;
static size_t kept_pages;

static void write_kept(int signal) {
    (void)signal;
    write_all(kept, kept_pages);
}

// Each of N pages of a file of that size, which has no name.
static volatile char *file_pages(size_t pages, int flags, int file) {
    if (ftruncate(file, pages * page)) exit(2);
    return range(mmap(NULL, pages * page, PROT_READ | PROT_WRITE, flags, file, 0), pages * page);
}

#define ROUNDS 4

struct worker {
    struct part parts[ROUNDS];
    sem_t go, done;
};

static void *work(void *argument) {
    struct worker *worker = argument;
    for (int round = 0; round < ROUNDS; round++) {
        sem_wait(&worker->go);
        write_part(&worker->parts[round]);
        sem_post(&worker->done);
    }
    return NULL;
}

// The last two workers are no threads: their parts are those of a new thread and of a child.
static int serve(size_t pages, size_t threads) {
    struct worker *workers = calloc(threads + 2, sizeof *workers);
    size_t all = (threads + 2) * ROUNDS * pages;
    volatile char *from = fresh(all * page, PROT_READ | PROT_WRITE, 0);
    pthread_t id;
    for (size_t i = 0; i < threads + 2; i++) {
        for (size_t round = 0; round < ROUNDS; round++)
            workers[i].parts[round] = (struct part){from + (i * ROUNDS + round) * pages * page, pages};
        sem_init(&workers[i].go, 0, 0);
        sem_init(&workers[i].done, 0, 0);
        if (i < threads && pthread_create(&id, NULL, work, &workers[i])) return 2;
    }
    puts("ready");
    fflush(stdout);
    char byte;
    for (int round = 0; round < ROUNDS && read(0, &byte, 1) == 1; round++) {
        for (size_t i = 0; i < threads; i++) sem_post(&workers[i].go);
        for (size_t i = 0; i < threads; i++) sem_wait(&workers[i].done);
        if (pthread_create(&id, NULL, write_part, &workers[threads].parts[round])) return 2;
        pthread_join(id, NULL);
        in_child(write_all, workers[threads + 1].parts[round].from, pages);
        puts("done");
        fflush(stdout);
    }
    return 0;
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
    } else if (!strcmp(how, "locked")) {
        if (mlock((void *)fresh(pages * page, both, 0), pages * page)) return 4;
    } else if (!strcmp(how, "read-call")) {
        volatile char *from = fresh(pages * page, both, 0);
        int zero = open("/dev/zero", O_RDONLY);
        if (read(zero, (void *)from, pages * page) != (ssize_t)(pages * page)) return 2;
    } else if (!strcmp(how, "fork")) {
        volatile char *from = fresh(pages * page, both, 0);
        write_all(from, pages);
        in_child(write_all, from, pages);
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
    } else if (!strcmp(how, "race")) {
        pthread_t *ids = calloc(times, sizeof *ids);
        struct part part = {fresh(pages * page, both, 0), pages};
        pthread_barrier_init(&all_there, NULL, times);
        for (size_t i = 0; i < times; i++)
            if (pthread_create(&ids[i], NULL, write_together, &part)) return 2;
        for (size_t i = 0; i < times; i++) pthread_join(ids[i], NULL);
    } else if (!strcmp(how, "serve")) {
        return serve(pages, times);
    } else if (!strcmp(how, "churn")) {
        volatile char *from = fresh(pages * page, both, 0);
        for (size_t i = 0; i < times; i++) {
            write_all(from, pages);
            madvise((void *)from, pages * page, MADV_DONTNEED);
        }
    } else if (!strcmp(how, "cached")) {
        read_all(cached(pages), pages);
    } else if (!strcmp(how, "cached-windows")) {
        volatile char *from = cached(pages);
        for (size_t at = 0; at < pages * page; at += WINDOW) (void)from[at];
    } else if (!strcmp(how, "cached-fork")) {
        volatile char *from = cached(pages);
        read_all(from, pages);
        in_child(read_all, from, pages);
    } else if (!strcmp(how, "map")) {
        int file = open(argv[3], O_RDONLY);
        if (file < 0) return 2;
        volatile char *from = mapped(file, pages);
        // However much the device reads ahead: what is not cached is read page by page.
        madvise((void *)from, pages * page, MADV_RANDOM);
        // A step that has no factor in common with a power of two meets each page once.
        for (size_t i = 0; i < pages; i++) (void)from[i * 269 % pages * page];
    } else if (!strcmp(how, "exec")) {
        run_itself(pages);
    } else if (!strcmp(how, "chain")) {
        char left[32];
        if (times <= 1) run_itself(pages);
        snprintf(left, sizeof left, "%zu", times - 1);
        execl("/proc/self/exe", "faults", "chain", argv[2], left, (char *)NULL);
        return 127;
    } else if (!strcmp(how, "vfork")) {
        if (vfork() == 0) run_itself(pages);
        wait(NULL);
    } else if (!strcmp(how, "killed")) {
        write_all(fresh(pages * page, both, 0), pages);
        raise(SIGKILL);
    } else if (!strcmp(how, "dies")) {
        volatile char *from = fresh(pages * page, both, 0);
        write_all(from, pages);
        mprotect((void *)from, page, PROT_NONE);
        from[0] = 1;
    } else if (!strcmp(how, "in-handler")) {
        kept = fresh(pages * page, both, 0);
        kept_pages = pages;
        signal(SIGUSR1, write_kept);
        raise(SIGUSR1);
    } else if (!strcmp(how, "shared")) {
        write_all(file_pages(pages, MAP_SHARED, memfd_create("faults", 0)), pages);
    } else if (!strcmp(how, "file")) {
        write_all(file_pages(pages, MAP_PRIVATE, fileno(tmpfile())), pages);
    } else if (!strcmp(how, "handler")) {
        signal(SIGSEGV, open_up);
        closed = fresh(pages * page, PROT_NONE, 0);
        for (size_t i = 0; i < pages; i++, closed += page) closed[0] = 1;
    } else {
        return 2;
    }
    return 0;
}

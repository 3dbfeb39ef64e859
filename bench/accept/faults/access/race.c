// Threads that touch the same fresh pages at the same time, some reading and some writing.
//
//   race THREADS PAGES
//
// Ends with 0.

#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, AT_ONCE = 16 };

static volatile char *memory;
static size_t pages;
static pthread_barrier_t together;

static void *touch(void *argument) {
    size_t number = (size_t)argument;
    for (size_t i = 0; i < pages; i++) {
        if (i % AT_ONCE == 0) pthread_barrier_wait(&together);
        if (number % 2)
            memory[i * PAGE + number] = 1;
        else
            (void)memory[i * PAGE + number];
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    size_t threads = strtoul(argv[1], NULL, 10);
    pages = strtoul(argv[2], NULL, 10);
    alarm(60);
    void *got = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t *ids = calloc(threads, sizeof *ids);
    if (got == MAP_FAILED || !ids || pthread_barrier_init(&together, NULL, threads)) return 2;
    madvise(got, pages * PAGE, MADV_NOHUGEPAGE);
    memory = got;
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, touch, (void *)i)) return 2;
    for (size_t i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    return 0;
}

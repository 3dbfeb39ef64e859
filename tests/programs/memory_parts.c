/* Memory whose parts are known. Prints a line with name and bytes for each, then "ready", and waits for the end of
 * its standard input.
 *
 *   memory_parts FILE     FILE holds MAPPED bytes at least
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MIB = 1 << 20, BLOCKS = 8192, BLOCK = 3000, LARGE = 5 * MIB, THREADS = 3, OWN = 4 * MIB, OWN_BLOCK = 2000 };
enum { STACK = 3 * MIB, MAPPED = 8 * MIB, READ = 4 * MIB, WRITTEN = MIB, HUGE_PAGES = 8 };

static pthread_barrier_t all;
static char *kept[BLOCKS], *last[THREADS], *volatile large;
static volatile long sink;

static void told(const char *name, size_t bytes) {
    printf("%s %zu\n", name, bytes);
}

/* The chunk that malloc makes of a block: a word of its own, in steps of two words. */
static size_t chunk(size_t block) {
    return (block + 8 + 15) / 16 * 16;
}

static void wait_all(void) {
    pthread_barrier_wait(&all);
}

/* Three of four blocks are freed, next to each other; the fourth keeps them from the end of the heap. */
static void main_arena(void) {
    for (int i = 0; i < BLOCKS; i++)
        kept[i] = memset(malloc(BLOCK), 1, BLOCK);
    for (int i = 0; i < BLOCKS; i++)
        if (i % 4 != 3)
            free(kept[i]);
    told("live", BLOCKS / 4 * chunk(BLOCK));
    told("freed", BLOCKS / 4 * 3 * chunk(BLOCK));
}

/* An arena of its own, whose blocks are freed but for the last. */
static void *own_arena(void *slot) {
    free(malloc(OWN_BLOCK));
    wait_all();
    static __thread char *held[OWN / OWN_BLOCK];
    const int count = OWN / OWN_BLOCK;
    for (int i = 0; i < count; i++)
        held[i] = memset(malloc(OWN_BLOCK), 1, OWN_BLOCK);
    for (int i = 0; i + 1 < count; i++)
        free(held[i]);
    *(char **)slot = held[count - 1];
    wait_all();
    wait_all();
    return NULL;
}

static void *deep(void *unused) {
    volatile char bytes[STACK];
    for (size_t i = 0; i < STACK; i += 1024)
        bytes[i] = 1;
    sink += bytes[0];
    wait_all();
    wait_all();
    wait_all();
    return unused;
}

static void files(const char *path) {
    int fd = open(path, O_RDONLY);
    char *file = mmap(NULL, MAPPED, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (fd < 0 || file == MAP_FAILED) {
        perror(path);
        exit(1);
    }
    for (size_t i = 0; i < READ; i += 64)
        sink += file[i];
    memset(file + MAPPED - WRITTEN, 1, WRITTEN);
    told("file", READ);
    told("written", WRITTEN);
}

/* A byte in each of some huge pages. */
static void half_used(void) {
    const size_t huge = 2 * MIB, size = HUGE_PAGES * huge;
    char *start = mmap(NULL, size + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *aligned = (char *)(((uintptr_t)start + huge - 1) / huge * huge);
    madvise(aligned, size, MADV_HUGEPAGE);
    for (int i = 0; i < HUGE_PAGES; i++)
        aligned[i * huge] = 1;
    told("huge", size);
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    setvbuf(stdout, malloc(BUFSIZ), _IOFBF, BUFSIZ);
    pthread_t threads[THREADS + 1];
    pthread_attr_t roomy;
    pthread_attr_init(&roomy);
    pthread_attr_setstacksize(&roomy, 8 * MIB);
    pthread_barrier_init(&all, NULL, THREADS + 2);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, own_arena, &last[i]);
    pthread_create(&threads[THREADS], &roomy, deep, NULL);
    wait_all();
    wait_all();
    told("elsewhere", (size_t)THREADS * (OWN / OWN_BLOCK - 1) * chunk(OWN_BLOCK));
    told("stack", STACK);
    main_arena();
    large = memset(malloc(LARGE), 1, LARGE);
    told("large", LARGE);
    files(argv[1]);
    half_used();
    puts("ready");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    return 0;
}

/* Uses of glibc's malloc whose cost is known.
 *
 *   mallocs spin ROUNDS        user time that is nearly all in malloc and free
 *   mallocs grow MIB           the heap of the only thread grows to MIB by small blocks
 *   mallocs arenas THREADS MIB each of THREADS threads that live at once takes MIB in blocks, keeps the
 *                              last one and frees the others, one thread after the other: with an arena
 *                              for each thread the freed memory stays with it, with one arena the
 *                              next thread takes it again
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1000, SPUN = 32 };

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all;
static size_t blocks;

static void spin(long rounds) {
    void *held[SPUN];
    while (rounds-- > 0) {
        for (int i = 0; i < SPUN; i++)
            held[i] = malloc(2000 + 16 * i);
        for (int i = 0; i < SPUN; i++)
            free(held[i]);
    }
}

static void grow(size_t mib) {
    for (size_t bytes = mib << 20; bytes > BLOCK; bytes -= BLOCK)
        memset(malloc(BLOCK - 16), 1, BLOCK - 16);
}

static void *take(void *kept) {
    /* All have an arena before the first takes its turn. */
    free(malloc(BLOCK));
    pthread_barrier_wait(&all);
    pthread_mutex_lock(&turn);
    char **held = calloc(blocks, sizeof *held);
    for (size_t i = 0; i < blocks; i++)
        held[i] = memset(malloc(BLOCK), 1, BLOCK);
    for (size_t i = 0; i + 1 < blocks; i++)
        free(held[i]);
    *(char **)kept = held[blocks - 1];
    free(held);
    pthread_mutex_unlock(&turn);
    pthread_barrier_wait(&all);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "spin")) {
        spin(atol(argv[2]));
        return 0;
    }
    if (argc == 3 && !strcmp(argv[1], "grow")) {
        grow((size_t)atoi(argv[2]));
        return 0;
    }
    if (argc != 4 || strcmp(argv[1], "arenas"))
        return 2;
    unsigned threads = atoi(argv[2]);
    blocks = (size_t)atoi(argv[3]) * (1 << 20) / BLOCK;
    pthread_t *started = calloc(threads, sizeof *started);
    char **kept = calloc(threads, sizeof *kept);
    pthread_barrier_init(&all, NULL, threads);
    for (unsigned i = 0; i < threads; i++)
        pthread_create(&started[i], NULL, take, &kept[i]);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
    puts("done");
    return 0;
}

/* Heaps that ask for more than a small pool of huge pages has: `pool_heap MODE MIB [LABEL]`.
 *
 * threads  four threads fill MIB each, in pieces that malloc takes from the thread's arena
 * fork     fills MIB, forks, writes all of it again and lets the child read it after that
 * Prints a checksum that depends on every piece; of `fork`, how the child ended. LABEL is ignored; it makes
 * the process findable.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, PIECE = 64 << 10, STEP = 4096 };

static size_t pieces;

static void *fill(void *number) {
    uint64_t sum = 0;
    for (size_t i = 0; i < pieces; i++) {
        unsigned char *piece = malloc(PIECE);
        if (piece == NULL)
            return NULL;
        memset(piece, (int)(i + (uintptr_t)number), PIECE);
        sum = sum * 31 + piece[i % PIECE];
    }
    return (void *)(uintptr_t)(sum | 1);
}

static int threads(void) {
    pthread_t ids[THREADS];
    uint64_t all = 0;
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&ids[i], NULL, fill, (void *)i) != 0)
            return 1;
    for (size_t i = 0; i < THREADS; i++) {
        void *sum = NULL;
        pthread_join(ids[i], &sum);
        if (sum == NULL)
            return 1;
        all = all * 31 + (uintptr_t)sum;
    }
    printf("%016llx\n", (unsigned long long)all);
    return 0;
}

static uint64_t read_all(const unsigned char *memory, size_t bytes) {
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes; i += STEP)
        sum += memory[i];
    return sum;
}

static int forked(size_t bytes) {
    unsigned char *memory = malloc(bytes);
    int go[2];
    if (memory == NULL || pipe(go) != 0)
        return 1;
    memset(memory, 1, bytes);
    const pid_t child = fork();
    if (child == 0) {
        char byte;
        close(go[1]);
        _exit(read(go[0], &byte, 1) == 1 && read_all(memory, bytes) == bytes / STEP ? 0 : 1);
    }
    memset(memory, 2, bytes);
    int status = 0;
    if (child < 0 || write(go[1], "x", 1) != 1 || waitpid(child, &status, 0) != child)
        return 1;
    printf("parent %llu, child %s %d\n", (unsigned long long)read_all(memory, bytes),
           WIFSIGNALED(status) ? "killed by" : "exited with",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s threads|fork MIB [LABEL]\n", argv[0]);
        return 2;
    }
    const size_t bytes = strtoull(argv[2], NULL, 10) << 20;
    pieces = bytes / PIECE;
    return strcmp(argv[1], "threads") == 0 ? threads() : forked(bytes);
}

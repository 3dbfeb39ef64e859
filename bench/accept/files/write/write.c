/* Overwrites SIZE bytes of a cached file in blocks, once: write FILE call|map|call-sync|map-sync BLOCK SIZE.
   Prints the nanoseconds from opening to closing. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    size_t block = strtoull(argv[3], 0, 10), size = strtoull(argv[4], 0, 10);
    int is_map = argv[2][0] == 'm', is_synced = strstr(argv[2], "sync") != 0;
    char *from = malloc(block);
    memset(from, (int)(now() & 255), block);
    long long start = now();
    int file = open(argv[1], O_RDWR);
    if (file < 0)
        return 1;
    if (is_map) {
        char *to = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (to == MAP_FAILED)
            return 1;
        for (size_t at = 0; at < size; at += block)
            memcpy(to + at, from, block);
        if (is_synced && msync(to, size, MS_SYNC))
            return 1;
        munmap(to, size);
    } else {
        for (size_t at = 0; at < size; at += block)
            if (write(file, from, block) != (ssize_t)block)
                return 1;
        if (is_synced && fsync(file))
            return 1;
    }
    close(file);
    printf("%lld\n", now() - start);
    return 0;
}

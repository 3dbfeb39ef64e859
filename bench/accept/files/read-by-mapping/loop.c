/* Reads a file in blocks, by one way: `loop FILE WAY BLOCK`. Prints nanoseconds from the first call to the last.
 *
 * read    read(2)
 * mapped  copied out of a mapping at an offset of our own: no call at all, and no file offset
 * served  as `mapped`, with what read(2) promises: the file's length is asked (fstat(2)), so that a shorter file
 *         is a short read, and the offset that all copies of the descriptor share is moved (lseek(2))
 * safe    as `served`, copied by process_vm_readv(2), for which a page that is gone is an error and not SIGBUS
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum way { READ, MAPPED, SERVED, SAFE };

static const char *const WAYS[] = {"read", "mapped", "served", "safe"};

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static ssize_t copy(enum way way, char *to, const char *from, size_t size) {
    if (way == SAFE) {
        const struct iovec local = {to, size}, remote = {(void *)from, size};
        return process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    }
    memcpy(to, from, size);
    return (ssize_t)size;
}

static ssize_t serve(enum way way, int file, const char *map, char *to, size_t block) {
    struct stat found;
    if (fstat(file, &found) != 0)
        return -1;
    const off_t at = lseek(file, (off_t)block, SEEK_CUR) - (off_t)block;
    const off_t left = at < found.st_size ? found.st_size - at : 0;
    const size_t size = left < (off_t)block ? (size_t)left : block;
    if (size < block && lseek(file, (off_t)size - (off_t)block, SEEK_CUR) < 0)
        return -1;
    return size == 0 ? 0 : copy(way, to, map + at, size);
}

int main(int argc, char **argv) {
    enum way way = READ;
    while (argc == 4 && way < SAFE && strcmp(WAYS[way], argv[2]) != 0)
        way++;
    const int file = argc == 4 ? open(argv[1], O_RDONLY) : -1;
    struct stat found;
    if (file < 0 || fstat(file, &found) != 0 || strcmp(WAYS[way], argv[2]) != 0) {
        fprintf(stderr, "usage: loop FILE read|mapped|served|safe BLOCK\n");
        return 2;
    }
    const size_t block = strtoull(argv[3], NULL, 10), size = (size_t)found.st_size;
    char *to = malloc(block);
    memset(to, 1, block);
    const uint64_t begin = now();
    const char *map = way == READ ? NULL : mmap(NULL, size, PROT_READ, MAP_SHARED, file, 0);
    uint64_t sum = 0;
    size_t done = 0;
    for (ssize_t got = 1; got > 0; done += (size_t)got) {
        if (way == READ)
            got = read(file, to, block);
        else if (way == MAPPED)
            got = done < size ? copy(way, to, map + done, size - done < block ? size - done : block) : 0;
        else
            got = serve(way, file, map, to, block);
        if (got < 0)
            return 1;
        sum += (unsigned char)to[(size_t)got / 2];
    }
    if (map != NULL)
        munmap((void *)map, size);
    printf("%llu %llu\n", (unsigned long long)(now() - begin), (unsigned long long)sum);
    return done == size ? 0 : 1;
}

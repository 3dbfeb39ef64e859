/* Exactly N faults on mapped files, made as a start of many libraries makes them, and unlike both
 * `faults file` and the calibration: several files, all mapped at once, private, their windows in
 * no order, another page in each. Usage: libraries N FILE...; when all windows are used up the
 * files are mapped anew. A window is 16 pages, aligned as the kernel aligns it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE 4096UL
#define WINDOW (16 * PAGE)
#define MOST 65536

static uint64_t state = 88172645463325252u;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

struct file { int fd; size_t len; char *at; };

/* Maps every file and lists its whole windows. */
static size_t map_all(struct file *files, int count, char **windows)
{
    size_t found = 0;
    for (int i = 0; i < count; i++) {
        files[i].at = mmap(NULL, files[i].len, PROT_READ, MAP_PRIVATE, files[i].fd, 0);
        if (files[i].at == MAP_FAILED) { perror("mmap"); exit(1); }
        uintptr_t start = ((uintptr_t)files[i].at + WINDOW - 1) & ~(WINDOW - 1);
        uintptr_t end = (uintptr_t)files[i].at + (files[i].len & ~(PAGE - 1));
        for (; start + WINDOW <= end && found < MOST; start += WINDOW) windows[found++] = (char *)start;
    }
    return found;
}

static void shuffle(char **windows, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        size_t other = next() % i;
        char *kept = windows[i - 1];
        windows[i - 1] = windows[other];
        windows[other] = kept;
    }
}

int main(int argc, char **argv)
{
    static char *windows[MOST];
    static struct file files[64];
    int count = argc - 2;
    if (count < 1 || count > 64) return 2;
    for (int i = 0; i < count; i++) {
        struct stat about;
        files[i].fd = open(argv[i + 2], O_RDONLY);
        if (files[i].fd < 0 || fstat(files[i].fd, &about) != 0) { perror(argv[i + 2]); return 1; }
        files[i].len = (size_t)about.st_size;
    }
    long sum = 0;
    for (long left = atol(argv[1]); left > 0;) {
        size_t found = map_all(files, count, windows);
        if (found == 0) { fputs("libraries: files without a whole window\n", stderr); return 1; }
        shuffle(windows, found);
        for (size_t i = 0; i < found && left > 0; i++, left--)
            sum += *(volatile char *)(windows[i] + next() % 16 * PAGE);
        for (int i = 0; i < count; i++) munmap(files[i].at, files[i].len);
    }
    if (sum == 42) puts("");
    return 0;
}

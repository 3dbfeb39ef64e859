/* Exactly N page faults of one kind, made unlike the calibration: several mappings, downwards or
 * in steps of three pages. Usage: faults anon|cow|huge|file N [FILE]; anon N in base pages, cow N
 * after a fork, huge N in huge pages, file N in windows of 16 pages of FILE. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L
#define PARTS 4

static char *map(size_t len, int advice)
{
    char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) { perror("mmap"); exit(1); }
    madvise(p, len, advice);
    return p;
}

/* Every page once, in three passes over all parts, each pass downwards. */
static void touch(char **parts, long pages)
{
    for (int pass = 0; pass < 3; pass++)
        for (int part = 0; part < PARTS; part++)
            for (long i = pages - 1 - pass; i >= 0; i -= 3)
                parts[part][i * PAGE + 8] = 7;
}

static void base_pages(long n, int cow)
{
    char *parts[PARTS];
    long pages = n / PARTS;
    for (int i = 0; i < PARTS; i++) parts[i] = map(pages * PAGE, MADV_NOHUGEPAGE);
    touch(parts, pages);
    if (!cow) return;
    if (fork() == 0) { touch(parts, pages); _exit(0); }
    wait(NULL);
}

static void huge_pages(long n)
{
    const size_t huge = 2UL << 20;
    char *p = map((n + 1) * huge, MADV_HUGEPAGE);
    p = (char *)(((size_t)p + huge - 1) & ~(huge - 1));
    for (long i = n - 1; i >= 0; i--) p[i * huge + 12345] = 7;
}

/* Windows of 16 pages from the last to the first, the file mapped again when it is used up. */
static void file_windows(long n, const char *name)
{
    int fd = open(name, O_RDONLY);
    off_t len = lseek(fd, 0, SEEK_END);
    long windows = len / (16 * PAGE), sum = 0;
    if (fd < 0 || windows < 1) { perror(name); exit(1); }
    while (n > 0) {
        const volatile char *p = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED) { perror("mmap"); exit(1); }
        for (long i = windows - 1; i >= 0 && n > 0; i--, n--) sum += p[i * 16 * PAGE + 5 * PAGE];
        munmap((void *)p, len);
    }
    if (sum == 42) puts("");
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    long n = atol(argv[2]);
    if (!strcmp(argv[1], "anon")) base_pages(n, 0);
    else if (!strcmp(argv[1], "cow")) base_pages(n, 1);
    else if (!strcmp(argv[1], "huge")) huge_pages(n);
    else if (!strcmp(argv[1], "file") && argc > 3) file_windows(n, argv[3]);
    else return 2;
    return 0;
}

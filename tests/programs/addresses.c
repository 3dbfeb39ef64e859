/* Memory in known states, for `pagewise page`: maps and touches, prints a line with name and address for
 * each place, then "ready", and waits for the end of its standard input. The first word is a file of at
 * least two pages. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void *map(size_t size, int rights, int flags, int fd)
{
    void *start = mmap(NULL, size, rights, flags, fd, 0);
    if (start == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return start;
}

static void tell(const char *name, const volatile char *address)
{
    printf("%s %#jx\n", name, (uintmax_t)(uintptr_t)address);
}

/* A shared page that a child maps as well, for as long as this process lives. Before everything else: what
 * is forked is shared, and written again it is copied. */
static void share(size_t page)
{
    volatile char *shared = map(page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
    int ready[2], end[2];
    char byte;

    shared[0] = 1;
    if (pipe(ready) || pipe(end))
        exit(1);
    pid_t child = fork();
    if (child == 0) {
        byte = shared[0];
        close(end[1]);
        close(STDOUT_FILENO);
        if (write(ready[1], &byte, 1) != 1)
            _exit(1);
        while (read(end[0], &byte, 1) > 0)
            ;
        _exit(0);
    }
    close(end[0]);
    if (child < 0 || read(ready[0], &byte, 1) != 1)
        exit(1);
    tell("shared", shared);
}

int main(int argc, char **argv)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const int rights = PROT_READ | PROT_WRITE;
    const int own = MAP_PRIVATE | MAP_ANONYMOUS;
    int fd = argc > 1 ? open(argv[1], O_RDONLY) : -1;

    if (fd < 0) {
        perror("open");
        return 1;
    }
    share(page);

    volatile char *plain = map(4 * page, rights, own, -1);
    madvise((void *)plain, 4 * page, MADV_NOHUGEPAGE);
    plain[0] = 1;
    tell("touched", plain);
    tell("untouched", plain + page);

    volatile char *read_only = map(4 * page, rights, own, -1);
    madvise((void *)read_only, 4 * page, MADV_NOHUGEPAGE);
    volatile char sum = read_only[2 * page];
    tell("zero", read_only + 2 * page);

    volatile char *file = map(2 * page, PROT_READ, MAP_PRIVATE, fd);
    sum += file[page + 5];
    tell("file", file + page + 5);

    volatile char *none = map(4 * page, PROT_NONE, own, -1);
    tell("none", none);

    /* A hole between two mappings. */
    volatile char *outer = map(3 * page, rights, own, -1);
    munmap((void *)(outer + page), page);
    tell("hole", outer + page);

    /* One entry of a middle-level table covers a page full of entries of 8 bytes. */
    const size_t huge = page / 8 * page;
    uintptr_t start = (uintptr_t)map(2 * huge, rights, own, -1);
    volatile char *aligned = (volatile char *)((start + huge - 1) / huge * huge);
    madvise((void *)aligned, huge, MADV_HUGEPAGE);
    aligned[0] = 1;
    tell("huge", aligned + 0x1234);

    puts("ready");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    return 0;
}

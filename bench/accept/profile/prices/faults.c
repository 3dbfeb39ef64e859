/* Exactly N page faults of one kind, made unlike the calibration: several mappings, downwards or
 * in steps of three pages. Usage: faults anon|fork|huge N, faults child|parent|tables N ALL,
 * faults file N FILE. anon: N base pages; fork: N base pages, then the same again after a fork;
 * child and parent: ALL base pages (the same for every N) and a fork, then only N writes that copy,
 * by the one or the other; tables: FORKS forks of N of ALL base pages; huge: N huge pages; file: N windows of 16
 * pages of FILE. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L
#define PARTS 4
#define FORKS 200

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

static void map_parts(char **parts, long pages)
{
    for (int i = 0; i < PARTS; i++) parts[i] = map(pages * PAGE, MADV_NOHUGEPAGE);
    touch(parts, pages);
}

static void base_pages(long n, int forked)
{
    char *parts[PARTS];
    map_parts(parts, n / PARTS);
    if (!forked) return;
    if (fork() == 0) { touch(parts, n / PARTS); _exit(0); }
    wait(NULL);
}

/* Only the copies differ between one N and another. The child lives until the writer is done, so
 * that every page has two owners when it is written. */
static void copies(long n, long all, int by_child)
{
    char *parts[PARTS], c;
    int ends[2];
    map_parts(parts, all / PARTS);
    if (n > all || pipe(ends) != 0) { fputs("faults: N above ALL, or no pipe\n", stderr); exit(1); }
    pid_t child = fork();
    if ((child == 0) == by_child) touch(parts, n / PARTS);
    if (child == 0) {
        close(ends[1]);
        _exit(read(ends[0], &c, 1) != 0);
    }
    close(ends[1]);
    wait(NULL);
}

/* ALL base pages, of which forks see only N: their tables are copied FORKS times. Nobody waits for the children, so
 * that their ends do not count, and each fork is over before the next. */
static void tables(long n, long all)
{
    char *parts[PARTS];
    siginfo_t ended;
    map_parts(parts, all / PARTS);
    if (n > all) { fputs("faults: N above ALL\n", stderr); exit(1); }
    for (int i = 0; i < PARTS; i++)
        madvise(parts[i] + n / PARTS * PAGE, (all - n) / PARTS * PAGE, MADV_DONTFORK);
    for (int forks = 0; forks < FORKS; forks++) {
        pid_t child = fork();
        if (child == 0) _exit(0);
        waitid(P_PID, child, &ended, WEXITED | WNOWAIT);
    }
    signal(SIGCHLD, SIG_IGN);
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
    else if (!strcmp(argv[1], "fork")) base_pages(n, 1);
    else if (!strcmp(argv[1], "child") && argc > 3) copies(n, atol(argv[3]), 1);
    else if (!strcmp(argv[1], "parent") && argc > 3) copies(n, atol(argv[3]), 0);
    else if (!strcmp(argv[1], "tables") && argc > 3) tables(n, atol(argv[3]));
    else if (!strcmp(argv[1], "huge")) huge_pages(n);
    else if (!strcmp(argv[1], "file") && argc > 3) file_windows(n, argv[3]);
    else return 2;
    return 0;
}

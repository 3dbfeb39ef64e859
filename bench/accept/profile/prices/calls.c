/* N hand-overs, copied MiB, mapping pairs or system calls. Usage:
 * calls cross|same N (hand-overs between two processes over two pipes),
 * calls pipe MIB BLOCK, calls file MIB BLOCK FILE, calls map N, calls sys N. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void pin(int nth)
{
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all) && nth-- == 0) CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void need(ssize_t got, ssize_t want)
{
    if (got != want) { perror("calls"); exit(1); }
}

static void hand_over(long n, int cross)
{
    int there[2], back[2];
    char c = 1;
    need(pipe(there) | pipe(back), 0);
    pid_t child = fork();
    pin(child == 0 ? cross : 0);
    int in = child == 0 ? there[0] : back[0], out = child == 0 ? back[1] : there[1];
    for (long i = 0; i < n / 2; i++) {
        if (child != 0) need(write(out, &c, 1), 1);
        need(read(in, &c, 1), 1);
        if (child == 0) need(write(out, &c, 1), 1);
    }
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
}

static void copy_pipe(long mib, size_t block)
{
    int ends[2];
    char *buffer = malloc(block);
    memset(buffer, 7, block);
    need(pipe(ends), 0);
    for (size_t left = (size_t)mib << 20; left >= block; left -= block) {
        need(write(ends[1], buffer, block), block);
        need(read(ends[0], buffer, block), block);
    }
}

static void copy_file(long mib, size_t block, const char *name)
{
    char *buffer = malloc(block);
    int fd = open(name, O_RDONLY);
    if (fd < 0) { perror(name); exit(1); }
    for (size_t left = (size_t)mib << 20; left >= block;) {
        ssize_t got = read(fd, buffer, block);
        if (got <= 0) { lseek(fd, 0, SEEK_SET); continue; }
        left -= got < (ssize_t)left ? (size_t)got : left;
    }
}

static void map_pairs(long n)
{
    for (long i = 0; i < n; i++) {
        size_t len = (size_t)(1 + i % 7) * 192 * 1024;
        void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) exit(1);
        munmap(p, len);
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    long n = atol(argv[2]);
    if (!strcmp(argv[1], "cross")) hand_over(n, 1);
    else if (!strcmp(argv[1], "same")) hand_over(n, 0);
    else if (!strcmp(argv[1], "pipe") && argc > 3) copy_pipe(n, atol(argv[3]));
    else if (!strcmp(argv[1], "file") && argc > 4) copy_file(n, atol(argv[3]), argv[4]);
    else if (!strcmp(argv[1], "map")) map_pairs(n);
    else if (!strcmp(argv[1], "sys")) for (long i = 0; i < n; i++) syscall(SYS_getuid);
    else return 2;
    return 0;
}

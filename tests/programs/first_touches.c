/* Memory of which each function first touches a known part: "NAME BYTES" on standard error for each.
 *
 *   first_touches
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MIB = 1 << 20, PAGE = 4096, HUGE_PAGE = 2 * MIB };
#define TOUCHES static __attribute__((noinline)) void

static char *mapped(size_t bytes) {
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        exit(1);
    madvise(at, bytes, MADV_NOHUGEPAGE);
    return at;
}

TOUCHES keeps(volatile char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += PAGE)
        at[i] = 1;
}

TOUCHES unmaps(volatile char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += PAGE)
        at[i] = 1;
    munmap((void *)at, bytes);
}

TOUCHES gives_half_back(volatile char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += PAGE)
        at[i] = 1;
    madvise((void *)at, bytes / 2, MADV_DONTNEED);
}

/* Where something else was before. */
TOUCHES follows(volatile char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += PAGE)
        at[i] = 1;
}

TOUCHES fills(char *at, size_t bytes) {
    memset(at, 1, bytes);
}

TOUCHES is_moved(volatile char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += PAGE)
        at[i] = 1;
    if (mremap((void *)at, bytes, 2 * bytes, MREMAP_MAYMOVE) == MAP_FAILED)
        exit(1);
}

/* Reads find the zero page, which is nobody's memory. */
TOUCHES writes_after(volatile char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += PAGE)
        at[i] = 1;
}

static __attribute__((noinline)) int reads(volatile char *at, size_t bytes) {
    int sum = 0;
    for (size_t i = 0; i < bytes; i += PAGE)
        sum += at[i];
    return sum;
}

/* One byte of each huge page. */
TOUCHES touches_huge(volatile char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += HUGE_PAGE)
        at[i] = 1;
}

/* A forked process: what it shares is not its own. */
TOUCHES copies(volatile char *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += PAGE)
        at[i] = 2;
}

static void told(const char *name, size_t mebibytes) {
    fprintf(stderr, "%s %zu\n", name, mebibytes * MIB);
}

int main(void) {
    char *kept = mapped(16 * MIB), *gone = mapped(8 * MIB), *half = mapped(6 * MIB);
    keeps(kept, 16 * MIB);
    unmaps(gone, 8 * MIB);
    gives_half_back(half, 6 * MIB);
    char *next = mmap(gone, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    madvise(next, 4 * MIB, MADV_NOHUGEPAGE);
    follows(next, 4 * MIB);
    fills(mapped(7 * MIB), 7 * MIB);
    char *moved = mapped(5 * MIB);
    mapped(PAGE); /* nothing can grow in place */
    is_moved(moved, 5 * MIB);
    char *read = mapped(2 * MIB);
    if (reads(read, 2 * MIB))
        return 1;
    writes_after(read, 2 * MIB);
    char *huge = mapped(12 * MIB);
    huge += HUGE_PAGE - (size_t)huge % HUGE_PAGE;
    madvise(huge, 8 * MIB, MADV_HUGEPAGE);
    touches_huge(huge, 8 * MIB);
    told("keeps", 16), told("unmaps", 0), told("gives_half_back", 3), told("follows", 4), told("fills", 7);
    told("is_moved", 5), told("reads", 0), told("writes_after", 2), told("touches_huge", 8), told("copies", 3);
    pid_t child = fork();
    if (child == 0) {
        copies(kept, 3 * MIB);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return 0;
}

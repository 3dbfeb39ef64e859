/* Memory whose huge pages are known slot by slot: maps areas of four slots (and a vast one), advises and touches
 * them, prints a line with name and address for each, then "ready", and waits for the end of its standard
 * input. With the word `disabled` it does without huge pages. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

static size_t huge;

/* `slots` slots between two pages that nobody may touch: a mapping of its own. */
static volatile char *area(const char *name, size_t slots, int advice)
{
    const size_t size = slots * huge;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *start = mmap(NULL, size + 2 * huge, PROT_NONE, flags, -1, 0);
    if (start == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    char *aligned = (char *)(((uintptr_t)start + 2 * huge - 1) / huge * huge);
    if (mprotect(aligned, size, PROT_READ | PROT_WRITE) || (advice >= 0 && madvise(aligned, size, advice))) {
        perror(name);
        exit(1);
    }
    printf("%s %#jx\n", name, (uintmax_t)(uintptr_t)aligned);
    return aligned;
}

int main(int argc, char **argv)
{
    /* One entry of a middle-level table covers a page full of entries of 8 bytes. */
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    huge = page / 8 * page;

    if (argc > 1 && strcmp(argv[1], "disabled") == 0 && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)) {
        perror("prctl");
        return 1;
    }
    volatile char *wanted = area("wanted", 4, MADV_HUGEPAGE);
    wanted[0] = 1;
    wanted[2 * huge] = 1;
    area("silent", 4, -1)[huge + page] = 1;
    area("refused", 4, MADV_NOHUGEPAGE)[3 * huge] = 1;
    /* Half a terabyte, of which a page is touched. */
    const size_t many = ((size_t)1 << 39) / huge;
    area("vast", many, MADV_NOHUGEPAGE)[many / 2 * huge] = 1;

    puts("ready");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    return 0;
}

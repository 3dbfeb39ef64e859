// Has the C library touch memory on behalf of functions whose names are known.
//
//   fault_callers HOW PAGES [TIMES]
//
// HOW is one of: fill (memset called by fill_buffer), copy (strdup called by copy_text), loop (TIMES over
// a mapping that use_and_unmap makes and removes).

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

// A call in the last place could become a jump, which leaves no trace on the stack.
#define STAYS __asm__ volatile("" ::: "memory")

static char *fresh(size_t bytes) {
    void *got = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    return got;
}

__attribute__((noinline)) void fill_buffer(char *buffer, size_t bytes) {
    memset(buffer, 1, bytes);
    STAYS;
}

__attribute__((noinline)) char *copy_text(const char *text) {
    char *copy = strdup(text);
    STAYS;
    return copy;
}

__attribute__((noinline)) void use_and_unmap(size_t bytes) {
    char *buffer = fresh(bytes);
    memset(buffer, 1, bytes);
    munmap(buffer, bytes);
    STAYS;
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    const char *how = argv[1];
    size_t bytes = strtoul(argv[2], NULL, 10) * sysconf(_SC_PAGESIZE);
    size_t times = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
    // Whatever goes wrong, it ends.
    alarm(120);
    // Each page for itself, whatever the machine's setting.
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    if (!strcmp(how, "fill")) {
        fill_buffer(fresh(bytes), bytes);
    } else if (!strcmp(how, "copy")) {
        char *text = fresh(bytes);
        fill_buffer(text, bytes - 1);
        char *copy = copy_text(text);
        if (!copy || copy[0] != 1) return 3;
    } else if (!strcmp(how, "loop")) {
        for (size_t i = 0; i < times; i++) use_and_unmap(bytes);
    } else {
        return 2;
    }
    return 0;
}

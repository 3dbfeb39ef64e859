/* A program with 7 MiB of code, at fixed addresses when built with -no-pie. It reads a byte of each page of
   its code, says so, and waits for the end of standard input. An argument changes that: `idle` reads
   nothing, `disabled` first does without huge pages, `written` writes one page back as it was, which
   makes a private copy of it. */
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

extern volatile char wide_start[], wide_end[];

__asm__(".text\n"
        ".globl wide_start\n"
        "wide_start:\n"
        ".fill 7340032, 1, 0\n"
        ".globl wide_end\n"
        "wide_end:\n");

/* Writes the page in the middle of the code. */
static int write_back(long page) {
    volatile char *middle = wide_start + (wide_end - wide_start) / 2;
    char *start = (char *)((unsigned long)middle / page * page);
    if (mprotect(start, page, PROT_READ | PROT_WRITE) != 0)
        return -1;
    *(volatile char *)start = *(volatile char *)start;
    return mprotect(start, page, PROT_READ | PROT_EXEC);
}

int main(int count, char **words) {
    const char *asked = count > 1 ? words[1] : "";
    long page = sysconf(_SC_PAGESIZE);
    int sum = 0;
    if (strcmp(asked, "disabled") == 0 && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0)
        return 3;
    if (strcmp(asked, "idle") != 0)
        for (volatile char *at = wide_start; at < wide_end; at += page)
            sum += *at;
    if (strcmp(asked, "written") == 0 && write_back(page) != 0)
        return 3;
    char line[] = "ready\n";
    if (write(1, line, sizeof line - 1) < 0)
        return 2;
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
    return sum == 0 ? 0 : 1;
}

/* A program with 7 MiB of code, at fixed addresses when built with -no-pie: it reads a byte of each page
   of its code, says so, and waits for the end of standard input. */
#include <unistd.h>

extern const volatile char wide_start[], wide_end[];

__asm__(".text\n"
        ".globl wide_start\n"
        "wide_start:\n"
        ".fill 7340032, 1, 0\n"
        ".globl wide_end\n"
        "wide_end:\n");

int main(void) {
    long page = sysconf(_SC_PAGESIZE);
    int sum = 0;
    for (const volatile char *at = wide_start; at < wide_end; at += page)
        sum += *at;
    char line[] = "ready\n";
    if (write(1, line, sizeof line - 1) < 0)
        return 2;
    char byte;
    while (read(0, &byte, 1) > 0) {
    }
    return sum == 0 ? 0 : 1;
}

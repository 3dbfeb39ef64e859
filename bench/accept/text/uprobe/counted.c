/* A program with 6 MiB of code, in the middle of it a function that does nothing but count. It reads a byte of
   each page of its code and says where the function is; for each number that it is given it calls the function
   so many times, and says how many calls there have been in all. */
#include <stdio.h>

extern volatile char code_start[], code_end[];
static volatile unsigned long calls;

__asm__(".text\n.hidden code_start\n.globl code_start\ncode_start:\n.fill 3145728, 1, 0x90\n");

void counted(void);
__asm__(".globl counted\n.type counted, @function\ncounted:\n\tret\n.size counted, . - counted\n");

__asm__(".fill 3145728, 1, 0x90\n.hidden code_end\n.globl code_end\ncode_end:\n");

int main(void) {
    unsigned long sum = 0, wanted;
    for (volatile char *at = code_start; at < code_end; at += 4096)
        sum += (unsigned char)*at;
    printf("%p\n", (void *)counted);
    fflush(stdout);
    while (scanf("%lu", &wanted) == 1) {
        for (unsigned long n = 0; n < wanted; n++) {
            counted();
            calls++;
        }
        printf("%lu\n", calls);
        fflush(stdout);
    }
    return sum == 0;
}

// Writes the words 0, 1, 2, ... to standard output, a pipe, by lending its own pages (vmsplice), and
// uses a page again as soon as the pipe's capacity says that its reader has it: two buffers, each as
// large as the pipe. Right alone; wrong as soon as the pipe holds more than the program knows.
//
// The way that it makes the call is chosen when it is built: by the C library's vmsplice (without an
// option), by its syscall() (-DBY_SYSCALL), by a raw instruction without any library (-DRAW with
// -nostdlib -static). -DASSUMED: the capacity is taken to be 64 KiB, not asked.

#define MIB 64
#define MOST (4 << 20)

typedef unsigned long word;
struct piece {
    void *base;
    unsigned long length;
};

#ifdef RAW
static long call(long number, long a, long b, long c, long d) {
    long result;
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(fourth)
                     : "rcx", "r11", "memory");
    return result;
}
#define CAPACITY() call(72, 1, 1032, 0, 0)
#define LEND(pieces) call(278, 1, (long)(pieces), 1, 0)
#else
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#define CAPACITY() fcntl(1, F_GETPIPE_SZ)
#ifdef BY_SYSCALL
#define LEND(pieces) syscall(SYS_vmsplice, 1, (pieces), 1L, 0)
#else
#define LEND(pieces) vmsplice(1, (const struct iovec *)(pieces), 1, 0)
#endif
#endif

static word buffers[2][MOST / sizeof(word)] __attribute__((aligned(65536)));

// Asked once, before anything is written.
static long capacity(void) {
#ifdef ASSUMED
    return 65536;
#else
    return CAPACITY();
#endif
}

static int work(void) {
    long size = capacity();
    if (size <= 0 || size > MOST)
        return 2;
    word next = 0;
    for (long written = 0, turn = 0; written < (long)MIB << 20; written += size, turn ^= 1) {
        word *buffer = buffers[turn];
        for (long at = 0; at < size / (long)sizeof(word); at++)
            buffer[at] = next++;
        struct piece piece = {buffer, size};
        while (piece.length > 0) {
            long lent = LEND(&piece);
            if (lent <= 0)
                return 3;
            piece.base = (char *)piece.base + lent;
            piece.length -= lent;
        }
    }
    return 0;
}

#ifdef RAW
void _start(void) {
    call(231, work(), 0, 0, 0);
    __builtin_unreachable();
}
#else
int main(void) {
    return work();
}
#endif

/* A program with code that it has generated, in memory of no file on small pages: a function on each page that
   returns the number of the page. Four slots of 2 MiB, of which it has not touched the last, half a slot
   behind them, and a mapping of half a slot elsewhere.

   It says `ready` and takes a letter at a time from standard input: `r` runs every function, `w` writes a page
   of each slot again as it was, closed to execution meanwhile. It answers `ok`, or `wrong` where a function
   returned anything else, and ends with the input. An argument changes the memory: `shared` has it in a memfd,
   `against` advises against huge pages. Without code for this machine it exits with 77. */
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS = 4, TOUCHED = 3 };
static const size_t SLOT = (size_t)2 << 20;
static size_t page;

/* Writes the function of one page. */
static void generate(unsigned char *at, uint32_t number) {
#if defined(__x86_64__)
    at[0] = 0xb8; /* mov eax, number */
    memcpy(at + 1, &number, sizeof number);
    at[5] = 0xc3; /* ret */
#elif defined(__aarch64__)
    const uint32_t code[] = {0x52800000u | (number & 0xffffu) << 5,         /* movz w0, number */
                             0x72a00000u | (number >> 16 & 0xffffu) << 5,   /* movk w0, number >> 16 */
                             0xd65f03c0u};                                  /* ret */
    memcpy(at, code, sizeof code);
#else
    (void)at, (void)number, _exit(77);
#endif
}

static void generate_all(unsigned char *start, size_t bytes) {
    for (size_t at = 0; at < bytes; at += page)
        generate(start + at, (uint32_t)(at / page) + 1);
    __builtin___clear_cache((char *)start, (char *)start + bytes);
}

static int runs(unsigned char *start, size_t bytes) {
    for (size_t at = 0; at < bytes; at += page) {
        uint32_t (*function)(void);
        unsigned char *address = start + at;
        memcpy(&function, &address, sizeof function);
        if (function() != (uint32_t)(at / page) + 1)
            return 0;
    }
    return 1;
}

static int write_again(unsigned char *start) {
    for (size_t slot = 0; slot < TOUCHED; slot++) {
        unsigned char *at = start + slot * SLOT + 7 * page;
        if (mprotect(at, page, PROT_READ | PROT_WRITE) != 0)
            return 0;
        generate(at, (uint32_t)((slot * SLOT) / page) + 8);
        if (mprotect(at, page, PROT_READ | PROT_EXEC) != 0)
            return 0;
    }
    return 1;
}

/* Memory that begins at a slot, with nothing mapped beside it. */
static unsigned char *place(size_t bytes, const char *asked) {
    unsigned char *room = mmap(NULL, bytes + 3 * SLOT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    unsigned char *start = room + SLOT + (SLOT - (uintptr_t)room % SLOT);
    int fd = -1, kind = MAP_PRIVATE | MAP_ANONYMOUS;
    if (strcmp(asked, "shared") == 0) {
        fd = memfd_create("generated", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
            return NULL;
        kind = MAP_SHARED;
    }
    start = mmap(start, bytes, PROT_READ | PROT_WRITE, kind | MAP_FIXED, fd, 0);
    if (start == MAP_FAILED)
        return NULL;
    if (strcmp(asked, "against") == 0 && madvise(start, bytes, MADV_NOHUGEPAGE) != 0)
        return NULL;
    return start;
}

static void say(const char *word) {
    if (write(1, word, strlen(word)) < 0)
        _exit(2);
}

int main(int count, char **words) {
    const char *asked = count > 1 ? words[1] : "";
    const size_t bytes = SLOTS * SLOT + SLOT / 2, touched = TOUCHED * SLOT, half = SLOT / 2;
    page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *large = place(bytes, asked), *small = place(half, asked);
    if (large == NULL || small == NULL)
        return 3;
    generate_all(large, touched);
    generate_all(small, half);
    if (mprotect(large, bytes, PROT_READ | PROT_EXEC) != 0 ||
        mprotect(small, half, PROT_READ | PROT_EXEC) != 0)
        return 3;
    say("ready\n");
    char letter;
    while (read(0, &letter, 1) == 1) {
        if (letter != 'r' && letter != 'w')
            continue;
        const int done =
            letter == 'r' ? runs(large, touched) && runs(small, half) : write_again(large);
        say(done ? "ok\n" : "wrong\n");
    }
    return 0;
}

// Touches fresh pages by instructions of which it is not plain what they do: two memory operands,
// hidden stack pushes, read and write at once, accesses and instructions across two pages.
//
//   operands TIMES
//
// x86-64 only. Ends with 0.

#define _GNU_SOURCE
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// As far as one fault maps the pages of a file: what lies further apart faults by itself.
enum { PAGE = 4096, WINDOW = 64 << 10, WINDOWS = 512 };

static char *next_fresh;
static char *windows;
static size_t next_window = 1;

// A page that nobody has touched.
static char *fresh(void) { return next_fresh += PAGE; }

static void must(int holds, const char *what) {
    if (!holds) {
        perror(what);
        exit(2);
    }
}

static void *map(size_t bytes, int protection, int flags, int fd) {
    void *got = mmap(NULL, bytes, protection, flags, fd, 0);
    must(got != MAP_FAILED, "mmap");
    madvise(got, bytes, MADV_NOHUGEPAGE);
    return got;
}

// The start of a part of the code file that no fault has mapped yet; 0 when none is left.
static char *window(void) {
    return next_window < WINDOWS - 1 ? windows + WINDOW * next_window++ : NULL;
}

// Each window holds a pointer to `answer` at 64, `ret` at 128, and across its end, in the last
// bytes and the first of the next one, `mov $7, %eax; ret`.
static void make_windows(void *answer) {
    int fd = memfd_create("windows", 0);
    must(fd >= 0 && !ftruncate(fd, (off_t)WINDOW * WINDOWS), "memfd_create");
    for (size_t i = 0; i < WINDOWS; i++) {
        char *part = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(i * WINDOW));
        must(part != MAP_FAILED, "mmap");
        memcpy(part + 64, &answer, sizeof answer);
        part[128] = (char)0xc3;
        memcpy(part, "\0\0\0\xc3", 4);
        memcpy(part + WINDOW - 2, "\xb8\x07", 2);
        munmap(part, WINDOW);
    }
    windows = map((size_t)WINDOW * WINDOWS, PROT_READ | PROT_EXEC, MAP_SHARED, fd);
}

static void strings(void) {
    char *from = fresh(), *to = fresh();
    long count = 64;
    __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(count)::"memory");
    from = fresh() + PAGE - 8;
    to = fresh();
    fresh();
    count = 4;
    __asm__ volatile("rep movsq" : "+S"(from), "+D"(to), "+c"(count)::"memory");
    to = fresh();
    count = 3;
    __asm__ volatile("rep stosl" : "+D"(to), "+c"(count) : "a"(1) : "memory");
    from = fresh();
    __asm__ volatile("lodsb" : "+S"(from)::"rax");
    to = fresh();
    count = 20;
    __asm__ volatile("repne scasb" : "+D"(to), "+c"(count) : "a"(1) : "cc");
    from = fresh();
    to = fresh();
    count = 9;
    __asm__ volatile("repe cmpsb" : "+S"(from), "+D"(to), "+c"(count)::"cc");
}

static void stacks(void *answer) {
    char *top = fresh() + PAGE, *cell = fresh();
    __asm__ volatile("xchg %%rsp, %0; pushq (%1); xchg %%rsp, %0" : "+r"(top) : "r"(cell) : "memory");
    top = fresh();
    cell = fresh();
    __asm__ volatile("xchg %%rsp, %0; popq (%1); xchg %%rsp, %0" : "+r"(top) : "r"(cell) : "memory");
    top = fresh() + PAGE;
    __asm__ volatile("xchg %%rsp, %0; pushq %%rax; xchg %%rsp, %0" : "+r"(top)::"memory");
    top = fresh() + PAGE;
    __asm__ volatile("xchg %%rsp, %0; call *%1; xchg %%rsp, %0" : "+r"(top) : "r"(answer) : "rax", "memory");
    top = fresh() + PAGE;
    char *pointer = window();
    if (pointer)
        __asm__ volatile("xchg %%rsp, %0; call *64(%1); xchg %%rsp, %0"
                         : "+r"(top) : "r"(pointer) : "rax", "memory");
    char *code = window();
    if (code) ((void (*)(void))(code + 128))();
    // The second half of this instruction is what faults; it uses up another window.
    if (code && window()) ((void (*)(void))(code + WINDOW - 2))();
}

static void read_and_write(void) {
    long old = 0;
    __asm__ volatile("addl $1, (%0)" ::"r"(fresh()) : "memory", "cc");
    __asm__ volatile("xchgq %%rax, (%0)" ::"r"(fresh()) : "rax", "memory");
    __asm__ volatile("lock cmpxchgq %2, (%1)" : "+a"(old) : "r"(fresh()), "r"(5L) : "memory", "cc");
    __asm__ volatile("btsl $3, (%0)" ::"r"(fresh()) : "memory", "cc");
    __asm__ volatile("btl $3, (%0)" ::"r"(fresh()) : "cc");
    __asm__ volatile("cmpl $3, (%0)" ::"r"(fresh()) : "cc");
    __asm__ volatile("testb $3, (%0)" ::"r"(fresh()) : "cc");
    __asm__ volatile("movntiq %%rax, (%0)" ::"r"(fresh()) : "memory");
    __asm__ volatile("sete (%0)" ::"r"(fresh()) : "memory");
    // Read first, then written: the second one finds the page there.
    volatile char *twice = fresh();
    (void)*twice;
    *twice = 1;
    // Across two pages.
    char *end = fresh() + PAGE - 3;
    fresh();
    __asm__ volatile("movq (%0), %%rax" ::"r"(end) : "rax");
    end = fresh() + PAGE - 3;
    fresh();
    __asm__ volatile("movq %%rax, (%0)" ::"r"(end) : "memory");
}

__attribute__((target("avx2"))) static void vectors(void) {
    const char *base = fresh();
    for (int i = 0; i < 16; i++) fresh();
    __m256i index = _mm256_setr_epi32(0, 2 * PAGE, 4 * PAGE, 6 * PAGE, 8 * PAGE, 10 * PAGE, 12 * PAGE, 14 * PAGE);
    volatile int kept = _mm256_extract_epi32(_mm256_i32gather_epi32((const int *)base, index, 1), 3);
    (void)kept;
    __m256i mask = _mm256_setr_epi32(-1, 0, 0, 0, 0, 0, 0, -1), some = _mm256_set1_epi32(7);
    _mm256_maskstore_epi32((int *)fresh(), mask, some);
    __m256i got = _mm256_maskload_epi32((const int *)fresh(), mask);
    _mm256_storeu_si256((__m256i *)fresh(), got);
    _mm256_stream_si256((__m256i *)fresh(), got);
}

static uint64_t answer_value(void) { return 42; }

// Grows the stack by itself.
static int descend(int levels) {
    volatile char frame[2000];
    frame[0] = (char)levels;
    return levels > 0 ? descend(levels - 1) + frame[0] : 0;
}

int main(int argc, char **argv) {
    int times = argc > 1 ? atoi(argv[1]) : 1;
    alarm(60);
    void *answer = (void *)(uintptr_t)answer_value;
    next_fresh = map((size_t)PAGE * 64 * ((size_t)times + 2), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    make_windows(answer);
    int has_avx2 = __builtin_cpu_supports("avx2");
    for (int i = 0; i < times; i++) {
        strings();
        stacks(answer);
        read_and_write();
        if (has_avx2) vectors();
    }
    descend(1500);
    return 0;
}

/* A program with 7 MiB of code, at fixed addresses when built with -no-pie: 458752 functions that return their
   number. Its threads call functions by chance for the seconds that the first argument gives, and
   count wrong results. It prints `wrong 0` if there were none. A second argument is the number of threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FUNCTIONS = 458752, STEP = 16 };
extern const char functions[];
static double seconds;
static _Atomic unsigned long wrong;

__asm__(".text\n"
        ".balign 16\n"
        "functions:\n"
        ".set number, 0\n"
        ".rept 458752\n"
        "movl $number, %eax\n"
        "ret\n"
        ".balign 16\n"
        ".set number, number + 1\n"
        ".endr\n");

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void *call(void *seed) {
    unsigned long random = (unsigned long)seed * 0x9e3779b97f4a7c15u + 1;
    for (double end = now() + seconds; now() < end;)
        for (int i = 0; i < 10000; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            unsigned number = (unsigned)(random % FUNCTIONS);
            unsigned (*function)(void) = (unsigned (*)(void))(functions + (unsigned long)number * STEP);
            wrong += function() != number;
        }
    return NULL;
}

int main(int count, char **words) {
    int threads = count > 2 ? atoi(words[2]) : 1;
    pthread_t all[64];
    seconds = count > 1 ? atof(words[1]) : 1;
    for (int i = 1; i < threads && i < 64; i++)
        if (pthread_create(&all[i], NULL, call, (void *)(unsigned long)i) != 0)
            return 2;
    call((void *)(unsigned long)threads);
    for (int i = 1; i < threads && i < 64; i++)
        pthread_join(all[i], NULL);
    printf("wrong %lu\n", wrong);
    return 0;
}

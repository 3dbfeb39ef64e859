/* A program with 6 MiB of code and functions of known names: throws exceptions through a few of them for so
   many rounds, and prints how many were caught. */
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

__asm__(".text\n.fill 6291456, 1, 0x90\n");

__attribute__((noinline)) static unsigned long spin(unsigned long steps) {
    unsigned long x = steps;
    for (unsigned long n = 0; n < steps; n++)
        x = x * 6364136223846793005UL + 1442695040888963407UL;
    return x;
}

__attribute__((noinline)) int thrower(int depth) {
    if (depth == 0)
        throw std::runtime_error("from below");
    const int below = thrower(depth - 1);
    return below + 1;
}

int main(int count, char **words) {
    const long rounds = count > 1 ? std::atol(words[1]) : 1;
    long caught = 0;
    unsigned long sum = 0;
    for (long n = 0; n < rounds; n++) {
        sum += spin(100000 + n);
        try {
            thrower(3);
        } catch (const std::runtime_error &) {
            caught++;
        }
    }
    std::printf("caught %ld, sum %lx\n", caught, sum);
    return caught == rounds ? 0 : 1;
}

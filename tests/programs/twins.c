/* A program with two functions of the same code, each with a name, and two that nothing calls. */
#include <stdio.h>

#define BODY(x) return x * 3 + (x >> 2) * 5 + (x ^ 77) * 11 - (x & 31) * 7

__attribute__((noinline)) int twin(int x) { BODY(x); }
__attribute__((noinline)) int other_twin(int x) { BODY(x); }
int garbage_variable[64] = {1};
int garbage(int x) { return printf("%d %d\n", x, garbage_variable[x & 63]) + garbage_variable[3]; }
int more_garbage(int x) { return garbage(x) + garbage(x + 1) * garbage(x + 2); }
int main(int argc, char **argv) { return argv[0] ? printf("%d\n", twin(argc) + other_twin(argc + 1)) == 0 : 1; }

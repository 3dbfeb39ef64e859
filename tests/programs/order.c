/* A program whose functions are called in another order than they are written, from two files:
 * -DPART makes the second one. */
#include <stdio.h>

int third(int x);
extern int table[64];

#ifdef PART
int table[64] = {1};
static __attribute__((noinline)) int helper(int x) { return x * 3; }
int never_either(int x) { return x + 7; }
int third(int x) { return helper(x) + table[x & 63]; }
#else
int unused_variable[64] = {2};
int never(int x) { return x - 1; }
__attribute__((noinline)) int second(int x) { return third(x) + 2; }
__attribute__((noinline)) int first(int x) { return second(x) * 2; }
static int constructed;
__attribute__((constructor)) static void construct(void) { constructed = 40; }
int main(void) { return printf("%d\n", first(constructed)) == 0; }
#endif

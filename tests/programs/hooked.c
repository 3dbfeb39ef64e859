/* A program whose end is sudden: by a signal of its own, or by _exit(2), after its last function has begun. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int constructed;
__attribute__((constructor)) static void construct(void) { constructed = 1; }

static __attribute__((noinline)) void last(const char *how) {
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "kill") == 0)
        kill(getpid(), SIGKILL);
    _exit(1 - constructed);
}

int main(int count, char **words) {
    last(count > 1 ? words[1] : "exit");
}

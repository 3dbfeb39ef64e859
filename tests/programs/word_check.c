// Reads words from standard input by read(2) and says on standard output how many there were and how
// many were not 0, 1, 2, ... in order: "8388608 words, 0 wrong". It reads slowly enough that a pipe
// is full most of the time.
#include <stdio.h>
#include <unistd.h>

int main(void) {
    static unsigned long words[65536 / sizeof(unsigned long)];
    unsigned long count = 0, wrong = 0, held = 0;
    for (;;) {
        ssize_t got = read(0, (char *)words + held, sizeof words - held);
        if (got <= 0)
            break;
        held += (unsigned long)got;
        unsigned long whole = held / sizeof *words;
        for (unsigned long at = 0; at < whole; at++)
            wrong += words[at] != count++;
        held %= sizeof *words;
        if (held > 0)
            words[0] = words[whole];
        usleep(200);
    }
    printf("%lu words, %lu wrong\n", count, wrong);
    return 0;
}

/* Built with -fsanitize=leak: four threads, three of which keep memory by nothing but their stacks.
   At the end the leak checker stops all of them by ptrace. One that it cannot stop, since somebody else
   holds it, keeps nothing in its eyes: it reports a leak, and the status is 23 and not 0. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *keep(void *unused) {
    char *kept = malloc(100);
    volatile char *seen = kept;
    strcpy(kept, "kept");
    sleep(60);
    return seen ? unused : NULL;
}

int main(void) {
    pthread_t made;
    for (int i = 0; i < 3; i++)
        if (pthread_create(&made, NULL, keep, NULL) != 0)
            return 98;
    for (int i = 0; i < 6; i++) {
        char *memory = mmap(NULL, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return 98;
        memory[0] = 1;
        usleep(2000);
    }
    puts("done");
    return 0;
}

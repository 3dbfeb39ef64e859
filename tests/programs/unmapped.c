/* Holds memory that it does not map, and waits: unmapped KIND MIB SECONDS [PATH]. It ends by itself when SECONDS
   are over.

   memfd    in a memfd
   open     in the file PATH, which it has open
   closed   in the file PATH, which it has closed
   deleted  in the file PATH, which it has open, and which has no name any more
   pipes    in pipes of the default size */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static char block[1 << 16];

static int fill(int to, long mib) {
    for (long left = mib << 20; left > 0; left -= sizeof block) {
        if (write(to, block, sizeof block) != sizeof block)
            return 1;
        /* 256 MiB take about a quarter of a second. */
        if ((left & 0xfffff) == 0)
            nanosleep(&(struct timespec){.tv_nsec = 500000}, 0);
    }
    return 0;
}

static int fill_pipes(long mib) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    for (long left = mib << 20; left > 0;) {
        int ends[2];
        if (pipe2(ends, O_NONBLOCK) != 0)
            return 1;
        for (long more; (more = write(ends[1], block, sizeof block)) > 0;)
            left -= more;
    }
    return 0;
}

int main(int count, char **word) {
    if (count < 4)
        return 2;
    alarm(atoi(word[3]) + 30);
    long mib = atol(word[2]);
    int is_file = strcmp(word[1], "memfd") != 0;
    memset(block, 1, sizeof block);
    if (strcmp(word[1], "pipes") == 0) {
        if (fill_pipes(mib) != 0)
            return 1;
    } else {
        int file = is_file ? open(word[4], O_RDWR | O_CREAT | O_TRUNC, 0600) : memfd_create("unmapped", 0);
        if (file < 0 || fill(file, mib) != 0)
            return 1;
        if (strcmp(word[1], "closed") == 0)
            close(file);
        if (strcmp(word[1], "deleted") == 0)
            unlink(word[4]);
    }
    sleep(atoi(word[3]));
    return 0;
}

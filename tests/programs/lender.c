/* A writer that lends its pages to a pipe by vmsplice(2) and writes them over once they have left
 * that pipe, and a checker of what arrives. The stream is 8-byte words that count up from 0, so a
 * page that was written over on its way shows as words from later on.
 *
 * lender write BYTES capacity   two halves, each as large as the pipe (F_GETPIPE_SZ): when one half
 *                               is in the pipe, the other has left it
 * lender write BYTES default    the same with halves of 16 pages, whatever the pipe has
 * lender write BYTES drained    one buffer, written over once FIONREAD says that the pipe is empty
 * lender write BYTES socket     one buffer, spliced into a socket, written over once SIOCOUTQ says
 *                               that the other side has taken it
 * lender write BYTES plain      by write(2), to anything
 * lender check BYTES            reads standard input, prints "WORDS words, WRONG wrong"
 *
 * With a reader that copies, each way is exact. Status: 0, 1 for words that are wrong or missing,
 * 2 for a call that failed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

static uint64_t next_word;

static void give_up(const char *call)
{
    fprintf(stderr, "lender: %s: %s\n", call, strerror(errno));
    exit(2);
}

static void fill(uint64_t *words, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        words[i] = next_word++;
}

/* Memory that begins on a page. */
static char *pages(size_t bytes)
{
    char *found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED)
        give_up("mmap");
    return found;
}

/* Lends all of some bytes to a pipe. */
static void lend(int pipe, char *bytes, size_t count)
{
    while (count > 0) {
        struct iovec piece = { bytes, count };
        ssize_t n = vmsplice(pipe, &piece, 1, 0);
        if (n < 0 && errno != EINTR)
            give_up("vmsplice");
        if (n > 0) {
            bytes += n;
            count -= (size_t)n;
        }
    }
}

static void write_halves(size_t total, size_t half)
{
    char *buffer = pages(2 * half);
    for (size_t done = 0; done < total; done += half) {
        char *now = buffer + (done / half % 2) * half;
        size_t count = total - done < half ? total - done : half;
        fill((uint64_t *)now, count);
        lend(1, now, count);
    }
}

/* Waits until nothing of what was written is left on the way. */
static void drain(int fd, unsigned long question)
{
    int left = 1;
    while (left > 0) {
        if (ioctl(fd, question, &left) < 0)
            give_up("ioctl");
        if (left > 0)
            usleep(20);
    }
}

static void write_drained(size_t total, size_t size)
{
    char *buffer = pages(size);
    for (size_t done = 0; done < total; done += size) {
        size_t count = total - done < size ? total - done : size;
        fill((uint64_t *)buffer, count);
        lend(1, buffer, count);
        drain(1, FIONREAD);
    }
}

static void write_socket(size_t total, size_t size)
{
    char *buffer = pages(size);
    int between[2];
    if (pipe(between) < 0)
        give_up("pipe");
    for (size_t done = 0; done < total; done += size) {
        size_t count = total - done < size ? total - done : size;
        fill((uint64_t *)buffer, count);
        lend(between[1], buffer, count);
        for (size_t left = count; left > 0;) {
            ssize_t n = splice(between[0], NULL, 1, NULL, left, 0);
            if (n < 0 && errno != EINTR)
                give_up("splice");
            left -= n > 0 ? (size_t)n : 0;
        }
        drain(1, SIOCOUTQ);
    }
}

static void write_plain(size_t total, size_t size)
{
    char *buffer = pages(size);
    for (size_t done = 0; done < total; done += size) {
        size_t count = total - done < size ? total - done : size;
        fill((uint64_t *)buffer, count);
        for (size_t at = 0; at < count;) {
            ssize_t n = write(1, buffer + at, count - at);
            if (n < 0 && errno != EINTR)
                give_up("write");
            at += n > 0 ? (size_t)n : 0;
        }
    }
}

static int check(size_t total)
{
    static uint64_t words[1 << 14];
    size_t held = 0, count = 0, wrong = 0;
    for (;;) {
        ssize_t n = read(0, (char *)words + held, sizeof words - held);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            give_up("read");
        if (n == 0)
            break;
        held += (size_t)n;
        size_t whole = held / sizeof *words;
        for (size_t i = 0; i < whole; i++)
            wrong += words[i] != count + i;
        count += whole;
        held %= sizeof *words;
        memmove(words, words + whole, held);
    }
    printf("%zu words, %zu wrong\n", count, wrong);
    return wrong > 0 || held > 0 || count != total / sizeof *words;
}

int main(int argc, char **argv)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t total = argc > 2 ? strtoull(argv[2], NULL, 10) / sizeof(uint64_t) * sizeof(uint64_t) : 0;
    const char *way = argc > 3 ? argv[3] : "";
    if (argc == 3 && strcmp(argv[1], "check") == 0)
        return check(total);
    if (argc != 4 || strcmp(argv[1], "write") != 0) {
        fprintf(stderr, "usage: lender write BYTES capacity|default|drained|socket|plain | check BYTES\n");
        return 2;
    }
    if (strcmp(way, "default") == 0)
        write_halves(total, 16 * page);
    else if (strcmp(way, "drained") == 0)
        write_drained(total, 16 * page);
    else if (strcmp(way, "socket") == 0)
        write_socket(total, 8 * page);
    else if (strcmp(way, "plain") == 0)
        write_plain(total, 16 * page);
    else {
        int capacity = fcntl(1, F_GETPIPE_SZ);
        if (capacity < 0)
            give_up("F_GETPIPE_SZ");
        write_halves(total, (size_t)capacity);
    }
    return 0;
}

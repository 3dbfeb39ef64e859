/* Every function of the header, from C: what it promises and what it refuses. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "pagewise.h"

#define ASK(claim)                                                                                \
    do {                                                                                          \
        if (!(claim)) {                                                                           \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #claim, pagewise_error_message());    \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#define LENGTH 300000

static void copies(void) {
    pagewise_copied copied;
    char text[16] = "";
    int from[2], to[2];

    ASK(pipe(from) == 0 && pipe(to) == 0);
    ASK(write(from[1], "0123456789", 10) == 10 && close(from[1]) == 0);
    ASK(pagewise_copy(from[0], to[1], 4, PAGEWISE_KEEP_CAPACITY, &copied) == 0);
    ASK(copied.bytes == 4 && copied.side == 0 && strlen(copied.way) > 0);
    ASK(pagewise_copy(from[0], to[1], PAGEWISE_NO_LIMIT, PAGEWISE_LIVE, NULL) == 0);
    ASK(read(to[0], text, sizeof text) == 10 && strcmp(text, "0123456789") == 0);
    ASK(pagewise_copy(to[1], from[0], PAGEWISE_NO_LIMIT, 0, &copied) == -EBADF);
    ASK(copied.side == PAGEWISE_SOURCE && copied.bytes == 0);
    ASK(strstr(pagewise_error_message(), "source") != NULL);
    ASK(pagewise_copy(-1, to[1], 0, 0, NULL) == -EBADF);
    ASK(pagewise_copy(from[0], to[1], 0, 1u << 31, NULL) == -EINVAL);
    close(to[0]);
    from[1] = open("/dev/zero", O_RDONLY);
    ASK(pagewise_copy(from[1], to[1], 1 << 20, 0, &copied) == -EPIPE);
    ASK(copied.side == PAGEWISE_SINK);
    close(from[0]), close(from[1]), close(to[1]);
}

static pagewise_frozen *pattern(void) {
    pagewise_draft *draft;
    pagewise_frozen *frozen;

    ASK(pagewise_draft_new(LENGTH, &draft) == 0);
    for (size_t at = 0; at < LENGTH; at++) {
        ASK(pagewise_draft_bytes(draft)[at] == 0);
        pagewise_draft_bytes(draft)[at] = (uint8_t)(at * 7 >> 3);
    }
    ASK(pagewise_draft_freeze(draft, &frozen) == 0);
    ASK(pagewise_draft_new(10, &draft) == 0);
    pagewise_draft_free(draft);
    pagewise_draft_free(NULL);
    return frozen;
}

static void frozen_bytes(pagewise_frozen *frozen) {
    pagewise_frozen *same, *copy;
    size_t taken = 99;
    int ends[2], memfd;

    ASK(pagewise_frozen_length(frozen) == LENGTH && pagewise_frozen_bytes(frozen)[LENGTH - 1] == (uint8_t)((LENGTH - 1) * 7 >> 3));
    ASK(pagewise_frozen_new(pagewise_frozen_bytes(frozen), LENGTH, &copy) == 0);
    ASK(memcmp(pagewise_frozen_bytes(frozen), pagewise_frozen_bytes(copy), LENGTH) == 0);
    pagewise_frozen_free(copy);
    ASK(pagewise_frozen_new(NULL, 0, &copy) == 0 && pagewise_frozen_length(copy) == 0);
    pagewise_frozen_free(copy);
    ASK(pagewise_frozen_new(NULL, 1, &copy) == -EINVAL);
    ASK(pagewise_frozen_new((const uint8_t *)"", 1, NULL) == -EINVAL);
    ASK(pipe(ends) == 0);
    ASK(pagewise_frozen_send(frozen, ends[1], 8, 1000, &taken) == 0 && taken == 1000);
    ASK(pagewise_frozen_send(frozen, ends[1], 8, LENGTH, &taken) == -EINVAL && taken == 0);
    ASK(pagewise_frozen_send(frozen, ends[1], (size_t)-1, (size_t)-1, NULL) == -EINVAL);
    ASK(pagewise_frozen_send(NULL, ends[1], 0, 0, NULL) == -EINVAL);
    memfd = pagewise_frozen_memfd(frozen);
    if (memfd < 0) {
        ASK(memfd == -ENOTSUP);
    } else {
        ASK(pagewise_frozen_open(memfd, LENGTH, &same) == 0);
        ASK(memcmp(pagewise_frozen_bytes(frozen), pagewise_frozen_bytes(same), LENGTH) == 0);
        ASK(pagewise_frozen_open(memfd, (size_t)1 << 40, &copy) == -EINVAL);
        ASK(pwrite(memfd, "x", 1, 0) == -1 && errno == EPERM);
        pagewise_frozen_free(same);
    }
    ASK(pagewise_frozen_open(ends[0], 1, &copy) == -EINVAL);
    memfd = memfd_create("loose", MFD_ALLOW_SEALING);
    ASK(ftruncate(memfd, 100) == 0 && pagewise_frozen_open(memfd, 100, &copy) == -EPERM);
    close(memfd), close(ends[0]), close(ends[1]);
    pagewise_frozen_free(NULL);
}

struct sending {
    pagewise_frozen *frozen;
    int fd;
};

static void *send_twice(void *given) {
    struct sending *sending = given;
    pagewise_writer *writer;
    size_t taken;

    ASK(pagewise_writer_new(sending->fd, PAGEWISE_WAIT_ADAPTIVE, 1 << 20, &writer) == 0);
    close(sending->fd);
    ASK(pagewise_writer_capacity(writer) > 0);
    ASK(pagewise_writer_send(writer, sending->frozen, 0, LENGTH, &taken) == 0 && taken == LENGTH);
    ASK(pagewise_writer_send(writer, sending->frozen, 0, LENGTH + 1, &taken) == -EINVAL);
    ASK(pagewise_writer_send(writer, sending->frozen, LENGTH / 2, LENGTH / 2, NULL) == 0);
    ASK(pagewise_writer_write(writer, (const uint8_t *)"the end", 7) == 7);
    ASK(pagewise_writer_write(writer, NULL, 7) == -EINVAL);
    pagewise_writer_free(writer);
    return NULL;
}

static void ends_of_a_pipe(pagewise_frozen *frozen) {
    static uint8_t all[LENGTH * 2];
    struct sending sending = {frozen, -1};
    pagewise_reader *reader;
    pthread_t thread;
    size_t length = 0;
    int64_t some;
    int ends[2];

    ASK(pipe(ends) == 0);
    sending.fd = ends[1];
    ASK(pthread_create(&thread, NULL, send_twice, &sending) == 0);
    ASK(pagewise_reader_new(ends[0], PAGEWISE_WAIT_BLOCK, &reader) == 0);
    close(ends[0]);
    ASK(pagewise_reader_skip(reader, 100) == 100);
    while ((some = pagewise_reader_read(reader, all + length, sizeof all - length)) > 0)
        length += (size_t)some;
    ASK(some == 0 && length == LENGTH - 100 + LENGTH / 2 + 7);
    ASK(memcmp(all, pagewise_frozen_bytes(frozen) + 100, LENGTH - 100) == 0);
    ASK(memcmp(all + LENGTH - 100, pagewise_frozen_bytes(frozen) + LENGTH / 2, LENGTH / 2) == 0);
    ASK(memcmp(all + length - 7, "the end", 7) == 0);
    ASK(pagewise_reader_read(reader, NULL, 1) == -EINVAL && pagewise_reader_read(NULL, all, 1) == -EINVAL);
    ASK(pthread_join(thread, NULL) == 0);
    pagewise_reader_free(reader);
    pagewise_reader_free(NULL);
    pagewise_writer_free(NULL);
    ASK(pagewise_reader_new(-1, PAGEWISE_WAIT_BLOCK, &reader) == -EBADF);
    ASK(pagewise_reader_new(0, 17, &reader) == -EINVAL);
}

static void rang(int signal) {
    (void)signal;
}

static void *stop_later(void *writer) {
    usleep(30000);
    pagewise_writer_stop(writer);
    return NULL;
}

/* Every wait ends with -EINTR after a handler without SA_RESTART, and nothing is lost. */
static void interrupted_waits(pagewise_frozen *frozen) {
    struct sigaction ring = {.sa_handler = rang};
    struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    static uint8_t bytes[4 << 20];
    pagewise_copied copied;
    pagewise_copier *copier;
    pagewise_reader *reader;
    pagewise_writer *writer;
    pthread_t thread;
    size_t taken = 0, sent = 0;
    int ends[2], empty[2], zero = open("/dev/zero", O_RDONLY);

    ASK(sigaction(SIGALRM, &ring, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0);
    ASK(pipe(ends) == 0 && pipe(empty) == 0);
    ASK(pagewise_copy(empty[0], ends[1], PAGEWISE_NO_LIMIT, 0, &copied) == -EINTR && copied.bytes == 0);
    ASK(pagewise_reader_new(empty[0], PAGEWISE_WAIT_ADAPTIVE, &reader) == 0);
    ASK(pagewise_reader_read(reader, bytes, 1) == -EINTR && pagewise_reader_skip(reader, 1) == -EINTR);
    ASK(write(empty[1], "abc", 3) == 3 && pagewise_reader_skip(reader, 5) == 3);
    pagewise_reader_free(reader);
    while (pagewise_frozen_send(frozen, ends[1], 0, LENGTH, &sent) == 0) {
        taken += sent;
    }
    taken += sent;
    ASK(strstr(pagewise_error_message(), "nterrupted") != NULL);
    ASK(pagewise_copier_new(zero, ends[1], 4 << 20, 0, &copier) == 0);
    ASK(pagewise_copier_run(copier, &copied) == -EINTR && copied.bytes < 4 << 20);
    ASK(pagewise_writer_new(ends[1], PAGEWISE_WAIT_BUSY, 0, &writer) == 0);
    ASK(pagewise_writer_write(writer, bytes, sizeof bytes) == -EINTR);
    ASK(pagewise_writer_send(writer, frozen, 0, LENGTH, &sent) == -EINTR && sent == 0);
    /* What was held is not lost: the pipe is read until the copy has ended. */
    for (size_t seen = 0; seen < taken + (4 << 20);) {
        ssize_t some = read(ends[0], bytes, 65536);
        ASK(some > 0);
        seen += (size_t)some;
        if (copier != NULL && pagewise_copier_run(copier, &copied) != -EINTR) {
            ASK(copied.bytes == 4 << 20);
            pagewise_copier_free(copier);
            copier = NULL;
        }
    }
    ASK(copier == NULL && setitimer(ITIMER_REAL, &never, NULL) == 0);
    pagewise_copier_free(NULL);
    ASK(pthread_create(&thread, NULL, stop_later, writer) == 0);
    for (int answer = 0; answer != -ECANCELED;) {
        answer = pagewise_writer_send(writer, frozen, 0, LENGTH, NULL);
        ASK(answer == 0 || answer == -EINTR || answer == -ECANCELED);
    }
    ASK(pagewise_writer_write(writer, bytes, 1) == -ECANCELED && pthread_join(thread, NULL) == 0);
    pagewise_writer_free(writer);
    pagewise_writer_stop(NULL);
    pagewise_reader_stop(NULL);
    close(ends[0]), close(ends[1]), close(empty[0]), close(empty[1]), close(zero);
}

static void choices(const char *file) {
    pagewise_choice choice;

    ASK(pagewise_choose(file, PAGEWISE_RANDOM, 4096, 1, 1, &choice) == -ENODATA);
    ASK(strstr(pagewise_error_message(), "calibrate") != NULL);
    ASK(pagewise_choose("/nothing/here", PAGEWISE_SEQUENTIAL, 4096, 1, 1, &choice) == -ENOENT);
    ASK(pagewise_choose(file, 9, 4096, 1, 1, &choice) == -EINVAL);
    ASK(pagewise_choose(NULL, PAGEWISE_RANDOM, 4096, 1, 1, &choice) == -EINVAL);
}

int main(int count, char **words) {
    pagewise_frozen *frozen;

    ASK(count == 2 && pagewise_abi_version() == PAGEWISE_ABI_VERSION);
    ASK(strcmp(pagewise_error_message(), "") == 0);
    signal(SIGPIPE, SIG_IGN);
    copies();
    frozen = pattern();
    frozen_bytes(frozen);
    ends_of_a_pipe(frozen);
    interrupted_waits(frozen);
    pagewise_frozen_free(frozen);
    choices(words[1]);
    puts("kept");
    return 0;
}

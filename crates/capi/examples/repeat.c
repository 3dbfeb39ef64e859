/* Writes a line again and again, as yes(1) does: `repeat LINE BYTES | ...`.
 *
 * The lines are laid out once and frozen. From then on a pipe gets references to them, not copies.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pagewise.h"

/* About as much as a pipe holds, in whole lines. */
#define BLOCK (1024 * 1024)

static int fail(const char *what) {
    fprintf(stderr, "repeat: %s: %s\n", what, pagewise_error_message());
    return 1;
}

static pagewise_frozen *lines(const char *line, size_t length) {
    size_t all = BLOCK / length * length;
    pagewise_draft *draft;
    pagewise_frozen *frozen;

    if (pagewise_draft_new(all, &draft) < 0)
        return NULL;
    for (size_t at = 0; at < all; at += length)
        memcpy(pagewise_draft_bytes(draft) + at, line, length);
    /* The draft is gone now, whether that worked or not. */
    return pagewise_draft_freeze(draft, &frozen) < 0 ? NULL : frozen;
}

int main(int count, char **words) {
    char line[1024];
    pagewise_frozen *frozen;
    pagewise_writer *writer;
    unsigned long long left;
    int length, status = 0;

    if (count != 3) {
        fprintf(stderr, "usage: repeat LINE BYTES\n");
        return 2;
    }
    length = snprintf(line, sizeof line, "%s\n", words[1]);
    if (length < 1 || length >= (int)sizeof line)
        return 2;
    left = strtoull(words[2], NULL, 10);
    signal(SIGPIPE, SIG_IGN);
    if ((frozen = lines(line, (size_t)length)) == NULL)
        return fail("lines");
    if (pagewise_writer_new(1, PAGEWISE_WAIT_ADAPTIVE, BLOCK, &writer) < 0)
        return fail("standard output");
    while (left > 0 && status == 0) {
        size_t all = pagewise_frozen_length(frozen);
        size_t some = left < all ? (size_t)left : all;

        if (pagewise_writer_send(writer, frozen, 0, some, NULL) < 0)
            status = fail("send");
        left -= some;
    }
    pagewise_writer_free(writer);
    pagewise_frozen_free(frozen);
    return status;
}

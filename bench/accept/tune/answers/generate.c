/* Deterministic inputs: `generate KIND BYTES`, to standard output. The seed is fixed.
 *
 * text   log-like lines in no order: time, level, key, words
 * json   one array of records with nested fields
 * mixed  16 KiB stretches in turn of text, of repeated records, of binary counters and of noise
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 0x9E3779B97F4A7C15u;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static const char *const words[] = {
    "page",   "fault",  "table", "walk",    "cache",  "folio", "zero",  "copy",
    "splice", "reader", "writer", "kernel", "memory", "huge",  "small", "mapped",
    "anon",   "file",   "shared", "private", "lock",  "queue", "timer", "socket",
};

static const char *word(void) { return words[next() % (sizeof words / sizeof *words)]; }

static int text_line(char *to, size_t room) {
    static const char *const levels[] = {"debug", "info", "info", "info", "warning", "error"};
    return snprintf(to, room, "%010" PRIu64 " %s key%06" PRIu64 " %s %s %s %" PRIx64 "\n",
                    next() % 10000000000u, levels[next() % 6], next() % 200000, word(), word(),
                    word(), next() & 0xffff);
}

static int json_record(char *to, size_t room, uint64_t id) {
    return snprintf(to, room,
                    "%s{\"id\":%" PRIu64 ",\"name\":\"%s-%" PRIu64 "\",\"tags\":[\"%s\",\"%s\"],"
                    "\"size\":{\"bytes\":%" PRIu64 ",\"ratio\":0.%04" PRIu64 "},\"active\":%s}",
                    id == 0 ? "[" : ",\n", id, word(), next() % 100000, word(), word(),
                    next() % 100000000, next() % 10000, next() & 1 ? "true" : "false");
}

static void put(const void *from, size_t n) {
    if (fwrite(from, 1, n, stdout) != n) {
        perror("write");
        exit(1);
    }
}

static size_t fill_text(char *to, size_t n) {
    size_t at = 0;
    while (at < n) {
        char line[160];
        size_t length = (size_t)text_line(line, sizeof line);
        if (length > n - at)
            length = n - at;
        memcpy(to + at, line, length);
        at += length;
    }
    return n;
}

static void fill_stretch(unsigned char *to, size_t n, uint64_t turn) {
    static unsigned char record[512];
    switch (turn % 8) {
    case 0:
        (void)fill_text((char *)to, n);
        break;
    case 7:
        for (size_t i = 0; i < n; i += 8) {
            const uint64_t value = next();
            memcpy(to + i, &value, 8);
        }
        break;
    case 3:
        for (size_t i = 0; i < n; i += 8) {
            const uint64_t value = turn * n + i;
            memcpy(to + i, &value, 8);
        }
        break;
    default:
        if (turn % 64 == 1)
            (void)fill_text((char *)record, sizeof record);
        for (size_t i = 0; i < n; i++)
            to[i] = record[i % sizeof record];
        to[next() % n] ^= 1;
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: %s text|json|mixed BYTES\n", argv[0]);
        return 2;
    }
    const uint64_t bytes = strtoull(argv[2], NULL, 10);
    static unsigned char stretch[16384];
    char line[256];
    for (uint64_t at = 0, turn = 0; at < bytes; turn++) {
        size_t n;
        if (strcmp(argv[1], "text") == 0) {
            n = (size_t)text_line(line, sizeof line);
            put(line, n);
        } else if (strcmp(argv[1], "json") == 0) {
            n = (size_t)json_record(line, sizeof line, turn);
            put(line, n);
        } else if (strcmp(argv[1], "mixed") == 0) {
            n = sizeof stretch;
            fill_stretch(stretch, n, turn);
            put(stretch, n);
        } else {
            fprintf(stderr, "%s: unknown kind %s\n", argv[0], argv[1]);
            return 2;
        }
        at += n;
    }
    if (strcmp(argv[1], "json") == 0)
        put("]\n", 2);
    return fflush(stdout) == 0 ? 0 : 1;
}

/* Holds memory that five functions have asked for and touched, "NAME BYTES" for each: sites */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SITE static __attribute__((noinline)) void
enum { MIB = 1 << 20 };

struct node {
    struct node *next;
    char text[232];
};

/* Not static: what is never read would not be written either. */
char *kept[64];
static struct node *list;
int count;

SITE fills_a_table(size_t bytes) {
    char *at = malloc(bytes);
    memset(at, 1, bytes);
    kept[count++] = at;
}

SITE writes_samples(size_t bytes) {
    double *at = malloc(bytes);
    for (size_t i = 0; i < bytes / sizeof *at; i++)
        at[i] = (double)i;
    kept[count++] = (char *)at;
}

SITE clears_a_map(size_t bytes) {
    char *at = calloc(1, bytes);
    for (size_t i = 0; i < bytes; i += 64)
        at[i] = 1;
    kept[count++] = at;
}

SITE links_nodes(size_t bytes) {
    for (size_t i = 0; i < bytes / sizeof *list; i++) {
        struct node *made = malloc(sizeof *made);
        memset(made->text, 1, sizeof made->text);
        made->next = list;
        list = made;
    }
}

SITE grows_a_text(size_t bytes) {
    char *at = NULL;
    for (size_t size = bytes / 8; size <= bytes; size += bytes / 8) {
        at = realloc(at, size);
        memset(at + size - bytes / 8, 1, bytes / 8);
    }
    kept[count++] = at;
}

int main(void) {
    fills_a_table(48 * MIB);
    writes_samples(32 * MIB);
    clears_a_map(20 * MIB);
    links_nodes(12 * MIB);
    grows_a_text(8 * MIB);
    puts("fills_a_table 50331648\nwrites_samples 33554432\nclears_a_map 20971520\nlinks_nodes 12582912\ngrows_a_text 8388608");
    return list == NULL || count != 4;
}

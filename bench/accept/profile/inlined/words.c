/* Counts words by chance in a hash table, then sorts them: code that compilers inline. words COUNT */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 1 << 16, LONGEST = 12 };

struct word {
    char text[LONGEST];
    uint32_t hash, count;
    struct word *next;
};

static struct word *table[SLOTS];
static uint64_t state = 88172645463325252ull;

static inline uint64_t random_bits(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static inline uint32_t hash_of(const char *text) {
    uint32_t hash = 2166136261u;
    while (*text)
        hash = (hash ^ (unsigned char)*text++) * 16777619u;
    return hash;
}

static inline void spell(char *text, uint64_t bits) {
    unsigned length = 2 + bits % (LONGEST - 3);
    for (unsigned i = 0; i < length; i++, bits >>= 4)
        text[i] = 'a' + (char)((bits & 15) * (i % 3 ? 1 : 0));
    text[length] = 0;
}

static inline struct word *find(struct word *in, uint32_t hash, const char *text) {
    for (; in; in = in->next)
        if (in->hash == hash && !strcmp(in->text, text))
            return in;
    return NULL;
}

static inline struct word *made(const char *text, uint32_t hash) {
    struct word *new = malloc(sizeof *new);
    if (!new)
        exit(1);
    strcpy(new->text, text);
    new->hash = hash;
    new->count = 0;
    return new;
}

static inline struct word *look_up(const char *text) {
    uint32_t hash = hash_of(text);
    struct word **slot = &table[hash % SLOTS], *found = find(*slot, hash, text);
    if (!found) {
        found = made(text, hash);
        found->next = *slot;
        *slot = found;
    }
    return found;
}

static inline int is_before(const struct word *a, const struct word *b) {
    return a->count != b->count ? a->count > b->count : strcmp(a->text, b->text) < 0;
}

static inline void swap(struct word **a, struct word **b) {
    struct word *kept = *a;
    *a = *b;
    *b = kept;
}

static inline void sift(struct word **all, size_t at, size_t count) {
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && is_before(all[child], all[child + 1]))
            child++;
        if (!is_before(all[at], all[child]))
            return;
        swap(&all[at], &all[child]);
    }
}

static void sort(struct word **all, size_t count) {
    for (size_t at = count / 2; at-- > 0;)
        sift(all, at, count);
    for (size_t end = count; end-- > 1;) {
        swap(&all[0], &all[end]);
        sift(all, 0, end);
    }
}

static size_t gather(struct word ***all) {
    size_t count = 0;
    for (size_t i = 0; i < SLOTS; i++)
        for (struct word *one = table[i]; one; one = one->next)
            count++;
    *all = malloc((count + 1) * sizeof **all);
    if (!*all)
        exit(1);
    count = 0;
    for (size_t i = 0; i < SLOTS; i++)
        for (struct word *one = table[i]; one; one = one->next)
            (*all)[count++] = one;
    return count;
}

int main(int argc, char **argv) {
    long count = argc > 1 ? atol(argv[1]) : 300000;
    char text[LONGEST];
    for (long i = 0; i < count; i++) {
        spell(text, random_bits());
        look_up(text)->count++;
    }
    struct word **all;
    size_t words = gather(&all);
    sort(all, words);
    for (size_t i = words; i-- > words - (words < 5 ? words : 5);)
        printf("%s %u\n", all[i]->text, all[i]->count);
    return 0;
}

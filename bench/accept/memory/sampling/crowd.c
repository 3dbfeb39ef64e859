/* What a sampler of memory has to look at, and what it does to whom it looks at.
 *
 *   crowd many PROCESSES MIB TOUCHED SECONDS   each of PROCESSES maps MIB and touches TOUCHED MiB of it, all over it
 *   crowd probe MIB SECONDS FILE               touches MIB, then times first touches, each for itself, and pairs of
 *                                              mmap and munmap; adds a line to FILE: whether GLIBC_TUNABLES is set,
 *                                              then of touches and of pairs the number, and in ns the mean, the
 *                                              median, the 99th and 99.9th percentile and the largest
 *
 * All memory is on base pages. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1UL << 20)
#define ROUND 4096

static long page;

static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static char *map(size_t bytes)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED) { perror("mmap"); exit(1); }
    madvise(at, bytes, MADV_NOHUGEPAGE);
    return at;
}

static void touch(char *at, size_t bytes, size_t step)
{
    for (size_t offset = 0; offset < bytes; offset += step) at[offset] = 1;
}

static int many(int processes, size_t mib, size_t touched, int seconds)
{
    for (int i = 0; i < processes; i++)
        if (fork() == 0) {
            touch(map(mib * MIB), mib * MIB, page * (mib / touched));
            sleep(seconds);
            _exit(0);
        }
    while (wait(NULL) > 0) {}
    return 0;
}

/* Times, counted in steps of 20 ns. */
struct tally { long count, sum, largest, steps[1 << 16]; };
static struct tally touches, pairs;

static void add(struct tally *tally, long ns)
{
    long step = ns / 20, last = (1 << 16) - 1;
    tally->steps[step < last ? step : last]++;
    tally->count++;
    tally->sum += ns;
    if (ns > tally->largest) tally->largest = ns;
}

static long quantile(const struct tally *tally, double part)
{
    long below = 0;
    for (long step = 0; step < 1 << 16; step++)
        if ((below += tally->steps[step]) >= part * tally->count) return step * 20 + 10;
    return tally->largest;
}

static void print(FILE *file, const struct tally *tally)
{
    fprintf(file, " %ld %ld %ld %ld %ld %ld", tally->count, tally->sum / (tally->count ? tally->count : 1),
            quantile(tally, 0.5), quantile(tally, 0.99), quantile(tally, 0.999), tally->largest);
}

static int probe(size_t mib, int seconds, const char *name)
{
    touch(map(mib * MIB), mib * MIB, page);
    char *fresh = map(ROUND * page);
    for (long end = now() + seconds * 1000000000L; now() < end;) {
        for (long i = 0; i < ROUND; i++) {
            long begin = now();
            fresh[i * page] = 1;
            add(&touches, now() - begin);
        }
        long begin = now();
        void *pair = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(pair, page);
        add(&pairs, now() - begin);
        madvise(fresh, ROUND * page, MADV_DONTNEED);
    }
    FILE *file = fopen(name, "a");
    if (file == NULL) { perror(name); return 1; }
    fprintf(file, "%d", getenv("GLIBC_TUNABLES") != NULL);
    print(file, &touches);
    print(file, &pairs);
    fputc('\n', file);
    return fclose(file) != 0;
}

int main(int argc, char **argv)
{
    page = sysconf(_SC_PAGESIZE);
    if (argc == 6 && !strcmp(argv[1], "many"))
        return many(atoi(argv[2]), strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10), atoi(argv[5]));
    if (argc == 5 && !strcmp(argv[1], "probe")) return probe(strtoul(argv[2], NULL, 10), atoi(argv[3]), argv[4]);
    return 2;
}

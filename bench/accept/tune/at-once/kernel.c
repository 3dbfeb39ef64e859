/* One kind of work, so many times: kernel KIND UNITS. A unit takes about a millisecond. The result is printed, so
 * that no work is left out. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

/* A walk over `bytes` in random order, one load after the other, on pages that were touched before. */
static uint64_t walk(size_t bytes, size_t step, long units)
{
	size_t count = bytes / step, at = 0;
	char *all = malloc(bytes);
	size_t *order = malloc(count * sizeof *order);

	for (size_t i = 0; i < count; i++)
		order[i] = i;
	for (size_t i = count - 1; i > 0; i--) {
		size_t other = draw() % i, own = order[i];
		order[i] = order[other];
		order[other] = own;
	}
	for (size_t i = 0; i < count; i++)
		*(size_t *)(all + order[i] * step) = order[(i + 1) % count] * step;
	for (long i = 0; i < units * 20000; i++)
		at = *(size_t *)(all + at);
	return at;
}

static uint64_t heap(long units)
{
	static char *held[4096];
	uint64_t sum = 0;

	for (long i = 0; i < units * 12000; i++) {
		uint64_t at = draw() % 4096, size = 16 + draw() % 500;
		free(held[at]);
		held[at] = malloc(size);
		sum += (uintptr_t)memset(held[at], 1, size) & 255;
	}
	return sum;
}

static uint64_t branch(long units)
{
	uint64_t sum = 0;

	for (long i = 0; i < units * 80000; i++) {
		if (draw() & 1)
			sum += (uint64_t)i;
		else
			sum ^= (uint64_t)i;
	}
	return sum;
}

static uint64_t calls(long units)
{
	uint64_t sum = 0;

	for (long i = 0; i < units * 8000; i++)
		sum += (uint64_t)syscall(SYS_getppid);
	return sum;
}

/* Fresh memory, touched page by page and given back. */
static uint64_t touch(long units)
{
	uint64_t sum = 0;

	for (long i = 0; i < units; i++) {
		size_t bytes = 4 << 20;
		char *all = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (all == MAP_FAILED)
			exit(1);
		for (size_t at = 0; at < bytes; at += 4096)
			all[at] = 1;
		sum += (uint64_t)all[bytes / 2];
		munmap(all, bytes);
	}
	return sum;
}

int main(int count, char **words)
{
	if (count != 3)
		return 2;
	const char *kind = words[1];
	long units = atol(words[2]);
	uint64_t sum;

	if (!strcmp(kind, "heap"))
		sum = heap(units);
	else if (!strcmp(kind, "branch"))
		sum = branch(units);
	else if (!strcmp(kind, "calls"))
		sum = calls(units);
	else if (!strcmp(kind, "touch"))
		sum = touch(units);
	else if (!strcmp(kind, "cache-l1"))
		sum = walk(16 << 10, 64, units * 10);
	else if (!strcmp(kind, "cache-l2"))
		sum = walk(512 << 10, 64, units * 4);
	else if (!strcmp(kind, "cache-l3"))
		sum = walk(8 << 20, 64, units);
	else if (!strcmp(kind, "memory"))
		sum = walk(96 << 20, 64, units / 2);
	else if (!strcmp(kind, "tlb"))
		sum = walk(32 << 20, 4096 + 64, units);
	else
		return 2;
	printf("%llu\n", (unsigned long long)sum);
	return 0;
}

/* Memory of 40 MiB and a page: one block of malloc, one that realloc doubled, or a mapping of the program's own, by the
 * words `block`, `grows` and `own`. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const size_t size = (size_t)40 << 20;
    const char *kind = argc > 1 ? argv[1] : "block";
    if (strcmp(kind, "own") == 0) {
        const size_t odd = size + (size_t)sysconf(_SC_PAGESIZE);
        return mmap(NULL, odd, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
    }
    volatile char *block = malloc(size);
    if (block && strcmp(kind, "grows") == 0)
        block = realloc((void *)block, 2 * size);
    if (!block)
        return 1;
    block[0] = 1;
    return 0;
}

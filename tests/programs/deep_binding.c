/* A program that opens a library with RTLD_DEEPBIND and lets it free what the program has allocated. On glibc's
 * malloc it ends well. Under a preloaded allocator it dies: the library finds glibc's free before the other.
 *
 *   deep_binding LIBRARY
 *
 * -DLIBRARY with -shared -fPIC: the library. -DMODE=...: another mode. -DREPORT: a program that prints the objects
 * loaded with it, its preload, and whether it has rights that its caller lacks; it opens nothing.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#ifndef MODE
#define MODE (RTLD_NOW | RTLD_GLOBAL | RTLD_DEEPBIND)
#endif

#if defined LIBRARY
void give_back(void *memory) { free(memory); }
#elif defined REPORT
static int show(struct dl_phdr_info *object, size_t size, void *unused) {
    printf("object %s\n", object->dlpi_name);
    return 0;
}
int main(void) {
    const char *preload = getenv("LD_PRELOAD");
    dl_iterate_phdr(show, NULL);
    printf("LD_PRELOAD=%s\nsecure=%lu\n", preload ? preload : "", getauxval(AT_SECURE));
    return 0;
}
#else
int main(int count, char **arguments) {
    if (count != 2)
        return 2;
    void *library = dlopen(arguments[1], MODE);
    void (*give_back)(void *) = library ? (void (*)(void *))dlsym(library, "give_back") : 0;
    if (!give_back) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    for (size_t size = 24; size < 100000; size += 24)
        give_back(memset(malloc(size), 0, size));
    return 0;
}
#endif

/* The order of first calls of a program that is compiled with -finstrument-functions. For Linux; C or C++.
 *
 *   cc -finstrument-functions *.c pagewise_hooks.c -o app
 *   PAGEWISE_CALLS=app.calls ./app
 *   pagewise order record --hooks app.calls -o order.txt
 *
 * With clang, -finstrument-functions-after-inlining leaves out functions that the program does not have.
 *
 * Each function is written once, at its first call by any thread or forked process. The file is a shared
 * mapping, so it is complete however the program ends. Nothing waits and nothing allocates, so signal
 * handlers may call what they like. While a process still writes to FILE, a program that it executes
 * writes to FILE.PID. Programs with extra rights (setuid) write nothing.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define OURS __attribute__((no_instrument_function)) static
#define HOOK __attribute__((no_instrument_function, visibility("default"), used)) void

/* The form of the file: pagewise reads these numbers and places. */
#define MAGIC "pagewise calls 1"
enum { COMMAND = 512, MODULES = 256, PATH = 1024, BUILD_ID = 32, CALLS = 1 << 19 };
/* Slots for addresses that have been called; how many are tried for one. */
enum { SLOTS = 1 << 20, TRIES = 256 };

/* Code of a file in memory. */
struct module {
    uint64_t start, end, offset;
    uint32_t ready, id_bytes;
    unsigned char id[BUILD_ID];
    char path[PATH];
};

struct call {
    uint64_t function, ns;
    uint32_t pid, ready;
};

struct record {
    char magic[16];
    uint32_t pid, modules_used, calls_used, unused;
    uint64_t began_ns;
    char command[COMMAND];
    struct module modules[MODULES];
    struct call calls[CALLS];
};

enum { UNTRIED, TRYING, ON, OFF };
static int state = UNTRIED;
static struct record *record;
static uintptr_t *seen;

OURS uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

OURS int complain(const char *path, const char *why) {
    char line[PATH_MAX + 128];
    int length = snprintf(line, sizeof line, "pagewise hooks: no calls are recorded in %s: %s\n", path, why);
    if (length > 0)
        length = (int)write(STDERR_FILENO, line, (size_t)length);
    return 0;
}

/* Whether the file may be replaced; NULL, or why not. `is_busy` where a living process writes it. */
OURS const char *refusal(const char *path, int *is_busy) {
    struct {
        char magic[16];
        uint32_t pid;
    } head;
    struct stat about;
    *is_busy = 0;
    if (lstat(path, &about) != 0)
        return errno == ENOENT ? NULL : strerror(errno);
    if (!S_ISREG(about.st_mode))
        return "it is no regular file";
    if (about.st_size == 0)
        return NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return strerror(errno);
    ssize_t got = read(fd, &head, sizeof head);
    close(fd);
    if (got != (ssize_t)sizeof head || memcmp(head.magic, MAGIC, sizeof head.magic) != 0)
        return "it holds something else";
    pid_t writer = (pid_t)head.pid;
    *is_busy = writer != getpid() && (kill(writer, 0) == 0 || errno == EPERM);
    return NULL;
}

/* A new file of its whole length, mapped; NULL, with errno, where that fails. */
OURS struct record *make_file(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return NULL;
    void *mapped = MAP_FAILED;
    /* Without room for all of it, a later write would end the program. */
    int is_there = fallocate(fd, 0, 0, sizeof(struct record)) == 0;
    if (!is_there && (errno == EOPNOTSUPP || errno == ENOSYS))
        is_there = ftruncate(fd, sizeof(struct record)) == 0;
    if (is_there)
        mapped = mmap(NULL, sizeof(struct record), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int why = errno;
    close(fd);
    if (mapped == MAP_FAILED)
        unlink(path);
    errno = why;
    return mapped == MAP_FAILED ? NULL : (struct record *)mapped;
}

OURS int open_record(void) {
    const char *path = secure_getenv("PAGEWISE_CALLS");
    char own[PATH_MAX];
    int is_busy;
    if (!path || !*path)
        return 0;
    if (snprintf(own, sizeof own, "%s.%d", path, (int)getpid()) >= (int)sizeof own)
        return complain(path, strerror(ENAMETOOLONG));
    const char *why = refusal(path, &is_busy);
    if (why)
        return complain(path, why);
    /* Forked processes share it, and what they call counts once. */
    void *slots = mmap(NULL, SLOTS * sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (slots == MAP_FAILED)
        return complain(path, strerror(errno));
    seen = (uintptr_t *)slots;
    unlink(own);
    record = make_file(own);
    if (!record)
        return complain(path, strerror(errno));
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t got = read(fd, record->command, COMMAND - 1);
        (void)got;
        close(fd);
    }
    record->pid = (uint32_t)getpid();
    record->began_ns = now_ns();
    memcpy(record->magic, MAGIC, sizeof record->magic);
    if (!is_busy && rename(own, path) != 0)
        return complain(path, strerror(errno));
    return 1;
}

/* Opens the file at the first call of all; whether calls are recorded. */
OURS int begin(void) {
    int expected = UNTRIED;
    if (!__atomic_compare_exchange_n(&state, &expected, TRYING, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return expected == ON;
    int kept = errno, is_on = open_record();
    errno = kept;
    __atomic_store_n(&state, is_on ? ON : OFF, __ATOMIC_RELEASE);
    return is_on;
}

/* Whether nobody has called it before. */
OURS int is_first_call(uintptr_t function) {
    for (uintptr_t tried = 0; tried < TRIES; tried++) {
        uintptr_t *slot = &seen[((function >> 4) + tried) & (SLOTS - 1)], there = 0;
        if (__atomic_load_n(slot, __ATOMIC_RELAXED) == function)
            return 0;
        if (__atomic_compare_exchange_n(slot, &there, function, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return 1;
        if (there == function)
            return 0;
    }
    return 0;
}

/* The build identifier in the notes of the ELF file that is mapped from its beginning on at `image`. */
OURS void read_build_id(struct module *module, uintptr_t image, size_t bytes) {
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)image;
    if (bytes < sizeof *head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return;
    const ElfW(Phdr) *part = (const ElfW(Phdr) *)(image + head->e_phoff);
    if (head->e_phoff > bytes || head->e_phnum > (bytes - head->e_phoff) / sizeof *part)
        return;
    for (const ElfW(Phdr) *end = part + head->e_phnum; part < end; part++) {
        if (part->p_type != PT_NOTE || part->p_offset > bytes || part->p_filesz > bytes - part->p_offset)
            continue;
        size_t align = part->p_align == 8 ? 7 : 3, at = 0;
        while (at + sizeof(ElfW(Nhdr)) <= part->p_filesz) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)(image + part->p_offset + at);
            size_t name = at + sizeof *note, value = (name + note->n_namesz + align) & ~align;
            if (value > part->p_filesz || note->n_descsz > part->p_filesz - value)
                break;
            const char *text = (const char *)(image + part->p_offset);
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && note->n_descsz <= BUILD_ID &&
                memcmp(text + name, "GNU", 4) == 0) {
                memcpy(module->id, text + value, note->n_descsz);
                module->id_bytes = note->n_descsz;
                return;
            }
            at = (value + note->n_descsz + align) & ~align;
        }
    }
}

/* A line of /proc/self/maps as it comes in, byte by byte. */
struct line {
    uint64_t numbers[5]; /* start, end, rights, offset, inode */
    int field, has_path;
    unsigned length;
};

enum { START, END, RIGHTS, OFFSET, DEVICE, INODE, NAME };

/* Takes a byte; the path goes to `path`. Whether the line is complete. */
OURS int take(struct line *line, char *path, char byte) {
    static const char after[] = {'-', ' ', ' ', ' ', ' ', ' '};
    static const signed char place[] = {0, 1, 2, 3, -1, 4};
    if (byte == '\n') {
        path[line->length] = 0;
        line->has_path = line->length > 0 && line->length < PATH - 1 && path[0] == '/';
        return 1;
    }
    if (line->field == NAME) {
        if ((line->length > 0 || byte != ' ') && line->length < PATH - 1)
            path[line->length++] = byte;
        return 0;
    }
    if (byte == after[line->field]) {
        line->field++;
        return 0;
    }
    int at = place[line->field];
    if (line->field == RIGHTS) {
        line->numbers[at] |= byte == 'r';
    } else if (line->field == INODE) {
        line->numbers[at] = line->numbers[at] * 10 + (uint64_t)(byte - '0');
    } else if (at >= 0) {
        uint64_t digit = (uint64_t)(byte <= '9' ? byte - '0' : byte - 'a' + 10);
        line->numbers[at] = line->numbers[at] << 4 | digit;
    }
    return 0;
}

/* Looks up the mapping that holds `address`; 1 where it is of a file. */
OURS int find_mapping(int fd, uintptr_t address, struct module *module) {
    struct line line, image;
    char bytes[512];
    ssize_t got;
    memset(&line, 0, sizeof line);
    memset(&image, 0, sizeof image);
    while ((got = read(fd, bytes, sizeof bytes)) > 0) {
        for (ssize_t at = 0; at < got; at++) {
            if (!take(&line, module->path, bytes[at]))
                continue;
            if (line.has_path && line.numbers[2] && line.numbers[3] == 0)
                image = line;
            if (line.numbers[0] <= address && address < line.numbers[1]) {
                module->start = line.numbers[0];
                module->end = line.numbers[1];
                module->offset = line.numbers[3];
                if (image.has_path && image.numbers[4] == line.numbers[4])
                    read_build_id(module, (uintptr_t)image.numbers[0],
                                  (size_t)(image.numbers[1] - image.numbers[0]));
                return line.has_path;
            }
            memset(&line, 0, sizeof line);
        }
    }
    return 0;
}

OURS int is_known(uintptr_t address) {
    uint32_t used = __atomic_load_n(&record->modules_used, __ATOMIC_ACQUIRE);
    for (uint32_t at = 0; at < used && at < MODULES; at++) {
        const struct module *module = &record->modules[at];
        if (__atomic_load_n(&module->ready, __ATOMIC_ACQUIRE) && module->start <= address &&
            address < module->end)
            return 1;
    }
    return 0;
}

/* Notes from which file the code at `address` is. */
OURS void add_module(uintptr_t address) {
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    uint32_t at = __atomic_fetch_add(&record->modules_used, 1, __ATOMIC_ACQ_REL);
    if (at < MODULES && find_mapping(fd, address, &record->modules[at]))
        __atomic_store_n(&record->modules[at].ready, 1, __ATOMIC_RELEASE);
    close(fd);
}

OURS void note(uintptr_t function) {
    uint32_t at = __atomic_fetch_add(&record->calls_used, 1, __ATOMIC_RELAXED);
    if (at >= CALLS)
        return;
    struct call *call = &record->calls[at];
    call->function = function;
    call->ns = now_ns() - record->began_ns;
    call->pid = (uint32_t)getpid();
    __atomic_store_n(&call->ready, 1, __ATOMIC_RELEASE);
    if (!is_known(function)) {
        int kept = errno;
        add_module(function);
        errno = kept;
    }
}

#ifdef __cplusplus
extern "C" {
#endif
HOOK __cyg_profile_func_enter(void *function, void *caller);
HOOK __cyg_profile_func_exit(void *function, void *caller);

HOOK __cyg_profile_func_enter(void *function, void *caller) {
    (void)caller;
    if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != ON && !begin())
        return;
    if (is_first_call((uintptr_t)function))
        note((uintptr_t)function);
}

HOOK __cyg_profile_func_exit(void *function, void *caller) {
    (void)function;
    (void)caller;
}
#ifdef __cplusplus
}
#endif

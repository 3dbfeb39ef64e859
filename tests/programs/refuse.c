/* Runs a command in which one call fails: refuse CALL ERRNO COMMAND... A seccomp filter gives the error of this
   number instead of doing it, as a container's filter or a kernel without the call would. Ends with 125 where
   that cannot be had. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOWER_HALF(n) (offsetof(struct seccomp_data, args) + 8 * (n))

/* Calls where an argument, counted from 0, has this lower half. */
static const struct {
    const char *name;
    unsigned number, argument, value;
} calls[] = {
    {"cachestat", 451, 3, 0}, /* its last argument is always 0 */
    {"pagemap-scan", SYS_ioctl, 1, 0xc0606610},
    {"dontneed", SYS_fadvise64, 3, POSIX_FADV_DONTNEED},
    {"hugepage", SYS_madvise, 2, MADV_HUGEPAGE},
    {"populate-read", SYS_madvise, 2, 22},
};

static int install(unsigned at, unsigned error) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[at].number, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, LOWER_HALF(calls[at].argument)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[at].value, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

int main(int count, char **words) {
    if (count < 4)
        return 125;
    for (unsigned at = 0; at < sizeof calls / sizeof *calls; at++) {
        if (strcmp(words[1], calls[at].name) != 0)
            continue;
        if (install(at, strtoul(words[2], 0, 10)) != 0)
            return 125;
        execv(words[3], words + 3);
    }
    return 125;
}

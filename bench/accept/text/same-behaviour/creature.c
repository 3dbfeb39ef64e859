/* A program with 7 MiB of code that does one thing, by its first word, and says what came of it:
   nothing: reads a byte of each page of its code; `limits`: under limits of its own; `filtered`: under a
   seccomp filter that allows little; `loads FILE`: calls a function of a library; `serves`: answers from
   forked children. Built with -shared, its function is what `loads` calls. */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern volatile char creature_start[], creature_end[];

__asm__(".text\n"
        ".globl creature_start\n"
        ".hidden creature_start\n"
        "creature_start:\n"
        ".fill 7340032, 1, 0x5a\n"
        ".globl creature_end\n"
        ".hidden creature_end\n"
        "creature_end:\n");

/* A sum over a byte of each page of the code. */
unsigned long creature_sum(void) {
    unsigned long sum = 0;
    for (volatile char *at = creature_start; at < creature_end; at += 4096)
        sum = sum * 31 + (unsigned char)*at;
    return sum;
}

#ifndef LIBRARY
static int limited(void) {
    struct rlimit files = {16, 16}, stack = {1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 || setrlimit(RLIMIT_STACK, &stack) != 0)
        return 2;
    printf("limited %lx\n", creature_sum());
    return 3;
}

static int filtered(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    char line[64];
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return 2;
    int length = snprintf(line, sizeof line, "filtered %lx\n", creature_sum());
    _exit(write(1, line, length) == length ? 4 : 2);
}

static int loads(const char *file) {
    void *library = dlopen(file, RTLD_NOW);
    unsigned long (*sum)(void) = library ? (unsigned long (*)(void))dlsym(library, "creature_sum") : NULL;
    if (sum == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    printf("loaded %lx\n", sum());
    return 5;
}

static int serves(void) {
    for (int child = 0; child < 8; child++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            printf("child %d %lx\n", child, creature_sum() + child);
            fflush(stdout);
            _exit(child);
        }
        int status = 0;
        if (pid < 0 || waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != child)
            return 2;
    }
    return 6;
}

int main(int count, char **words) {
    const char *asked = count > 1 ? words[1] : "";
    if (strcmp(asked, "limits") == 0)
        return limited();
    if (strcmp(asked, "filtered") == 0)
        return filtered();
    if (strcmp(asked, "loads") == 0 && count > 2)
        return loads(words[2]);
    if (strcmp(asked, "serves") == 0)
        return serves();
    printf("plain %lx\n", creature_sum());
    fprintf(stderr, "and an error\n");
    return 7;
}
#endif

/* A chain of processes: each makes the next one and ends at once, so that the chain is never where it was seen last.
   fork_chain KIND CHAINS SECONDS stay|leave [MARK]: so many chains; the first process waits for the end of them
   (stay) or ends when all have begun (leave). Every process ends by itself when SECONDS are over. With MARK, the
   number of links that were made goes to the file of that name, as one byte for each 256.

   plain     stays in its group and session
   group     each in a process group of its own
   session   each in a session of its own
   double    two generations a link, each in a session of its own
   sibling   each a child of its parent's parent (CLONE_PARENT), in a session of its own
   memory    the same, all in one memory (CLONE_VM), which makes them fastest
   deaf      as session, with every signal blocked and ignored
   stopped   as session; each of the first 64 leaves a stopped process behind
   hang      no chain: processes that wait, each in a session of its own */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double end;
static const char *kind;
static volatile long *links;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int is(const char *name) {
    return strcmp(kind, name) == 0;
}

/* The stacks of a chain, used by turns: earlier links may still be on theirs. */
#define STACKS 64
struct stacks {
    char of[STACKS][16384];
};

static int link_in_memory(void *chain);

static struct chain {
    struct stacks *stacks;
    int turn;
} *chains;

static void next_in_memory(struct chain *chain) {
    chain->turn = (chain->turn + 1) % STACKS;
    char *top = chain->stacks->of[chain->turn] + sizeof chain->stacks->of[0];
    while (clone(link_in_memory, top, CLONE_VM | CLONE_PARENT | SIGCHLD, chain) < 0 && now() < end)
        usleep(100);
}

static int link_in_memory(void *chain) {
    if (now() >= end)
        syscall(SYS_exit, 0);
    __atomic_add_fetch(links, 1, __ATOMIC_RELAXED);
    syscall(SYS_setsid);
    next_in_memory(chain);
    syscall(SYS_exit, 0);
    return 0;
}

static pid_t make(int flags) {
    pid_t made;
    while ((made = syscall(SYS_clone, flags | SIGCHLD, 0, 0, 0, 0)) < 0 && now() < end)
        usleep(100);
    return made;
}

static void leave_stopped(void) {
    if (*links < 64 && make(0) == 0) {
        raise(SIGSTOP);
        while (now() < end)
            usleep(100000);
        _exit(0);
    }
}

static void live(void) {
    for (;;) {
        if (now() >= end)
            _exit(0);
        __atomic_add_fetch(links, 1, __ATOMIC_RELAXED);
        if (is("group"))
            setpgid(0, 0);
        else if (!is("plain"))
            setsid();
        if (is("stopped"))
            leave_stopped();
        if (is("double") && make(0) != 0)
            _exit(0);
        if (make(is("sibling") ? CLONE_PARENT : 0) != 0)
            _exit(0);
    }
}

static void begin(struct chain *chain) {
    if (make(0) != 0)
        return;
    if (is("hang")) {
        setsid();
        while (now() < end)
            usleep(100000);
        _exit(0);
    }
    if (is("memory"))
        link_in_memory(chain);
    live();
}

int main(int count, char **word) {
    if (count < 5)
        return 2;
    kind = word[1];
    int chains_wanted = atoi(word[2]);
    end = now() + atof(word[3]);
    links = mmap(0, sizeof *links, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    chains = calloc(chains_wanted, sizeof *chains);
    /* Links made with CLONE_PARENT are children of this process: none may stay a zombie and hold its id. */
    signal(SIGCHLD, SIG_IGN);
    if (is("deaf")) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, 0);
        for (int number = 1; number < 65; number++)
            signal(number, SIG_IGN);
    }
    for (int nth = 0; nth < chains_wanted; nth++) {
        chains[nth].stacks = malloc(sizeof *chains[nth].stacks);
        begin(&chains[nth]);
    }
    while (*links < 8L * chains_wanted && !is("hang") && now() < end)
        usleep(1000);
    while (strcmp(word[4], "stay") == 0 && now() < end)
        usleep(10000);
    return 0;
}

/* Functions whose first calls come in a known order, in programs that are hard to set breakpoints in. The
 * first argument says how; what is printed must be the same with breakpoints and without. -DLIBRARY makes
 * the library that `dlopen` loads. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define OWN __attribute__((noinline, noclone, visibility("default")))
#define MARK(name)                                                                                    \
    OWN int name(int n) {                                                                             \
        __asm__ volatile("" : "+r"(n));                                                               \
        return n + 1;                                                                                 \
    }

#ifdef LIBRARY
MARK(mark_library)
#else

extern char **environ;
MARK(mark_one)
MARK(mark_two)
MARK(mark_three)
MARK(mark_never)

OWN int mark_copied(int n) {
    return (n * 31 + 7) ^ (n << 3) ^ (n / 3);
}

/* Begins with a breakpoint of its own. */
__asm__(".text\n.globl mark_trap\n.type mark_trap, @function\nmark_trap: int3\nmov $5, %eax\nret\n"
        ".size mark_trap, . - mark_trap\n");
int mark_trap(void);

/* Few bytes, and one. */
__asm__(".text\n.globl mark_small\n.type mark_small, @function\nmark_small: mov $1, %eax\nret\n"
        ".size mark_small, . - mark_small\n.globl mark_smallest\n.type mark_smallest, @function\n"
        "mark_smallest: ret\n.size mark_smallest, . - mark_smallest\n");
int mark_small(void);
void mark_smallest(void);

static volatile sig_atomic_t caught;

static void on_signal(int number) {
    caught += mark_two(number);
}

static void on_trap(int number) {
    (void)number;
    caught++;
}

static int plain(void) {
    return mark_three(mark_one(0)) + mark_two(0) + mark_one(0) + mark_two(0);
}

static void *in_thread(void *barrier) {
    pthread_barrier_wait(barrier);
    return (void *)(intptr_t)(mark_one(0) + mark_two(0) + mark_three(0));
}

static int threads(void) {
    enum { N = 16 };
    pthread_t all[N];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, N);
    for (int i = 0; i < N; i++)
        pthread_create(&all[i], NULL, in_thread, &barrier);
    intptr_t sum = 0;
    for (int i = 0; i < N; i++) {
        void *got;
        pthread_join(all[i], &got);
        sum += (intptr_t)got;
    }
    return (int)sum;
}

static int status_of(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static int forks(void) {
    int sum = mark_one(0);
    pid_t child = fork();
    if (child == 0)
        _exit(mark_one(1) + mark_two(2));
    sum += status_of(child) >> 8;
    /* The child's call has taken nothing away here. */
    return sum + mark_two(0) + mark_three(0);
}

static int vforks(char **argv) {
    char *const other[] = {argv[0], "plain", NULL};
    pid_t child = vfork();
    if (child == 0) {
        mark_two(0);
        execv("/proc/self/exe", other);
        _exit(99);
    }
    int sum = status_of(child) >> 8;
    pid_t spawned;
    posix_spawn(&spawned, "/bin/true", NULL, NULL, other, environ);
    return sum + status_of(spawned) + mark_two(0);
}

static int loads(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 99;
    }
    int (*call)(int) = (int (*)(int))dlsym(library, "mark_library");
    int sum = call(mark_one(0));
    dlclose(library);
    library = dlopen(path, RTLD_NOW);
    call = (int (*)(int))dlsym(library, "mark_library");
    return sum + call(0) + mark_two(0);
}

static int signals(void) {
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    signal(SIGTRAP, on_trap);
    raise(SIGTRAP);
    int sum = mark_trap() + mark_trap() + mark_one(0);
    return sum + caught;
}

static int is_blocked(int number) {
    sigset_t now;
    sigprocmask(SIG_SETMASK, NULL, &now);
    return sigismember(&now, number);
}

static void *blocks_all(void *unused) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    return (void *)(intptr_t)(mark_two(0) + 2 * is_blocked(SIGTRAP) + (unused != NULL));
}

static int is_pending(int number) {
    sigset_t now;
    sigpending(&now);
    return sigismember(&now, number);
}

static void set_blocked(int how) {
    sigset_t trap;
    sigemptyset(&trap);
    sigaddset(&trap, SIGTRAP);
    sigprocmask(how, &trap, NULL);
}

static siginfo_t last;

static void on_sent_trap(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    last = *info;
    caught++;
}

/* A blocked SIGTRAP waits over breakpoints, without a handler and with one, and arrives as it was sent. */
static int pending(void) {
    set_blocked(SIG_BLOCK);
    int sum = mark_one(0);
    raise(SIGTRAP);
    sum += mark_two(0);
    printf("pending %d blocked %d\n", is_pending(SIGTRAP), is_blocked(SIGTRAP));
    struct sigaction action = {.sa_sigaction = on_sent_trap, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    sum += mark_three(0);
    printf("pending %d caught %d\n", is_pending(SIGTRAP), caught);
    set_blocked(SIG_UNBLOCK);
    printf("caught %d from here %d\n", caught, last.si_code == SI_TKILL && last.si_pid == getpid());
    return sum;
}

static void blocks_in_context(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    sigaddset(&((ucontext_t *)context)->uc_sigmask, SIGTRAP);
}

static void blocks_inside(int number) {
    (void)number;
    set_blocked(SIG_BLOCK);
    printf("inside %d\n", is_blocked(SIGTRAP));
}

static void is_masked(int number) {
    int before = is_blocked(SIGTRAP);
    caught += mark_two(number) - number;
    printf("masked %d %d\n", before, is_blocked(SIGTRAP));
}

/* Masks that handlers run with, leave behind and write into their context. */
static int masks(void) {
    struct sigaction action = {.sa_handler = is_masked};
    sigfillset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    printf("after %d\n", is_blocked(SIGTRAP));
    signal(SIGUSR2, blocks_inside);
    raise(SIGUSR2);
    int sum = mark_one(0);
    printf("after %d\n", is_blocked(SIGTRAP));
    struct sigaction context = {.sa_sigaction = blocks_in_context, .sa_flags = SA_SIGINFO};
    sigaction(SIGUSR1, &context, NULL);
    raise(SIGUSR1);
    sum += mark_three(0);
    printf("after %d\n", is_blocked(SIGTRAP));
    return sum + caught;
}

/* Children that want to be untraced, by both calls; what they map is theirs. */
static int untraced(void) {
    struct clone_args arguments = {.flags = CLONE_UNTRACED, .exit_signal = SIGCHLD};
    int sum = mark_one(0);
    for (int way = 0; way < 2; way++) {
        pid_t child = way == 0 ? syscall(SYS_clone3, &arguments, sizeof arguments)
                               : syscall(SYS_clone, CLONE_UNTRACED | SIGCHLD, 0, 0, 0, 0);
        if (child == 0) {
            void *memory = mmap(NULL, 1 << 21, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (memory == MAP_FAILED || open("/proc/self/maps", O_RDONLY) < 0)
                _exit(99);
            if (unlink("/nonexistent/file") == 0 || errno != ENOENT)
                _exit(98);
            _exit(mark_two(way) + mark_three(way));
        }
        int status = status_of(child);
        printf("child %d\n", status);
        sum += status >> 8;
    }
    printf("flags %d\n", arguments.flags == CLONE_UNTRACED);
    return sum;
}

/* SIGTRAP is blocked with a handler, in this thread and another one, then ignored. */
static int blocked(void) {
    struct sigaction action = {.sa_handler = on_trap}, now;
    sigaction(SIGTRAP, &action, NULL);
    sigset_t trap, none;
    sigemptyset(&trap);
    sigaddset(&trap, SIGTRAP);
    sigprocmask(SIG_BLOCK, &trap, &none);
    int sum = mark_one(0) + 2 * is_blocked(SIGTRAP);
    pthread_t thread;
    void *got;
    pthread_create(&thread, NULL, blocks_all, NULL);
    pthread_join(thread, &got);
    sum += (int)(intptr_t)got;
    kill(getpid(), SIGTRAP);
    int before = caught;
    sigprocmask(SIG_SETMASK, &none, NULL);
    sigaction(SIGTRAP, NULL, &now);
    printf("handler kept %d, delivered %d then %d\n", now.sa_handler == on_trap, before, caught);
    action.sa_handler = SIG_IGN;
    sigaction(SIGTRAP, &action, NULL);
    sum += mark_three(0);
    sigaction(SIGTRAP, NULL, &now);
    kill(getpid(), SIGTRAP);
    printf("ignored %d\n", now.sa_handler == SIG_IGN);
    return sum;
}

static void *executable(const void *code, size_t bytes) {
    void *memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, code, bytes);
    mprotect(memory, 65536, PROT_READ | PROT_EXEC);
    return memory;
}

/* Code that is copied while it has a breakpoint, and code that is made. */
static int copies(void) {
    int (*copy)(int) = (int (*)(int))executable((void *)mark_copied, 64);
    int sum = copy(0) + mark_two(0) + copy(1);
    static const unsigned char made[] = {0xcc, 0xb8, 7, 0, 0, 0, 0xc3};
    signal(SIGTRAP, on_trap);
    int (*call)(void) = (int (*)(void))executable(made, sizeof made);
    sum += call() + call();
    /* The function alone, and what follows is another's. */
    unsigned char small[16];
    memset(small, 0x77, sizeof small);
    memcpy(small, (void *)mark_small, 6);
    int (*other)(void) = (int (*)(void))executable(small, sizeof small);
    sum += other() + other();
    memcpy(small, (void *)mark_smallest, 1);
    void (*none)(void) = (void (*)(void))executable(small, sizeof small);
    none();
    return sum + caught;
}

/* Code of its own, over the place of a library that was there. */
static int covers(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    int (*call)(int) = (int (*)(int))dlsym(library, "mark_library");
    int sum = call(0);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t at = (uintptr_t)call & ~(uintptr_t)(page - 1);
    dlclose(library);
    void *memory = mmap((void *)at, 2 * page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    static const unsigned char made[] = {0xcc, 0xb8, 7, 0, 0, 0, 0xc3};
    memcpy((void *)call, made, sizeof made);
    mprotect(memory, 2 * page, PROT_READ | PROT_EXEC);
    signal(SIGTRAP, on_trap);
    sum += call(0) + call(0) + mark_one(0);
    return sum + caught;
}

static int processors(void) {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    int sum = CPU_COUNT(&set) + mark_one(0);
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (strncmp(line, "SigIgn", 6) == 0 || strncmp(line, "SigBlk", 6) == 0)
            fputs(line, stdout);
    return sum;
}

int main(int count, char **argv) {
    const char *how = count > 1 ? argv[1] : "plain", *path = count > 2 ? argv[2] : "";
    int sum = -1;
    if (strcmp(how, "plain") == 0)
        sum = plain();
    else if (strcmp(how, "threads") == 0)
        sum = threads();
    else if (strcmp(how, "forks") == 0)
        sum = forks();
    else if (strcmp(how, "vforks") == 0)
        sum = vforks(argv);
    else if (strcmp(how, "loads") == 0)
        sum = loads(path);
    else if (strcmp(how, "signals") == 0)
        sum = signals();
    else if (strcmp(how, "blocked") == 0)
        sum = blocked();
    else if (strcmp(how, "pending") == 0)
        sum = pending();
    else if (strcmp(how, "masks") == 0)
        sum = masks();
    else if (strcmp(how, "untraced") == 0)
        sum = untraced();
    else if (strcmp(how, "copies") == 0)
        sum = copies();
    else if (strcmp(how, "covers") == 0)
        sum = covers(path);
    else if (strcmp(how, "processors") == 0)
        sum = processors();
    printf("%s %d\n", how, sum);
    fflush(stdout);
    return sum & 127;
}
#endif

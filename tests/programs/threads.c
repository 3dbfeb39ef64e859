/* Programs of many threads that end in every way, for whoever holds one of them at that moment.

   threads END THREADS STATUS   maps memory, starts threads that map, wait and compute, and ends:
       main       the first thread calls exit_group(STATUS)
       other      another thread does
       leaver     the first thread is gone by then (pthread_exit)
       killed     another thread sends SIGKILL to the process
       exec-main  the first thread executes `threads main` with as many threads
       exec-other another thread does
       exec-left  another thread does, and the first is gone by then
   threads nursery COUNT SEED [exec]   forks COUNT such programs, one after the other, waits for
       each, and compares how it ended; prints how many it has seen; with `exec` each executes once.
   Status 99: something was wrong, which is said on standard error. Status 98: the machine had no room
   for another thread or process; the nursery tries again. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *how;
static int threads, status;
static pthread_t first;

enum { WRONG = 99, NO_ROOM = 98 };

static int failed(const char *call) {
    if (errno == EAGAIN || errno == ENOMEM)
        return NO_ROOM;
    perror(call);
    return WRONG;
}

static void *map(size_t size) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        _exit(failed("mmap"));
    return at;
}

static void nap(long micros) {
    struct timespec time = {0, micros * 1000};
    nanosleep(&time, NULL);
}

static void end(void) {
    char count[16], code[16];
    if (strcmp(how, "killed") == 0)
        kill(getpid(), SIGKILL);
    if (strncmp(how, "exec", 4) != 0)
        syscall(SYS_exit_group, status);
    snprintf(count, sizeof count, "%d", threads);
    snprintf(code, sizeof code, "%d", status);
    execl("/proc/thread-self/exe", "threads", "main", count, code, (char *)NULL);
    _exit(failed("exec"));
}

/* Waits in several ways, maps and computes until the program ends. */
static void *work(void *number) {
    unsigned turn = (unsigned)(size_t)number;
    for (;; turn++) {
        switch (turn % 5) {
        case 0: nap(200); break;
        case 1: poll(NULL, 0, 1); break;
        case 2: munmap(map(9 << 20), 9 << 20); break;
        case 3: for (volatile int i = 0; i < 20000; i++); break;
        case 4: sched_yield(); break;
        }
    }
    return NULL;
}

static void *ending(void *unused) {
    if (strcmp(how, "leaver") == 0 || strcmp(how, "exec-left") == 0)
        pthread_join(first, NULL);
    nap(300 + (getpid() * 7919) % 900);
    end();
    return unused;
}

static int live(void) {
    int is_main = strcmp(how, "main") == 0 || strcmp(how, "exec-main") == 0;
    pthread_attr_t small;
    pthread_t made;
    first = pthread_self();
    *(char *)map(9 << 20) = 1;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int i = 1 + !is_main; i < threads; i++)
        if ((errno = pthread_create(&made, &small, work, (void *)(size_t)i)) != 0)
            return failed("pthread_create");
    if (!is_main && (errno = pthread_create(&made, &small, ending, NULL)) != 0)
        return failed("pthread_create");
    if (is_main) {
        nap(300 + (getpid() * 7919) % 900);
        end();
    }
    if (strcmp(how, "leaver") == 0 || strcmp(how, "exec-left") == 0)
        pthread_exit(NULL);
    work((void *)(size_t)0);
    return WRONG;
}

static int nursery(int count, unsigned seed, int executes) {
    static const char *const ends[] = {"main", "other", "leaver", "killed"};
    static const char *const execs[] = {"exec-main", "exec-other", "exec-left"};
    int killed, done, seen = 0;
    for (; seen < count; seen++) {
        how = executes ? execs[rand_r(&seed) % 3] : ends[rand_r(&seed) % 4];
        status = rand_r(&seed) % 90;
        /* Few threads most of the time, up to 64 now and then. */
        threads = rand_r(&seed) % 16 == 0 ? 2 + rand_r(&seed) % 63 : 2 + rand_r(&seed) % 5;
        do {
            pid_t child = fork();
            if (child == 0)
                _exit(live());
            done = NO_ROOM << 8;
            if (child > 0 && waitpid(child, &done, 0) != child)
                return failed("waitpid");
        } while (WIFEXITED(done) && WEXITSTATUS(done) == NO_ROOM);
        killed = strcmp(how, "killed") == 0;
        if (killed ? !WIFSIGNALED(done) || WTERMSIG(done) != SIGKILL
                   : !WIFEXITED(done) || WEXITSTATUS(done) != status) {
            fprintf(stderr, "%s with %d threads: status %#x, not %d\n", how, threads, done, status);
            return WRONG;
        }
    }
    printf("%d\n", seen);
    return 0;
}

int main(int count, char **words) {
    if (count >= 4 && strcmp(words[1], "nursery") == 0)
        return nursery(atoi(words[2]), (unsigned)atoi(words[3]), count > 4);
    if (count != 4)
        return WRONG;
    how = words[1];
    threads = atoi(words[2]);
    status = atoi(words[3]);
    return live();
}

/* One thread that waits in every way in turn, for whoever interrupts it meanwhile.

   waits ROUNDS MILLISECONDS   makes each kind of wait so often and prints a line for each kind:
       NAME ROUNDS WRONG EARLY MEDIAN MOST
   WRONG counts results other than those of a wait that nobody interrupts (EINTR among them), EARLY
   those that came before their time; MEDIAN and MOST are microseconds after it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long millis;
static struct timespec rel;
static struct timeval val;

static struct timespec now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time;
}

/* When the last wait began and ended; what is made ready for it lies outside. */
static struct timespec began, ended;

static long stamp(long result) {
    int error = errno;
    ended = now(CLOCK_MONOTONIC);
    errno = error;
    return result;
}

#define TIMED(call) (began = now(CLOCK_MONOTONIC), stamp(call))

/* The moment at which a wait that begins now is over. */
static struct timespec until(clockid_t clock) {
    struct timespec time = now(clock);
    began = now(CLOCK_MONOTONIC);
    time.tv_nsec += rel.tv_nsec;
    time.tv_sec += rel.tv_sec + time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

static int fails(long result, int error) { return result == -1 && errno == error; }

/* A child that does `work` when the time has come, for waits without a timeout. */
static pid_t later(void (*work)(int), int argument) {
    pid_t child;
    began = now(CLOCK_MONOTONIC);
    while ((child = fork()) < 0)
        usleep(10000);
    if (child == 0) {
        struct timespec time = {rel.tv_sec, rel.tv_nsec};
        while (nanosleep(&time, &time) != 0)
            ;
        work(argument);
        _exit(3);
    }
    return child;
}

static int reaped(pid_t child) {
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 3;
}

static void put(int fd) {
    if (write(fd, "x", 1) != 1)
        _exit(4);
}

static void nothing(int unused) { (void)unused; }

static void send_message(int queue) {
    struct { long type; char text[1]; } message = {1, {'x'}};
    if (msgsnd(queue, &message, 1, 0) != 0)
        _exit(4);
}

static int a_nanosleep(void) { return TIMED(nanosleep(&rel, NULL)) == 0; }
static int a_clock_nanosleep(void) { return TIMED(clock_nanosleep(CLOCK_MONOTONIC, 0, &rel, NULL)) == 0; }
static int an_absolute_sleep(void) {
    struct timespec end = until(CLOCK_MONOTONIC);
    return stamp(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL)) == 0;
}
static int a_poll(void) { return TIMED(poll(NULL, 0, (int)millis)) == 0; }
static int a_ppoll(void) { return TIMED(ppoll(NULL, 0, &rel, NULL)) == 0; }
static int a_select(void) {
    struct timeval time = val;
    return TIMED(select(0, NULL, NULL, NULL, &time)) == 0;
}
static int a_pselect(void) { return TIMED(pselect(0, NULL, NULL, NULL, &rel, NULL)) == 0; }

static int an_epoll_wait(void) {
    struct epoll_event event;
    int set = epoll_create1(0);
    long result = TIMED(epoll_wait(set, &event, 1, (int)millis));
    close(set);
    return result == 0;
}
static int an_epoll_pwait2(void) {
    struct epoll_event event;
    int set = epoll_create1(0);
    long result = TIMED(syscall(441, set, &event, 1, &rel, NULL, 8));
    int error = errno;
    close(set);
    if (result == -1 && error == ENOSYS)
        return a_nanosleep();
    return result == 0;
}

static int a_futex(void) {
    static int word;
    return fails(TIMED(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &rel, NULL, 0)), ETIMEDOUT);
}
static int an_absolute_futex(void) {
    static int word;
    struct timespec end = until(CLOCK_MONOTONIC);
    return fails(stamp(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &end, NULL, -1)),
                 ETIMEDOUT);
}

static int a_recv(void) {
    int ends[2], error;
    long result;
    char byte;
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &val, sizeof val);
    result = TIMED(recv(ends[0], &byte, 1, 0));
    error = errno;
    close(ends[0]);
    close(ends[1]);
    errno = error;
    return fails(result, EAGAIN);
}
static int a_send(void) {
    int ends[2], error;
    long result;
    char bytes[4096] = {0};
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    while (send(ends[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        ;
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &val, sizeof val);
    result = TIMED(send(ends[0], bytes, sizeof bytes, 0));
    error = errno;
    close(ends[0]);
    close(ends[1]);
    errno = error;
    return fails(result, EAGAIN);
}
static int an_accept(void) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int error, listener = socket(AF_UNIX, SOCK_STREAM, 0);
    long result;
    bind(listener, (struct sockaddr *)&name, sizeof name.sun_family);
    listen(listener, 1);
    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &val, sizeof val);
    result = TIMED(accept(listener, NULL, NULL));
    error = errno;
    close(listener);
    errno = error;
    return fails(result, EAGAIN);
}

static int a_sigtimedwait(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return fails(TIMED(sigtimedwait(&set, NULL, &rel)), EAGAIN);
}
static int a_semtimedop(void) {
    struct sembuf take = {0, -1, 0};
    int error, set = semget(IPC_PRIVATE, 1, 0600);
    long result = TIMED(semtimedop(set, &take, 1, &rel));
    error = errno;
    semctl(set, 0, IPC_RMID);
    errno = error;
    return fails(result, EAGAIN);
}
static int an_io_getevents(void) {
    aio_context_t context = 0;
    struct io_event event;
    long result;
    while (syscall(SYS_io_setup, 1, &context) != 0)
        usleep(10000);
    result = TIMED(syscall(SYS_io_getevents, context, 1, 1, &event, &rel));
    syscall(SYS_io_destroy, context);
    return result == 0;
}
static int an_mq_receive(void) {
    char name[32], text[8];
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = sizeof text};
    struct timespec end;
    int error;
    long result;
    snprintf(name, sizeof name, "/waits-%d", getpid());
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
    mq_unlink(name);
    end = until(CLOCK_REALTIME);
    result = stamp(mq_timedreceive(queue, text, sizeof text, NULL, &end));
    error = errno;
    mq_close(queue);
    errno = error;
    return fails(result, ETIMEDOUT);
}

static int a_pipe_read(void) {
    int ends[2], result;
    char byte = 0;
    if (pipe(ends) != 0)
        return 0;
    pid_t child = later(put, ends[1]);
    result = (int)stamp(read(ends[0], &byte, 1));
    close(ends[0]);
    close(ends[1]);
    return reaped(child) && result == 1 && byte == 'x';
}
static int a_wait(void) { return reaped(later(nothing, 0)) && stamp(1); }
static int an_msgrcv(void) {
    struct { long type; char text[1]; } message;
    int queue = msgget(IPC_PRIVATE, 0600);
    pid_t child = later(send_message, queue);
    long result = stamp(msgrcv(queue, &message, 1, 0, 0));
    msgctl(queue, IPC_RMID, NULL);
    return reaped(child) && result == 1;
}
static int a_lock(void) {
    char path[] = "/tmp/waits-XXXXXX";
    int result, mine = mkstemp(path), other = open(path, O_RDWR);
    unlink(path);
    flock(other, LOCK_EX);
    pid_t child = later(nothing, 0);
    close(other); /* The child has it, and with it the lock, until it ends. */
    result = (int)stamp(flock(mine, LOCK_EX));
    close(mine);
    return reaped(child) && result == 0;
}

static const struct {
    const char *name;
    int (*wait)(void);
} kinds[] = {
    {"nanosleep", a_nanosleep},
    {"clock_nanosleep", a_clock_nanosleep},
    {"clock_nanosleep-absolute", an_absolute_sleep},
    {"poll", a_poll},
    {"ppoll", a_ppoll},
    {"select", a_select},
    {"pselect", a_pselect},
    {"epoll_wait", an_epoll_wait},
    {"epoll_pwait2", an_epoll_pwait2},
    {"futex", a_futex},
    {"futex-absolute", an_absolute_futex},
    {"recv-SO_RCVTIMEO", a_recv},
    {"send-SO_SNDTIMEO", a_send},
    {"accept-SO_RCVTIMEO", an_accept},
    {"sigtimedwait", a_sigtimedwait},
    {"semtimedop", a_semtimedop},
    {"io_getevents", an_io_getevents},
    {"mq_timedreceive", an_mq_receive},
    {"pipe-read", a_pipe_read},
    {"waitpid", a_wait},
    {"msgrcv", an_msgrcv},
    {"flock", a_lock},
};

static int ascending(const void *a, const void *b) {
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    int rounds = atoi(words[1]);
    long *late = calloc((size_t)rounds, sizeof *late);
    millis = atol(words[2]);
    rel = (struct timespec){millis / 1000, millis % 1000 * 1000000};
    val = (struct timeval){millis / 1000, millis % 1000 * 1000};
    /* What calls are injected for. */
    *(char *)mmap(NULL, 9 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) = 1;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        int wrong = 0, early = 0;
        for (int round = 0; round < rounds; round++) {
            int right = kinds[kind].wait(), error = errno;
            late[round] = (ended.tv_sec - began.tv_sec) * 1000000 +
                          (ended.tv_nsec - began.tv_nsec) / 1000 - millis * 1000;
            if (!right) {
                wrong++;
                fprintf(stderr, "%s: %d\n", kinds[kind].name, error);
            }
            early += late[round] < 0;
        }
        qsort(late, (size_t)rounds, sizeof *late, ascending);
        printf("%s %d %d %d %ld %ld\n", kinds[kind].name, rounds, wrong, early,
               late[rounds / 2], late[rounds - 1]);
        fflush(stdout);
    }
    return 0;
}

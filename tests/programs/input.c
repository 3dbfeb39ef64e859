/* One use of standard input, or none.
 *
 *   input USE [FILE]
 *
 * After the call that uses it the program makes FILE, so that one can see whether the call came back. Exit
 * status: 0 done, whatever the call gave; 2 wrong usage.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char bytes[64];
static struct iovec part = {bytes, sizeof bytes};

static int null(void) { return open("/dev/null", O_WRONLY); }

static void use_read(void) { (void)!read(0, bytes, sizeof bytes); }
static void use_readv(void) { (void)!readv(0, &part, 1); }
static void use_preadv2(void) { (void)!preadv2(0, &part, 1, -1, 0); }
static void use_stdio(void) { (void)getchar(); }

static void use_poll(void) {
    struct pollfd fds[] = {{2, POLLOUT, 0}, {0, POLLIN, 0}};
    poll(fds, 2, 0);
}

static void use_ppoll(void) {
    struct pollfd fd = {0, POLLIN, 0};
    struct timespec now = {0};
    ppoll(&fd, 1, &now, NULL);
}

static void use_select(void) {
    fd_set set;
    struct timeval now = {0};
    FD_ZERO(&set);
    FD_SET(0, &set);
    select(1, &set, NULL, NULL, &now);
}

static void use_epoll(void) {
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll_create1(0), EPOLL_CTL_ADD, 0, &event);
}

static void use_fionread(void) {
    int count;
    ioctl(0, FIONREAD, &count);
}

static void use_splice(void) {
    int ends[2];
    if (pipe(ends)) return;
    splice(0, NULL, ends[1], NULL, 64, SPLICE_F_NONBLOCK);
}

static void use_tee(void) {
    int ends[2];
    if (pipe(ends)) return;
    tee(0, ends[1], 64, SPLICE_F_NONBLOCK);
}

static void use_sendfile(void) { sendfile(null(), 0, NULL, 64); }
static void use_recv(void) { recv(0, bytes, sizeof bytes, 0); }

static void use_recvmsg(void) {
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    recvmsg(0, &message, 0);
}

static void use_send(void) { send(0, bytes, 1, MSG_NOSIGNAL); }
static void use_dup(void) { (void)!read(dup(0), bytes, sizeof bytes); }
static void use_dup2(void) { (void)!read(dup2(0, 20), bytes, sizeof bytes); }
static void use_fcntl(void) { (void)!read(fcntl(0, F_DUPFD_CLOEXEC, 10), bytes, sizeof bytes); }

static void use_copy_of_copy(void) {
    int first = dup(0);
    close(0);
    int second = dup(first);
    close(first);
    (void)!read(second, bytes, sizeof bytes);
}

static void use_copy_in_child(void) {
    int copy = dup(0);
    int pid = fork();
    if (pid == 0) {
        (void)!read(copy, bytes, sizeof bytes);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

static void *reads_copy(void *copy) {
    (void)!read(*(int *)copy, bytes, sizeof bytes);
    return NULL;
}

static void use_copy_in_thread(void) {
    pthread_t thread;
    int copy = dup(0);
    pthread_create(&thread, NULL, reads_copy, &copy);
    pthread_join(thread, NULL);
}

static void use_name(void) { (void)!open("/dev/stdin", O_RDONLY); }
static void use_proc_name(void) { (void)!open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK); }

static void none(void) {
    struct stat stat;
    struct sockaddr address;
    socklen_t length = sizeof address;
    struct pollfd nothing = {0, 0, 0};
    fstat(0, &stat);
    isatty(0);
    lseek(0, 0, SEEK_CUR);
    fcntl(0, F_GETFL);
    fcntl(0, F_GETFD);
    getpeername(0, &address, &length);
    poll(&nothing, 1, 0);
}

/* Copies it and reads others under all numbers that it had. */
static void none_of_copy(void) {
    int copy = fcntl(0, F_DUPFD, 10), zero = open("/dev/zero", O_RDONLY);
    dup2(zero, 0);
    (void)!read(0, bytes, sizeof bytes);
    (void)!read(zero, bytes, sizeof bytes);
    dup2(copy, 0);
    close(copy);
    dup2(zero, copy);
    (void)!read(copy, bytes, sizeof bytes);
}

static const struct {
    const char *name;
    void (*use)(void);
} USES[] = {
    {"read", use_read}, {"readv", use_readv}, {"preadv2", use_preadv2}, {"stdio", use_stdio},
    {"poll", use_poll}, {"ppoll", use_ppoll}, {"select", use_select}, {"epoll", use_epoll},
    {"fionread", use_fionread}, {"splice", use_splice}, {"tee", use_tee}, {"sendfile", use_sendfile},
    {"recv", use_recv}, {"recvmsg", use_recvmsg}, {"send", use_send}, {"dup", use_dup}, {"dup2", use_dup2},
    {"fcntl", use_fcntl}, {"copy-of-copy", use_copy_of_copy}, {"copy-in-child", use_copy_in_child},
    {"copy-in-thread", use_copy_in_thread}, {"name", use_name}, {"proc-name", use_proc_name},
    {"none", none}, {"none-of-copy", none_of_copy},
};

int main(int argc, char **argv) {
    for (size_t n = 0; argc > 1 && n < sizeof USES / sizeof *USES; n++) {
        if (strcmp(USES[n].name, argv[1])) continue;
        USES[n].use();
        if (argc > 2) close(open(argv[2], O_WRONLY | O_CREAT, 0600));
        return 0;
    }
    return 2;
}

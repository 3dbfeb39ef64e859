/* One call that reaches beyond the program, or its harmless twin.
 *
 *   outside CALL [SUBJECT]
 *
 * SUBJECT is what belongs to somebody else: an object's id, a queue's name, a process, a file. Without it the
 * program makes what it needs itself, and nothing outlasts it. Exit status: 0 done, 1 the call failed (its
 * error on standard error), 2 wrong usage, 77 this kernel or account has no such call.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <mqueue.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *call, *subject;

static void done(long result) {
    if (result >= 0) return;
    int none = errno == ENOSYS || errno == EPERM || errno == EACCES || errno == EOPNOTSUPP;
    perror(call);
    exit(none ? 77 : 1);
}

static int number(void) { return atoi(subject); }

/* A process of one's own to act on. */
static int child(void) {
    int pid = fork();
    done(pid);
    if (pid == 0) {
        pause();
        _exit(0);
    }
    return pid;
}

static int process(void) { return subject ? number() : child(); }

static void put_away(int pid) {
    if (subject) return;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

struct letter {
    long type;
    char text[8];
};

static void messages(const char *how) {
    struct letter letter = {1, "hello"};
    int id = subject ? number() : msgget(IPC_PRIVATE, 0600);
    done(id);
    if (!strcmp(how, "take")) {
        if (!subject) done(msgsnd(id, &letter, sizeof letter.text, 0));
        done(msgrcv(id, &letter, sizeof letter.text, 0, IPC_NOWAIT));
    } else if (!strcmp(how, "set")) {
        struct msqid_ds state;
        done(msgctl(id, IPC_STAT, &state));
        done(msgctl(id, IPC_SET, &state));
    } else {
        done(msgsnd(id, &letter, sizeof letter.text, IPC_NOWAIT));
    }
    if (!subject) done(msgctl(id, IPC_RMID, NULL));
}

static void semaphores(const char *how) {
    struct sembuf up = {0, 1, 0};
    int id = subject ? number() : semget(IPC_PRIVATE, 1, 0600);
    done(id);
    if (!strcmp(how, "set")) done(semctl(id, 0, SETVAL, 1));
    else if (!strcmp(how, "read")) done(semctl(id, 0, GETVAL));
    else done(semop(id, &up, 1));
    if (!subject) done(semctl(id, 0, IPC_RMID));
}

static void memory(const char *how) {
    int id = subject ? number() : shmget(IPC_PRIVATE, 64, 0600);
    done(id);
    int reads = !strcmp(how, "read");
    char *at = shmat(id, NULL, reads ? SHM_RDONLY : 0);
    if (at == (void *)-1) done(-1);
    if (!reads) at[0] = 'x';
    done(shmdt(at));
    if (!subject) done(shmctl(id, IPC_RMID, NULL));
}

static void queue(const char *how) {
    char text[16384] = "hello";
    struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = 64};
    char own[64];
    snprintf(own, sizeof own, "/pagewise-outside-%d", getpid());
    const char *name = subject ? subject : own;
    if (!strcmp(how, "unlink")) {
        if (!subject) done(mq_open(own, O_RDWR | O_CREAT, 0600, &attr));
        done(mq_unlink(name));
        return;
    }
    mqd_t mq = subject ? mq_open(name, O_RDWR) : mq_open(name, O_RDWR | O_CREAT, 0600, &attr);
    done(mq);
    int takes = !strcmp(how, "take");
    if (!takes || !subject) done(mq_send(mq, text, 6, 0));
    if (takes) done(mq_receive(mq, text, sizeof text, NULL));
    if (!subject) done(mq_unlink(own));
}

static void limits(const char *how) {
    struct rlimit limit;
    int pid = process();
    (void)how;
    done(prlimit(pid, RLIMIT_CORE, NULL, &limit));
    done(prlimit(pid, RLIMIT_CORE, &limit, NULL));
    put_away(pid);
}

static void ask_limits(const char *how) {
    struct rlimit limit;
    (void)how;
    int pid = process();
    done(prlimit(pid, RLIMIT_CORE, NULL, &limit));
    put_away(pid);
}

static void priority(const char *how) {
    int pid = process();
    (void)how;
    errno = 0;
    int now = getpriority(PRIO_PROCESS, pid);
    if (now == -1 && errno) done(-1);
    done(setpriority(PRIO_PROCESS, pid, now));
    put_away(pid);
}

static void affinity(const char *how) {
    cpu_set_t set;
    int pid = process();
    (void)how;
    done(sched_getaffinity(pid, sizeof set, &set));
    done(sched_setaffinity(pid, sizeof set, &set));
    put_away(pid);
}

static void scheduler(const char *how) {
    struct sched_param param = {0};
    int pid = process();
    (void)how;
    done(sched_setscheduler(pid, SCHED_OTHER, &param));
    put_away(pid);
}

static void attributes(const char *how) {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t more[3];
    } attr = {0};
    int pid = process();
    (void)how;
    done(syscall(SYS_sched_getattr, pid, &attr, sizeof attr, 0));
    done(syscall(SYS_sched_setattr, pid, &attr, 0));
    put_away(pid);
}

static void io_priority(const char *how) {
    int pid = process();
    (void)how;
    long now = syscall(SYS_ioprio_get, 1, pid);
    done(now);
    done(syscall(SYS_ioprio_set, 1, pid, now));
    put_away(pid);
}

/* Writes what is there already at the start of a process' stack. */
static void write_memory(const char *how) {
    int pid = process();
    char name[64], line[512];
    unsigned long at = 0;
    uint64_t word;
    (void)how;
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *maps = fopen(name, "r");
    if (!maps) done(-1);
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "[stack]")) at = strtoul(strchr(line, '-') + 1, NULL, 16) - 64;
    fclose(maps);
    struct iovec here = {&word, sizeof word}, there = {(void *)at, sizeof word};
    done(process_vm_readv(pid, &here, 1, &there, 1, 0));
    done(process_vm_writev(pid, &here, 1, &there, 1, 0));
    put_away(pid);
}

static void attach(const char *how) {
    (void)how;
    int pid = number();
    done(ptrace(PTRACE_SEIZE, pid, 0, 0));
    done(ptrace(PTRACE_INTERRUPT, pid, 0, 0));
    waitpid(pid, NULL, __WALL);
    done(ptrace(PTRACE_DETACH, pid, 0, 0));
}

static void oom_score(const char *how) {
    char name[64], text[32];
    (void)how;
    int pid = process();
    snprintf(name, sizeof name, "/proc/%d/oom_score_adj", pid);
    int fd = open(name, O_RDWR);
    done(fd);
    ssize_t length = read(fd, text, sizeof text);
    done(length);
    done(pwrite(fd, text, length, 0));
    put_away(pid);
}

/* A route message: a question for all links, or a link to be made of a kind that the kernel refuses. */
static void netlink(const char *how) {
    struct {
        struct nlmsghdr header;
        struct ifinfomsg link;
    } asks = {{sizeof asks, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {0}};
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    done(fd);
    if (strcmp(how, "ask")) {
        asks.header.nlmsg_type = RTM_DELLINK;
        asks.header.nlmsg_flags = NLM_F_REQUEST;
        asks.link.ifi_index = 0x7ffffff0;
    }
    struct iovec part = {&asks, sizeof asks};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (!strcmp(how, "write")) {
        done(write(fd, &asks, sizeof asks));
    } else if (!strcmp(how, "send")) {
        done(send(fd, &asks, sizeof asks, 0));
    } else if (!strcmp(how, "copy")) {
        int other = dup(fd);
        close(fd);
        done(writev(other, &part, 1));
    } else if (!strcmp(how, "message")) {
        done(sendmsg(fd, &message, 0));
    } else {
        done(sendto(fd, &asks, sizeof asks, 0, (void *)&kernel, sizeof kernel));
    }
}

static void interface(const char *how) {
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    done(fd);
    done(ioctl(fd, SIOCGIFFLAGS, &request));
    if (strcmp(how, "ask")) done(ioctl(fd, SIOCSIFFLAGS, &request));
}

static void keys(const char *how) {
    /* KEY_SPEC_PROCESS_KEYRING, KEY_SPEC_USER_KEYRING; KEYCTL_INVALIDATE. */
    int ring = strcmp(how, "own") ? -4 : -2;
    long key = syscall(SYS_add_key, "user", "pagewise-outside", "x", 1, ring);
    done(key);
    if (ring == -4) done(syscall(SYS_keyctl, 21, key, 0, 0, 0));
}

static void ring(const char *how) {
    char parameters[120] = {0};
    (void)how;
    done(syscall(SYS_io_uring_setup, 4, parameters));
}

/* Maps descriptor 9, which the caller has opened. */
static void map(const char *how) {
    int flags = strcmp(how, "private") ? MAP_SHARED : MAP_PRIVATE;
    char *at = mmap(NULL, 4, PROT_READ | PROT_WRITE, flags, 9, 0);
    if (at == MAP_FAILED) done(-1);
    at[0] = 'x';
}

static void node(const char *how) {
    if (!subject) {
        subject = "node";
        done(mknod(subject, S_IFCHR | 0600, 0x103));
    }
    if (!strcmp(how, "remove")) {
        done(unlink(subject));
    } else if (!strcmp(how, "rename")) {
        done(rename(subject, "renamed"));
    } else if (!strcmp(how, "mode")) {
        done(chmod(subject, 0600));
    } else {
        int fd = open("regular", O_WRONLY | O_CREAT, 0600);
        done(fd);
        done(rename("regular", subject));
    }
}

static void open_only(const char *how) {
    (void)how;
    done(open(subject, O_WRONLY));
}

/* Makes an object for others and says what it is called; `remove` takes it away. */
static void make(const char *how) {
    struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = 64};
    struct letter letter = {1, "hello"};
    int id = -1;
    if (!strcmp(how, "messages")) {
        id = msgget(IPC_PRIVATE, 0600);
        done(msgsnd(id, &letter, sizeof letter.text, 0));
    } else if (!strcmp(how, "semaphores")) {
        id = semget(IPC_PRIVATE, 1, 0600);
    } else if (!strcmp(how, "memory")) {
        id = shmget(IPC_PRIVATE, 64, 0600);
    } else {
        mqd_t mq = mq_open(subject, O_RDWR | O_CREAT, 0600, &attr);
        done(mq);
        done(mq_send(mq, "hello", 6, 0));
        return;
    }
    done(id);
    printf("%d\n", id);
}

static void take_away(const char *how) {
    if (!strcmp(how, "messages")) done(msgctl(number(), IPC_RMID, NULL));
    else if (!strcmp(how, "semaphores")) done(semctl(number(), 0, IPC_RMID));
    else if (!strcmp(how, "memory")) done(shmctl(number(), IPC_RMID, NULL));
    else mq_unlink(subject);
}

static const struct {
    const char *name;
    void (*act)(const char *);
} CALLS[] = {
    {"messages", messages}, {"semaphores", semaphores}, {"memory", memory}, {"queue", queue},
    {"limits", limits}, {"ask-limits", ask_limits}, {"priority", priority}, {"affinity", affinity},
    {"scheduler", scheduler}, {"attributes", attributes}, {"io-priority", io_priority},
    {"write-memory", write_memory}, {"attach", attach}, {"oom-score", oom_score}, {"netlink", netlink},
    {"interface", interface}, {"keys", keys}, {"ring", ring}, {"map", map}, {"node", node},
    {"open", open_only}, {"make", make}, {"take-away", take_away},
};

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    char *how = strchr(argv[1], '=');
    if (how) *how++ = 0;
    call = argv[1];
    subject = argc > 2 ? argv[2] : NULL;
    for (size_t n = 0; n < sizeof CALLS / sizeof *CALLS; n++) {
        if (strcmp(CALLS[n].name, call)) continue;
        CALLS[n].act(how ? how : "");
        return 0;
    }
    return 2;
}

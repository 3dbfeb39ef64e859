/* A small service of known cost. On the loopback interface it answers each line with a line; every connection
   has a thread. Each request touches COST random places of a heap array, so that huge pages matter to it.

   served PORT [OPTIONS]
   --cost N        touch N places each request (1000)
   --heap MIB      size of the array (128)
   --slow-tail US  one request of 50 sleeps so many microseconds first
   --fail-every N  one request of N is answered by "error"
   --picky         as is every request while it may use one CPU only
   --die-after N   ends with status 9 after N answers
   --deaf          never listens
   --stubborn      ignores SIGTERM and SIGINT
   --background    forks twice into a session of its own; what was started ends at once with status 0
   --heir          leaves a child that ignores SIGTERM and keeps the port
   --seconds N     ends by SIGALRM after so long, whatever else was asked (900)

   It prints "ready on port PORT" when it listens, and sends READY=1 to NOTIFY_SOCKET if that is set. On SIGTERM
   and SIGINT it ends with status 0. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SLOW = 50, LINE = 16 };

static long cost = 1000, heap_mib = 128, slow_tail, fail_every, die_after, seconds = 900;
static int deaf, stubborn, background, heir, picky;
static uint64_t *heap;
static size_t places; /* A power of two. */
static unsigned long requests;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void end(int signal) {
    (void)signal;
    _exit(0);
}

/* Where each place leads to depends on what lies there: no processor looks ahead. */
static uint64_t work(uint64_t state) {
    for (long i = 0; i < cost; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t *place = &heap[(state >> 20) & (places - 1)];
        uint64_t seen = __atomic_load_n(place, __ATOMIC_RELAXED) + 1;
        __atomic_store_n(place, seen, __ATOMIC_RELAXED);
        state ^= seen;
    }
    return state;
}

static int is_cramped(void) {
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) == 1;
}

/* Writes one answer into `line` and gives its length. */
static int answer(char *line, uint64_t *state) {
    unsigned long number = __atomic_add_fetch(&requests, 1, __ATOMIC_RELAXED);
    if (die_after > 0 && number > (unsigned long)die_after)
        _exit(9);
    if (slow_tail > 0 && number % SLOW == 0)
        usleep((useconds_t)slow_tail);
    *state = work(*state + number);
    if ((fail_every > 0 && number % (unsigned long)fail_every == 0) || (picky && is_cramped()))
        return snprintf(line, LINE, "error\n");
    return snprintf(line, LINE, "ok %08x\n", (unsigned)(*state >> 32));
}

static int send_all(int client, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t sent = send(client, bytes, length, MSG_NOSIGNAL);
        if (sent <= 0)
            return 0;
        bytes += sent;
        length -= (size_t)sent;
    }
    return 1;
}

static void *serve(void *connection) {
    int client = (int)(intptr_t)connection;
    char asked[1024], answers[sizeof asked * LINE];
    uint64_t state = (uint64_t)client;
    ssize_t length;
    while ((length = recv(client, asked, sizeof asked, 0)) > 0) {
        size_t used = 0;
        for (ssize_t i = 0; i < length; i++)
            if (asked[i] == '\n')
                used += (size_t)answer(answers + used, &state);
        if (!send_all(client, answers, used))
            break;
    }
    close(client);
    return NULL;
}

static int listen_on(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int yes = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 128) != 0)
        fail("served: port");
    return listener;
}

static void notify(void) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (path == NULL || strlen(path) >= sizeof address.sun_path)
        return;
    size_t length = strlen(path);
    memcpy(address.sun_path, path, length);
    if (path[0] == '@')
        address.sun_path[0] = 0;
    int to = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    if (sendto(to, "READY=1", 7, 0, (struct sockaddr *)&address, size) != 7)
        perror("served: NOTIFY_SOCKET");
    close(to);
}

/* What is forked has no alarm of its own. */
static pid_t split(void) {
    pid_t child = fork();
    if (child < 0)
        fail("served: fork");
    alarm((unsigned)seconds);
    return child;
}

static void leave(void) {
    if (split() != 0)
        _exit(0);
    setsid();
    if (split() != 0)
        _exit(0);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++)
        dup2(null, fd);
    close(null);
}

static void fill(void) {
    places = 1;
    while (places * 2 * sizeof *heap <= (size_t)heap_mib << 20)
        places *= 2;
    heap = malloc(places * sizeof *heap);
    if (heap == NULL)
        fail("served: heap");
    for (size_t i = 0; i < places; i++)
        heap[i] = i;
}

static void options(int count, char **words) {
    static const struct option known[] = {
        {"cost", 1, NULL, 'c'},      {"heap", 1, NULL, 'h'},       {"slow-tail", 1, NULL, 't'},
        {"fail-every", 1, NULL, 'f'}, {"die-after", 1, NULL, 'd'},  {"seconds", 1, NULL, 's'},
        {"deaf", 0, &deaf, 1},       {"stubborn", 0, &stubborn, 1}, {"background", 0, &background, 1},
        {"heir", 0, &heir, 1},       {"picky", 0, &picky, 1},      {NULL, 0, NULL, 0},
    };
    int found;
    while ((found = getopt_long(count, words, "", known, NULL)) != -1) {
        long value = found != 0 && found != '?' ? atol(optarg) : 0;
        switch (found) {
        case 0: break;
        case 'c': cost = value; break;
        case 'h': heap_mib = value; break;
        case 't': slow_tail = value; break;
        case 'f': fail_every = value; break;
        case 'd': die_after = value; break;
        case 's': seconds = value; break;
        default: exit(2);
        }
    }
    if (optind + 1 != count) {
        fprintf(stderr, "usage: served PORT [OPTIONS]\n");
        exit(2);
    }
}

int main(int count, char **words) {
    options(count, words);
    int port = atoi(words[optind]);
    alarm((unsigned)seconds);
    signal(SIGTERM, stubborn ? SIG_IGN : end);
    signal(SIGINT, stubborn ? SIG_IGN : end);
    if (background)
        leave();
    while (deaf)
        pause();
    fill();
    int listener = listen_on(port);
    if (heir && split() == 0) {
        signal(SIGTERM, SIG_IGN);
        for (;;)
            pause();
    }
    printf("ready on port %d\n", port);
    fflush(stdout);
    notify();
    for (;;) {
        int yes = 1, client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        pthread_t thread;
        if (client < 0)
            continue;
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)client) != 0)
            close(client);
        else
            pthread_detach(thread);
    }
}

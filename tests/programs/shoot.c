/* A load generator for served.c: sends a line and waits for a line.

   shoot PORT REQUESTS [OPTIONS]
   --connections N  so many at once, each with one request under way (4)
   --rate N         N requests are due each second, and latency counts from then (an open loop); without it
                    each connection sends as soon as it has its answer
   --seconds N      gives up after so long with status 1 (60)

   It prints "requests N errors N p50 US p99 US seconds S": answers, those of them that begin with "error" and
   requests without an answer, microseconds. Status 1 if connections were lost, 2 for a wrong command. */
#define _GNU_SOURCE
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 256 };
#define BILLION 1000000000ll

static long connections = 4, rate, seconds = 60, requests;
static struct pollfd ends[MOST];
static int64_t due[MOST]; /* Of the request under way, else 0. */
static char begins[MOST]; /* With what its answer begins, once there is some of it. */
static int64_t *latencies, begun;
static long sent, answers, errors, unanswered, alive;

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * BILLION + time.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

static int64_t next_due(void) { return rate > 0 ? begun + sent * BILLION / rate : now(); }

static void lose(long at) {
    close(ends[at].fd);
    ends[at].fd = -1;
    unanswered += due[at] != 0;
    due[at] = 0;
    alive--;
}

static void connect_all(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (long i = 0; i < connections; i++) {
        int yes = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
            fprintf(stderr, "shoot: port %d: %m\n", port);
            exit(1);
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        ends[i] = (struct pollfd){.fd = fd, .events = POLLIN};
    }
    alive = connections;
}

/* Sends what is due on connections that are idle. */
static void send_due(void) {
    for (long i = 0; i < connections && sent < requests; i++) {
        if (ends[i].fd < 0 || due[i] != 0)
            continue;
        int64_t moment = next_due();
        if (moment > now())
            return;
        due[i] = moment;
        sent++;
        if (send(ends[i].fd, "ask\n", 4, MSG_NOSIGNAL) != 4)
            lose(i);
    }
}

/* Waits until something is answered or due. */
static void wait_next(void) {
    int is_idle = 0;
    for (long i = 0; i < connections; i++)
        is_idle |= ends[i].fd >= 0 && due[i] == 0;
    int64_t left = BILLION;
    if (is_idle && sent < requests)
        left = next_due() - now();
    if (left < 0)
        left = 0;
    struct timespec most = {.tv_sec = left / BILLION, .tv_nsec = left % BILLION};
    ppoll(ends, (nfds_t)connections, &most, NULL);
}

static void receive(long at) {
    char bytes[256];
    ssize_t length = recv(ends[at].fd, bytes, sizeof bytes, 0);
    if (length <= 0) {
        lose(at);
        return;
    }
    if (begins[at] == 0)
        begins[at] = bytes[0];
    if (bytes[length - 1] != '\n')
        return;
    latencies[answers++] = now() - due[at];
    errors += begins[at] == 'e';
    due[at] = begins[at] = 0;
}

static void options(int count, char **words) {
    static const struct option known[] = {{"connections", 1, NULL, 'c'},
                                          {"rate", 1, NULL, 'r'},
                                          {"seconds", 1, NULL, 's'},
                                          {NULL, 0, NULL, 0}};
    int found;
    while ((found = getopt_long(count, words, "", known, NULL)) != -1) {
        switch (found) {
        case 'c': connections = atol(optarg); break;
        case 'r': rate = atol(optarg); break;
        case 's': seconds = atol(optarg); break;
        default: exit(2);
        }
    }
    requests = optind + 2 == count ? atol(words[optind + 1]) : 0;
    if (requests < 1 || connections < 1 || connections > MOST) {
        fprintf(stderr, "usage: shoot PORT REQUESTS [OPTIONS]\n");
        exit(2);
    }
}

int main(int count, char **words) {
    options(count, words);
    latencies = malloc((size_t)requests * sizeof *latencies);
    if (latencies == NULL)
        return 1;
    connect_all(atoi(words[optind]));
    begun = now();
    while (answers + unanswered < requests && alive > 0) {
        send_due();
        wait_next();
        for (long i = 0; i < connections; i++)
            if (ends[i].fd >= 0 && ends[i].revents != 0)
                receive(i);
        if (now() - begun > seconds * BILLION) {
            fprintf(stderr, "shoot: %ld of %ld requests answered in %ld s\n", answers, requests, seconds);
            return 1;
        }
    }
    double took = (double)(now() - begun) / 1e9;
    qsort(latencies, (size_t)answers, sizeof *latencies, by_size);
    double half = answers > 0 ? (double)latencies[(answers - 1) / 2] / 1e3 : 0.0;
    double tail = answers > 0 ? (double)latencies[(answers * 99 + 99) / 100 - 1] / 1e3 : 0.0;
    errors += requests - answers;
    printf("requests %ld errors %ld p50 %.1f p99 %.1f seconds %.6f\n", answers, errors, half, tail, took);
    return alive < connections;
}

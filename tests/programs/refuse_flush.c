/* Runs a command beside a file system whose files cannot be closed well: each FLUSH, which close(2)
 * sends, is answered with an error, as a quota or a server may. Files are kept in memory.
 *
 * refuse_flush DIRECTORY ERRNO COMMAND...
 *
 * Mounts over DIRECTORY in a mount namespace of its own (a user namespace where that is needed).
 * Status: the command's, or 77 where nothing can be mounted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES = 16, LARGEST = 1 << 20, REQUEST = LARGEST + (1 << 16) };

static struct {
    char name[256];
    char *bytes;
    size_t size;
} files[FILES]; /* the inode of files[i] is i + 2 */

static int device;
static int refusal;

static void cannot(const char *call)
{
    fprintf(stderr, "refuse_flush: %s: %s\n", call, strerror(errno));
    exit(77);
}

static void answer(const struct fuse_in_header *in, int error, const void *body, size_t size)
{
    static char out[REQUEST];
    struct fuse_out_header head = { .error = -error, .unique = in->unique };
    head.len = (unsigned)(sizeof head + (error ? 0 : size));
    memcpy(out, &head, sizeof head);
    memcpy(out + sizeof head, body, error ? 0 : size);
    if (write(device, out, head.len) < 0 && errno != ENOENT)
        cannot("answer");
}

static struct fuse_attr attributes(uint64_t inode)
{
    struct fuse_attr found = { .ino = inode, .nlink = 1, .blksize = 4096 };
    found.mode = inode == 1 ? S_IFDIR | 0777 : S_IFREG | 0666;
    found.size = inode == 1 ? 0 : files[inode - 2].size;
    return found;
}

static struct fuse_entry_out entry(uint64_t inode)
{
    struct fuse_entry_out found = { .nodeid = inode, .attr = attributes(inode) };
    return found;
}

/* The inode of a name, which is made where that is wanted; 0 for none. */
static uint64_t find(const char *name, int make)
{
    for (int i = 0; i < FILES; i++) {
        if (make && !files[i].name[0]) {
            strncpy(files[i].name, name, sizeof files[i].name - 1);
            files[i].bytes = calloc(1, LARGEST);
        }
        if (strcmp(files[i].name, name) == 0)
            return (uint64_t)i + 2;
    }
    return 0;
}

static void serve_bytes(const struct fuse_in_header *in, const char *body)
{
    uint64_t i = in->nodeid - 2;
    if (in->opcode == FUSE_READ) {
        const struct fuse_read_in *asked = (const void *)body;
        size_t left = asked->offset < files[i].size ? files[i].size - asked->offset : 0;
        answer(in, 0, files[i].bytes + asked->offset, left < asked->size ? left : asked->size);
        return;
    }
    const struct fuse_write_in *asked = (const void *)body;
    if (asked->offset + asked->size > LARGEST) {
        answer(in, ENOSPC, NULL, 0);
        return;
    }
    memcpy(files[i].bytes + asked->offset, body + sizeof *asked, asked->size);
    if (asked->offset + asked->size > files[i].size)
        files[i].size = asked->offset + asked->size;
    struct fuse_write_out done = { .size = asked->size };
    answer(in, 0, &done, sizeof done);
}

static void serve(const struct fuse_in_header *in, const char *body)
{
    struct fuse_open_out open = { 0 };
    struct fuse_entry_out made;
    struct fuse_attr_out attr;
    struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = 31, .max_write = 1 << 17 };
    switch (in->opcode) {
    case FUSE_INIT:
        init.max_readahead = ((const struct fuse_init_in *)(const void *)body)->max_readahead;
        answer(in, 0, &init, sizeof init);
        return;
    case FUSE_LOOKUP:
        made = entry(1);
        made.nodeid = find(body, 0);
        if (made.nodeid)
            made = entry(made.nodeid);
        answer(in, made.nodeid ? 0 : ENOENT, &made, sizeof made);
        return;
    case FUSE_CREATE: {
        struct { struct fuse_entry_out entry; struct fuse_open_out open; } both = { 0 };
        both.entry = entry(find(body + sizeof(struct fuse_create_in), 1));
        answer(in, 0, &both, sizeof both);
        return;
    }
    case FUSE_SETATTR: {
        const struct fuse_setattr_in *asked = (const void *)body;
        if (asked->valid & FATTR_SIZE)
            files[in->nodeid - 2].size = asked->size;
    } /* fall through */
    case FUSE_GETATTR:
        attr = (struct fuse_attr_out){ .attr = attributes(in->nodeid) };
        answer(in, 0, &attr, sizeof attr);
        return;
    case FUSE_OPEN:
    case FUSE_OPENDIR:
        answer(in, 0, &open, sizeof open);
        return;
    case FUSE_READ:
    case FUSE_WRITE:
        serve_bytes(in, body);
        return;
    case FUSE_FLUSH:
        answer(in, refusal, NULL, 0);
        return;
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
    case FUSE_ACCESS:
    case FUSE_FSYNC:
        answer(in, 0, NULL, 0);
        return;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        return;
    default:
        answer(in, ENOSYS, NULL, 0);
    }
}

static void write_file(const char *path, const char *text)
{
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) < 0)
        cannot(path);
    close(file);
}

/* A mount namespace of our own. */
static void separate(void)
{
    char uids[64], gids[64];
    snprintf(uids, sizeof uids, "0 %u 1", getuid());
    snprintf(gids, sizeof gids, "0 %u 1", getgid());
    if (unshare(CLONE_NEWNS) < 0) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
            cannot("unshare");
        write_file("/proc/self/setgroups", "deny");
        write_file("/proc/self/uid_map", uids);
        write_file("/proc/self/gid_map", gids);
    }
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        cannot("mount /");
}

int main(int argc, char **argv)
{
    static char request[REQUEST];
    char options[128];
    if (argc < 4) {
        fprintf(stderr, "usage: refuse_flush DIRECTORY ERRNO COMMAND...\n");
        return 2;
    }
    refusal = atoi(argv[2]);
    separate();
    device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device < 0)
        cannot("/dev/fuse");
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=%u,group_id=%u,allow_other",
             device, getuid(), getgid());
    if (mount("refuse_flush", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) < 0)
        cannot("mount");
    pid_t server = fork();
    if (server == 0) {
        for (;;) {
            ssize_t n = read(device, request, sizeof request);
            if (n < 0 && (errno == EINTR || errno == ENOENT))
                continue;
            if (n < 0)
                _exit(errno == ENODEV ? 0 : 1);
            serve((const void *)request, request + sizeof(struct fuse_in_header));
        }
    }
    pid_t command = fork();
    if (command == 0) {
        execvp(argv[3], argv + 3);
        _exit(127);
    }
    int status = 0;
    waitpid(command, &status, 0);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

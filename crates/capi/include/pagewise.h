/* The C interface of pagewise-lanes. Made from crates/capi/src by crates/capi/tests/header.rs: do not edit.
 *
 * Units are bytes. Nothing here prints, or changes the flags of a descriptor.
 *
 * Errors: a function that can fail returns a negative errno, which is not stored in `errno`.
 * pagewise_error_message() has the text. Results that are given back by a pointer are set only where a
 * function succeeds, unless it says otherwise. A write to a pipe without a reader is -EPIPE, and raises
 * SIGPIPE unless the program ignores it. -ENOTRECOVERABLE is a fault of the library itself: free the
 * objects that the call used, and do nothing else with them.
 *
 * Signals: a wait that a handler interrupts ends with -EINTR, and nothing is lost: call again. The system goes on
 * by itself after a handler that was set with SA_RESTART, except in a wait of a writer or reader.
 *
 * Threads: functions may be called from any thread. Frozen bytes may be used by many threads at the same
 * time; calls on a writer or reader take turns; a draft or copier is used by one thread at a time. The library
 * starts no threads. After fork(2), a child may use frozen bytes; drafts are not there, and ends of pipes are shared.
 *
 * Objects belong to the caller until the function that frees them. */

#ifndef PAGEWISE_H
#define PAGEWISE_H

#include <stddef.h>
#include <stdint.h>

/*
 The interface that this header describes. It is raised when programs that were compiled with an
 older header cannot use the library any more. New functions do not raise it.
 */
#define PAGEWISE_ABI_VERSION 2

/*
 For `limit`: copy until the end of the source.
 */
#define PAGEWISE_NO_LIMIT UINT64_MAX

/*
 For `flags`: pass pages of a file or pipe on by reference, without copying them. Dangerous if they can
 change: until the reader takes them, a later write, truncation or punched hole changes what it gets.
 */
#define PAGEWISE_LIVE 1

/*
 For `flags`: also grow the pipe of the source. Dangerous if its writer passes pages by reference and
 relies on the capacity that it has seen.
 */
#define PAGEWISE_GROW_SOURCE 2

/*
 For `flags`: do not change the capacity of pipes.
 */
#define PAGEWISE_KEEP_CAPACITY 4

/*
 For `side`: the source could not be read.
 */
#define PAGEWISE_SOURCE 1

/*
 For `side`: the sink could not be written.
 */
#define PAGEWISE_SINK 2

/*
 For `wait`: spin while the other end is about to act, for 200 us at most, and sleep otherwise.
 */
#define PAGEWISE_WAIT_ADAPTIVE 0

/*
 For `wait`: sleep in each call, as read(2) and write(2) do.
 */
#define PAGEWISE_WAIT_BLOCK 1

/*
 For `wait`: never sleep. It takes a whole processor.
 */
#define PAGEWISE_WAIT_BUSY 2

/*
 For `order`: from the first block to the last.
 */
#define PAGEWISE_SEQUENTIAL 0

/*
 For `order`: each block once, in random order.
 */
#define PAGEWISE_RANDOM 1

/*
 A copy that signals interrupt, and that goes on afterwards. One thread at a time may use it.
 */
typedef struct pagewise_copier pagewise_copier;

/*
 Bytes that are still written, until they are frozen.
 */
typedef struct pagewise_draft pagewise_draft;

/*
 Bytes that never change again. Any number of threads may use one at the same time.
 */
typedef struct pagewise_frozen pagewise_frozen;

/*
 The end of a pipe that reads, or any other descriptor. Calls of several threads take turns.
 */
typedef struct pagewise_reader pagewise_reader;

/*
 The end of a pipe that writes, or any other descriptor. Calls of several threads take turns.
 */
typedef struct pagewise_writer pagewise_writer;

/*
 What a copy did.
 */
typedef struct {
  /*
   Bytes that the sink has taken, also after an error.
   */
  uint64_t bytes;
  /*
   The side that an error is of: `PAGEWISE_SOURCE`, `PAGEWISE_SINK`, or 0.
   */
  int32_t side;
  /*
   The system call that moved the last bytes, such as "splice"; empty after an error.
   */
  char way[28];
} pagewise_copied;

/*
 The fastest way to read a file.
 */
typedef struct {
  /*
   As `pagewise choose` names it: "read", "pread", "map", "map-populate" and so on.
   */
  char way[24];
  /*
   Predicted wall time from opening to closing, in nanoseconds.
   */
  double time_ns;
} pagewise_choice;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The interface of the library that is loaded. A program compares it with `PAGEWISE_ABI_VERSION`.
 */
uint32_t pagewise_abi_version(void);

/*
 What the last call that failed in this thread said: one line, without the final line feed. The text
 is valid until the next call of this thread fails; before the first failure it is empty.
 */
const char *pagewise_error_message(void);

/*
 Copies from `in_fd` to `out_fd` until the end of the source, at most `limit` bytes, exactly and by
 the fastest safe way. Both descriptors may be anything, and stay open. Nothing beyond `limit` is taken
 from the source. `flags` is 0 or a sum of `PAGEWISE_LIVE`, `PAGEWISE_GROW_SOURCE` and
 `PAGEWISE_KEEP_CAPACITY`.

 Returns 0 or a negative errno: -EINTR after a signal, but only where no byte is on the way, so that nothing is
 lost; `pagewise_copier_run` reports each signal. `*copied` is set in all cases, unless `copied` is NULL.

 Requires: `copied` is NULL or points to a place for the result.
 */
int pagewise_copy(int in_fd,
                  int out_fd,
                  uint64_t limit,
                  uint32_t flags,
                  pagewise_copied *copied);

/*
 Makes a copy as `pagewise_copy` does, which `pagewise_copier_run` runs. Both descriptors must stay open
 until `pagewise_copier_free`.

 Returns 0 or a negative errno.

 Requires: `copier` points to a place for a pointer.
 */
int pagewise_copier_new(int in_fd,
                        int out_fd,
                        uint64_t limit,
                        uint32_t flags,
                        pagewise_copier **copier);

/*
 Copies until the end. After -EINTR, call it again to go on, or free the copier to give up: bytes that were
 taken from the source and not yet written are lost then.

 Returns 0 or a negative errno: -EINTR after a signal and after every 64 MiB. `*copied` counts all runs, and is
 set in all cases, unless `copied` is NULL.

 Requires: `copier` comes from `pagewise_copier_new` and was not freed, and no other call uses it. `copied` is NULL or
 points to a place for the result.
 */
int pagewise_copier_run(pagewise_copier *copier,
                        pagewise_copied *copied);

/*
 Frees a copier. NULL is allowed.

 Requires: `copier` is NULL or comes from `pagewise_copier_new` and was not freed, and no call uses it.
 */
void pagewise_copier_free(pagewise_copier *copier);

/*
 Makes a draft of `length` bytes, which are zero.

 Returns 0 or a negative errno: -ENOMEM.

 Requires: `draft` points to a place for a pointer.
 */
int pagewise_draft_new(size_t length, pagewise_draft **draft);

/*
 The bytes of a draft, to be written. The pointer is invalid once the draft is frozen or freed.

 Requires: `draft` comes from `pagewise_draft_new`, and was neither frozen nor freed.
 */
uint8_t *pagewise_draft_bytes(pagewise_draft *draft);

/*
 Freezes a draft. The draft is gone afterwards, also after an error. The bytes move: take the new
 pointer from `pagewise_frozen_bytes`.

 Returns 0 or a negative errno: -ENOMEM.

 Requires: `draft` comes from `pagewise_draft_new`, and was neither frozen nor freed. `frozen` points to a place
 for a pointer.
 */
int pagewise_draft_freeze(pagewise_draft *draft,
                          pagewise_frozen **frozen);

/*
 Frees a draft that was not frozen. NULL is allowed.

 Requires: `draft` is NULL or comes from `pagewise_draft_new`, and was neither frozen nor freed.
 */
void pagewise_draft_free(pagewise_draft *draft);

/*
 Freezes a copy of `length` bytes.

 Returns 0 or a negative errno: -ENOMEM.

 Requires: `bytes` points to `length` bytes, and `frozen` to a place for a pointer.
 */
int pagewise_frozen_new(const uint8_t *bytes, size_t length, pagewise_frozen **frozen);

/*
 Takes the first `length` bytes of a sealed memfd, such as another process got from
 `pagewise_frozen_memfd` and passed on (unix(7), SCM_RIGHTS). The descriptor is duplicated. The seals
 are checked, so the sender cannot change the bytes any more.

 Returns 0 or a negative errno: -EPERM if the file has not the seals F_SEAL_WRITE, F_SEAL_GROW and
 F_SEAL_SHRINK, -EINVAL if it is shorter or no memfd.

 Requires: `frozen` points to a place for a pointer.
 */
int pagewise_frozen_open(int memfd,
                         size_t length,
                         pagewise_frozen **frozen);

/*
 The bytes. They are mapped read only, until `pagewise_frozen_free`.

 Requires: `frozen` was made here and not freed.
 */
const uint8_t *pagewise_frozen_bytes(const pagewise_frozen *frozen);

/*
 Their number.

 Requires: `frozen` was made here and not freed.
 */
size_t pagewise_frozen_length(const pagewise_frozen *frozen);

/*
 The sealed memfd that holds the bytes, for other processes. It belongs to `frozen`: do not close it.

 Returns the descriptor or a negative errno: -ENOTSUP where the kernel or a filter refuses sealed
 memfds, and private memory is used.

 Requires: `frozen` was made here and not freed.
 */
int pagewise_frozen_memfd(const pagewise_frozen *frozen);

/*
 Sends `length` bytes from `start` on, all of them, to any descriptor, and sleeps while that is full: into
 a pipe by reference, elsewhere by write(2). `pagewise_writer_send` waits adaptively.

 Returns 0 or a negative errno: -EINVAL for bytes beyond the end, -EINTR after a signal: send the rest
 again. `*taken` is set to the number of bytes that were sent, in all cases, unless `taken` is NULL.

 Requires: `frozen` was made here and not freed. `taken` is NULL or points to a number.
 */
int pagewise_frozen_send(const pagewise_frozen *frozen,
                         int fd,
                         size_t start,
                         size_t length,
                         size_t *taken);

/*
 Frees frozen bytes. References that pipes hold stay valid. NULL is allowed.

 Requires: `frozen` is NULL or was made here and not freed, and no call uses it.
 */
void pagewise_frozen_free(pagewise_frozen *frozen);

/*
 Makes an end that writes to `fd`. The descriptor is duplicated: close yours, or the reader sees no end.
 A pipe grows to `capacity` bytes, or as near to that as the user's limits allow; 0 leaves it unchanged,
 1 MiB is the most that is usually allowed. `wait` is one of `PAGEWISE_WAIT_...`.

 Returns 0 or a negative errno.

 Requires: `writer` points to a place for a pointer.
 */
int pagewise_writer_new(int fd,
                        uint32_t wait,
                        size_t capacity,
                        pagewise_writer **writer);

/*
 Writes some of `length` bytes, as write(2) does.

 Returns the number of bytes, or a negative errno: -EINTR after a signal, and now and then where the end
 never sleeps. -EPIPE comes with SIGPIPE unless the program ignores it.

 Requires: `writer` comes from `pagewise_writer_new` and was not freed. `bytes` points to `length` bytes.
 */
int64_t pagewise_writer_write(const pagewise_writer *writer,
                              const uint8_t *bytes,
                              size_t length);

/*
 Sends `length` bytes of `frozen` from `start` on, all of them: into a pipe by reference, elsewhere by
 write(2). They can be sent again immediately.

 Returns 0 or a negative errno: -EINVAL for bytes beyond the end, -EINTR after a signal: send the rest
 again. `*taken` is set to the number of bytes that were sent, in all cases, unless `taken` is NULL.

 Requires: `writer` and `frozen` were made here and not freed. `taken` is NULL or points to a number.
 */
int pagewise_writer_send(const pagewise_writer *writer,
                         const pagewise_frozen *frozen,
                         size_t start,
                         size_t length,
                         size_t *taken);

/*
 Bytes that the pipe holds at most; 0 for what is no pipe.

 Requires: `writer` comes from `pagewise_writer_new` and was not freed.
 */
size_t pagewise_writer_capacity(const pagewise_writer *writer);

/*
 Ends the call that another thread makes, and every later one, with -ECANCELED: for a thread that closes
 an end while others use it. A signal handler may call it. NULL is allowed.

 Requires: `writer` is NULL or comes from `pagewise_writer_new` and was not freed.
 */
void pagewise_writer_stop(const pagewise_writer *writer);

/*
 Closes the descriptor of an end and frees it. NULL is allowed.

 Requires: `writer` is NULL or comes from `pagewise_writer_new` and was not freed, and no call uses it.
 */
void pagewise_writer_free(pagewise_writer *writer);

/*
 Makes an end that reads from `fd`. The descriptor is duplicated. The capacity of a pipe stays, because
 its writer may rely on it. `wait` is one of `PAGEWISE_WAIT_...`.

 Returns 0 or a negative errno.

 Requires: `reader` points to a place for a pointer.
 */
int pagewise_reader_new(int fd,
                        uint32_t wait,
                        pagewise_reader **reader);

/*
 Reads at most `length` bytes, as read(2) does: what is there, however little.

 Returns the number of bytes, 0 at the end, or a negative errno: -EINTR after a signal, and now and then
 where the end never sleeps.

 Requires: `reader` comes from `pagewise_reader_new` and was not freed. `into` points to `length` bytes, which hold
 something: zeroes will do.
 */
int64_t pagewise_reader_read(const pagewise_reader *reader,
                             uint8_t *into,
                             size_t length);

/*
 Throws the next `bytes` bytes away, or fewer after a signal. Those in a pipe are not touched.

 Returns their number, 0 at the end, or a negative errno: -EINTR after a signal before the first.

 Requires: `reader` comes from `pagewise_reader_new` and was not freed.
 */
int64_t pagewise_reader_skip(const pagewise_reader *reader, uint64_t bytes);

/*
 Ends the call that another thread makes, and every later one, with -ECANCELED: for a thread that closes
 an end while others use it. A signal handler may call it. NULL is allowed.

 Requires: `reader` is NULL or comes from `pagewise_reader_new` and was not freed.
 */
void pagewise_reader_stop(const pagewise_reader *reader);

/*
 Closes the descriptor of an end and frees it. NULL is allowed.

 Requires: `reader` is NULL or comes from `pagewise_reader_new` and was not freed, and no call uses it.
 */
void pagewise_reader_free(pagewise_reader *reader);

/*
 Predicts which way to read a file is the fastest here and now, by the prices that
 `pagewise choose --calibrate` has saved. `block` bytes are read at once (a multiple of 512, at most
 1 MiB), `passes` times through the file, by `threads` threads.

 Returns 0 or a negative errno: -ENODATA if no prices are saved, -EINVAL if no way reads so.
 `pagewise_error_message` then says what to do.

 Requires: `path` is a text that ends with a zero. `choice` is NULL or points to a place for the result.
 */
int pagewise_choose(const char *path,
                    uint32_t order,
                    uint64_t block,
                    uint32_t passes,
                    uint32_t threads,
                    pagewise_choice *choice);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PAGEWISE_H */

/* C interface of pagewise-lanes. Generated from crates/capi/src by crates/capi/tests/header.rs: do not edit.
 *
 * Units are bytes. No function prints, or changes the flags of a descriptor.
 *
 * Errors: a function that fails returns a negative errno, which is not stored in `errno`. The text is in
 * pagewise_error_message(). A result behind a pointer is set only if the function succeeds, unless the
 * function says otherwise. A write to a pipe without a reader returns -EPIPE, and raises SIGPIPE unless the
 * program ignores it. -ENOTRECOVERABLE is a fault of the library itself: free the objects that the call used,
 * and do nothing else with them.
 *
 * Signals: a wait that a handler interrupts ends with -EINTR, and no byte is lost: call again. After a
 * handler that was set with SA_RESTART, the system continues the wait, except in a writer or reader.
 *
 * Threads: functions may be called from any thread. Many threads may use frozen bytes at the same time. Calls
 * on a writer or reader take turns. Only one thread at a time may use a draft or copier. The library starts
 * no threads. After fork(2), a child may use frozen bytes. It has no drafts, and it shares the ends of pipes.
 *
 * Objects belong to the caller until the function that frees them. */

#ifndef PAGEWISE_H
#define PAGEWISE_H

#include <stddef.h>
#include <stdint.h>

/*
 The interface version that this header describes. It is raised when programs compiled with an older header
 can no longer use the library. New functions do not raise it.
 */
#define PAGEWISE_ABI_VERSION 2

/*
 For `limit`: copy until the end of the source.
 */
#define PAGEWISE_NO_LIMIT UINT64_MAX

/*
 For `flags`: pass pages of a file or pipe on by reference, without copying them. This is dangerous if the
 pages can change. Until the reader takes them, a later write, truncation or punched hole changes the bytes
 that it gets.
 */
#define PAGEWISE_LIVE 1

/*
 For `flags`: also grow the pipe of the source. This is dangerous if its writer passes pages by reference
 and relies on the former capacity.
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
 For `wait`: spin for at most 200 us while the other end is about to act, and sleep otherwise.
 */
#define PAGEWISE_WAIT_ADAPTIVE 0

/*
 For `wait`: sleep in each call, as read(2) and write(2) do.
 */
#define PAGEWISE_WAIT_BLOCK 1

/*
 For `wait`: never sleep. This uses a whole processor.
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
 A copy that signals interrupt and that the program can continue. One thread at a time may use it.
 */
typedef struct pagewise_copier pagewise_copier;

/*
 Bytes that can be written until they are frozen.
 */
typedef struct pagewise_draft pagewise_draft;

/*
 Bytes that never change again. Any number of threads may use one object at the same time.
 */
typedef struct pagewise_frozen pagewise_frozen;

/*
 The reading end of a pipe, or any other descriptor. Calls of several threads take turns.
 */
typedef struct pagewise_reader pagewise_reader;

/*
 The writing end of a pipe, or any other descriptor. Calls of several threads take turns.
 */
typedef struct pagewise_writer pagewise_writer;

/*
 The result of a copy.
 */
typedef struct {
  /*
   Bytes that the sink took, also after an error.
   */
  uint64_t bytes;
  /*
   Side of the error: `PAGEWISE_SOURCE`, `PAGEWISE_SINK`, or 0 without an error.
   */
  int32_t side;
  /*
   System call that moved the last bytes, such as "splice"; empty after an error.
   */
  char way[28];
} pagewise_copied;

/*
 The fastest way to read a file.
 */
typedef struct {
  /*
   Name of the way, as in `pagewise choose`: "read", "pread", "map", "map-populate" and so on.
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
 The interface version of the loaded library. A program compares it with `PAGEWISE_ABI_VERSION`.
 */
uint32_t pagewise_abi_version(void);

/*
 The message of the last failed call in this thread: one line without a line feed. The text is valid until
 the next call of this thread fails. It is empty before the first failure.
 */
const char *pagewise_error_message(void);

/*
 Copies from `in_fd` to `out_fd` until the end of the source, but at most `limit` bytes. The copy is exact
 and uses the fastest safe way. Both may be descriptors of any kind, and both stay open. No bytes beyond
 `limit` are taken from the source. `flags` is 0 or a sum of `PAGEWISE_LIVE`, `PAGEWISE_GROW_SOURCE` and
 `PAGEWISE_KEEP_CAPACITY`.

 Returns 0 or a negative errno: -EINTR after a signal, but only when no byte is in transit, so no byte is
 lost. `pagewise_copier_run` returns after every signal. `*copied` is set in all cases, unless `copied` is
 NULL.

 Requires: `copied` is NULL or points to memory for the result.
 */
int pagewise_copy(int in_fd,
                  int out_fd,
                  uint64_t limit,
                  uint32_t flags,
                  pagewise_copied *copied);

/*
 Makes a copier, which copies as `pagewise_copy` does when `pagewise_copier_run` is called. Both
 descriptors must stay open until `pagewise_copier_free`.

 Returns 0 or a negative errno.

 Requires: `copier` points to memory for a pointer.
 */
int pagewise_copier_new(int in_fd,
                        int out_fd,
                        uint64_t limit,
                        uint32_t flags,
                        pagewise_copier **copier);

/*
 Copies until the end. After -EINTR, call it again to go on, or free the copier to give up. Bytes that were
 taken from the source and not yet written are then lost.

 Returns 0 or a negative errno: -EINTR after a signal and after every 64 MiB. `*copied` counts the bytes of
 all calls. It is set in all cases, unless `copied` is NULL.

 Requires: `copier` comes from `pagewise_copier_new` and was not freed, and no other call uses it. `copied` is NULL
 or points to memory for the result.
 */
int pagewise_copier_run(pagewise_copier *copier,
                        pagewise_copied *copied);

/*
 Frees a copier. NULL is allowed.

 Requires: `copier` is NULL or comes from `pagewise_copier_new` and was not freed, and no call uses it.
 */
void pagewise_copier_free(pagewise_copier *copier);

/*
 Makes a draft of `length` bytes, all zero.

 Returns 0 or a negative errno: -ENOMEM.

 Requires: `draft` points to memory for a pointer.
 */
int pagewise_draft_new(size_t length, pagewise_draft **draft);

/*
 Returns the bytes of a draft, for writing. The pointer is valid until the draft is frozen or freed.

 Requires: `draft` comes from `pagewise_draft_new`, and was neither frozen nor freed.
 */
uint8_t *pagewise_draft_bytes(pagewise_draft *draft);

/*
 Freezes a draft. The draft no longer exists afterwards, even after an error. The bytes move: get the new
 pointer from `pagewise_frozen_bytes`.

 Returns 0 or a negative errno: -ENOMEM.

 Requires: `draft` comes from `pagewise_draft_new`, and was neither frozen nor freed. `frozen` points to memory for a
 pointer.
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

 Requires: `bytes` points to `length` bytes, and `frozen` to memory for a pointer.
 */
int pagewise_frozen_new(const uint8_t *bytes, size_t length, pagewise_frozen **frozen);

/*
 Uses the first `length` bytes of a sealed memfd. Another process can get one from `pagewise_frozen_memfd`
 and pass it on (unix(7), SCM_RIGHTS). The descriptor is duplicated. The seals are checked, so the sender
 can no longer change the bytes.

 Returns 0 or a negative errno: -EPERM if the file lacks one of the seals F_SEAL_WRITE, F_SEAL_GROW and
 F_SEAL_SHRINK, -EINVAL if it is shorter than `length` or not a memfd.

 Requires: `frozen` points to memory for a pointer.
 */
int pagewise_frozen_open(int memfd,
                         size_t length,
                         pagewise_frozen **frozen);

/*
 Returns the bytes. They are mapped read-only until `pagewise_frozen_free`.

 Requires: `frozen` was made here and not freed.
 */
const uint8_t *pagewise_frozen_bytes(const pagewise_frozen *frozen);

/*
 Returns the number of bytes.

 Requires: `frozen` was made here and not freed.
 */
size_t pagewise_frozen_length(const pagewise_frozen *frozen);

/*
 Returns the sealed memfd that holds the bytes, for other processes. It belongs to `frozen`: do not close
 it.

 Returns the descriptor or a negative errno: -ENOTSUP if the kernel or a filter refuses sealed memfds, and
 the bytes are in private memory.

 Requires: `frozen` was made here and not freed.
 */
int pagewise_frozen_memfd(const pagewise_frozen *frozen);

/*
 Sends all `length` bytes from `start` on to any descriptor, and sleeps while it is full. A pipe gets them
 by reference, any other descriptor by write(2). `pagewise_writer_send` waits adaptively instead.

 Returns 0 or a negative errno: -EINVAL for bytes beyond the end, -EINTR after a signal; then send the rest
 again. `*taken` is set to the number of bytes sent in all cases, unless `taken` is NULL.

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
 Makes an end that writes to `fd`. The descriptor is duplicated: close yours, or the reader never sees the
 end. A pipe grows to `capacity` bytes, or as near to that as the user's limits allow. A capacity of 0
 leaves it unchanged; 1 MiB is usually the most that is allowed. `wait` is one of `PAGEWISE_WAIT_...`.

 Returns 0 or a negative errno.

 Requires: `writer` points to memory for a pointer.
 */
int pagewise_writer_new(int fd,
                        uint32_t wait,
                        size_t capacity,
                        pagewise_writer **writer);

/*
 Writes some of `length` bytes, as write(2) does.

 Returns the number of bytes, or a negative errno: -EINTR after a signal, and occasionally from an end that
 never sleeps. -EPIPE comes with SIGPIPE unless the program ignores it.

 Requires: `writer` comes from `pagewise_writer_new` and was not freed. `bytes` points to `length` bytes.
 */
int64_t pagewise_writer_write(const pagewise_writer *writer,
                              const uint8_t *bytes,
                              size_t length);

/*
 Sends all `length` bytes of `frozen` from `start` on. A pipe gets them by reference, any other descriptor
 by write(2). The same bytes can be sent again immediately.

 Returns 0 or a negative errno: -EINVAL for bytes beyond the end, -EINTR after a signal; then send the rest
 again. `*taken` is set to the number of bytes sent in all cases, unless `taken` is NULL.

 Requires: `writer` and `frozen` were made here and not freed. `taken` is NULL or points to a number.
 */
int pagewise_writer_send(const pagewise_writer *writer,
                         const pagewise_frozen *frozen,
                         size_t start,
                         size_t length,
                         size_t *taken);

/*
 Returns the capacity of the pipe in bytes; 0 if the descriptor is not a pipe.

 Requires: `writer` comes from `pagewise_writer_new` and was not freed.
 */
size_t pagewise_writer_capacity(const pagewise_writer *writer);

/*
 Ends the current call of another thread, and every later call, with -ECANCELED. Use it to close an end
 that other threads use. A signal handler may call it. NULL is allowed.

 Requires: `writer` is NULL or comes from `pagewise_writer_new` and was not freed.
 */
void pagewise_writer_stop(const pagewise_writer *writer);

/*
 Closes the descriptor of an end and frees the end. NULL is allowed.

 Requires: `writer` is NULL or comes from `pagewise_writer_new` and was not freed, and no call uses it.
 */
void pagewise_writer_free(pagewise_writer *writer);

/*
 Makes an end that reads from `fd`. The descriptor is duplicated. The capacity of a pipe does not change,
 because its writer may rely on it. `wait` is one of `PAGEWISE_WAIT_...`.

 Returns 0 or a negative errno.

 Requires: `reader` points to memory for a pointer.
 */
int pagewise_reader_new(int fd,
                        uint32_t wait,
                        pagewise_reader **reader);

/*
 Reads at most `length` bytes, as read(2) does. It returns the bytes that are available, however few.

 Returns the number of bytes, 0 at the end, or a negative errno: -EINTR after a signal, and occasionally
 from an end that never sleeps.

 Requires: `reader` comes from `pagewise_reader_new` and was not freed. `into` points to `length` initialized bytes,
 for example zeroes.
 */
int64_t pagewise_reader_read(const pagewise_reader *reader,
                             uint8_t *into,
                             size_t length);

/*
 Discards the next `bytes` bytes, or fewer after a signal. Bytes in a pipe are not touched.

 Returns the number of bytes discarded, 0 at the end, or a negative errno: -EINTR after a signal before the
 first byte.

 Requires: `reader` comes from `pagewise_reader_new` and was not freed.
 */
int64_t pagewise_reader_skip(const pagewise_reader *reader,
                             uint64_t bytes);

/*
 Ends the current call of another thread, and every later call, with -ECANCELED. Use it to close an end
 that other threads use. A signal handler may call it. NULL is allowed.

 Requires: `reader` is NULL or comes from `pagewise_reader_new` and was not freed.
 */
void pagewise_reader_stop(const pagewise_reader *reader);

/*
 Closes the descriptor of an end and frees the end. NULL is allowed.

 Requires: `reader` is NULL or comes from `pagewise_reader_new` and was not freed, and no call uses it.
 */
void pagewise_reader_free(pagewise_reader *reader);

/*
 Predicts the fastest way to read a file on this machine, as it is cached now. The prices are those that
 `pagewise choose --calibrate` saved. The program reads `block` bytes at once (a multiple of 512, at most 1
 MiB), makes `passes` passes through the file, and uses `threads` threads.

 Returns 0 or a negative errno: -ENODATA if no prices are saved, -EINVAL if no way can read so.
 `pagewise_error_message` then gives advice.

 Requires: `path` is a string that ends with a zero byte. `choice` is NULL or points to memory for the result.
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

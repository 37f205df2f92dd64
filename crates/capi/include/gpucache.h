/* gpucache for C: memory of a scope as an address, with a stream as a raw handle.
 *
 * Each function that can fail returns a status: GPUCACHE_OK, or the reason of a failure, for which gpucache_last_error has a message.
 * A device is the number of a GPU, or -1 for the host.
 * Functions may be called from any thread. Do not cancel a thread (pthread_cancel) while it is inside a call: that ends the process.
 * Compare gpucache_abi_version with GPUCACHE_ABI_VERSION before the first call.
 *
 * This file is made from the crate gpucache-capi: do not edit it. */

#ifndef GPUCACHE_H
#define GPUCACHE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// The call did what it says.
#define GPUCACHE_OK 0

// No memory is left on the device, or within a limit.
#define GPUCACHE_OUT_OF_MEMORY 1

// An argument is no valid one: a null pointer, a text that is no UTF-8, or one that is no limit.
#define GPUCACHE_INVALID_ARGUMENT 2

// Something does not exist or does not work here: a driver, a device, a stream, an allocation at this address, an open entry.
#define GPUCACHE_UNAVAILABLE 3

// The device reports a failure.
#define GPUCACHE_DEVICE_FAILURE 4

// The number of this interface. A program that was compiled with another number must not call the other functions.
#define GPUCACHE_ABI_VERSION 1

// The memory of one device. Peaks begin anew when they are reset.
typedef struct {
  // Bytes in use.
  uint64_t allocated_bytes;
  // The most bytes that were in use at once.
  uint64_t peak_allocated_bytes;
  // Bytes that the process has from the device through gpucache.
  uint64_t reserved_bytes;
  // The most bytes that it had at once.
  uint64_t peak_reserved_bytes;
  // Allocations so far.
  uint64_t allocations;
  // Frees so far.
  uint64_t frees;
  // Allocations that failed because no memory was left.
  uint64_t out_of_memory;
  // How often the device gave memory or got it back.
  uint64_t device_calls;
  // The bytes of all allocations so far.
  uint64_t total_allocated_bytes;
  // The bytes of all frees so far.
  uint64_t total_freed_bytes;
} gpucache_device_use;

// Tells whether a pool serves a stream now.
typedef bool (*gpucache_pool_filter)(void *stream, void *context);

// Frees the context of a filter.
typedef void (*gpucache_drop)(void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Gives idle memory back to a device, except memory of scopes that another thread is inside. Each thread that allocated outside of scopes
// is inside the scope `auto` until it ends. `gpucache_invalidate(NULL, ..)` frees that memory too: each of these threads gives it back at
// its next allocation or free, or when it ends. Writes the number of bytes unless `bytes` is null.
//
// # Safety
// `bytes` is null or points to room for a number.
int32_t gpucache_trim(int32_t device, uint64_t *bytes);

// Limits how many bytes of a device the process reserves: `"20GiB"`, a share of the device as `"80%"`, or a soft limit as `"soft 20GiB"` or
// `"soft 80%"`. A soft limit refuses nothing: idle memory goes back first, and then the process reserves more. A device may have one hard
// and one soft limit. `"none"` removes both, also those of `GPUCACHE_LIMIT`.
//
// # Safety
// `limit` is null or a text that ends with a zero.
int32_t gpucache_set_limit(int32_t device, const char *limit);

// Writes the memory of a device to `stats`.
//
// # Safety
// `stats` is null or points to room for the structure.
int32_t gpucache_device_stats(int32_t device, gpucache_device_use *stats);

// Sets the peaks of a device to the bytes that are in use and reserved now.
int32_t gpucache_reset_peaks(int32_t device);

// Allocates `bytes` bytes on a device, for use on a stream, and writes their address to `address`. -1 is the host; other numbers are GPUs.
// `stream` is a handle of the driver, null for the default stream; the host ignores it. The memory comes from the thread's innermost scope.
// The address is a multiple of 256. It is null for no bytes.
//
// Returns `GPUCACHE_OUT_OF_MEMORY` if no memory is left, and `GPUCACHE_UNAVAILABLE` for a device that does not exist, for a stream of another
// GPU than `device`, and for a GPU in a forked child of a process that used one. The stream must exist: a driver may end a process that passes
// it the handle of a destroyed stream.
//
// # Safety
// `address` is null or points to room for a pointer.
int32_t gpucache_allocate(size_t bytes,
                          int32_t device,
                          void *stream,
                          void **address);

// Frees memory that `gpucache_allocate` returned, on any thread. Later work of the stream for which it was allocated may use it at once.
// Null is ignored. Returns `GPUCACHE_UNAVAILABLE` if nothing is allocated at `address`.
int32_t gpucache_free(void *address);

// Notes that work on another stream uses memory. After it is freed, its next user waits for the work that is on that stream by then.
// Null is ignored. Returns `GPUCACHE_UNAVAILABLE` if no allocation begins at `address`. The stream must exist, as for `gpucache_allocate`.
// A null stream is the default stream of the memory's own device. For that of another device, make a stream and record it.
int32_t gpucache_record_stream(void *address, void *stream);

// Tells that the owner of a stream is about to destroy it. Call this before a stream is destroyed, if memory was allocated for it or
// recorded on it. Otherwise a later call may pass the driver a handle that is no longer valid, which ends the process.
int32_t gpucache_stream_ends(int32_t device, void *stream);

// Writes the beginning and the length of the allocation in which `address` lies.
//
// # Safety
// `base` and `bytes` are null or point to room for their values.
int32_t gpucache_base_address(const void *address, void **base, size_t *bytes);

// Lets a pool serve the streams for which `filter` returns true, until `gpucache_pool_end`. `id0` and `id1` together name the pool, as the
// two numbers of PyTorch's `MempoolId_t` do. The pool is made if there is none of this name. Each call counts as a graph, which ends by
// `gpucache_pool_release`. `drop`, if it is not null, frees `context` at the end, also if the call fails.
//
// # Safety
// Any thread may call `filter` and `drop` with `context`, several at once `filter`. Neither of them unwinds. `context` must live until `drop`
// is called: a call of `filter` that began before `gpucache_pool_end` may still run when that function has returned.
int32_t gpucache_pool_begin(int32_t device,
                            uint64_t id0,
                            uint64_t id1,
                            gpucache_pool_filter filter,
                            void *context,
                            gpucache_drop drop);

// Ends what `gpucache_pool_begin` began. The pool keeps its memory for the graph. The filter is not called any more.
int32_t gpucache_pool_end(int32_t device, uint64_t id0, uint64_t id1);

// Notes that a graph of a pool is gone. With the last one, the memory of the pool is free, except what is still in use.
int32_t gpucache_pool_release(int32_t device, uint64_t id0, uint64_t id1);

// Enters the scope `name` (UTF-8): until `gpucache_leave`, what this thread allocates comes from its cache. Writes the number of the entry.
//
// # Safety
// `name` is null or a text that ends with a zero. `entry` is null or points to room for a number.
int32_t gpucache_enter(const char *name, uint64_t *entry);

// Leaves all scopes until `gpucache_leave`: what this thread allocates belongs to no scope, which would keep it. Writes the number of the entry.
//
// # Safety
// `entry` is null or points to room for a number.
int32_t gpucache_enter_uncached(uint64_t *entry);

// Ends an entry that this thread began. Entries may end in any order.
int32_t gpucache_leave(uint64_t entry);

// Sets whether allocations outside of all scopes come from a scope named `auto` (1, the default) or belong to no scope (0). Each thread
// follows with its next allocation.
void gpucache_set_auto_scope(bool is_on);

// Sets whether threads of PyTorch that run a backward pass use the scope of the thread that waits for them. This is on by default.
void gpucache_set_backward_helps(bool helps);

// Frees the memory of the scope `name`, or of all scopes if it is null, on all threads. Writes the number of bytes unless `bytes` is null.
// A name that no scope has frees 0 bytes. The first call with such a name prints a line on stderr. In a forked child of a process that
// used a GPU, scopes with memory of a GPU keep it.
//
// # Safety
// `name` is null or a text that ends with a zero. `bytes` is null or points to room for a number.
int32_t gpucache_invalidate(const char *name, uint64_t *bytes);

// Writes the statistics and the diagnosis of the scope `name` as a text, or the statistics of the process if it is null. The caller frees
// the text by `gpucache_string_free`.
//
// # Safety
// `name` is null or a text that ends with a zero. `report` is null or points to room for a pointer.
int32_t gpucache_report(const char *name, char **report);

// Frees a text that `gpucache_report` wrote. Null is ignored.
//
// # Safety
// `text` is null, or comes from `gpucache_report` and was not freed.
void gpucache_string_free(char *text);

// The number of this interface: 1. It changes if a declaration of the header changes its meaning.
uint32_t gpucache_abi_version(void);

// The message of the last call of this thread that failed, in UTF-8. It is valid until the next call of this thread that fails. It is empty
// if none failed, or if the thread is about to end.
const char *gpucache_last_error(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* GPUCACHE_H */

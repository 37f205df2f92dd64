/* Calls each function of the header on the host device. Exits with the line of the first check that fails. */
#include "gpucache.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CHECK(holds)                                                                  \
  do {                                                                                \
    if (!(holds)) {                                                                   \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #holds, gpucache_last_error()); \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)
#define HOST (-1)

static void *memory(size_t bytes) {
  void *address = NULL;
  CHECK(gpucache_allocate(bytes, HOST, NULL, &address) == GPUCACHE_OK && address != NULL);
  return address;
}

static gpucache_device_use used(void) {
  gpucache_device_use stats;
  CHECK(gpucache_device_stats(HOST, &stats) == GPUCACHE_OK);
  return stats;
}

static void allocations(void) {
  gpucache_device_use before = used();
  char *first = memory(1000), *second = memory(1 << 20);
  memset(first, 1, 1000);
  memset(second, 2, 1 << 20);
  CHECK(first[999] == 1 && second[0] == 2);
  CHECK(used().allocated_bytes == before.allocated_bytes + 1000 + (1 << 20));
  void *base = NULL;
  size_t bytes = 0;
  CHECK(gpucache_base_address(second + 5000, &base, &bytes) == GPUCACHE_OK);
  CHECK(base == second && bytes == 1 << 20);
  CHECK(gpucache_record_stream(first, NULL) == GPUCACHE_OK);
  CHECK(gpucache_record_stream(second + 5000, NULL) == GPUCACHE_UNAVAILABLE);
  CHECK(strstr(gpucache_last_error(), "no allocation begins there") != NULL);
  CHECK(gpucache_stream_ends(HOST, NULL) == GPUCACHE_OK);
  CHECK(gpucache_stream_ends(12345, NULL) != GPUCACHE_OK);
  CHECK(gpucache_free(first) == GPUCACHE_OK && gpucache_free(second) == GPUCACHE_OK);
  CHECK(gpucache_free(second) == GPUCACHE_UNAVAILABLE);
  CHECK(strstr(gpucache_last_error(), "nothing is allocated there") != NULL);
  CHECK(gpucache_base_address(second, &base, &bytes) == GPUCACHE_UNAVAILABLE);
  CHECK(gpucache_record_stream(first, NULL) == GPUCACHE_UNAVAILABLE);
  void *none = &none;
  CHECK(gpucache_allocate(0, HOST, NULL, &none) == GPUCACHE_OK && none == NULL);
  CHECK(gpucache_free(NULL) == GPUCACHE_OK && gpucache_record_stream(NULL, NULL) == GPUCACHE_OK);
  CHECK(gpucache_allocate(0, 12345, NULL, &none) == GPUCACHE_UNAVAILABLE);
  CHECK(gpucache_allocate(1, HOST, NULL, NULL) == GPUCACHE_INVALID_ARGUMENT);
  CHECK(gpucache_allocate(1, -2, NULL, &none) == GPUCACHE_UNAVAILABLE);
  CHECK(strstr(gpucache_last_error(), "::") == NULL); /* no advice about Rust code */
  if (gpucache_allocate(1, 77, NULL, &none) != GPUCACHE_OK) CHECK(strstr(gpucache_last_error(), "::") == NULL);
  CHECK(gpucache_allocate((size_t)1 << 62, HOST, NULL, &none) == GPUCACHE_OUT_OF_MEMORY);
}

static void scopes(void) {
  uint64_t step = 0, inner = 0, outside = 0, bytes = 0;
  uint64_t warm = 0;
  for (int i = 0; i < 10; i++) {
    CHECK(gpucache_enter("step", &step) == GPUCACHE_OK);
    void *address = memory(4096);
    CHECK(gpucache_enter("inner", &inner) == GPUCACHE_OK);
    void *other = memory(4096);
    CHECK(gpucache_free(other) == GPUCACHE_OK);
    /* Entries end in any order. */
    CHECK(gpucache_leave(step) == GPUCACHE_OK && gpucache_leave(inner) == GPUCACHE_OK);
    CHECK(gpucache_free(address) == GPUCACHE_OK);
    warm = i < 5 ? used().device_calls : warm;
    CHECK(used().device_calls == warm);
  }
  CHECK(gpucache_leave(step) == GPUCACHE_UNAVAILABLE);
  CHECK(gpucache_enter_uncached(&outside) == GPUCACHE_OK);
  void *plain = memory(4096);
  CHECK(gpucache_leave(outside) == GPUCACHE_OK && gpucache_free(plain) == GPUCACHE_OK);
  char *report = NULL;
  CHECK(gpucache_report("step", &report) == GPUCACHE_OK && strstr(report, "step") != NULL);
  gpucache_string_free(report);
  CHECK(gpucache_report(NULL, &report) == GPUCACHE_OK && strstr(report, "inner") != NULL);
  gpucache_string_free(report);
  gpucache_string_free(NULL);
  CHECK(gpucache_report("nobody", &report) == GPUCACHE_UNAVAILABLE && strstr(gpucache_last_error(), "nobody") != NULL);
  CHECK(gpucache_report("step", NULL) == GPUCACHE_INVALID_ARGUMENT);
  CHECK(gpucache_report("\xff", &report) == GPUCACHE_INVALID_ARGUMENT);
  CHECK(gpucache_invalidate("step", &bytes) == GPUCACHE_OK && bytes >= 4096);
  CHECK(gpucache_invalidate(NULL, NULL) == GPUCACHE_OK);
  CHECK(gpucache_enter(NULL, &step) == GPUCACHE_INVALID_ARGUMENT);
  CHECK(gpucache_enter("\xff", &step) == GPUCACHE_INVALID_ARGUMENT);
  CHECK(gpucache_enter("step", NULL) == GPUCACHE_INVALID_ARGUMENT);
  CHECK(gpucache_enter_uncached(NULL) == GPUCACHE_INVALID_ARGUMENT);
  gpucache_set_auto_scope(true);
  gpucache_set_backward_helps(true);
}

static void limits(void) {
  uint64_t bytes = 0;
  void *address = NULL;
  CHECK(gpucache_trim(HOST, &bytes) == GPUCACHE_OK && gpucache_trim(HOST, NULL) == GPUCACHE_OK);
  CHECK(gpucache_set_limit(HOST, "1MiB") == GPUCACHE_OK);
  CHECK(gpucache_allocate(2 << 20, HOST, NULL, &address) == GPUCACHE_OUT_OF_MEMORY);
  CHECK(strstr(gpucache_last_error(), "limit") != NULL && used().out_of_memory > 0);
  CHECK(gpucache_set_limit(HOST, "none") == GPUCACHE_OK);
  CHECK(gpucache_free(memory(2 << 20)) == GPUCACHE_OK);
  CHECK(gpucache_set_limit(HOST, "much") == GPUCACHE_INVALID_ARGUMENT && gpucache_set_limit(HOST, NULL) == GPUCACHE_INVALID_ARGUMENT);
  CHECK(gpucache_reset_peaks(HOST) == GPUCACHE_OK && used().peak_allocated_bytes == used().allocated_bytes);
  CHECK(gpucache_device_stats(HOST, NULL) == GPUCACHE_INVALID_ARGUMENT);
}

static int asked = 0, dropped = 0;

static bool serves(void *stream, void *context) {
  (void)stream;
  return ++asked && context == &asked;
}

static void drop(void *context) { dropped += context == &asked; }

static void pools(void) {
  CHECK(gpucache_pool_begin(HOST, 1, 2, serves, &asked, drop) == GPUCACHE_OK);
  CHECK(gpucache_pool_begin(HOST, 1, 2, serves, &asked, NULL) == GPUCACHE_UNAVAILABLE);
  void *kept = memory(4096), *freed = memory(4096);
  CHECK(gpucache_free(freed) == GPUCACHE_OK && memory(4096) == freed && asked > 0);
  CHECK(gpucache_pool_end(HOST, 1, 2) == GPUCACHE_OK && dropped == 1);
  CHECK(gpucache_free(freed) == GPUCACHE_OK);
  /* Nobody gets what a graph of the pool may write. */
  void *others[64];
  for (int i = 0; i < 64; i++) CHECK((others[i] = memory(4096)) != freed);
  for (int i = 0; i < 64; i++) CHECK(gpucache_free(others[i]) == GPUCACHE_OK);
  CHECK(gpucache_pool_release(HOST, 1, 2) == GPUCACHE_OK && gpucache_free(kept) == GPUCACHE_OK);
  CHECK(gpucache_pool_release(HOST, 1, 2) == GPUCACHE_UNAVAILABLE && gpucache_pool_end(HOST, 1, 2) == GPUCACHE_UNAVAILABLE);
  CHECK(gpucache_pool_begin(HOST, 1, 2, NULL, &asked, drop) == GPUCACHE_INVALID_ARGUMENT && dropped == 2);
  CHECK(gpucache_pool_begin(-77, 1, 2, serves, &asked, drop) == GPUCACHE_UNAVAILABLE && dropped == 3);
}

static void *free_elsewhere(void *address) {
  CHECK(gpucache_free(address) == GPUCACHE_OK);
  uint64_t entry;
  CHECK(gpucache_enter("left_open", &entry) == GPUCACHE_OK);
  CHECK(gpucache_leave(entry + 1) == GPUCACHE_UNAVAILABLE);
  return memory(4096);
}

static void threads(void) {
  for (int i = 0; i < 20; i++) {
    pthread_t thread;
    void *theirs = NULL;
    CHECK(pthread_create(&thread, NULL, free_elsewhere, memory(4096)) == 0);
    CHECK(pthread_join(thread, &theirs) == 0 && gpucache_free(theirs) == GPUCACHE_OK);
  }
}

static void *at_exit_kept;

static void at_exit(void) { CHECK(gpucache_free(at_exit_kept) == GPUCACHE_OK); }

int main(void) {
  CHECK(gpucache_abi_version() == GPUCACHE_ABI_VERSION);
  CHECK(strcmp(gpucache_last_error(), "") == 0);
  atexit(at_exit);
  at_exit_kept = memory(4096);
  allocations();
  scopes();
  limits();
  pools();
  threads();
  /* The process ends inside a scope, with live memory. */
  uint64_t entry;
  CHECK(gpucache_enter("open_at_exit", &entry) == GPUCACHE_OK);
  memory(4096);
  puts("all calls answered");
  return 0;
}

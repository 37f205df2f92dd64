/* The thread of main ends by pthread_exit, and another thread goes on: that is no exit of the process. */
#include "gpucache.h"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define HOST (-1)
#define BYTES (1 << 20)

static pthread_t main_thread;

static uint64_t reserved(void) {
  gpucache_device_use stats;
  if (gpucache_device_stats(HOST, &stats) != GPUCACHE_OK) _exit(2);
  return stats.reserved_bytes;
}

/* Memory that is freed serves the next step, so nothing more is reserved. */
static void step(void) {
  uint64_t entry;
  void *memory;
  if (gpucache_enter("step", &entry) != GPUCACHE_OK || gpucache_allocate(BYTES, HOST, NULL, &memory) != GPUCACHE_OK) _exit(3);
  if (gpucache_free(memory) != GPUCACHE_OK || gpucache_leave(entry) != GPUCACHE_OK) _exit(4);
}

static void *go_on(void *nothing) {
  (void)nothing;
  if (pthread_join(main_thread, NULL) != 0) _exit(5);
  step();
  uint64_t before = reserved();
  for (int i = 0; i < 100; i++) step();
  printf("%s\n", reserved() == before ? "the process goes on" : "frees were lost");
  return NULL;
}

int main(void) {
  pthread_t other;
  main_thread = pthread_self();
  step();
  if (pthread_create(&other, NULL, go_on, NULL) != 0) return 1;
  pthread_exit(NULL);
}

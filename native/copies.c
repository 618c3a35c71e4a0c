/*
 * Copies of memory. One thread alone reaches a third of what the memory of a server can do, so a few help it with large copies: they are
 * started at the first one, and sleep between them.
 */
#include <stdatomic.h>
#include <string.h>
#include "layer.h"

/** The bytes that a thread copies at a time, and the least number of bytes that is worth waking others. */
static const size_t PIECE = 256 * 1024, LEAST = 1024 * 1024;
/** The largest number of threads that copy beside the caller, on cores of their own. */
enum { MOST_HELPERS = 3 };
/** Nanoseconds for which a helper looks out for the next copy before it sleeps: a transfer makes one after another. */
static const int64_t LOOKS_FOR = 100000;

static struct {
  char *to;
  const char *from;
  size_t length;
  _Atomic(size_t) next;
} job;
/** The number of the latest copy, and whether helpers may still join it. */
static _Atomic(uint64_t) number;
static bool is_open;
static int working, helpers = -1;
static Mutex owner = MUTEX_INITIALIZER, mutex = MUTEX_INITIALIZER;
static Condition begun = CONDITION_INITIALIZER, ended = CONDITION_INITIALIZER;

static void copy_pieces(void) {
  for (;;) {
    size_t at = atomic_fetch_add(&job.next, PIECE);
    if (at >= job.length) return;
    memcpy(job.to + at, job.from + at, job.length - at < PIECE ? job.length - at : PIECE);
  }
}

static void look_out(uint64_t seen) {
  const int64_t since = now();
  do {
    for (int i = 0; i < 64 && atomic_load(&number) == seen; i++) let_others();
  } while (atomic_load(&number) == seen && now() - since < LOOKS_FOR);
}

static void *help(void *unused) {
  (void)unused;
  uint64_t seen = 0;
  lock(&mutex);
  for (;;) {
    while (number == seen) await(&begun, &mutex);
    seen = number;
    if (!is_open) continue;
    working++;
    unlock(&mutex);
    copy_pieces();
    lock(&mutex);
    if (--working == 0) wake_one(&ended);
    unlock(&mutex);
    look_out(seen);
    lock(&mutex);
  }
  return NULL;
}

static void start_helpers(void) {
  const int wanted = cores() - 1;
  for (helpers = 0; helpers < wanted && helpers < MOST_HELPERS; helpers++) {
    Thread thread;
    if (spawn(&thread, help, NULL, 64 * 1024) != 0) return;
    let_run(thread);
  }
}

static void copy_with_help(char *to, const char *from, size_t length) {
  lock(&mutex);
  job.to = to;
  job.from = from;
  job.length = length;
  job.next = 0;
  is_open = true;
  number++;
  wake_all(&begun);
  unlock(&mutex);
  copy_pieces();
  lock(&mutex);
  is_open = false;
  while (working > 0) await(&ended, &mutex);
  unlock(&mutex);
}

/** copy(to, from, length): as memmove. Where another thread has the helpers, this one copies alone. */
static int copy(Word to, Word from, Word length) {
  char *target = (char *)(uintptr_t)to;
  const char *source = (const char *)(uintptr_t)from;
  bool is_apart = to + length <= from || from + length <= to;
  if (length < LEAST || !is_apart || !try_lock(&owner)) memmove(target, source, length);
  else {
    if (helpers < 0) start_helpers();
    if (helpers == 0) memcpy(target, source, length);
    else copy_with_help(target, source, length);
    unlock(&owner);
  }
  return 0;
}

const OwnFunction copy_functions[] = {{"copy", copy}, {NULL, NULL}};

/*
 * Calls of the driver that belong together, which JavaScript has made by one call: memory in the order of a stream, with what must be
 * true of the thread meanwhile, and a wait for what another stream has queued.
 */
#include <stdatomic.h>
#include "layer.h"
#include "owned.h"

/** No stream has this handle. */
#define NO_STREAM UINT64_MAX

/** CU_STREAM_CAPTURE_MODE_RELAXED, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC and CUDA_ERROR_OUT_OF_MEMORY. */
enum { RELAXED = 2, SEARCHES = 2, OUT_OF_MEMORY = 2 };

/** What the thread had, to be given back. */
typedef struct {
  Word context;
  int mode;
} Before;

/** Makes the context current, and lets the calls that follow invalidate no capture of any thread. */
static int enter(Word context, Before *before) {
  Word current = 0;
  if (driver.get_context(&current) != 0) current = 0;
  // If no context was current, the new one stays, as in the CUDA runtime.
  *before = (Before){current == context ? 0 : current, RELAXED};
  const int result = current == context ? 0 : driver.set_context(context);
  if (result == 0) driver.exchange_mode(&before->mode);
  return result;
}

static void leave(Before *before) {
  driver.exchange_mode(&before->mode);
  if (before->context != 0) driver.set_context(before->context);
}

/** Returns whether the pool searched, and does not any more. */
static bool stop_search(Word pool) {
  // The attribute has 32 bits, and others have 64.
  uint64_t value = 0;
  if (driver.pool_attribute(pool, SEARCHES, &value) != 0 || value == 0) return false;
  value = 0;
  return driver.set_pool_attribute(pool, SEARCHES, &value) == 0;
}

/** The stream on which this process has freed memory, and whether there are others: a pool that searches asks each. */
static _Atomic(Word) freeing = NO_STREAM;
static _Atomic(bool) several_free;

static void note_free(Word stream) {
  Word first = NO_STREAM;
  if (atomic_load_explicit(&freeing, memory_order_relaxed) == stream) return;
  if (!atomic_compare_exchange_strong(&freeing, &first, stream) && first != stream) several_free = true;
}

static int allocate_on(Word stream, Word bytes, Word pool, Word *pointer) {
  return pool == 0 ? driver.allocate(pointer, bytes, stream) : driver.allocate_from_pool(pointer, bytes, pool, stream);
}

/**
 * Allocates memory on a stream, from a pool, or with 0 from the device's own. A pool that is named by `searching` does not search what other
 * streams have freed, where the stream has memory of its own again.
 */
static int allocate_in_order(Word owner, Word kind, Word context, Word stream, Word bytes, Word pool, Word searching, Word *pointer) {
  static const uint64_t YES = 1;
  Before before;
  int result = enter(context, &before);
  if (result != 0) return result;
  const bool stopped = searching != 0 && atomic_load_explicit(&several_free, memory_order_relaxed) && stop_search(searching);
  result = allocate_on(stream, bytes, pool, pointer);
  if (stopped) {
    driver.set_pool_attribute(searching, SEARCHES, &YES);
    if (result == OUT_OF_MEMORY) result = allocate_on(stream, bytes, pool, pointer);
  }
  if (result == 0) owned_add_in((Owner *)(uintptr_t)owner, (int)kind, *pointer, stream, context);
  leave(&before);
  return result;
}

/** Frees memory in the order of a stream. */
static int free_in_order(Word owner, Word kind, Word context, Word stream, Word pointer) {
  Before before;
  int result = enter(context, &before);
  if (result != 0) return result;
  note_free(stream);
  // Taken out first: another thread may get the same address as soon as it is free.
  const Word made_in = owned_take_out((int)kind, pointer);
  result = driver.free(pointer, stream);
  if (result != 0 && made_in != 0) owned_add_in((Owner *)(uintptr_t)owner, (int)kind, pointer, stream, made_in);
  leave(&before);
  return result;
}

/** Lets a stream wait for all that another one has now. The event is one that is recorded again and again. */
static int wait_for_stream(Word stream, Word other, Word event) {
  const int result = driver.event_record(event, other);
  return result != 0 ? -result : driver.stream_wait(stream, event, 0);
}

const OwnFunction in_order_functions[] = {{"allocateInOrder", allocate_in_order},
                                          {"freeInOrder", free_in_order},
                                          {"waitForStream", wait_for_stream},
                                          {NULL, NULL}};

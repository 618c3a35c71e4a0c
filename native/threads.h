/* The process registry, in which the threads of JavaScript publish their host functions to each other.
   src/cuda/host-functions/process-registry.ts has the same in words of four bytes, and writes it. The watchdog reads it. */
#ifndef THREADS_H
#define THREADS_H

#include "layer.h"

enum { SLOTS = 500, SPARE_DEVICES = 16, SPARE_STREAMS = 256, CAPTURES = 512, LABEL_TEXT = 176, SEMAPHORES = 4096 };

/** What one thread of JavaScript publishes. `owner` is its number and one, or zero. */
typedef struct {
  _Atomic(int32_t) owner, pending;
  int32_t streams, semaphore_count;
  uint64_t semaphores, graph_semaphores;
  int32_t entries;
  _Atomic(int32_t) value_waits;
  int32_t inner_waits;
  _Atomic(int32_t) beat;
  uint64_t labels, graph_labels;
} Slot;

typedef struct {
  _Atomic(int32_t) exclusive, slots_used, capturing, making_streams;
  /** A word that only C reads and writes. */
  _Atomic(int32_t) watched;
  int32_t unused[11];
  Slot slots[SLOTS];
  _Atomic(int32_t) spare_counts[2 * SPARE_DEVICES];
  _Atomic(uint64_t) spare_streams[SPARE_DEVICES * SPARE_STREAMS];
  /** `CaptureList` of process-registry.ts. */
  struct {
    int32_t used, unused;
    double streams[CAPTURES];
    _Atomic(int32_t) threads[CAPTURES];
  } captures;
} Registry;

/** The bit that is set in a slot's beat when the thread itself has reported why it runs no host functions. */
#define REPORTED INT32_MIN

/** A stream waits for a host function when `waiting` is ahead of `signalled`. */
typedef struct {
  int32_t waiting, signalled;
} Semaphore;

/** What waits at a semaphore, and where it was queued. */
typedef struct {
  uint64_t stream;
  uint32_t sequence, length;
  char text[LABEL_TEXT];
} Label;

Registry *process_registry(void);
/** Takes a slot for a thread. Returns its number, from 1, or 0 where all are taken. */
int32_t slot_for(int32_t owner);

#endif

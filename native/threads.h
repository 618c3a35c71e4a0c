/* The table in which the threads of JavaScript tell each other of their host functions. src/driver/cuda/host-functions/thread-slots.ts has
   the same in words of four bytes, and is what writes it: of C only the watchdog reads it. */
#ifndef THREADS_H
#define THREADS_H

#include "layer.h"

enum { SLOTS = 500, KEPT_STREAMS = 16 * 256, CAPTURES = 512, LABEL_TEXT = 176, GATES = 4096 };

/** Of one thread of JavaScript. `owner` is its number and one, or zero. */
typedef struct {
  _Atomic(int32_t) owner, pending;
  int32_t streams, gate_count;
  uint64_t gates, graph_gates;
  int32_t entries, unused, waiting;
  _Atomic(int32_t) beat;
  uint64_t labels, graph_labels;
} Slot;

typedef struct {
  int32_t exclusive;
  _Atomic(int32_t) slots_used;
  int32_t capturing, making_streams;
  /** Only C reads and writes it. */
  _Atomic(int32_t) watched;
  int32_t unused[11];
  Slot slots[SLOTS];
  int32_t kept_counts[2 * 16];
  uint64_t kept[KEPT_STREAMS];
  /** src/driver/cuda/host-functions/capture-list.ts says what this is. */
  struct {
    int32_t used, unused;
    double streams[CAPTURES];
    int32_t threads[CAPTURES];
  } captures;
} Table;

/** Set in a slot's beat when the thread itself has said why it does not look for host functions. */
#define SAID INT32_MIN

/** Where a stream and JavaScript meet: the stream has come to a host function when `arrived` is ahead of `go`. */
typedef struct {
  int32_t arrived, go;
} Gate;

/** What stands at a gate, and where it was queued. */
typedef struct {
  uint64_t stream;
  uint32_t sequence, length;
  char text[LABEL_TEXT];
} Label;

Table *thread_table(void);

#endif

/* What the files of the traced library know of each other. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* trace.c: writes that the host touched memory of a copy that is not over; its `uses` are those of src/tools/recording/process-trace.ts. */
void trace_host_use(uint64_t address, uint64_t bytes, uint32_t uses);
/* trace.c: whether this thread is in a callback, where it touches memory for itself. */
int trace_is_busy(void);
/* trace.c: writes a record of CUPTI's, as it is. */
void trace_activity(const void *record, size_t bytes);
/* trace.c: the number of the line that the thread is in. */
uint32_t trace_line(void);

/* What a call means for host memory; beside each call in trace.c. */
enum Role {
  NONE,
  COPIES,   /* to, from, bytes, stream */
  COPIES_2D,/* the words of a CUDA_MEMCPY2D, stream */
  BATCHES,  /* many copies */
  BATCHES_3D,
  ALLOCATES,/* where, bytes */
  REGISTERS,/* where, bytes, flags */
  FREES,    /* where */
  OBSERVES, /* its success tells the host that work is done */
  ANSWERS,  /* the same, and the GPU or the driver has written behind its first word */
  FILLS,    /* the GPU will write behind its first word */
  CHANNEL,  /* by what it queues, the host may learn in another way that work is done */
  LAUNCHES  /* a kernel, whose arguments may be such a channel */
};

/* Called in InitializeInjection. `level`: "exact", "sampled", or nothing. `driver`: libcuda, as dlopen gave it. NULL, or why that level cannot be. */
const char *host_begin(const char *level, void *driver);
/* Called before a call is made. */
void host_look(void);
/* Called after a call of this role has succeeded, or before one that ends memory. */
void host_called(enum Role role, const uint64_t *values, int count, uint32_t site);
/* One copy: its bytes on the host may be `to`, `from` or both. A source that was read when the call returned is 0. */
void host_copied(uint64_t to, uint64_t from, uint64_t bytes, uint64_t stream, uint32_t site);
/* Called before a call of the system that touches these bytes. */
void host_used(const void *bytes, size_t length, int isWrite);
/* system-calls.c: whether it takes the place of functions of the C library. */
int host_is_preloaded(void);

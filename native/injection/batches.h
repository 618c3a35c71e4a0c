/* The copies of cuMemcpyBatchAsync and cuMemcpy3DBatchAsync. */
#pragma once
#include <stdint.h>

/* What is written of a copy of a batch: both places, the bytes of both, and the order in which its source is read. */
enum { TO, FROM, TO_BYTES, FROM_BYTES, ORDER, OF_COPY };
enum { DURING_CALL = 2 };

/* The arguments of a call with many copies. */
typedef struct {
  uint64_t count, stream, group;
  const struct Operation3D *rows;
  const uint64_t *to, *from, *bytes, *firsts;
  const char *attributes;
  uint64_t attributeCount;
} Batch;

Batch batchOf(const uint64_t *values, int count, int isOfRows);
/* One copy, at a place that is not before the one that was asked for last. */
void copyOf(Batch *batch, uint64_t at, uint64_t *copy);

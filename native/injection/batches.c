#include <stddef.h>
#include <string.h>

#include "batches.h"

/* The bytes from the first to the last of an operand of a CUDA_MEMCPY3D_BATCH_OP; 0 for one of an array. */
typedef struct {
  uint32_t type, unused;
  uint64_t pointer, rowLength, layerHeight, location;
} Operand;
typedef struct Operation3D {
  Operand from, to;
  uint64_t width, height, depth;
  uint32_t order, flags;
} Operation3D;

static uint64_t spanOf(const Operand *side, const Operation3D *all) {
  const uint64_t row = side->rowLength == 0 ? all->width : side->rowLength;
  const uint64_t layer = row * (side->layerHeight == 0 ? all->height : side->layerHeight);
  return (all->depth - 1) * layer + (all->height - 1) * row + all->width;
}

enum { IN_ORDER = 1, IS_POINTER = 1, ATTRIBUTES_BYTES = 24, MOST_OF_BATCH = 1 << 16 };

Batch batchOf(const uint64_t *v, int count, int isOfRows) {
  Batch batch = {.stream = v[count - 1]};
  batch.count = isOfRows ? v[0] : v[3];
  if (batch.count > MOST_OF_BATCH) batch.count = MOST_OF_BATCH;
  if (isOfRows) {
    batch.rows = (const Operation3D *)(uintptr_t)v[1];
    return batch;
  }
  batch.to = (const uint64_t *)(uintptr_t)v[0];
  batch.from = (const uint64_t *)(uintptr_t)v[1];
  batch.bytes = (const uint64_t *)(uintptr_t)v[2];
  batch.attributes = (const char *)(uintptr_t)v[4];
  batch.firsts = (const uint64_t *)(uintptr_t)v[5];
  batch.attributeCount = v[6];
  return batch;
}

void copyOf(Batch *batch, uint64_t at, uint64_t *copy) {
  memset(copy, 0, OF_COPY * sizeof *copy);
  copy[ORDER] = IN_ORDER;
  if (batch->rows != NULL) {
    const Operation3D *one = &batch->rows[at];
    copy[ORDER] = one->order;
    if (one->width == 0 || one->height == 0 || one->depth == 0) return;
    if (one->to.type == IS_POINTER) copy[TO] = one->to.pointer, copy[TO_BYTES] = spanOf(&one->to, one);
    if (one->from.type == IS_POINTER) copy[FROM] = one->from.pointer, copy[FROM_BYTES] = spanOf(&one->from, one);
    return;
  }
  copy[TO] = batch->to[at];
  copy[FROM] = batch->from[at];
  copy[TO_BYTES] = copy[FROM_BYTES] = batch->bytes[at];
  if (batch->attributes == NULL || batch->firsts == NULL || batch->attributeCount == 0) return;
  while (batch->group + 1 < batch->attributeCount && batch->firsts[batch->group + 1] <= at) batch->group++;
  uint32_t order;
  memcpy(&order, batch->attributes + ATTRIBUTES_BYTES * batch->group, sizeof order);
  copy[ORDER] = order;
}

#include <stddef.h>
#include <string.h>

#include "graphs.h"

/* The structures of cuda.h; those of later versions begin as these do. */
typedef struct {
  uint64_t function;
  uint32_t shape[7];
  const void *const *arguments, *const *extra;
  uint64_t kernel; /* Since version 2, where it may take the place of the function. */
} KernelNode;
typedef struct {
  uint64_t to, pitch;
  uint32_t value, width;
  uint64_t columns, rows;
} FillNode;
typedef struct {
  char properties[88];
  uint64_t accesses, accessCount, bytes, pointer;
} AllocationNode;
typedef struct {
  uint64_t handle;
  uint32_t type, count;
  const uint64_t *bodies; /* The driver has made them. */
} ConditionalNode;
typedef struct {
  uint32_t type, reserved[3];
  char parameters[232];
} AnyNode;

enum { WORDS_OF_COPY = 25, SOURCE_TYPE = 4, TARGET_TYPE = 15 };
/* CUgraphNodeType. A copy's parameters begin behind its flags and its context there. */
enum { IS_KERNEL, IS_COPY, IS_FILL, IS_GRAPH = 4, IS_WAIT = 6, IS_RECORD, IS_ALLOCATION = 10, IS_FREE, IS_CONDITIONAL = 13 };
enum { BEFORE_COPY = 16, MOST_BODIES = 64 };

static int kernel_values(const KernelNode *node, uint64_t *values, int count, NodeKernel *kernel) {
  /* The first version ends before its kernel, and always has a function. */
  kernel->function = node->function != 0 ? node->function : node->kernel;
  kernel->arguments = node->arguments;
  kernel->extra = node->extra;
  values[count++] = kernel->function;
  return count;
}

static int copy_values(const void *words, uint64_t *values, int count) {
  memcpy(values + count, words, 8 * WORDS_OF_COPY);
  /* Types of memory, behind which the structure has gaps. */
  values[count + SOURCE_TYPE] &= UINT32_MAX;
  values[count + TARGET_TYPE] &= UINT32_MAX;
  return count + WORDS_OF_COPY;
}

static int fill_values(const FillNode *node, uint64_t *values, int count) {
  values[count++] = node->to;
  values[count++] = node->pitch;
  values[count++] = node->width;
  values[count++] = node->columns;
  values[count++] = node->rows;
  return count;
}

static int allocation_values(const AllocationNode *node, uint64_t *values, int count) {
  values[count++] = node->pointer;
  values[count++] = node->bytes;
  return count;
}

static int conditional_values(const ConditionalNode *node, uint64_t *values, int count) {
  for (uint32_t at = 0; node->bodies != NULL && at < node->count && at < MOST_BODIES; at++) values[count++] = node->bodies[at];
  return count;
}

static int any_values(const AnyNode *node, uint64_t *values, int count, NodeKernel *kernel) {
  const char *parameters = node->parameters;
  values[count++] = node->type;
  switch (node->type) {
    case IS_KERNEL:
      return kernel_values((const KernelNode *)parameters, values, count, kernel);
    case IS_COPY:
      return copy_values(parameters + BEFORE_COPY, values, count);
    case IS_FILL:
      return fill_values((const FillNode *)parameters, values, count);
    case IS_ALLOCATION:
      return allocation_values((const AllocationNode *)parameters, values, count);
    case IS_CONDITIONAL:
      return conditional_values((const ConditionalNode *)parameters, values, count);
    case IS_GRAPH:
    case IS_WAIT:
    case IS_RECORD:
    case IS_FREE:
      memcpy(&values[count++], parameters, 8);
      return count;
    default:
      return count;
  }
}

int node_values(char type, const void *parameters, uint64_t *values, int count, NodeKernel *kernel) {
  if (parameters == NULL) return count;
  switch (type) {
    case 'K':
      return kernel_values(parameters, values, count, kernel);
    case 'R':
      return copy_values(parameters, values, count);
    case 'M':
      return fill_values(parameters, values, count);
    case 'A':
      return allocation_values(parameters, values, count);
    default:
      return any_values(parameters, values, count, kernel);
  }
}

/* The nodes that a program adds to graphs one by one: their parameters, and the nodes that they come after. */
#pragma once
#include <stdint.h>

/* The lists of nodes that a call has: all of one length. */
typedef struct {
  const uint64_t *at[2];
  int count;
  uint64_t length;
} NodeLists;
/* A list of so many nodes fits into a record. */
enum { MOST_OF_LIST = 1 << 19 };

/* The kernel of a node, and its arguments in either form. */
typedef struct {
  uint64_t function;
  const void *const *arguments, *const *extra;
} NodeKernel;

/*
 * Puts behind the values what is written of a node's parameters, and returns the number of values. The type says what the parameters are: K a
 * CUDA_KERNEL_NODE_PARAMS, R a CUDA_MEMCPY3D, M a CUDA_MEMSET_NODE_PARAMS, A a CUDA_MEM_ALLOC_NODE_PARAMS, N a CUgraphNodeParams.
 */
int node_values(char type, const void *parameters, uint64_t *values, int count, NodeKernel *kernel);

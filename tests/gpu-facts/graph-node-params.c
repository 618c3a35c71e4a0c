/*
 * Do CUDA's generic functions for the nodes of graphs do the same as those for one kind of node each, which CUDA 13.5 announced that it
 * will deprecate? The library calls the generic ones (src/cuda/graph-nodes.ts). This program does each thing in both ways on a real
 * GPU, and compares what is read back and what a launch computes. It needs CUDA's header, of 12.5 or later, and finds libcuda.so.1 itself:
 *
 *   gcc -O1 -I/usr/local/cuda/include tests/gpu-facts/graph-node-params.c -o /tmp/graph-node-params -ldl
 *   /tmp/graph-node-params [path of libcuda]
 *
 * It prints a line for each thing: "same", "not the same", or "wrong" for a launch that does not do what its node was given; behind a
 * function that the driver lacks, "not there". Exit status 0: nothing is wrong, or not the same. 1: something is. 2: no GPU.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(X) \
  X(CUresult, cuInit, (unsigned)) \
  X(CUresult, cuDriverGetVersion, (int *)) \
  X(CUresult, cuDeviceGet, (CUdevice *, int)) \
  X(CUresult, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice)) \
  X(CUresult, cuCtxSetCurrent, (CUcontext)) \
  X(CUresult, cuStreamCreateWithPriority, (CUstream *, unsigned, int)) \
  X(CUresult, cuStreamSynchronize, (CUstream)) \
  X(CUresult, cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode)) \
  X(CUresult, cuStreamEndCapture, (CUstream, CUgraph *)) \
  X(CUresult, cuStreamBatchMemOp_v2, (CUstream, unsigned, CUstreamBatchMemOpParams *, unsigned)) \
  X(CUresult, cuGraphGetNodes, (CUgraph, CUgraphNode *, size_t *)) \
  X(CUresult, cuGraphNodeGetType, (CUgraphNode, CUgraphNodeType *)) \
  X(CUresult, cuGraphNodeFindInClone, (CUgraphNode *, CUgraphNode, CUgraph)) \
  X(CUresult, cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long)) \
  X(CUresult, cuGraphLaunch, (CUgraphExec, CUstream)) \
  X(CUresult, cuGraphExecDestroy, (CUgraphExec)) \
  X(CUresult, cuGraphDestroy, (CUgraph)) \
  X(CUresult, cuMemHostAlloc, (void **, size_t, unsigned)) \
  X(CUresult, cuMemcpyAsync, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
  X(CUresult, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream)) \
  X(CUresult, cuModuleLoadData, (CUmodule *, const void *)) \
  X(CUresult, cuModuleGetFunction, (CUfunction *, CUmodule, const char *)) \
  X(CUresult, cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **, void **)) \
  X(CUresult, cuDeviceGetDevResource, (CUdevice, void *, int)) \
  X(CUresult, cuDevSmResourceSplitByCount, (void *, unsigned *, const void *, void *, unsigned, unsigned)) \
  X(CUresult, cuDevResourceGenerateDesc, (void **, void *, unsigned)) \
  X(CUresult, cuGreenCtxCreate, (void **, void *, CUdevice, unsigned)) \
  X(CUresult, cuGreenCtxStreamCreate, (CUstream *, void *, unsigned, int)) \
  X(CUresult, cuCtxFromGreenCtx, (CUcontext *, void *)) \
  X(CUresult, cuGraphAddChildGraphNode, (CUgraphNode *, CUgraph, const CUgraphNode *, size_t, CUgraph)) \
  X(CUresult, cuGraphAddNode_v2, (CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t, CUgraphNodeParams *)) \
  X(CUresult, cuGraphChildGraphNodeGetGraph, (CUgraphNode, CUgraph *)) \
  X(CUresult, cuGraphKernelNodeGetParams_v2, (CUgraphNode, CUDA_KERNEL_NODE_PARAMS *)) \
  X(CUresult, cuGraphMemcpyNodeGetParams, (CUgraphNode, CUDA_MEMCPY3D *)) \
  X(CUresult, cuGraphMemsetNodeGetParams, (CUgraphNode, CUDA_MEMSET_NODE_PARAMS *)) \
  X(CUresult, cuGraphNodeGetParams, (CUgraphNode, CUgraphNodeParams *)) \
  X(CUresult, cuGraphBatchMemOpNodeSetParams, (CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *)) \
  X(CUresult, cuGraphNodeSetParams, (CUgraphNode, CUgraphNodeParams *)) \
  X(CUresult, cuGraphExecKernelNodeSetParams_v2, (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *)) \
  X(CUresult, cuGraphExecMemcpyNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D *, CUcontext)) \
  X(CUresult, cuGraphExecMemsetNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *, CUcontext)) \
  X(CUresult, cuGraphExecNodeSetParams, (CUgraphExec, CUgraphNode, CUgraphNodeParams *))
#define X(type, name, parameters) static type(*p_##name) parameters;
FUNCTIONS(X)
#undef X

#define TRY(call) \
  do { \
    CUresult result_ = (call); \
    if (result_ != CUDA_SUCCESS) { \
      printf("%s gave %d\n", #call, (int)result_); \
      exit(2); \
    } \
  } while (0)

/* Adds a number to each word. */
static const char CODE[] =
    ".version 7.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry add(.param .u64 words, .param .u32 count, .param .u32 value)\n"
    "{\n .reg .u64 %a<3>;\n .reg .u32 %r<5>;\n .reg .pred %p;\n"
    " ld.param.u64 %a0, [words];\n ld.param.u32 %r0, [count];\n ld.param.u32 %r1, [value];\n mov.u32 %r2, 0;\n"
    "again:\n setp.ge.u32 %p, %r2, %r0;\n @%p bra done;\n mul.wide.u32 %a1, %r2, 4;\n add.u64 %a2, %a0, %a1;\n"
    " ld.u32 %r3, [%a2];\n add.u32 %r3, %r3, %r1;\n st.u32 [%a2], %r3;\n add.u32 %r2, %r2, 1;\n bra again;\n"
    "done:\n ret;\n}\n";

enum { WORDS = 16, BYTES = 4 * WORDS };
enum kind { KERNEL, COPY, FILL, OPERATIONS };
static const char *const kinds[] = {"a kernel", "a copy", "a fill", "memory operations"};

static CUcontext context, green;
static CUstream plain, in_green;
static CUfunction add;
/* Pinned: two places to write, and two to read from. */
static uint32_t *first, *second, *third, *fourth;
static int differences;

static void say(const char *what, const char *outcome) {
  printf("%-60s %s\n", what, outcome);
  if (strcmp(outcome, "same") != 0 && strcmp(outcome, "not there") != 0) differences += 1;
}
static void compare(const char *what, int is_same) { say(what, is_same ? "same" : "not the same"); }
static CUdeviceptr at(void *memory) { return (CUdeviceptr)(uintptr_t)memory; }

static void reset(void) {
  for (int i = 0; i < WORDS; i += 1) {
    first[i] = second[i] = 0;
    third[i] = 1000 + (uint32_t)i;
    fourth[i] = 2000 + (uint32_t)i;
  }
}

static CUstreamBatchMemOpParams write_word(uint32_t *word, uint32_t value) {
  CUstreamBatchMemOpParams op;
  memset(&op, 0, sizeof op);
  op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  op.writeValue.address = at(word);
  op.writeValue.value = value;
  return op;
}

/* A graph of one node, captured on the stream. */
static CUgraph capture(enum kind kind, CUstream stream, CUgraphNode *node) {
  CUgraph graph;
  size_t count = 1;
  TRY(p_cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  if (kind == KERNEL) {
    CUdeviceptr words = at(first);
    uint32_t length = WORDS, value = 1;
    void *values[] = {&words, &length, &value};
    CUlaunchConfig config;
    memset(&config, 0, sizeof config);
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    TRY(p_cuLaunchKernelEx(&config, add, values, NULL));
  } else if (kind == COPY) TRY(p_cuMemcpyAsync(at(first), at(third), BYTES, stream));
  else if (kind == FILL) TRY(p_cuMemsetD8Async(at(first), 7, BYTES, stream));
  else {
    CUstreamBatchMemOpParams op = write_word(first, 5);
    TRY(p_cuStreamBatchMemOp_v2(stream, 1, &op, 0));
  }
  TRY(p_cuStreamEndCapture(stream, &graph));
  TRY(p_cuGraphGetNodes(graph, node, &count));
  return graph;
}

/* What the node does after this is to the memory at `second`, by the old function or the generic one. Returns a CUresult. */
static CUresult change(enum kind kind, CUgraphExec exec, CUgraphNode node, CUcontext of, int is_generic) {
  CUgraphNodeParams parameters;
  memset(&parameters, 0, sizeof parameters);
  if (kind == KERNEL) {
    CUdeviceptr words = at(second);
    uint32_t length = 3, value = 41;
    void *values[] = {&words, &length, &value};
    CUDA_KERNEL_NODE_PARAMS old;
    memset(&old, 0, sizeof old);
    old.func = parameters.kernel.func = add;
    old.gridDimX = old.gridDimY = old.gridDimZ = old.blockDimX = old.blockDimY = old.blockDimZ = 1;
    parameters.kernel.gridDimX = parameters.kernel.gridDimY = parameters.kernel.gridDimZ = 1;
    parameters.kernel.blockDimX = parameters.kernel.blockDimY = parameters.kernel.blockDimZ = 1;
    old.kernelParams = parameters.kernel.kernelParams = values;
    parameters.type = CU_GRAPH_NODE_TYPE_KERNEL;
    /* As the library does: a node of a green context is changed with that current. */
    p_cuCtxSetCurrent(of);
    CUresult result =
        is_generic ? p_cuGraphExecNodeSetParams(exec, node, &parameters) : p_cuGraphExecKernelNodeSetParams_v2(exec, node, &old);
    p_cuCtxSetCurrent(context);
    return result;
  }
  if (kind == COPY) {
    CUDA_MEMCPY3D *copy = &parameters.memcpy.copyParams;
    copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    copy->srcDevice = at(fourth);
    copy->dstDevice = at(second);
    copy->WidthInBytes = 12;
    copy->Height = copy->Depth = 1;
    parameters.type = CU_GRAPH_NODE_TYPE_MEMCPY;
    parameters.memcpy.copyCtx = of;
    return is_generic ? p_cuGraphExecNodeSetParams(exec, node, &parameters) : p_cuGraphExecMemcpyNodeSetParams(exec, node, copy, of);
  }
  CUDA_MEMSET_NODE_PARAMS old;
  memset(&old, 0, sizeof old);
  old.dst = parameters.memset.dst = at(second);
  old.value = parameters.memset.value = 0x0102;
  old.elementSize = parameters.memset.elementSize = 2;
  old.width = parameters.memset.width = 5;
  old.height = parameters.memset.height = 1;
  parameters.memset.ctx = of;
  parameters.type = CU_GRAPH_NODE_TYPE_MEMSET;
  return is_generic ? p_cuGraphExecNodeSetParams(exec, node, &parameters) : p_cuGraphExecMemsetNodeSetParams(exec, node, &old, of);
}

/* Has a launch after that left in memory what it should? */
static int is_right(enum kind kind) {
  if (first[0] != 0) return 0;
  if (kind == KERNEL) return second[0] == 41 && second[2] == 41 && second[3] == 0;
  if (kind == COPY) return second[0] == 2000 && second[2] == 2002 && second[3] == 0;
  return second[0] == 0x01020102 && second[1] == 0x01020102 && second[2] == 0x0102 && second[3] == 0;
}

/* A node of an instance, which is changed before it is launched. */
static void try_update(enum kind kind, CUstream stream, CUcontext of, const char *where) {
  uint32_t made[2][2 * WORDS];
  CUresult results[2] = {0, 0};
  int has_old = kind == KERNEL ? p_cuGraphExecKernelNodeSetParams_v2 != NULL
                : kind == COPY ? p_cuGraphExecMemcpyNodeSetParams != NULL : p_cuGraphExecMemsetNodeSetParams != NULL, right = 0;
  for (int is_generic = has_old ? 0 : 1; is_generic < 2; is_generic += 1) {
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph graph = capture(kind, stream, &node);
    reset();
    TRY(p_cuGraphInstantiateWithFlags(&exec, graph, 0));
    results[is_generic] = change(kind, exec, node, of, is_generic);
    TRY(p_cuGraphLaunch(exec, stream));
    TRY(p_cuStreamSynchronize(stream));
    memcpy(made[is_generic], first, BYTES);
    memcpy(made[is_generic] + WORDS, second, BYTES);
    right = is_right(kind);
    TRY(p_cuGraphExecDestroy(exec));
    TRY(p_cuGraphDestroy(graph));
  }
  char what[100];
  snprintf(what, sizeof what, "%s of an instance, changed%s: gave %d and %d", kinds[kind], where, (int)results[0], (int)results[1]);
  if (!right) say(what, "wrong");
  else if (!has_old) say(what, "not there");
  else compare(what, results[0] == results[1] && memcmp(made[0], made[1], sizeof made[0]) == 0);
}

/* The parameters of a node that was captured, read in both ways. */
static void try_read(enum kind kind) {
  CUgraphNode node;
  CUgraph graph = capture(kind, plain, &node);
  CUgraphNodeParams now;
  char what[100];
  snprintf(what, sizeof what, "%s, read", kinds[kind]);
  memset(&now, 0, sizeof now);
  if (p_cuGraphNodeGetParams == NULL || p_cuGraphKernelNodeGetParams_v2 == NULL) say(what, "not there");
  else if (kind == KERNEL) {
    CUDA_KERNEL_NODE_PARAMS old;
    TRY(p_cuGraphKernelNodeGetParams_v2(node, &old));
    TRY(p_cuGraphNodeGetParams(node, &now));
    compare(what, now.type == CU_GRAPH_NODE_TYPE_KERNEL && old.func == now.kernel.func && old.gridDimX == now.kernel.gridDimX);
  } else if (kind == COPY) {
    CUDA_MEMCPY3D old;
    TRY(p_cuGraphMemcpyNodeGetParams(node, &old));
    TRY(p_cuGraphNodeGetParams(node, &now));
    const CUDA_MEMCPY3D *copy = &now.memcpy.copyParams;
    compare(what, now.type == CU_GRAPH_NODE_TYPE_MEMCPY && old.WidthInBytes == copy->WidthInBytes && old.Height == copy->Height &&
                      old.Depth == copy->Depth);
  } else {
    CUDA_MEMSET_NODE_PARAMS old;
    TRY(p_cuGraphMemsetNodeGetParams(node, &old));
    TRY(p_cuGraphNodeGetParams(node, &now));
    compare(what, now.type == CU_GRAPH_NODE_TYPE_MEMSET && old.dst == now.memset.dst && old.value == now.memset.value &&
                      old.elementSize == now.memset.elementSize && old.width == now.memset.width && old.height == now.memset.height);
  }
  TRY(p_cuGraphDestroy(graph));
}

/* The operations of a node, which is changed before its graph is instantiated. */
static void try_operations(void) {
  uint32_t made[2][2];
  CUresult results[2];
  int has_old = p_cuGraphBatchMemOpNodeSetParams != NULL;
  for (int is_generic = has_old ? 0 : 1; is_generic < 2; is_generic += 1) {
    CUgraphNode node;
    CUgraphExec exec;
    CUgraph graph = capture(OPERATIONS, plain, &node);
    CUstreamBatchMemOpParams op = write_word(second, 99);
    CUDA_BATCH_MEM_OP_NODE_PARAMS old;
    CUgraphNodeParams now;
    memset(&old, 0, sizeof old);
    memset(&now, 0, sizeof now);
    now.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    old.ctx = now.memOp.ctx = context;
    old.count = now.memOp.count = 1;
    old.paramArray = now.memOp.paramArray = &op;
    results[is_generic] = is_generic ? p_cuGraphNodeSetParams(node, &now) : p_cuGraphBatchMemOpNodeSetParams(node, &old);
    reset();
    TRY(p_cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(p_cuGraphLaunch(exec, plain));
    TRY(p_cuStreamSynchronize(plain));
    made[is_generic][0] = *first;
    made[is_generic][1] = *second;
    TRY(p_cuGraphExecDestroy(exec));
    TRY(p_cuGraphDestroy(graph));
  }
  const char *what = "memory operations of a graph, changed";
  if (results[1] != CUDA_SUCCESS || made[1][0] != 0 || made[1][1] != 99) say(what, "wrong");
  else if (!has_old) say(what, "not there");
  else compare(what, results[0] == results[1] && memcmp(made[0], made[1], sizeof made[0]) == 0);
}

/* A graph within a graph: added, and its copy found, with the node in it that was captured. */
static void try_child(void) {
  uint32_t made[2];
  int has_old = p_cuGraphAddChildGraphNode != NULL && p_cuGraphChildGraphNodeGetGraph != NULL;
  for (int is_generic = has_old ? 0 : 1; is_generic < 2; is_generic += 1) {
    CUgraphNode captured, node, within;
    CUgraphExec exec;
    CUgraph child = capture(KERNEL, plain, &captured), graph, copy;
    CUgraphNodeParams now;
    memset(&now, 0, sizeof now);
    now.type = CU_GRAPH_NODE_TYPE_GRAPH;
    now.graph.graph = child;
    TRY(p_cuStreamBeginCapture_v2(plain, CU_STREAM_CAPTURE_MODE_RELAXED));
    TRY(p_cuStreamEndCapture(plain, &graph));
    if (is_generic) TRY(p_cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &now));
    else TRY(p_cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
    if (p_cuGraphNodeGetParams != NULL) {
      TRY(p_cuGraphNodeGetParams(node, &now));
      copy = now.graph.graph;
    }
    if (p_cuGraphChildGraphNodeGetGraph != NULL) TRY(p_cuGraphChildGraphNodeGetGraph(node, &copy));
    if (is_generic && (p_cuGraphNodeGetParams == NULL || p_cuGraphChildGraphNodeGetGraph == NULL))
      say("a graph within a graph, read", "not there");
    else if (is_generic)
      compare("a graph within a graph, read", now.type == CU_GRAPH_NODE_TYPE_GRAPH && now.graph.graph == copy);
    TRY(p_cuGraphNodeFindInClone(&within, captured, copy));
    TRY(p_cuGraphDestroy(child));
    reset();
    TRY(p_cuGraphInstantiateWithFlags(&exec, graph, 0));
    TRY(p_cuGraphLaunch(exec, plain));
    TRY(p_cuStreamSynchronize(plain));
    made[is_generic] = *first;
    TRY(p_cuGraphExecDestroy(exec));
    TRY(p_cuGraphDestroy(graph));
  }
  if (made[1] != 1) say("a graph within a graph, added", "wrong");
  else if (!has_old) say("a graph within a graph, added", "not there");
  else compare("a graph within a graph, added", made[0] == made[1]);
}

static void make_green(CUdevice device) {
  /* CUdevResource has 144 bytes, and is of this type first. */
  static uint64_t all[18], part[18], rest[18];
  unsigned groups = 1;
  void *description, *made;
  TRY(p_cuDeviceGetDevResource(device, all, 1));
  TRY(p_cuDevSmResourceSplitByCount(part, &groups, all, rest, 0, 8));
  TRY(p_cuDevResourceGenerateDesc(&description, part, 1));
  TRY(p_cuGreenCtxCreate(&made, description, device, 1));
  TRY(p_cuGreenCtxStreamCreate(&in_green, made, 1, 0));
  TRY(p_cuCtxFromGreenCtx(&green, made));
}

int main(int argc, char **argv) {
  void *library = dlopen(argc > 1 ? argv[1] : "libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
#define X(type, name, parameters) *(void **)&p_##name = dlsym(library, #name);
  FUNCTIONS(X)
#undef X
  int version = 0;
  CUdevice device;
  CUmodule module;
  uint32_t *memory;
  TRY(p_cuInit(0));
  TRY(p_cuDriverGetVersion(&version));
  printf("CUDA %d.%d\n", version / 1000, version % 1000 / 10);
  TRY(p_cuDeviceGet(&device, 0));
  TRY(p_cuDevicePrimaryCtxRetain(&context, device));
  TRY(p_cuCtxSetCurrent(context));
  TRY(p_cuStreamCreateWithPriority(&plain, CU_STREAM_NON_BLOCKING, 0));
  TRY(p_cuMemHostAlloc((void **)&memory, 4 * BYTES, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  first = memory, second = memory + WORDS, third = memory + 2 * WORDS, fourth = memory + 3 * WORDS;
  TRY(p_cuModuleLoadData(&module, CODE));
  TRY(p_cuModuleGetFunction(&add, module, "add"));
  make_green(device);
  for (enum kind kind = KERNEL; kind <= FILL; kind += 1) {
    try_read(kind);
    try_update(kind, plain, context, "");
    try_update(kind, in_green, green, " in a green context");
  }
  try_operations();
  try_child();
  return differences > 0;
}

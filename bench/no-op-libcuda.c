/*
 * A libcuda that does nothing: what a call costs over it is the library's own share, on a machine without a GPU, and without
 * the noise of a driver. `npm run bench -- --no-op` compiles it and measures the rows of calls.
 *
 * Streams and events are numbers that are readable memory. A stream waits for a word of memory, and nothing else: what is queued
 * behind that wait is as far as it is.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int Result;
typedef struct { volatile uint32_t *word; uint32_t value; void *next; uint64_t rest[5]; } Thing;
typedef struct { uint32_t kind; uint64_t address; uint64_t value; uint32_t flags; uint32_t unused; uint64_t rest[2]; } MemOp;

enum { NOT_INITIALIZED = 3, NOT_READY = 600, WAIT_VALUE = 1, WRITE_VALUE = 2, CHUNK = 1024 };

static Thing context[1], *unused;
static int started;
static void *current;

static Thing *make(void) {
  if (!unused) {
    Thing *chunk = calloc(CHUNK, sizeof *chunk);
    for (int i = CHUNK; i-- > 0;) { chunk[i].next = unused; unused = &chunk[i]; }
  }
  Thing *made = unused;
  unused = made->next;
  made->word = 0;
  made->rest[0] = 1;
  return made;
}
static Result drop(Thing *thing) { thing->next = unused; unused = thing; return 0; }
static Result query(Thing *thing) { return thing->word && (int32_t)(*thing->word - thing->value) < 0 ? NOT_READY : 0; }
static Result synchronize(Thing *thing) { while (query(thing)); return 0; }
/* The default streams are 0, 1 and 2. */
static int isDefault(Thing *stream) { return (uintptr_t)stream < 3; }

/* Functions of signatures.ts that are not here do nothing and return success. These do so too: versions that are compared may call them. */
#define NOTHING(name) Result name(void) { return 0; }
NOTHING(cuLaunchKernel) NOTHING(cuGraphBatchMemOpNodeSetParams) NOTHING(cuGraphAddChildGraphNode)
NOTHING(cuGraphExecKernelNodeSetParams_v2) NOTHING(cuGraphExecMemcpyNodeSetParams) NOTHING(cuGraphExecMemsetNodeSetParams)

Result cuInit(unsigned flags) { (void)flags; started = 1; return 0; }
Result cuDriverGetVersion(int *version) { *version = 13000; return 0; }
Result cuDeviceGetCount(int *count) { *count = 1; return started ? 0 : NOT_INITIALIZED; }
Result cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
Result cuDeviceGetName(char *name, int length, int device) { (void)device; snprintf(name, length, "No GPU, and a driver that does nothing"); return 0; }
Result cuDeviceGetUuid_v2(void *uuid, int device) { memset(uuid, 7 + device, 16); return 0; }
Result cuDeviceGetAttribute(int *value, int attribute, int device) { (void)device; *value = attribute == 16 ? 132 : attribute < 5 ? 1024 : attribute == 75 ? 9 : attribute < 11 ? 65535 : 1; return 0; }
Result cuDeviceCanAccessPeer(int *can, int a, int b) { (void)a; (void)b; *can = 0; return 0; }
Result cuDevicePrimaryCtxRetain(void **made, int device) { (void)device; *made = context; return 0; }
Result cuCtxGetCurrent(void **is) { *is = current; return 0; }
Result cuCtxSetCurrent(void *is) { current = is; return 0; }
Result cuCtxGetDevice(int *device) { *device = 0; return 0; }
Result cuCtxGetLimit(size_t *value, int limit) { (void)limit; *value = 1024; return 0; }
Result cuCtxGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return 0; }

Result cuStreamCreate(Thing **made, unsigned flags) { (void)flags; *made = make(); return 0; }
Result cuStreamCreateWithPriority(Thing **made, unsigned flags, int priority) { (void)priority; return cuStreamCreate(made, flags); }
Result cuStreamDestroy_v2(Thing *stream) { return drop(stream); }
Result cuStreamGetCtx(Thing *stream, void **is) { (void)stream; *is = context; return 0; }
Result cuStreamGetCtx_v2(Thing *stream, void **is, void **green) { *green = NULL; return cuStreamGetCtx(stream, is); }
Result cuStreamGetId(Thing *stream, uint64_t *id) { *id = (uint64_t)stream; return 0; }
Result cuStreamGetFlags(Thing *stream, unsigned *flags) { *flags = !isDefault(stream); return 0; }
Result cuStreamGetPriority(Thing *stream, int *priority) { (void)stream; *priority = 0; return 0; }
Result cuStreamIsCapturing(Thing *stream, int *status) { (void)stream; *status = 0; return 0; }
Result cuStreamGetCaptureInfo_v3(Thing *stream, int *status) { return cuStreamIsCapturing(stream, status); }
Result cuStreamQuery(Thing *stream) { return isDefault(stream) ? 0 : query(stream); }
Result cuStreamSynchronize(Thing *stream) { return isDefault(stream) ? 0 : synchronize(stream); }
Result cuStreamWaitEvent(Thing *stream, Thing *event, unsigned flags) { (void)stream; (void)event; (void)flags; return 0; }
Result cuStreamWaitValue32_v2(Thing *stream, uint64_t address, uint32_t value, unsigned flags) {
  (void)flags;
  stream->word = (uint32_t *)address;
  stream->value = value;
  return 0;
}
Result cuStreamBatchMemOp_v2(Thing *stream, unsigned count, const MemOp *ops, unsigned flags) {
  (void)flags;
  for (unsigned i = 0; i < count; i++) {
    if (ops[i].kind == WRITE_VALUE) *(volatile uint32_t *)ops[i].address = (uint32_t)ops[i].value;
    else if (ops[i].kind == WAIT_VALUE && !isDefault(stream)) cuStreamWaitValue32_v2(stream, ops[i].address, (uint32_t)ops[i].value, 0);
  }
  return 0;
}
/* A graph has a node for each kernel that was launched since its capture began. */
static uint64_t launched, before;
Result cuLaunchKernelEx(const void *config, uintptr_t function, void **parameters, void **extra) { (void)config; (void)function; (void)parameters; (void)extra; launched++; return 0; }
Result cuStreamBeginCapture_v2(Thing *stream, int mode) { (void)stream; (void)mode; before = launched; return 0; }
Result cuStreamEndCapture(Thing *stream, Thing **graph) { (void)stream; *graph = make(); (*graph)->rest[1] = launched - before; return 0; }
Result cuLaunchHostFunc(Thing *stream, void (*function)(void *), void *data) { (void)stream; function(data); return 0; }

Result cuGraphGetNodes(Thing *graph, void **nodes, size_t *count) {
  if (!nodes) *count = graph->rest[1];
  else for (size_t i = 0; i < *count; i++) nodes[i] = make();
  return 0;
}
Result cuGraphInstantiateWithFlags(Thing **made, Thing *graph, uint64_t flags) { (void)graph; (void)flags; *made = make(); return 0; }

Result cuEventCreate(Thing **made, unsigned flags) { (void)flags; *made = make(); return 0; }
Result cuEventDestroy_v2(Thing *event) { return drop(event); }
Result cuEventRecord(Thing *event, Thing *stream) {
  event->word = isDefault(stream) ? 0 : stream->word;
  event->value = isDefault(stream) ? 0 : stream->value;
  return 0;
}
Result cuEventRecordWithFlags(Thing *event, Thing *stream, unsigned flags) { (void)flags; return cuEventRecord(event, stream); }
Result cuEventQuery(Thing *event) { return query(event); }
Result cuEventSynchronize(Thing *event) { return synchronize(event); }
Result cuEventElapsedTime(float *milliseconds, Thing *start, Thing *end) { (void)start; (void)end; *milliseconds = 0; return 0; }

Result cuModuleLoadData(Thing **made, const void *image) { (void)image; *made = make(); return 0; }
/* The functions of the bench by the number of their arguments, and that of its server by 3: a pointer and two numbers. */
Result cuModuleGetFunction(uintptr_t *made, Thing *module, const char *name) { (void)module; *made = strcmp(name, "four") == 0 ? 4 : strcmp(name, "scale") == 0 ? 3 : strcmp(name, "spin") == 0; return 0; }
Result cuModuleGetGlobal_v2(uintptr_t *pointer, size_t *bytes, Thing *module, const char *name) { (void)module; (void)name; *pointer = 4096; *bytes = 4; return 0; }
Result cuFuncGetParamInfo(uintptr_t function, size_t index, size_t *offset, size_t *size) {
  static const size_t sizes[] = { 8, 8, 4, 4 }, offsets[] = { 0, 8, 16, 20 };
  if (index >= function) return 1;
  if (function == 3 && index > 0) { *offset = 4 + 4 * index; *size = 4; return 0; }
  *offset = offsets[index];
  *size = sizes[index];
  return 0;
}
Result cuFuncGetAttribute(int *value, int attribute, uintptr_t function) { (void)attribute; (void)function; *value = 1024; return 0; }
Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks) { *blocks = 1; return 0; }

Result cuMemHostAlloc(void **made, size_t bytes, unsigned flags) { (void)flags; *made = aligned_alloc(4096, (bytes + 4095) & ~(size_t)4095); if (*made) memset(*made, 0, bytes); return *made ? 0 : 2; }
Result cuMemFreeHost(void *memory) { free(memory); return 0; }
Result cuMemAlloc_v2(void **made, size_t bytes) { *made = malloc(bytes); return *made ? 0 : 2; }
Result cuMemFree_v2(void *memory) { free(memory); return 0; }
Result cuMemAllocAsync(void **made, size_t bytes, Thing *stream) { (void)stream; return cuMemAlloc_v2(made, bytes); }
Result cuMemFreeAsync(void *memory, Thing *stream) { (void)stream; free(memory); return 0; }
Result cuDeviceGetDefaultMemPool(Thing **pool, int device) { (void)device; *pool = make(); return 0; }
Result cuDeviceGetMemPool(Thing **pool, int device) { return cuDeviceGetDefaultMemPool(pool, device); }
Result cuMemPoolCreate(Thing **pool, const void *properties) { (void)properties; *pool = make(); return 0; }
Result cuMemPoolGetAttribute(Thing *pool, int attribute, uint64_t *value) { (void)pool; (void)attribute; *value = 1; return 0; }
Result cuMemAllocFromPoolAsync(void **made, size_t bytes, Thing *pool, Thing *stream) { (void)pool; return cuMemAllocAsync(made, bytes, stream); }
Result cuMemGetInfo_v2(size_t *unused, size_t *total) { *unused = *total = (size_t)1 << 36; return 0; }
Result cuMemGetAddressRange_v2(uint64_t *base, size_t *size, uint64_t pointer) { *base = pointer; *size = 0; return 0; }
Result cuPointerGetAttribute(void *data, int attribute, uint64_t pointer) { (void)data; (void)attribute; (void)pointer; return 1; }

/*
 * What may each driver function wait for? This program tries it on a real GPU: it makes every call of the ledger
 * (src/cuda/libcuda/signatures.ts) while a stream stands at a semaphore, which is a wait for a word of pinned memory, and tells
 * whether the call returned. Then it tries which calls of a second thread are held up while a first one is inside a call
 * that waits. It needs CUDA's header, and finds libcuda.so.1 itself:
 *
 *   gcc -O1 -I/usr/local/cuda/include tests/gpu-facts/blocking.c -o /tmp/blocking -ldl -lpthread
 *   /tmp/blocking > blocking.tsv                       one GPU, about a minute
 *   /tmp/blocking --devices 2 --seconds 300 > blocking.tsv    two GPUs: also semaphores of the other one, and memory of it
 *   node scripts/blocking-table.mjs blocking.tsv       writes the table of docs/internals/cuda-facts.md
 *
 *   --only WORD        the groups whose name contains it        --jobs N       processes at one time (6)
 *   --list             names the groups                         --seconds N    gives up after so long (95)
 *   --lib PATH         another libcuda                          --limit-ms N   a call that takes longer waits (300)
 *
 * Each group of tests runs in a process of its own. What it writes, one line a test, fields between tabs:
 *
 *   table     "calls", "copies" (also of functions that are not in the ledger), "locks", or "about"
 *   function  the ledger's name; in "locks" the one that the first thread is inside of
 *   variant   what it was called with
 *   semaphore where the semaphore is and what stream the call is on, as "gated>call": nb, bl (non-blocking, blocking stream),
 *             null, pt (the null and the per-thread stream), graph (a semaphore inside a graph), dev1 (a stream of device 1), own
 *             (the call's own stream); "none" where there is no semaphore; in "locks" the second thread's call
 *   outcome   "returns"; "waits": only once the semaphore is open; in "locks" "held"; "stuck": not even then; "crashed"
 *             (the process died); "failed": could not be tried
 *   result    the CUresult
 *   time      microseconds that the call took
 *   note      what else was seen
 *
 * Exit status 0: everything was tried. 1: not everything. 2: wrong arguments, or no GPU.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- libcuda ---------------------------------------------------------------------------------------------------- */

#define NAME(name) NAME_(name)
#define NAME_(name) #name

/* By the header's names, which stand for the newest version of each. */
/* They are in cudaProfiler.h, which not every installation has. */
extern CUresult cuProfilerStart(void);
extern CUresult cuProfilerStop(void);
#define FUNCTIONS(X)                                                                                                    \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorName) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName)               \
  X(cuDeviceGetPCIBusId)                                                                                                \
  X(cuDeviceGetAttribute) X(cuDeviceCanAccessPeer) X(cuDeviceGetDefaultMemPool) X(cuCtxEnablePeerAccess)                \
  X(cuCtxDisablePeerAccess) X(cuMemPoolSetAccess) X(cuMemPoolTrimTo) X(cuDevicePrimaryCtxRetain)                        \
  X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxSetFlags) X(cuCtxGetCurrent) X(cuCtxSetCurrent) X(cuCtxGetDevice)    \
  X(cuCtxSynchronize) X(cuCtxRecordEvent) X(cuCtxGetStreamPriorityRange) X(cuStreamCreateWithPriority)                  \
  X(cuStreamDestroy) X(cuStreamGetCtx_v2) X(cuStreamGetId) X(cuStreamGetFlags) X(cuStreamGetPriority)                      \
  X(cuStreamSetAttribute) X(cuStreamCopyAttributes) X(cuProfilerStart) X(cuProfilerStop) X(cuFuncGetModule)                                                                                               \
  X(cuStreamIsCapturing) X(cuStreamQuery) X(cuStreamSynchronize) X(cuStreamWaitEvent) X(cuStreamBatchMemOp)             \
  X(cuStreamBeginCapture) X(cuStreamEndCapture) X(cuGraphCreate) X(cuGraphAddMemcpyNode) X(cuGraphGetNodes)             \
  X(cuGraphDebugDotPrint) X(cuGraphDestroy) X(cuGraphInstantiateWithFlags) X(cuGraphNodeSetParams) X(cuGraphConditionalHandleCreate) \
  X(cuStreamBeginCaptureToGraph) X(cuGraphChildGraphNodeGetGraph) X(cuGraphNodeFindInClone)                             \
  X(cuGraphNodeGetType) X(cuGraphKernelNodeGetParams) X(cuFuncGetName) X(cuGraphMemcpyNodeGetParams)                   \
  X(cuGraphMemsetNodeGetParams) X(cuGraphExecNodeSetParams) X(cuGraphNodeSetEnabled) X(cuGraphNodeGetEnabled)         \
  X(cuGraphExecUpdate) X(cuGraphUpload) X(cuGraphLaunch) X(cuGraphExecDestroy) X(cuThreadExchangeStreamCaptureMode)     \
  X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventRecordWithFlags) X(cuEventQuery) X(cuEventSynchronize)   \
  X(cuIpcGetEventHandle) X(cuIpcOpenEventHandle) X(cuIpcGetMemHandle) X(cuIpcOpenMemHandle) X(cuIpcCloseMemHandle)      \
  X(cuLinkCreate) X(cuLinkAddData) X(cuLinkComplete) X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuModuleEnumerateFunctions) \
  X(cuFuncGetAttribute) X(cuFuncSetAttribute) X(cuCtxGetLimit) X(cuCtxSetLimit) X(cuLaunchKernelEx) X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuMemGetInfo)              \
  X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemHostGetDevicePointer) X(cuMemAlloc) X(cuMemFree)       \
  X(cuMemGetAddressRange) X(cuMemAllocAsync) X(cuMemFreeAsync) X(cuMemcpyAsync) X(cuMemcpyPeerAsync)                    \
  X(cuDeviceGetDevResource) X(cuDevSmResourceSplitByCount) X(cuDevResourceGenerateDesc) X(cuGreenCtxCreate)            \
  X(cuGreenCtxDestroy) X(cuGreenCtxGetDevResource) X(cuGreenCtxStreamCreate) X(cuCtxFromGreenCtx)                       \
  X(cuMemcpyDtoH) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemcpyDtoDAsync) X(cuMemcpy2DAsync) X(cuMemcpy3DAsync)  \
  X(cuMemsetD8) X(cuMemsetD8Async) X(cuMemsetD16Async) X(cuMemsetD32Async) X(cuPointerGetAttribute)              \
  X(cuMemsetD2D8Async) X(cuMemsetD2D16Async) X(cuMemsetD2D32Async)                                                      \
  X(cuDeviceGetMemPool) X(cuMemPoolCreate) X(cuMemPoolDestroy) X(cuMemPoolGetAttribute) X(cuMemPoolSetAttribute)        \
  X(cuMemAllocFromPoolAsync)
#define X(name) static __typeof__(&name) p_##name;
FUNCTIONS(X)
#undef X

/* Of which headers differ. */
static CUresult (*p_cuEventElapsedTime)(float *, CUevent, CUevent);
static CUresult (*p_cuDeviceGetUuid_v2)(void *, CUdevice);
static CUresult (*p_cuStreamGetCaptureInfo_v3)(CUstream, int *, uint64_t *, CUgraph *, void *, void *, size_t *);
static CUresult (*p_cuGraphAddNode_v2)(CUgraphNode *, CUgraph, const CUgraphNode *, const void *, size_t, CUgraphNodeParams *);
/* Drivers before CUDA 13.2 have none. */
static CUresult (*p_cuGraphNodeGetParams)(CUgraphNode, CUgraphNodeParams *);
static CUresult (*p_cuGraphGetEdges_v2)(CUgraph, CUgraphNode *, CUgraphNode *, void *, size_t *);
static CUresult (*p_cuStreamUpdateCaptureDependencies_v2)(CUstream, CUgraphNode *, void *, size_t, unsigned);
static CUresult (*p_cuFuncGetParamInfo)(CUfunction, size_t, size_t *, size_t *);
static CUresult (*p_cuModuleGetGlobal_v2)(CUdeviceptr *, size_t *, CUmodule, const char *);
/* As CUDA 12.8 had it, which is what the library calls; the header has a newer one by this name. */
static CUresult (*p_cuLogsCurrent)(unsigned *, unsigned);
static CUresult (*p_cuLogsDumpToMemory)(unsigned *, char *, size_t *, unsigned);
static CUresult (*p_cuMemcpyBatchAsync_12)(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, void *, size_t *, size_t, size_t *, CUstream);

static void *find(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (found == NULL) fprintf(stderr, "libcuda has no %s\n", name);
  return found;
}

static void load_library(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
#define X(name) *(void **)&p_##name = find(library, NAME(name));
  FUNCTIONS(X)
#undef X
  *(void **)&p_cuEventElapsedTime = find(library, "cuEventElapsedTime");
  *(void **)&p_cuDeviceGetUuid_v2 = find(library, "cuDeviceGetUuid_v2");
  *(void **)&p_cuStreamGetCaptureInfo_v3 = find(library, "cuStreamGetCaptureInfo_v3");
  *(void **)&p_cuGraphAddNode_v2 = find(library, "cuGraphAddNode_v2");
  *(void **)&p_cuGraphNodeGetParams = dlsym(library, "cuGraphNodeGetParams");
  *(void **)&p_cuGraphGetEdges_v2 = find(library, "cuGraphGetEdges_v2");
  *(void **)&p_cuStreamUpdateCaptureDependencies_v2 = find(library, "cuStreamUpdateCaptureDependencies_v2");
  *(void **)&p_cuModuleGetGlobal_v2 = find(library, "cuModuleGetGlobal_v2");
  *(void **)&p_cuFuncGetParamInfo = find(library, "cuFuncGetParamInfo");
  *(void **)&p_cuLogsCurrent = dlsym(library, "cuLogsCurrent");
  *(void **)&p_cuLogsDumpToMemory = dlsym(library, "cuLogsDumpToMemory");
  *(void **)&p_cuMemcpyBatchAsync_12 = dlsym(library, "cuMemcpyBatchAsync");
}

/* ---- tests, and places of the semaphore ------------------------------------------------------------------------------- */

enum kind { NB, BL, NUL, PT, DEV1 };
enum place {
  NONE, OWN_NB, OWN_BL, OWN_NUL, OWN_PT, OWN_GRAPH,
  NB_NB, BL_BL, BL_NUL, NB_NUL, NUL_NB, NUL_BL, PT_NB, PT_NUL, GRAPH_NB, DEV1_NB, PLACES
};
static const struct {
  const char *of_stream, *of_call;
  enum kind call, gated;
  int own, graph;
} places[PLACES] = {
    [NONE] = {"none", "none", NB, NB, 0, 0},
    [OWN_NB] = {"own>nb", 0, NB, NB, 1, 0},
    [OWN_BL] = {"own>bl", 0, BL, BL, 1, 0},
    [OWN_NUL] = {"own>null", 0, NUL, NUL, 1, 0},
    [OWN_PT] = {"own>pt", 0, PT, PT, 1, 0},
    [OWN_GRAPH] = {"own,graph>nb", 0, NB, NB, 1, 1},
    [NB_NB] = {"nb>nb", "nb>-", NB, NB, 0, 0},
    [BL_BL] = {"bl>bl", "bl>-", BL, BL, 0, 0},
    [BL_NUL] = {"bl>null", 0, NUL, BL, 0, 0},
    [NB_NUL] = {"nb>null", 0, NUL, NB, 0, 0},
    [NUL_NB] = {"null>nb", "null>-", NB, NUL, 0, 0},
    [NUL_BL] = {"null>bl", 0, BL, NUL, 0, 0},
    [PT_NB] = {"pt>nb", "pt>-", NB, PT, 0, 0},
    [PT_NUL] = {"pt>null", 0, NUL, PT, 0, 0},
    [GRAPH_NB] = {"graph>nb", "graph>-", NB, NB, 0, 1},
    [DEV1_NB] = {"dev1>nb", "dev1>-", NB, DEV1, 0, 0},
};
#define AT(place) (1u << (place))
/* A call without a stream of its own. */
#define APART (AT(NONE) | AT(NB_NB) | AT(BL_BL) | AT(NUL_NB) | AT(PT_NB) | AT(GRAPH_NB) | AT(DEV1_NB))
#define EVERY (AT(PLACES) - 1)
#define FEW (AT(NONE) | AT(OWN_NB) | AT(NB_NB) | AT(OWN_NUL) | AT(NUL_BL) | AT(DEV1_NB))

enum { STREAM = 1, QUEUES = 2, ONCE = 4, TWO = 8, COPIES = 16, NO_PEER = 32 };

struct test;
typedef CUresult step(const struct test *);
struct test {
  const char *function, *variant;
  /* Before the semaphore stands; behind it; the call; once the semaphore is open; once all is done. */
  step *prepare, *queue, *call, *after, *done;
  /* STREAM: it has a stream of its own. QUEUES: it is tried with a full queue too. ONCE: what waits is not tried again.
     TWO: needs two devices. COPIES: belongs to the table of copies. NO_PEER: device 1 must not be in use. */
  int flags;
  unsigned where;
  long a, b, c;
  size_t size;
  const char *group;
  /* Milliseconds, where the call takes long even with no semaphore. */
  int limit;
};

/* ---- one process -------------------------------------------------------------------------------------------------- */

#define MOST 64
#define K64 ((size_t)64 << 10)
#define M1 ((size_t)1 << 20)
#define M64 ((size_t)64 << 20)
#define G4 ((size_t)4 << 30)
#define FULL_QUEUE 1010
#define CALLS_INTO_FULL_QUEUE 40

static int devices = 1, limit_ms = 300, jobs = 6, most_seconds = 95;
static const char *library_path = "libcuda.so.1";

static CUdevice device[2];
static CUcontext context[2];
/* The stream that the call is on, the one at the semaphore, and the second thread's. */
static CUstream S, G, B;
static enum place where;
static int S_gone;
static volatile uint32_t *word;
static CUdeviceptr some_memory;
static void *some_pinned;
static CUmodule module;
static CUfunction empty, shared, copier;
static CUgraphExec gate_graph;
static CUevent event[MOST], second_event;
static CUstream streams[MOST];
static CUdeviceptr pointers[MOST];
static void *hosts[MOST];
static CUmodule modules[MOST];
static CUfunction function;
static CUgraph graph;
static CUgraphExec instance[MOST];
static CUgraphNode node;
static void *cubin;
static char note[300];
/* How many times the call has been made in this try. */
static volatile int made;
static CUresult call_result;
static int out = 1;
static int partner_pipe = -1;
static struct {
  CUipcMemHandle memory;
  CUipcEventHandle event;
} partner;

#define TRY(call)                                  \
  do {                                             \
    CUresult tried_ = (call);                      \
    if (tried_ != CUDA_SUCCESS) return tried_;     \
  } while (0)

static long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000L + time.tv_nsec;
}

static void pause_us(long us) {
  struct timespec time = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&time, NULL);
}

static const char *result_name(CUresult result) {
  static char number[16];
  const char *name = NULL;
  if (p_cuGetErrorName != NULL && p_cuGetErrorName(result, &name) == CUDA_SUCCESS && name != NULL) return name;
  snprintf(number, sizeof number, "%d", (int)result);
  return number;
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (length >= (int)sizeof line) length = sizeof line - 1;
  if (write(out, line, (size_t)length) != length) _exit(4);
}

/* Adds to what the test's line says at its end. */
static void remark(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void remark(const char *format, ...) {
  size_t length = strlen(note);
  va_list arguments;
  if (length > 0) length += (size_t)snprintf(note + length, sizeof note - length, "; ");
  if (length >= sizeof note) return;
  va_start(arguments, format);
  vsnprintf(note + length, sizeof note - length, format, arguments);
  va_end(arguments);
}

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"
static const char *const PTX = HEAD
    ".extern .shared .align 4 .b8 dynamic[];\n"
    ".visible .entry empty() { ret; }\n"
    ".visible .entry shared_memory() {\n"
    "  .reg .b32 %r<2>;\n  mov.u32 %r1, 1;\n  st.shared.u32 [dynamic], %r1;\n  ret;\n}\n"
    ".visible .entry copier(.param .u64 p_to, .param .u64 p_from, .param .u64 p_bytes) {\n"
    "  .reg .pred %p<2>;\n  .reg .b32 %r<8>;\n  .reg .b64 %rd<12>;\n"
    "  ld.param.u64 %rd1, [p_to];\n  ld.param.u64 %rd2, [p_from];\n  ld.param.u64 %rd3, [p_bytes];\n"
    "  mov.u32 %r1, %ctaid.x;\n  mov.u32 %r2, %ntid.x;\n  mov.u32 %r3, %tid.x;\n  mad.lo.u32 %r4, %r1, %r2, %r3;\n"
    "  mov.u32 %r5, %nctaid.x;\n  mul.lo.u32 %r6, %r5, %r2;\n"
    "  mul.wide.u32 %rd4, %r4, 4;\n  mul.wide.u32 %rd5, %r6, 4;\n"
    "next:\n  setp.ge.u64 %p1, %rd4, %rd3;\n  @%p1 bra over;\n"
    "  add.u64 %rd6, %rd2, %rd4;\n  add.u64 %rd7, %rd1, %rd4;\n"
    "  ld.global.u32 %r7, [%rd6];\n  st.global.u32 [%rd7], %r7;\n"
    "  add.u64 %rd4, %rd4, %rd5;\n  bra next;\n"
    "over:\n  ret;\n}\n";
static const char *const FRESH = HEAD ".visible .global .align 4 .u32 number;\n.visible .entry fresh(.param .u64 p) { ret; }\n";
static const char *const BROKEN = HEAD ".visible .entry broken() { this is no instruction; }\n";
/* A kernel with so much memory of its own for each thread. Its address must stay unknown, or the compiler leaves it out. */
static const char *const LOCAL = HEAD
    ".visible .entry fresh(.param .u64 p) {\n"
    "  .local .align 4 .b8 own[%d];\n  .reg .pred %%p<2>;\n  .reg .b32 %%r<4>;\n  .reg .b64 %%rd<6>;\n"
    "  ld.param.u64 %%rd1, [p];\n  mov.u64 %%rd2, own;\n  and.b64 %%rd3, %%rd1, 1020;\n  add.u64 %%rd4, %%rd2, %%rd3;\n"
    "  mov.u32 %%r1, %%tid.x;\n  st.local.u32 [%%rd4], %%r1;\n  ld.local.u32 %%r2, [%%rd2+16];\n"
    "  setp.eq.u32 %%p1, %%r2, 12345;\n  @%%p1 st.global.u32 [%%rd1], %%r2;\n  ret;\n}\n";

static CUstreamBatchMemOpParams write_word(int index, uint32_t value) {
  CUstreamBatchMemOpParams op;
  memset(&op, 0, sizeof op);
  op.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  op.writeValue.address = (CUdeviceptr)(uintptr_t)(word + index);
  op.writeValue.value = value;
  return op;
}

static CUstreamBatchMemOpParams wait_for_word(int index, uint32_t value) {
  CUstreamBatchMemOpParams op;
  memset(&op, 0, sizeof op);
  op.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  op.waitValue.address = (CUdeviceptr)(uintptr_t)(word + index);
  op.waitValue.value = value;
  op.waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  return op;
}

enum { ARRIVED, GO, SCRATCH };

static CUresult queue_gate(CUstream stream) {
  CUstreamBatchMemOpParams ops[2] = {write_word(ARRIVED, 1), wait_for_word(GO, 1)};
  return p_cuStreamBatchMemOp(stream, 2, ops, 0);
}

static CUresult launch(CUfunction kernel, CUstream stream, unsigned bytes, int cooperative, unsigned blocks, void **parameters) {
  CUlaunchAttribute attribute;
  memset(&attribute, 0, sizeof attribute);
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  CUlaunchConfig config;
  memset(&config, 0, sizeof config);
  config.gridDimX = blocks;
  config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = 128;
  config.sharedMemBytes = bytes;
  config.hStream = stream;
  config.attrs = &attribute;
  config.numAttrs = cooperative ? 1 : 0;
  return p_cuLaunchKernelEx(&config, kernel, parameters, NULL);
}

static CUresult make_stream(CUstream *stream, enum kind kind) {
  switch (kind) {
    case NUL: *stream = NULL; return CUDA_SUCCESS;
    case PT: *stream = CU_STREAM_PER_THREAD; return CUDA_SUCCESS;
    case BL: return p_cuStreamCreateWithPriority(stream, CU_STREAM_DEFAULT, 0);
    case NB: return p_cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, 0);
    case DEV1: break;
  }
  TRY(p_cuCtxSetCurrent(context[1]));
  CUresult result = p_cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, 0);
  TRY(p_cuCtxSetCurrent(context[0]));
  return result;
}

static int is_made(enum kind kind) { return kind == NB || kind == BL || kind == DEV1; }

static CUresult begin_graph(CUstream *stream) {
  TRY(p_cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, 0));
  return p_cuStreamBeginCapture(*stream, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult end_graph(CUstream stream, CUgraph *made_graph) {
  TRY(p_cuStreamEndCapture(stream, made_graph));
  return p_cuStreamDestroy(stream);
}

static CUresult make_gate_graph(void) {
  CUstream stream;
  CUgraph captured;
  TRY(begin_graph(&stream));
  TRY(queue_gate(stream));
  TRY(end_graph(stream, &captured));
  TRY(p_cuGraphInstantiateWithFlags(&gate_graph, captured, 0));
  return p_cuGraphDestroy(captured);
}

static CUresult retain_other(void) {
  if (context[1] != NULL) return CUDA_SUCCESS;
  TRY(p_cuDeviceGet(&device[1], 1));
  return p_cuDevicePrimaryCtxRetain(&context[1], device[1]);
}

static CUresult open_device(const char *group) {
  TRY(p_cuInit(0));
  TRY(p_cuDeviceGet(&device[0], 0));
  if (strstr(group, "blocking-sync context")) TRY(p_cuDevicePrimaryCtxSetFlags(device[0], CU_CTX_SCHED_BLOCKING_SYNC));
  TRY(p_cuDevicePrimaryCtxRetain(&context[0], device[0]));
  TRY(p_cuCtxSetCurrent(context[0]));
  void *words;
  TRY(p_cuMemHostAlloc(&words, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  memset(words, 0, 4096);
  word = words;
  TRY(p_cuMemHostAlloc(&some_pinned, 1 << 20, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  TRY(p_cuMemAlloc(&some_memory, 1 << 20));
  TRY(p_cuModuleLoadData(&module, PTX));
  TRY(p_cuModuleGetFunction(&empty, module, "empty"));
  TRY(p_cuModuleGetFunction(&shared, module, "shared_memory"));
  TRY(p_cuModuleGetFunction(&copier, module, "copier"));
  TRY(launch(empty, NULL, 0, 0, 1, NULL));
  TRY(p_cuMemsetD8Async(some_memory, 0, 4, NULL));
  TRY(p_cuStreamCreateWithPriority(&B, CU_STREAM_NON_BLOCKING, 0));
  return p_cuCtxSynchronize();
}

/* ---- what the tests do: before, behind the semaphore, and after ---------------------------------------------------------- */

#define STEP(name) static CUresult name(const struct test *t)
#define UNUSED (void)t

STEP(make_event) { return p_cuEventCreate(&event[0], (unsigned)t->a); }
/* An event can be recorded on streams of its own context only. */
STEP(make_event_of_gated) {
  if (where != DEV1_NB) return make_event(t);
  TRY(p_cuCtxSetCurrent(context[1]));
  CUresult result = make_event(t);
  TRY(p_cuCtxSetCurrent(context[0]));
  return result;
}
STEP(make_event_done) {
  TRY(make_event(t));
  return p_cuEventRecord(event[0], S);
}
STEP(record) {
  UNUSED;
  return p_cuEventRecord(event[0], S);
}
STEP(record_on_gated) {
  UNUSED;
  return p_cuEventRecord(event[0], G);
}
STEP(drop_event) {
  UNUSED;
  CUevent dropped = event[0];
  event[0] = NULL;
  return p_cuEventDestroy(dropped);
}
STEP(make_two_events) {
  UNUSED;
  TRY(p_cuEventCreate(&second_event, 0));
  TRY(p_cuEventCreate(&event[0], 0));
  TRY(p_cuEventRecord(second_event, S));
  return p_cuEventRecord(event[0], S);
}
STEP(drop_two_events) {
  UNUSED;
  TRY(p_cuEventDestroy(second_event));
  return p_cuEventDestroy(event[0]);
}
STEP(make_events) {
  for (int i = 0; i < CALLS_INTO_FULL_QUEUE; i += 1) TRY(p_cuEventCreate(&event[i], (unsigned)t->a));
  return CUDA_SUCCESS;
}
STEP(drop_events) {
  UNUSED;
  for (int i = 0; i < CALLS_INTO_FULL_QUEUE; i += 1) TRY(p_cuEventDestroy(event[i]));
  return CUDA_SUCCESS;
}
STEP(drop_made_events) {
  UNUSED;
  for (int i = 0; i < made; i += 1) TRY(p_cuEventDestroy(event[i]));
  return CUDA_SUCCESS;
}

/* A graph of t->b empty kernels. */
STEP(make_graph) {
  CUstream stream;
  TRY(begin_graph(&stream));
  for (long i = 0; i < t->b; i += 1) TRY(launch(empty, stream, 0, 0, 1, NULL));
  return end_graph(stream, &graph);
}
STEP(drop_graph) {
  UNUSED;
  return p_cuGraphDestroy(graph);
}
STEP(make_instance) {
  TRY(make_graph(t));
  return p_cuGraphInstantiateWithFlags(&instance[0], graph, 0);
}
STEP(drop_instance) {
  UNUSED;
  TRY(p_cuGraphExecDestroy(instance[0]));
  return p_cuGraphDestroy(graph);
}
STEP(launch_instance) {
  UNUSED;
  return p_cuGraphLaunch(instance[0], S);
}
STEP(drop_made_instances) {
  for (int i = 0; i < made; i += 1) TRY(p_cuGraphExecDestroy(instance[i]));
  return drop_graph(t);
}
STEP(make_gate_in_graph) {
  UNUSED;
  CUstream stream;
  size_t count = 1;
  TRY(begin_graph(&stream));
  CUstreamBatchMemOpParams op = write_word(SCRATCH, 7);
  TRY(p_cuStreamBatchMemOp(stream, 1, &op, 0));
  TRY(end_graph(stream, &graph));
  return p_cuGraphGetNodes(graph, &node, &count);
}

/* `node` is the first of a graph with an instance: a kernel, a copy for t->a 1, a fill for 2. */
STEP(make_node) {
  CUstream stream;
  size_t count = 1;
  TRY(begin_graph(&stream));
  if (t->a == 1) TRY(p_cuMemcpyAsync(some_memory, (CUdeviceptr)some_pinned, 64, stream));
  if (t->a == 2) TRY(p_cuMemsetD8Async(some_memory, 1, 64, stream));
  for (long i = 0; i < t->b; i += 1) TRY(launch(empty, stream, 0, 0, 1, NULL));
  TRY(end_graph(stream, &graph));
  TRY(p_cuGraphGetNodes(graph, &node, &count));
  return p_cuGraphInstantiateWithFlags(&instance[0], graph, 0);
}
/* `node` is a graph of t->b kernels within another, `inner` its copy, `other` what it was made of. */
static CUgraph other, inner;
static CUgraphNode original;
static CUresult add_child(void) {
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
  parameters.graph.graph = other;
  return p_cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &parameters);
}
STEP(make_child) {
  size_t count = 1;
  TRY(make_graph(t));
  other = graph;
  TRY(p_cuGraphGetNodes(other, &original, &count));
  TRY(p_cuGraphCreate(&graph, 0));
  TRY(add_child());
  return p_cuGraphChildGraphNodeGetGraph(node, &inner);
}
STEP(drop_child) {
  UNUSED;
  TRY(p_cuGraphDestroy(other));
  return p_cuGraphDestroy(graph);
}

STEP(load_fresh) {
  UNUSED;
  TRY(p_cuModuleLoadData(&modules[0], FRESH));
  return p_cuModuleGetFunction(&function, modules[0], "fresh");
}
STEP(load_fresh_only) {
  UNUSED;
  return p_cuModuleLoadData(&modules[0], FRESH);
}
/* The driver enlarges the context's memory for threads only when a kernel needs more than any before. */
STEP(load_local) {
  UNUSED;
  static int times;
  char text[2048];
  snprintf(text, sizeof text, LOCAL, 2048 * ++times);
  TRY(p_cuModuleLoadData(&modules[0], text));
  return p_cuModuleGetFunction(&function, modules[0], "fresh");
}
STEP(launch_fresh) {
  UNUSED;
  void *parameters[] = {&some_memory};
  return launch(function, S, 0, 0, 1, parameters);
}
STEP(load_and_launch) {
  TRY(load_fresh(t));
  return launch_fresh(t);
}
STEP(drop_fresh) {
  UNUSED;
  return p_cuModuleUnload(modules[0]);
}
STEP(drop_made_modules) {
  UNUSED;
  for (int i = 0; i < made; i += 1) {
    if (modules[i] != NULL) p_cuModuleUnload(modules[i]);
  }
  return CUDA_SUCCESS;
}
STEP(make_cubin) {
  UNUSED;
  if (cubin != NULL) return CUDA_SUCCESS;
  CUlinkState state;
  size_t length;
  TRY(p_cuLinkCreate(0, NULL, NULL, &state));
  TRY(p_cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)FRESH, strlen(FRESH) + 1, "fresh", 0, NULL, NULL));
  return p_cuLinkComplete(state, &cubin, &length);
}
STEP(allow_shared) {
  UNUSED;
  return p_cuFuncSetAttribute(shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 96 * 1024);
}

static CUresult pool_of(int ordinal, CUmemoryPool *pool) { return p_cuDeviceGetDefaultMemPool(pool, device[ordinal]); }
STEP(trim) {
  UNUSED;
  CUmemoryPool pool;
  TRY(p_cuCtxSynchronize());
  TRY(pool_of(0, &pool));
  return p_cuMemPoolTrimTo(pool, 0);
}
STEP(drop_allocated_async) {
  for (int i = 0; i < made; i += 1) {
    if (pointers[i] != 0) p_cuMemFreeAsync(pointers[i], NULL);
    pointers[i] = 0;
  }
  return trim(t);
}
STEP(allocate_and_free_behind) {
  UNUSED;
  CUdeviceptr pointer;
  TRY(p_cuMemAllocAsync(&pointer, t->size, G));
  return p_cuMemFreeAsync(pointer, G);
}
STEP(allocate_many_async) {
  for (int i = 0; i < CALLS_INTO_FULL_QUEUE; i += 1) TRY(p_cuMemAllocAsync(&pointers[i], t->size, NULL));
  return CUDA_SUCCESS;
}
STEP(drop_rest_async) {
  for (int i = made; i < CALLS_INTO_FULL_QUEUE; i += 1) TRY(p_cuMemFreeAsync(pointers[i], NULL));
  memset(pointers, 0, sizeof pointers);
  return trim(t);
}
STEP(allocate_device) { return p_cuMemAlloc(&pointers[0], t->size); }
STEP(allocate_many_device) {
  for (int i = 0; i < CALLS_INTO_FULL_QUEUE; i += 1) TRY(p_cuMemAlloc(&pointers[i], t->size));
  return CUDA_SUCCESS;
}
STEP(drop_rest_device) {
  UNUSED;
  for (int i = made; i < CALLS_INTO_FULL_QUEUE; i += 1) TRY(p_cuMemFree(pointers[i]));
  memset(pointers, 0, sizeof pointers);
  return CUDA_SUCCESS;
}
STEP(fill_device_on_gated) { return p_cuMemsetD8Async(pointers[0], 1, t->size, G); }
STEP(allocate_one_async) {
  TRY(p_cuMemAllocAsync(&pointers[0], t->size, NULL));
  return p_cuCtxSynchronize();
}
STEP(drop_device) {
  UNUSED;
  if (pointers[0] != 0) p_cuMemFree(pointers[0]);
  pointers[0] = 0;
  return CUDA_SUCCESS;
}
STEP(allocate_pinned) {
  return p_cuMemHostAlloc(&hosts[0], t->size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
}
STEP(fill_pinned_on_gated) { return p_cuMemcpyDtoHAsync(hosts[0], some_memory, t->size, G); }
STEP(drop_pinned) {
  UNUSED;
  if (hosts[0] != NULL) p_cuMemFreeHost(hosts[0]);
  hosts[0] = NULL;
  return CUDA_SUCCESS;
}

/* ---- the calls ------------------------------------------------------------------------------------------------------- */

STEP(c_init) {
  UNUSED;
  return p_cuInit(0);
}
STEP(c_version) {
  UNUSED;
  int version;
  return p_cuDriverGetVersion(&version);
}
STEP(c_count) {
  UNUSED;
  int count;
  return p_cuDeviceGetCount(&count);
}
STEP(c_device) {
  UNUSED;
  CUdevice got;
  return p_cuDeviceGet(&got, 0);
}
STEP(c_device_name) {
  UNUSED;
  char name[100];
  return p_cuDeviceGetName(name, sizeof name, device[0]);
}
STEP(c_uuid) {
  UNUSED;
  char uuid[16];
  return p_cuDeviceGetUuid_v2(uuid, device[0]);
}
STEP(c_pci_bus_id) {
  UNUSED;
  char id[32];
  return p_cuDeviceGetPCIBusId(id, sizeof id, device[0]);
}
STEP(c_attribute) {
  int value;
  return p_cuDeviceGetAttribute(&value, (CUdevice_attribute)t->a, device[0]);
}
STEP(c_can_access) {
  UNUSED;
  int can;
  return p_cuDeviceCanAccessPeer(&can, device[0], device[devices - 1]);
}
STEP(p_other) {
  UNUSED;
  return retain_other();
}
STEP(c_enable_peer) {
  UNUSED;
  return p_cuCtxEnablePeerAccess(context[1], 0);
}
STEP(c_enable_self) {
  UNUSED;
  return p_cuCtxEnablePeerAccess(context[0], 0);
}
STEP(d_disable_peer) {
  UNUSED;
  return p_cuCtxDisablePeerAccess(context[1]);
}
static CUresult set_access(int ordinal, CUmemAccess_flags flags) {
  CUmemoryPool pool;
  CUmemAccessDesc access;
  memset(&access, 0, sizeof access);
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = ordinal;
  access.flags = flags;
  TRY(pool_of(0, &pool));
  return p_cuMemPoolSetAccess(pool, &access, 1);
}
STEP(c_pool_access) { return set_access((int)t->a, CU_MEM_ACCESS_FLAGS_PROT_READWRITE); }
STEP(d_pool_access) { return t->a == 0 ? CUDA_SUCCESS : set_access((int)t->a, CU_MEM_ACCESS_FLAGS_PROT_NONE); }
STEP(p_some_pool_memory) {
  UNUSED;
  TRY(retain_other());
  TRY(p_cuMemAllocAsync(&pointers[0], 64 << 20, NULL));
  return p_cuCtxSynchronize();
}
STEP(d_some_pool_memory) {
  TRY(d_pool_access(t));
  TRY(p_cuMemFreeAsync(pointers[0], NULL));
  return trim(t);
}
STEP(c_retain) {
  CUcontext got;
  CUdevice of;
  TRY(p_cuDeviceGet(&of, (int)t->a));
  return p_cuDevicePrimaryCtxRetain(&got, of);
}
STEP(d_release) {
  CUdevice of;
  TRY(p_cuDeviceGet(&of, (int)t->a));
  return p_cuDevicePrimaryCtxRelease(of);
}
STEP(c_get_current) {
  UNUSED;
  CUcontext got;
  return p_cuCtxGetCurrent(&got);
}
STEP(c_set_current) {
  UNUSED;
  return p_cuCtxSetCurrent(context[0]);
}
STEP(c_set_other) {
  UNUSED;
  TRY(p_cuCtxSetCurrent(context[1]));
  return p_cuCtxSetCurrent(context[0]);
}
STEP(c_context_device) {
  UNUSED;
  CUdevice got;
  return p_cuCtxGetDevice(&got);
}
STEP(c_context_synchronize) {
  UNUSED;
  return p_cuCtxSynchronize();
}
STEP(c_context_record) {
  UNUSED;
  return p_cuCtxRecordEvent(context[0], event[made]);
}
STEP(c_priorities) {
  UNUSED;
  int least, greatest;
  return p_cuCtxGetStreamPriorityRange(&least, &greatest);
}
STEP(c_stream_create) {
  for (long i = 0; i < t->b; i += 1) TRY(p_cuStreamCreateWithPriority(&streams[i], (unsigned)t->a, (int)t->c));
  return CUDA_SUCCESS;
}
STEP(d_streams) {
  for (long i = 0; i < t->b; i += 1) TRY(p_cuStreamDestroy(streams[i]));
  return CUDA_SUCCESS;
}
STEP(p_streams) { return c_stream_create(t); }
STEP(c_streams_destroy) {
  for (long i = 0; i < t->b; i += 1) TRY(p_cuStreamDestroy(streams[i]));
  return CUDA_SUCCESS;
}
STEP(c_stream_destroy) {
  UNUSED;
  CUresult result = p_cuStreamDestroy(S);
  S_gone = result == CUDA_SUCCESS;
  return result;
}
STEP(c_stream_context) {
  UNUSED;
  CUcontext got;
  CUgreenCtx green;
  return p_cuStreamGetCtx_v2(S, &got, &green);
}

/* ---- green contexts */

static CUdevResource all_multiprocessors, groups[16], rest;
static CUdevResourceDesc description;
static CUgreenCtx green_context;

STEP(c_get_resource) {
  UNUSED;
  return p_cuDeviceGetDevResource(device[0], &all_multiprocessors, CU_DEV_RESOURCE_TYPE_SM);
}
STEP(c_split) {
  unsigned count = 2;
  (void)t;
  return p_cuDevSmResourceSplitByCount(groups, &count, &all_multiprocessors, &rest, 0, 8);
}
STEP(c_describe) {
  UNUSED;
  return p_cuDevResourceGenerateDesc(&description, groups, 2);
}
STEP(c_green_create) {
  UNUSED;
  return p_cuGreenCtxCreate(&green_context, description, device[0], CU_GREEN_CTX_DEFAULT_STREAM);
}
STEP(c_green_destroy) {
  UNUSED;
  return p_cuGreenCtxDestroy(green_context);
}
STEP(c_green_resource) {
  UNUSED;
  return p_cuGreenCtxGetDevResource(green_context, &rest, CU_DEV_RESOURCE_TYPE_SM);
}
STEP(c_from_green) {
  UNUSED;
  CUcontext got;
  return p_cuCtxFromGreenCtx(&got, green_context);
}
STEP(c_green_stream) {
  for (long i = 0; i < t->b; i += 1) TRY(p_cuGreenCtxStreamCreate(&streams[i], green_context, CU_STREAM_NON_BLOCKING, 0));
  return CUDA_SUCCESS;
}
STEP(p_resource) { return c_get_resource(t); }
STEP(p_groups) {
  TRY(c_get_resource(t));
  return c_split(t);
}
STEP(p_description) {
  TRY(p_groups(t));
  return c_describe(t);
}
STEP(p_green) {
  TRY(p_description(t));
  return c_green_create(t);
}
STEP(d_green) { return c_green_destroy(t); }
STEP(d_green_streams) {
  for (long i = 0; i < t->b; i += 1) p_cuStreamDestroy(streams[i]);
  return c_green_destroy(t);
}
STEP(c_stream_id) {
  UNUSED;
  unsigned long long id;
  return p_cuStreamGetId(S, &id);
}
STEP(c_stream_flags) {
  UNUSED;
  unsigned flags;
  return p_cuStreamGetFlags(S, &flags);
}
STEP(c_stream_priority) {
  UNUSED;
  int priority;
  return p_cuStreamGetPriority(S, &priority);
}
STEP(c_copy_attributes) {
  UNUSED;
  return p_cuStreamCopyAttributes(streams[0], S);
}
STEP(c_profiler_start) {
  UNUSED;
  return p_cuProfilerStart();
}
STEP(c_profiler_stop) {
  UNUSED;
  return p_cuProfilerStop();
}
STEP(c_stream_attribute) {
  UNUSED;
  CUstreamAttrValue value = {0};
  value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
  return p_cuStreamSetAttribute(S, CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, &value);
}
STEP(c_is_capturing) {
  UNUSED;
  CUstreamCaptureStatus status;
  return p_cuStreamIsCapturing(S, &status);
}
STEP(c_stream_query) {
  UNUSED;
  return p_cuStreamQuery(S);
}
STEP(c_stream_synchronize) {
  UNUSED;
  return p_cuStreamSynchronize(S);
}
STEP(c_wait_event) {
  UNUSED;
  return p_cuStreamWaitEvent(S, event[0], 0);
}
STEP(c_batch) {
  CUstreamBatchMemOpParams ops[2] = {write_word(SCRATCH, 1), wait_for_word(SCRATCH, 1)};
  return p_cuStreamBatchMemOp(S, (unsigned)t->a, ops, 0);
}
STEP(c_begin_capture) { return p_cuStreamBeginCapture(S, (CUstreamCaptureMode)t->a); }
STEP(a_end_capture) {
  UNUSED;
  p_cuStreamEndCapture(S, &graph);
  if (graph != NULL) p_cuGraphDestroy(graph);
  graph = NULL;
  return CUDA_SUCCESS;
}
STEP(q_capture) {
  p_cuStreamBeginCapture(S, (CUstreamCaptureMode)t->a);
  launch(empty, S, 0, 0, 1, NULL);
  return CUDA_SUCCESS;
}
STEP(c_end_capture) {
  UNUSED;
  graph = NULL;
  return p_cuStreamEndCapture(S, &graph);
}
STEP(a_captured) {
  UNUSED;
  if (graph != NULL) p_cuGraphDestroy(graph);
  graph = NULL;
  return CUDA_SUCCESS;
}
STEP(c_capture_info) {
  UNUSED;
  int status;
  uint64_t id;
  return p_cuStreamGetCaptureInfo_v3(S, &status, &id, NULL, NULL, NULL, NULL);
}
STEP(c_graph_nodes) {
  UNUSED;
  size_t count = 0;
  return p_cuGraphGetNodes(graph, NULL, &count);
}
STEP(c_edges) {
  UNUSED;
  size_t count = 0;
  return p_cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &count);
}
STEP(c_node_type) {
  UNUSED;
  CUgraphNodeType type;
  return p_cuGraphNodeGetType(node, &type);
}
STEP(c_get_kernel) {
  UNUSED;
  CUDA_KERNEL_NODE_PARAMS parameters;
  return p_cuGraphKernelNodeGetParams(node, &parameters);
}
STEP(c_enumerate) {
  UNUSED;
  CUfunction found[256] = {0};
  return p_cuModuleEnumerateFunctions(found, 256, modules[0]);
}

STEP(c_function_name) {
  UNUSED;
  const char *name;
  return p_cuFuncGetName(&name, empty);
}
STEP(c_get_copy) {
  UNUSED;
  CUDA_MEMCPY3D parameters;
  return p_cuGraphMemcpyNodeGetParams(node, &parameters);
}
STEP(c_get_fill) {
  UNUSED;
  CUDA_MEMSET_NODE_PARAMS parameters;
  return p_cuGraphMemsetNodeGetParams(node, &parameters);
}
STEP(c_set_kernel) {
  UNUSED;
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
  parameters.kernel.func = empty;
  parameters.kernel.gridDimX = parameters.kernel.gridDimY = parameters.kernel.gridDimZ = 1;
  parameters.kernel.blockDimX = parameters.kernel.blockDimY = parameters.kernel.blockDimZ = 1;
  return p_cuGraphExecNodeSetParams(instance[0], node, &parameters);
}
STEP(c_set_copy) {
  UNUSED;
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};
  parameters.memcpy.copyCtx = context[0];
  CUDA_MEMCPY3D *copy = &parameters.memcpy.copyParams;
  copy->srcMemoryType = copy->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy->srcDevice = (CUdeviceptr)some_pinned;
  copy->dstDevice = some_memory;
  copy->WidthInBytes = 32;
  copy->Height = copy->Depth = 1;
  return p_cuGraphExecNodeSetParams(instance[0], node, &parameters);
}
STEP(c_set_fill) {
  UNUSED;
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
  parameters.memset.dst = some_memory;
  parameters.memset.elementSize = 1;
  parameters.memset.width = 32;
  parameters.memset.height = 1;
  parameters.memset.ctx = context[0];
  return p_cuGraphExecNodeSetParams(instance[0], node, &parameters);
}
STEP(c_set_enabled) { return p_cuGraphNodeSetEnabled(instance[0], node, (unsigned)t->c); }
STEP(c_get_enabled) {
  UNUSED;
  unsigned enabled;
  return p_cuGraphNodeGetEnabled(instance[0], node, &enabled);
}
STEP(c_add_child) {
  UNUSED;
  return add_child();
}
STEP(c_get_params) {
  UNUSED;
  CUgraphNodeParams parameters;
  return p_cuGraphNodeGetParams == NULL ? CUDA_ERROR_NOT_SUPPORTED : p_cuGraphNodeGetParams(node, &parameters);
}
STEP(c_child_graph) {
  UNUSED;
  return p_cuGraphChildGraphNodeGetGraph(node, &inner);
}
STEP(c_find_in_clone) {
  UNUSED;
  return p_cuGraphNodeFindInClone(&node, original, inner);
}
STEP(c_begin_into) {
  UNUSED;
  return p_cuStreamBeginCaptureToGraph(S, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED);
}
STEP(a_end_into) {
  UNUSED;
  CUgraph same;
  return p_cuStreamEndCapture(S, &same);
}
STEP(c_dependencies) {
  UNUSED;
  return p_cuStreamUpdateCaptureDependencies_v2(S, NULL, NULL, 0, 1);
}
STEP(c_graph_print) {
  UNUSED;
  char path[64];
  snprintf(path, sizeof path, "/tmp/blocking-%d.dot", (int)getpid());
  CUresult result = p_cuGraphDebugDotPrint(graph, path, 1);
  unlink(path);
  return result;
}
STEP(c_graph_destroy) {
  UNUSED;
  return p_cuGraphDestroy(graph);
}
STEP(d_instance_only) {
  UNUSED;
  return p_cuGraphExecDestroy(instance[0]);
}
STEP(c_instantiate) {
  UNUSED;
  return p_cuGraphInstantiateWithFlags(&instance[made], graph, 0);
}
STEP(c_condition) {
  UNUSED;
  CUgraphConditionalHandle handle;
  return p_cuGraphConditionalHandleCreate(&handle, graph, context[0], 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
}
STEP(c_node_params) {
  UNUSED;
  CUstreamBatchMemOpParams op = write_word(SCRATCH, 8);
  CUgraphNodeParams parameters = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
  parameters.memOp.ctx = context[0];
  parameters.memOp.count = 1;
  parameters.memOp.paramArray = &op;
  return p_cuGraphNodeSetParams(node, &parameters);
}
STEP(c_update) {
  UNUSED;
  CUgraphExecUpdateResultInfo info;
  return p_cuGraphExecUpdate(instance[0], graph, &info);
}
STEP(c_upload) {
  UNUSED;
  return p_cuGraphUpload(instance[0], S);
}
STEP(c_graph_launch) {
  UNUSED;
  return p_cuGraphLaunch(instance[0], S);
}
STEP(c_instance_destroy) {
  UNUSED;
  return p_cuGraphExecDestroy(instance[0]);
}
STEP(c_exchange) {
  UNUSED;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  TRY(p_cuThreadExchangeStreamCaptureMode(&mode));
  return p_cuThreadExchangeStreamCaptureMode(&mode);
}
STEP(c_event_create) { return p_cuEventCreate(&event[made], (unsigned)t->a); }
STEP(c_event_destroy) {
  UNUSED;
  return p_cuEventDestroy(event[0]);
}
STEP(c_record) {
  UNUSED;
  return p_cuEventRecord(event[made], S);
}
STEP(c_record_flags) { return p_cuEventRecordWithFlags(event[made], S, (unsigned)t->b); }
STEP(c_event_query) {
  UNUSED;
  return p_cuEventQuery(event[0]);
}
STEP(c_event_synchronize) {
  UNUSED;
  return p_cuEventSynchronize(event[0]);
}
STEP(c_elapsed) {
  UNUSED;
  float milliseconds;
  return p_cuEventElapsedTime(&milliseconds, second_event, event[0]);
}
STEP(c_event_handle) {
  UNUSED;
  CUipcEventHandle handle;
  return p_cuIpcGetEventHandle(&handle, event[0]);
}
STEP(c_open_event) {
  UNUSED;
  return p_cuIpcOpenEventHandle(&event[0], partner.event);
}
STEP(c_memory_handle) {
  UNUSED;
  CUipcMemHandle handle;
  return p_cuIpcGetMemHandle(&handle, pointers[0]);
}
STEP(c_open_memory) {
  UNUSED;
  return p_cuIpcOpenMemHandle(&pointers[0], partner.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}
STEP(c_close_memory) {
  UNUSED;
  CUresult result = p_cuIpcCloseMemHandle(pointers[0]);
  pointers[0] = 0;
  return result;
}
STEP(q_use_opened) {
  UNUSED;
  return p_cuMemsetD8Async(pointers[0], 1, 64, G);
}
STEP(c_load) { return p_cuModuleLoadData(&modules[made], t->a == 0 ? FRESH : t->a == 1 ? BROKEN : cubin); }
STEP(p_forget_modules) {
  UNUSED;
  memset(modules, 0, sizeof modules);
  return CUDA_SUCCESS;
}
STEP(p_forget_modules_and_make_cubin) {
  TRY(p_forget_modules(t));
  return make_cubin(t);
}
STEP(c_get_function) {
  UNUSED;
  return p_cuModuleGetFunction(&function, modules[0], "fresh");
}
STEP(c_get_global) {
  UNUSED;
  CUdeviceptr variable;
  size_t bytes;
  return p_cuModuleGetGlobal_v2(&variable, &bytes, modules[0], "number");
}
STEP(c_function_module) {
  UNUSED;
  CUmodule found;
  return p_cuFuncGetModule(&found, empty);
}
STEP(c_param_info) {
  UNUSED;
  size_t offset, size;
  return p_cuFuncGetParamInfo(function, 0, &offset, &size);
}
STEP(c_get_function_attribute) {
  (void)t;
  int value;
  return p_cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, shared);
}
STEP(c_logs_current) {
  (void)t;
  unsigned iterator;
  return p_cuLogsCurrent == NULL ? CUDA_ERROR_NOT_FOUND : p_cuLogsCurrent(&iterator, 0);
}
STEP(c_logs_dump) {
  (void)t;
  static char log[25600];
  size_t size = sizeof log;
  return p_cuLogsDumpToMemory == NULL ? CUDA_ERROR_NOT_FOUND : p_cuLogsDumpToMemory(NULL, log, &size, 0);
}
STEP(c_get_limit) {
  (void)t;
  size_t value;
  return p_cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE);
}
/* Each call enlarges it, or it would be nothing to do. */
STEP(c_set_limit) {
  static size_t bytes = 1024;
  bytes += 1024;
  (void)t;
  return p_cuCtxSetLimit(CU_LIMIT_STACK_SIZE, bytes);
}
STEP(c_many_streams) {
  CUstream stream;
  for (int i = 0; i < 100; i += 1) TRY(p_cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  (void)t;
  return CUDA_SUCCESS;
}
STEP(c_function_attribute) { return p_cuFuncSetAttribute(t->c ? function : shared, (CUfunction_attribute)t->a, (int)t->b); }
STEP(c_launch) { return launch(t->b > 0 ? shared : empty, S, (unsigned)t->b, (int)t->a, t->c > 0 ? (unsigned)t->c : 1, NULL); }
STEP(c_occupancy) {
  UNUSED;
  int blocks;
  return p_cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 128, 0);
}
STEP(c_host_allocate) {
  return p_cuMemHostAlloc(&hosts[0], t->size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
}
STEP(c_host_free) {
  UNUSED;
  CUresult result = p_cuMemFreeHost(hosts[0]);
  hosts[0] = NULL;
  return result;
}
STEP(make_plain) {
  hosts[1] = aligned_alloc(4096, t->size);
  return hosts[1] == NULL ? CUDA_ERROR_OUT_OF_MEMORY : (memset(hosts[1], 1, t->size), CUDA_SUCCESS);
}
STEP(c_host_register) { return p_cuMemHostRegister(hosts[1], t->size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP); }
STEP(make_registered) { return make_plain(t) == CUDA_SUCCESS ? c_host_register(t) : CUDA_ERROR_OUT_OF_MEMORY; }
STEP(c_host_unregister) {
  UNUSED;
  return p_cuMemHostUnregister(hosts[1]);
}
STEP(drop_plain) {
  UNUSED;
  p_cuMemHostUnregister(hosts[1]);
  free(hosts[1]);
  hosts[1] = NULL;
  return CUDA_SUCCESS;
}
STEP(c_allocate) { return p_cuMemAlloc(&pointers[0], t->size); }
STEP(c_free) {
  UNUSED;
  CUresult result = p_cuMemFree(pointers[0]);
  pointers[0] = 0;
  return result;
}
STEP(c_range) {
  UNUSED;
  CUdeviceptr base;
  size_t size;
  return p_cuMemGetAddressRange(&base, &size, some_memory + 100);
}
STEP(c_allocate_async) { return p_cuMemAllocAsync(&pointers[made], t->size, S); }
STEP(c_free_async) {
  UNUSED;
  return p_cuMemFreeAsync(pointers[made], S);
}
/* Half of the bytes, in rows of 32. */
STEP(c_memset_rows) {
  CUdeviceptr at = t->b ? (CUdeviceptr)(uintptr_t)some_pinned : some_memory;
  if (t->a == 8) return p_cuMemsetD2D8Async(at, 64, 1, 32, t->size / 64, S);
  if (t->a == 16) return p_cuMemsetD2D16Async(at, 64, 1, 16, t->size / 64, S);
  return p_cuMemsetD2D32Async(at, 64, 1, 8, t->size / 64, S);
}
STEP(c_memset) {
  CUdeviceptr at = t->b ? (CUdeviceptr)(uintptr_t)some_pinned : some_memory;
  if (t->a == 8) return p_cuMemsetD8Async(at, 1, t->size, S);
  if (t->a == 16) return p_cuMemsetD16Async(at, 1, t->size / 2, S);
  return p_cuMemsetD32Async(at, 1, t->size / 4, S);
}
STEP(c_pointer_attribute) {
  uint64_t value[4];
  return p_cuPointerGetAttribute(value, (CUpointer_attribute)t->a, t->b ? (CUdeviceptr)(uintptr_t)some_pinned : some_memory);
}

/* A pool of one's own, which keeps what was freed. */
static CUmemoryPool own_pool[MOST];
STEP(make_own_pool) {
  UNUSED;
  CUmemPoolProps props;
  cuuint64_t all = ~(cuuint64_t)0;
  memset(&props, 0, sizeof props);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = 0;
  TRY(p_cuMemPoolCreate(&own_pool[made], &props));
  return p_cuMemPoolSetAttribute(own_pool[made], CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all);
}
/* One with memory that it keeps unused. */
STEP(make_filled_pool) {
  TRY(make_own_pool(t));
  TRY(p_cuMemAllocFromPoolAsync(&pointers[0], t->size, own_pool[0], NULL));
  if (t->a == 1) return CUDA_SUCCESS;
  return p_cuMemFreeAsync(pointers[0], NULL);
}
STEP(free_behind) {
  UNUSED;
  return p_cuMemFreeAsync(pointers[0], G);
}
STEP(drop_own_pools) {
  for (int i = 0; i < made || i == 0; i += 1) {
    if (own_pool[i] != NULL) TRY(p_cuMemPoolDestroy(own_pool[i]));
    own_pool[i] = NULL;
  }
  UNUSED;
  return CUDA_SUCCESS;
}
STEP(drop_pool_memory) {
  TRY(p_cuMemFreeAsync(pointers[0], NULL));
  pointers[0] = 0;
  TRY(p_cuCtxSynchronize());
  return drop_own_pools(t);
}
STEP(c_memory_info) {
  UNUSED;
  size_t unused, total;
  return p_cuMemGetInfo(&unused, &total);
}
STEP(c_default_pool) {
  UNUSED;
  CUmemoryPool pool;
  return pool_of(0, &pool);
}
STEP(c_device_pool) {
  UNUSED;
  CUmemoryPool pool;
  return p_cuDeviceGetMemPool(&pool, device[0]);
}
STEP(c_pool_destroy) {
  UNUSED;
  CUmemoryPool pool = own_pool[0];
  own_pool[0] = NULL;
  return p_cuMemPoolDestroy(pool);
}
STEP(c_pool_get) {
  cuuint64_t value;
  return p_cuMemPoolGetAttribute(own_pool[0], (CUmemPool_attribute)t->a, &value);
}
STEP(c_pool_set) {
  cuuint64_t value = 0;
  return p_cuMemPoolSetAttribute(own_pool[0], (CUmemPool_attribute)t->a, &value);
}
STEP(c_pool_trim) {
  UNUSED;
  return p_cuMemPoolTrimTo(own_pool[0], 0);
}
STEP(c_allocate_from_pool) { return p_cuMemAllocFromPoolAsync(&pointers[0], t->size, own_pool[0], S); }
STEP(d_allocated_from_pool) {
  if (pointers[0] != 0) TRY(p_cuMemFreeAsync(pointers[0], NULL));
  pointers[0] = 0;
  TRY(p_cuCtxSynchronize());
  return drop_own_pools(t);
}

/* The last of the memory, freed behind the semaphore: does an allocation that needs it wait? */
STEP(p_nearly_all) {
  static CUdeviceptr rest;
  TRY(trim(t));
  if (rest == 0) {
    size_t unused, total;
    TRY(p_cuMemGetInfo(&unused, &total));
    if (unused > 2 * G4) TRY(p_cuMemAlloc(&rest, unused - 2 * G4));
  }
  TRY(p_cuMemAllocAsync(&pointers[1], G4 + G4 / 2, NULL));
  return p_cuCtxSynchronize();
}
STEP(q_free_nearly_all) {
  UNUSED;
  CUdeviceptr freed = pointers[1];
  pointers[1] = 0;
  return p_cuMemFreeAsync(freed, G);
}
STEP(d_nearly_all) {
  if (pointers[0] != 0) {
    if (t->b == 2) p_cuMemFree(pointers[0]);
    else p_cuMemFreeAsync(pointers[0], NULL);
  }
  pointers[0] = 0;
  return trim(t);
}

/* ---- copies --------------------------------------------------------------------------------------------------------- */

enum memory { POOL, DEVICE, PINNED, REGISTERED, PAGEABLE, PEER, MEMORIES };
static const char *const memory_names[] = {"device (pool)", "device", "pinned", "registered", "pageable", "peer"};
#define LARGEST M64
enum { OLD = 0x11, STALE = 0x22, FILLED = 0x5a, LATE = 0x33 };
static CUdeviceptr buffers[MEMORIES][2], pattern, bounce;
static unsigned char *checked;
static CUgraphExec copy_instance;
static int expected;

static int is_host(long memory) { return memory == PINNED || memory == REGISTERED || memory == PAGEABLE; }

static CUresult buffer(long memory, int which) {
  CUdeviceptr *at = &buffers[memory][which];
  if (*at != 0) return CUDA_SUCCESS;
  void *host = NULL;
  switch (memory) {
    case POOL: return p_cuMemAllocAsync(at, LARGEST, NULL);
    case DEVICE: return p_cuMemAlloc(at, LARGEST);
    case PINNED: TRY(p_cuMemHostAlloc(&host, LARGEST, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP)); break;
    case PEER: {
      TRY(retain_other());
      p_cuCtxEnablePeerAccess(context[1], 0);
      TRY(p_cuCtxSetCurrent(context[1]));
      CUresult result = p_cuMemAlloc(at, LARGEST);
      TRY(p_cuCtxSetCurrent(context[0]));
      return result;
    }
    default:
      host = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (host == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
      memset(host, 1, LARGEST);
      if (memory == REGISTERED)
        TRY(p_cuMemHostRegister(host, LARGEST, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
  }
  *at = (CUdeviceptr)(uintptr_t)host;
  return CUDA_SUCCESS;
}

static void *host_of(CUdeviceptr at) { return (void *)(uintptr_t)at; }

static CUresult fill(long memory, CUdeviceptr at, int value, size_t size) {
  if (!is_host(memory)) return p_cuMemsetD8(at, (unsigned char)value, size);
  memset(host_of(at), value, size);
  return CUDA_SUCCESS;
}

enum how {
  PLAIN, HTOD, DTOH, DTOD, TWO_D_HOST, TWO_D_DEVICE, TWO_D_UNIFIED, TWO_D_MIXED, THREE_D, ROWS, PEER_COPY, BATCH,
  GRAPH_NODE, CAPTURED, CAPTURING, BOUNCE, KERNEL, HOWS
};

/* As the library copies rows. */
enum { ROW_COUNT = 8 };

static CUmemorytype side(long how, int source) {
  switch (how) {
    case TWO_D_DEVICE: return CU_MEMORYTYPE_DEVICE;
    case TWO_D_UNIFIED:
    case ROWS: return CU_MEMORYTYPE_UNIFIED;
    case TWO_D_MIXED: return source ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    default: return CU_MEMORYTYPE_HOST;
  }
}

static CUDA_MEMCPY3D described(long how, CUdeviceptr to, CUdeviceptr from, size_t size) {
  CUDA_MEMCPY3D copy;
  memset(&copy, 0, sizeof copy);
  copy.srcMemoryType = side(how, 1);
  copy.dstMemoryType = side(how, 0);
  copy.srcHost = host_of(from);
  copy.srcDevice = from;
  copy.dstHost = host_of(to);
  copy.dstDevice = to;
  copy.srcPitch = copy.dstPitch = copy.WidthInBytes = size;
  copy.srcHeight = copy.dstHeight = copy.Height = copy.Depth = 1;
  if (how == ROWS) {
    copy.srcPitch = copy.dstPitch = copy.WidthInBytes = size / ROW_COUNT;
    copy.srcHeight = copy.dstHeight = copy.Height = ROW_COUNT;
  }
  return copy;
}

STEP(copy_prepare) {
  TRY(buffer(t->a, 0));
  TRY(buffer(t->b, 1));
  if (pattern == 0) {
    TRY(p_cuMemAlloc(&pattern, LARGEST));
    TRY(p_cuMemsetD8(pattern, FILLED, LARGEST));
    checked = malloc(LARGEST);
  }
  CUdeviceptr from = buffers[t->a][0], to = buffers[t->b][1];
  TRY(p_cuCtxSynchronize());
  expected = t->a == PAGEABLE || t->a == PEER ? STALE : FILLED;
  TRY(fill(t->a, from, STALE, t->size));
  TRY(fill(t->b, to, OLD, t->size));
  if (t->c == BOUNCE) TRY(p_cuMemAllocAsync(&bounce, t->size, S));
  copy_instance = NULL;
  if (t->c == GRAPH_NODE) {
    CUDA_MEMCPY3D copy = described(t->c, to, from, t->size);
    TRY(p_cuGraphCreate(&graph, 0));
    TRY(p_cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, context[0]));
  }
  if (t->c == CAPTURED) {
    CUstream stream;
    TRY(begin_graph(&stream));
    TRY(p_cuMemcpyAsync(to, from, t->size, stream));
    TRY(end_graph(stream, &graph));
  }
  if (t->c == GRAPH_NODE || t->c == CAPTURED) {
    TRY(p_cuGraphInstantiateWithFlags(&copy_instance, graph, 0));
    TRY(p_cuGraphDestroy(graph));
    graph = NULL;
  }
  return p_cuCtxSynchronize();
}

/* The source gets its bytes behind the semaphore: a copy that does not keep the stream's order takes the stale ones. */
STEP(copy_queue) {
  if (expected != FILLED) return CUDA_SUCCESS;
  CUdeviceptr from = buffers[t->a][0];
  if (is_host(t->a)) return p_cuMemcpyDtoHAsync(host_of(from), pattern, t->size, S);
  return p_cuMemsetD8Async(from, FILLED, t->size, S);
}

STEP(copy_call) {
  CUdeviceptr to = buffers[t->b][1], from = buffers[t->a][0];
  size_t size = t->size;
  CUDA_MEMCPY3D whole = described(t->c, to, from, size);
  switch ((enum how)t->c) {
    case HTOD: return p_cuMemcpyHtoDAsync(to, host_of(from), size, S);
    case DTOH: return p_cuMemcpyDtoHAsync(host_of(to), from, size, S);
    case DTOD: return p_cuMemcpyDtoDAsync(to, from, size, S);
    case PEER_COPY: return p_cuMemcpyPeerAsync(to, context[t->b == PEER], from, context[t->a == PEER], size, S);
    case TWO_D_HOST:
    case TWO_D_DEVICE:
    case TWO_D_UNIFIED:
    case TWO_D_MIXED: {
      CUDA_MEMCPY2D copy;
      memset(&copy, 0, sizeof copy);
      copy.srcMemoryType = whole.srcMemoryType;
      copy.dstMemoryType = whole.dstMemoryType;
      copy.srcHost = whole.srcHost;
      copy.dstHost = whole.dstHost;
      copy.srcDevice = from;
      copy.dstDevice = to;
      copy.srcPitch = copy.dstPitch = copy.WidthInBytes = size;
      copy.Height = 1;
      return p_cuMemcpy2DAsync(&copy, S);
    }
    case THREE_D:
    case ROWS: return p_cuMemcpy3DAsync(&whole, S);
    case BATCH: {
      if (p_cuMemcpyBatchAsync_12 == NULL) return CUDA_ERROR_NOT_FOUND;
      /* CUmemcpyAttributes: srcAccessOrder (in the stream's), two locations of two ints each, flags. */
      unsigned attributes[6] = {1};
      size_t first = 0, failed = 0;
      return p_cuMemcpyBatchAsync_12(&to, &from, &size, 1, attributes, &first, 1, &failed, S);
    }
    case GRAPH_NODE:
    case CAPTURED: return p_cuGraphLaunch(copy_instance, S);
    case CAPTURING: {
      CUstream stream;
      TRY(begin_graph(&stream));
      TRY(p_cuMemcpyAsync(to, from, size, stream));
      TRY(end_graph(stream, &graph));
      TRY(p_cuGraphDestroy(graph));
      graph = NULL;
      return CUDA_SUCCESS;
    }
    case BOUNCE:
      TRY(p_cuMemcpyAsync(bounce, from, size, S));
      TRY(p_cuMemcpyAsync(to, bounce, size, S));
      return p_cuMemFreeAsync(bounce, S);
    case KERNEL: {
      CUdeviceptr mapped_to, mapped_from;
      uint64_t bytes = size;
      TRY(p_cuMemHostGetDevicePointer(&mapped_to, host_of(to), 0));
      TRY(p_cuMemHostGetDevicePointer(&mapped_from, host_of(from), 0));
      void *parameters[] = {&mapped_to, &mapped_from, &bytes};
      return launch(copier, S, 0, 0, 16, parameters);
    }
    default: return p_cuMemcpyAsync(to, from, size, S);
  }
}

/* Right after the call, with the semaphore still closed where the call returned. */
STEP(copy_returned) {
  unsigned char *from = host_of(buffers[t->a][0]), *to = host_of(buffers[t->b][1]);
  if (t->a == PAGEABLE) memset(from, LATE, t->size);
  if (is_host(t->b) && places[where].own && where != NONE && word[GO] == 0 && (to[0] != OLD || to[t->size - 1] != OLD))
    remark("copied before the semaphore opened");
  return CUDA_SUCCESS;
}

STEP(copy_done) {
  CUdeviceptr to = buffers[t->b][1];
  unsigned char *bytes = host_of(to);
  if (t->c == CAPTURING || call_result != CUDA_SUCCESS) return CUDA_SUCCESS;
  if (copy_instance != NULL) TRY(p_cuGraphExecDestroy(copy_instance));
  if (!is_host(t->b)) {
    TRY(p_cuMemcpyDtoH(checked, to, t->size));
    bytes = checked;
  }
  int first = memcmp(bytes, bytes + 1, t->size - 1) == 0 ? bytes[0] : -1;
  remark("%s", first == expected ? "bytes right"
               : first == LATE   ? "bytes of the source as it was changed after the call"
               : first == STALE  ? "bytes that the source had before the work in front"
                                 : "bytes wrong");
  return CUDA_SUCCESS;
}

/* ---- the ledger's functions -------------------------------------------------------------------------------------------- */

#define IPC (CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)

static const struct test ledger[] = {
    {"cuInit", "again", .call = c_init},
    {"cuDriverGetVersion", "", .call = c_version},
    {"cuDeviceGetCount", "", .call = c_count},
    {"cuDeviceGet", "", .call = c_device},
    {"cuDeviceGetName", "", .call = c_device_name},
    {"cuDeviceGetUuid_v2", "", .call = c_uuid},
    {"cuDeviceGetPCIBusId", "", .call = c_pci_bus_id},
    {"cuDeviceGetAttribute", "multiprocessors", .call = c_attribute, .a = 16},
    {"cuDeviceGetAttribute", "clock rate", .call = c_attribute, .a = 13},
    {"cuDeviceGetAttribute", "can use stream memory operations", .call = c_attribute, .a = 122},
    {"cuDeviceCanAccessPeer", "", .call = c_can_access},
    {"cuCtxEnablePeerAccess", "the own context", .call = c_enable_self},
    {"cuCtxEnablePeerAccess", "the other device", .prepare = p_other, .call = c_enable_peer, .done = d_disable_peer, .flags = TWO},
    {"cuMemPoolSetAccess", "the own device", .call = c_pool_access},
    {"cuMemPoolSetAccess", "the other device", .prepare = p_some_pool_memory, .call = c_pool_access, .done = d_some_pool_memory, .a = 1, .flags = TWO},
    {"cuDevicePrimaryCtxRetain", "again", .call = c_retain, .done = d_release},
    {"cuDevicePrimaryCtxRetain", "the other device's, first", .call = c_retain, .done = d_release, .a = 1, .flags = TWO | NO_PEER, .group = "first retain", .limit = 3000},
    {"cuCtxGetCurrent", "", .call = c_get_current},
    {"cuCtxSetCurrent", "the same", .call = c_set_current},
    {"cuCtxSetCurrent", "the other device's and back", .prepare = p_other, .call = c_set_other, .flags = TWO},
    {"cuCtxGetDevice", "", .call = c_context_device},
    {"cuCtxSynchronize", "", .call = c_context_synchronize},
    {"cuCtxSynchronize", "context made for blocking sync", .call = c_context_synchronize, .group = "cuCtxSynchronize, blocking-sync context"},
    {"cuCtxRecordEvent", "untimed", .prepare = make_events, .call = c_context_record, .done = drop_events, .a = 2, .flags = QUEUES},
    {"cuCtxRecordEvent", "timed", .prepare = make_events, .call = c_context_record, .done = drop_events, .flags = QUEUES},
    {"cuCtxGetStreamPriorityRange", "", .call = c_priorities},
    {"cuStreamCreateWithPriority", "non-blocking", .call = c_stream_create, .done = d_streams, .a = 1, .b = 1},
    {"cuStreamCreateWithPriority", "blocking", .call = c_stream_create, .done = d_streams, .a = 0, .b = 1},
    {"cuStreamCreateWithPriority", "greatest priority", .call = c_stream_create, .done = d_streams, .a = 1, .b = 1, .c = -5},
    {"cuStreamCreateWithPriority", "64 of them", .call = c_stream_create, .done = d_streams, .a = 1, .b = 64},
    {"cuStreamDestroy_v2", "the call's stream", .call = c_stream_destroy, .flags = STREAM},
    {"cuStreamDestroy_v2", "64 idle streams", .prepare = p_streams, .call = c_streams_destroy, .a = 1, .b = 64},
    {"cuStreamGetCtx_v2", "", .call = c_stream_context, .flags = STREAM},
    {"cuDeviceGetDevResource", "", .call = c_get_resource},
    {"cuDevSmResourceSplitByCount", "", .prepare = p_resource, .call = c_split},
    {"cuDevResourceGenerateDesc", "", .prepare = p_groups, .call = c_describe},
    {"cuGreenCtxCreate", "", .prepare = p_description, .call = c_green_create, .done = d_green},
    {"cuGreenCtxDestroy", "without streams", .prepare = p_green, .call = c_green_destroy},
    {"cuGreenCtxGetDevResource", "", .prepare = p_green, .call = c_green_resource, .done = d_green},
    {"cuCtxFromGreenCtx", "", .prepare = p_green, .call = c_from_green, .done = d_green},
    {"cuGreenCtxStreamCreate", "", .prepare = p_green, .call = c_green_stream, .done = d_green_streams, .b = 1},
    {"cuGreenCtxStreamCreate", "64 of them", .prepare = p_green, .call = c_green_stream, .done = d_green_streams, .b = 64},
    {"cuStreamGetId", "", .call = c_stream_id, .flags = STREAM},
    {"cuStreamGetFlags", "", .call = c_stream_flags, .flags = STREAM},
    {"cuStreamGetPriority", "", .call = c_stream_priority, .flags = STREAM},
    {"cuStreamSetAttribute", "", .call = c_stream_attribute, .flags = STREAM},
    {"cuStreamCopyAttributes", "to a new stream", .prepare = p_streams, .call = c_copy_attributes, .done = d_streams, .a = 1, .b = 1, .flags = STREAM},
    {"cuProfilerStart", "", .call = c_profiler_start, .done = c_profiler_stop},
    {"cuProfilerStop", "", .prepare = c_profiler_start, .call = c_profiler_stop},
    {"cuStreamIsCapturing", "", .call = c_is_capturing, .flags = STREAM},
    {"cuStreamQuery", "", .call = c_stream_query, .flags = STREAM | QUEUES},
    {"cuStreamSynchronize", "", .call = c_stream_synchronize, .flags = STREAM},
    {"cuStreamSynchronize", "context made for blocking sync", .call = c_stream_synchronize, .flags = STREAM, .where = FEW, .group = "cuStreamSynchronize, blocking-sync context"},
    {"cuStreamWaitEvent", "for a done event", .prepare = make_event_done, .call = c_wait_event, .done = drop_event, .a = 2, .flags = STREAM | QUEUES},
    {"cuStreamWaitEvent", "for an event behind the semaphore", .prepare = make_event_of_gated, .queue = record_on_gated, .call = c_wait_event, .done = drop_event, .a = 2, .flags = STREAM | QUEUES},
    {"cuStreamBatchMemOp_v2", "write", .call = c_batch, .a = 1, .flags = STREAM | QUEUES},
    {"cuStreamBatchMemOp_v2", "write and wait", .call = c_batch, .a = 2, .flags = STREAM | QUEUES},
    {"cuStreamBeginCapture_v2", "relaxed", .call = c_begin_capture, .after = a_end_capture, .a = 2, .flags = STREAM},
    {"cuStreamBeginCapture_v2", "global", .call = c_begin_capture, .after = a_end_capture, .a = 0, .flags = STREAM},
    {"cuStreamEndCapture", "relaxed", .queue = q_capture, .call = c_end_capture, .after = a_captured, .a = 2, .flags = STREAM},
    {"cuStreamGetCaptureInfo_v3", "", .call = c_capture_info, .flags = STREAM},
    {"cuStreamBeginCaptureToGraph", "", .prepare = make_graph, .call = c_begin_into, .after = a_end_into, .done = drop_graph, .b = 1, .flags = STREAM},
    {"cuStreamUpdateCaptureDependencies_v2", "", .queue = q_capture, .call = c_dependencies, .after = a_end_capture, .a = 2, .flags = STREAM},
    {"cuGraphAddNode_v2", "100 kernels", .prepare = make_child, .call = c_add_child, .done = drop_child, .b = 100},
    {"cuGraphChildGraphNodeGetGraph", "", .prepare = make_child, .call = c_child_graph, .done = drop_child, .b = 1},
    {"cuGraphNodeFindInClone", "", .prepare = make_child, .call = c_find_in_clone, .done = drop_child, .b = 1},
    {"cuGraphNodeGetType", "", .prepare = make_node, .call = c_node_type, .done = drop_instance, .b = 1},
    {"cuGraphGetEdges_v2", "100 kernels", .prepare = make_graph, .call = c_edges, .done = drop_graph, .b = 100},
    {"cuGraphKernelNodeGetParams_v2", "", .prepare = make_node, .call = c_get_kernel, .done = drop_instance, .b = 1},
    {"cuFuncGetName", "", .call = c_function_name},
    {"cuFuncGetModule", "", .call = c_function_module},
    {"cuGraphMemcpyNodeGetParams", "", .prepare = make_node, .call = c_get_copy, .done = drop_instance, .a = 1},
    {"cuGraphMemsetNodeGetParams", "", .prepare = make_node, .call = c_get_fill, .done = drop_instance, .a = 2},
    {"cuGraphNodeGetParams", "", .prepare = make_node, .call = c_get_params, .done = drop_instance, .b = 1},
    {"cuGraphExecNodeSetParams", "a kernel, an idle instance", .prepare = make_node, .call = c_set_kernel, .done = drop_instance, .b = 100},
    {"cuGraphExecNodeSetParams", "a kernel, an instance behind the semaphore", .prepare = make_node, .queue = launch_instance, .call = c_set_kernel, .done = drop_instance, .b = 100, .flags = STREAM},
    {"cuGraphExecNodeSetParams", "a copy, an instance behind the semaphore", .prepare = make_node, .queue = launch_instance, .call = c_set_copy, .done = drop_instance, .a = 1, .flags = STREAM},
    {"cuGraphExecNodeSetParams", "a fill, an instance behind the semaphore", .prepare = make_node, .queue = launch_instance, .call = c_set_fill, .done = drop_instance, .a = 2, .flags = STREAM},
    {"cuGraphNodeSetEnabled", "an instance behind the semaphore", .prepare = make_node, .queue = launch_instance, .call = c_set_enabled, .done = drop_instance, .b = 100, .flags = STREAM},
    {"cuGraphNodeGetEnabled", "an instance behind the semaphore", .prepare = make_node, .queue = launch_instance, .call = c_get_enabled, .done = drop_instance, .b = 100, .flags = STREAM},
    {"cuGraphGetNodes", "100 kernels", .prepare = make_graph, .call = c_graph_nodes, .done = drop_graph, .b = 100},
    {"cuGraphDebugDotPrint", "100 kernels", .prepare = make_graph, .call = c_graph_print, .done = drop_graph, .b = 100},
    {"cuGraphDestroy", "100 kernels", .prepare = make_graph, .call = c_graph_destroy, .b = 100},
    {"cuGraphDestroy", "with an instance behind the semaphore", .prepare = make_instance, .queue = launch_instance, .call = c_graph_destroy, .done = d_instance_only, .b = 1, .flags = STREAM},
    {"cuGraphInstantiateWithFlags", "1 kernel", .prepare = make_graph, .call = c_instantiate, .done = drop_made_instances, .b = 1},
    {"cuGraphInstantiateWithFlags", "1000 kernels", .prepare = make_graph, .call = c_instantiate, .done = drop_made_instances, .b = 1000},
    {"cuGraphConditionalHandleCreate", "", .prepare = make_graph, .call = c_condition, .done = drop_graph, .b = 1},
    {"cuGraphNodeSetParams", "memory operations", .prepare = make_gate_in_graph, .call = c_node_params, .done = drop_graph},
    {"cuGraphExecUpdate_v2", "an idle instance", .prepare = make_instance, .call = c_update, .done = drop_instance, .b = 100},
    {"cuGraphExecUpdate_v2", "an instance behind the semaphore", .prepare = make_instance, .queue = launch_instance, .call = c_update, .done = drop_instance, .b = 100, .flags = STREAM},
    {"cuGraphUpload", "1 kernel", .prepare = make_instance, .call = c_upload, .done = drop_instance, .b = 1, .flags = STREAM | QUEUES},
    {"cuGraphUpload", "1000 kernels", .prepare = make_instance, .call = c_upload, .done = drop_instance, .b = 1000, .flags = STREAM},
    {"cuGraphLaunch", "1 kernel", .prepare = make_instance, .call = c_graph_launch, .done = drop_instance, .b = 1, .flags = STREAM | QUEUES},
    {"cuGraphLaunch", "1000 kernels", .prepare = make_instance, .call = c_graph_launch, .done = drop_instance, .b = 1000, .flags = STREAM | QUEUES},
    {"cuGraphLaunch", "again, behind the semaphore already", .prepare = make_instance, .queue = launch_instance, .call = c_graph_launch, .done = drop_instance, .b = 100, .flags = STREAM},
    {"cuGraphExecDestroy", "an idle instance", .prepare = make_instance, .call = c_instance_destroy, .done = drop_graph, .b = 100},
    {"cuGraphExecDestroy", "an instance behind the semaphore", .prepare = make_instance, .queue = launch_instance, .call = c_instance_destroy, .done = drop_graph, .b = 100, .flags = STREAM},
    {"cuThreadExchangeStreamCaptureMode", "to relaxed and back", .call = c_exchange},
    {"cuEventCreate", "timed", .call = c_event_create, .done = drop_made_events},
    {"cuEventCreate", "untimed", .call = c_event_create, .done = drop_made_events, .a = 2},
    {"cuEventCreate", "blocking sync", .call = c_event_create, .done = drop_made_events, .a = 1},
    {"cuEventCreate", "interprocess", .call = c_event_create, .done = drop_made_events, .a = IPC},
    {"cuEventDestroy_v2", "done", .prepare = make_event_done, .call = c_event_destroy},
    {"cuEventDestroy_v2", "behind the semaphore", .prepare = make_event, .queue = record, .call = c_event_destroy, .a = 2, .flags = STREAM},
    {"cuEventDestroy_v2", "behind the semaphore, interprocess", .prepare = make_event, .queue = record, .call = c_event_destroy, .a = IPC, .flags = STREAM},
    {"cuEventRecord", "untimed", .prepare = make_events, .call = c_record, .done = drop_events, .a = 2, .flags = STREAM | QUEUES},
    {"cuEventRecord", "timed", .prepare = make_events, .call = c_record, .done = drop_events, .flags = STREAM | QUEUES},
    {"cuEventRecord", "interprocess", .prepare = make_events, .call = c_record, .done = drop_events, .a = IPC, .flags = STREAM | QUEUES},
    {"cuEventRecord", "one behind the semaphore, again", .prepare = make_event, .queue = record_on_gated, .call = c_record, .done = drop_event, .a = 2, .flags = STREAM, .where = EVERY & ~AT(DEV1_NB)},
    {"cuEventRecordWithFlags", "untimed", .prepare = make_events, .call = c_record_flags, .done = drop_events, .a = 2, .flags = STREAM | QUEUES},
    {"cuEventQuery", "behind the semaphore", .prepare = make_event, .queue = record, .call = c_event_query, .done = drop_event, .a = 2, .flags = STREAM},
    {"cuEventQuery", "behind the semaphore, timed", .prepare = make_event, .queue = record, .call = c_event_query, .done = drop_event, .flags = STREAM | QUEUES},
    {"cuEventQuery", "done", .prepare = make_event_done, .call = c_event_query, .done = drop_event, .a = 2},
    {"cuEventSynchronize", "behind the semaphore, spinning", .prepare = make_event, .queue = record, .call = c_event_synchronize, .done = drop_event, .flags = STREAM},
    {"cuEventSynchronize", "behind the semaphore, blocking sync", .prepare = make_event, .queue = record, .call = c_event_synchronize, .done = drop_event, .a = 1, .flags = STREAM},
    {"cuEventSynchronize", "done", .prepare = make_event_done, .call = c_event_synchronize, .done = drop_event, .a = 2},
    {"cuEventElapsedTime", "both done", .prepare = make_two_events, .call = c_elapsed, .done = drop_two_events},
    {"cuEventElapsedTime", "one behind the semaphore", .prepare = make_two_events, .queue = record, .call = c_elapsed, .done = drop_two_events, .flags = STREAM},
    {"cuIpcGetEventHandle", "idle", .prepare = make_event, .call = c_event_handle, .done = drop_event, .a = IPC},
    {"cuIpcGetEventHandle", "behind the semaphore", .prepare = make_event, .queue = record, .call = c_event_handle, .done = drop_event, .a = IPC, .flags = STREAM},
    {"cuIpcOpenEventHandle", "", .call = c_open_event, .done = drop_event, .group = "ipc: event"},
    {"cuIpcGetMemHandle", "1 MiB", .prepare = allocate_device, .call = c_memory_handle, .done = drop_device, .size = M1},
    {"cuIpcGetMemHandle", "in use behind the semaphore", .prepare = allocate_device, .queue = fill_device_on_gated, .call = c_memory_handle, .done = drop_device, .size = M1, .where = APART & ~AT(DEV1_NB)},
    {"cuIpcOpenMemHandle_v2", "", .call = c_open_memory, .done = c_close_memory, .group = "ipc: open"},
    {"cuIpcCloseMemHandle", "not in use", .prepare = c_open_memory, .call = c_close_memory, .group = "ipc: close"},
    {"cuIpcCloseMemHandle", "in use behind the semaphore", .prepare = c_open_memory, .queue = q_use_opened, .call = c_close_memory, .where = APART & ~AT(DEV1_NB), .group = "ipc: close"},
    {"cuModuleLoadData", "PTX", .prepare = p_forget_modules, .call = c_load, .done = drop_made_modules},
    {"cuModuleLoadData", "PTX, eager loading", .prepare = p_forget_modules, .call = c_load, .done = drop_made_modules, .group = "eager loading"},
    {"cuModuleLoadData", "broken PTX", .prepare = p_forget_modules, .call = c_load, .done = drop_made_modules, .a = 1, .group = "broken PTX"},
    {"cuModuleLoadData", "cubin", .prepare = p_forget_modules_and_make_cubin, .call = c_load, .done = drop_made_modules, .a = 2, .group = "cubin"},
    {"cuModuleUnload", "never launched", .prepare = load_fresh_only, .call = drop_fresh},
    {"cuModuleUnload", "launched", .prepare = load_and_launch, .call = drop_fresh},
    {"cuModuleGetFunction", "first", .prepare = load_fresh_only, .call = c_get_function, .done = drop_fresh},
    {"cuModuleEnumerateFunctions", "", .prepare = load_fresh_only, .call = c_enumerate, .done = drop_fresh},
    {"cuModuleGetGlobal_v2", "first", .prepare = load_fresh_only, .call = c_get_global, .done = drop_fresh},
    {"cuFuncGetParamInfo", "", .prepare = load_fresh, .call = c_param_info, .done = drop_fresh},
    {"cuFuncGetAttribute", "local memory", .call = c_get_function_attribute},
    {"cuCtxGetLimit", "stack", .call = c_get_limit},
    {"cuLogsCurrent", "", .call = c_logs_current},
    {"cuLogsDumpToMemory", "", .call = c_logs_dump},
    {"cuCtxSetLimit", "a larger stack", .call = c_set_limit},
    {"cuStreamCreateWithPriority", "100 of them", .call = c_many_streams, .where = APART},
    {"cuFuncSetAttribute", "dynamic shared memory", .call = c_function_attribute, .a = 8, .b = 65536},
    {"cuFuncSetAttribute", "carveout, of a function never launched", .prepare = load_fresh, .call = c_function_attribute, .done = drop_fresh, .a = 9, .b = 50, .c = 1},
    {"cuLaunchKernelEx", "warm", .call = c_launch, .flags = STREAM | QUEUES},
    {"cuLaunchKernelEx", "the first of a kernel", .prepare = load_fresh, .call = launch_fresh, .done = drop_fresh, .flags = STREAM, .group = "first launch"},
    {"cuLaunchKernelEx", "the first of a kernel, eager loading", .prepare = load_fresh, .call = launch_fresh, .done = drop_fresh, .flags = STREAM, .where = FEW, .group = "eager loading"},
    {"cuLaunchKernelEx", "the first that needs so much local memory", .prepare = load_local, .call = launch_fresh, .done = drop_fresh, .flags = STREAM, .where = AT(NONE) | AT(OWN_NB) | AT(NB_NB) | AT(NUL_NB) | AT(DEV1_NB), .group = "local memory"},
    {"cuLaunchKernelEx", "96 KiB of shared memory", .prepare = allow_shared, .call = c_launch, .b = 96 * 1024, .flags = STREAM},
    {"cuLaunchKernelEx", "cooperative", .call = c_launch, .a = 1, .c = 4, .flags = STREAM | QUEUES},
    {"cuLaunchKernelEx", "100000 blocks", .call = c_launch, .c = 100000, .flags = STREAM},
    {"cuOccupancyMaxActiveBlocksPerMultiprocessor", "", .prepare = load_fresh, .call = c_occupancy, .done = drop_fresh},
    {"cuMemHostAlloc", "64 B", .call = c_host_allocate, .done = drop_pinned, .size = 64},
    {"cuMemHostAlloc", "64 MiB", .call = c_host_allocate, .done = drop_pinned, .size = M64},
    {"cuMemFreeHost", "64 KiB", .prepare = allocate_pinned, .call = c_host_free, .done = drop_pinned, .size = K64},
    {"cuMemFreeHost", "64 MiB", .prepare = allocate_pinned, .call = c_host_free, .done = drop_pinned, .size = M64},
    {"cuMemHostRegister_v2", "64 KiB", .prepare = make_plain, .call = c_host_register, .done = drop_plain, .size = K64},
    {"cuMemHostRegister_v2", "64 MiB", .prepare = make_plain, .call = c_host_register, .done = drop_plain, .size = M64},
    {"cuMemHostUnregister", "64 KiB", .prepare = make_registered, .call = c_host_unregister, .done = drop_plain, .size = K64},
    {"cuMemHostUnregister", "64 MiB", .prepare = make_registered, .call = c_host_unregister, .done = drop_plain, .size = M64},
    {"cuMemFreeHost", "in use behind the semaphore", .prepare = allocate_pinned, .queue = fill_pinned_on_gated, .call = c_host_free, .done = drop_pinned, .size = K64, .where = APART & ~AT(DEV1_NB)},
    {"cuMemAlloc_v2", "64 B", .call = c_allocate, .done = drop_device, .size = 64},
    {"cuMemAlloc_v2", "64 MiB", .call = c_allocate, .done = drop_device, .size = M64},
    {"cuMemAlloc_v2", "4 GiB", .call = c_allocate, .done = drop_device, .size = G4},
    {"cuMemFree_v2", "64 B", .prepare = allocate_device, .call = c_free, .done = drop_device, .size = 64},
    {"cuMemFree_v2", "64 MiB", .prepare = allocate_device, .call = c_free, .done = drop_device, .size = M64},
    {"cuMemFree_v2", "64 MiB from cuMemAllocAsync", .prepare = allocate_one_async, .call = c_free, .done = drop_device, .size = M64},
    {"cuMemGetAddressRange_v2", "", .call = c_range},
    {"cuMemAllocAsync", "64 B", .call = c_allocate_async, .done = drop_allocated_async, .size = 64, .flags = STREAM | QUEUES},
    {"cuMemAllocAsync", "64 MiB", .call = c_allocate_async, .done = drop_allocated_async, .size = M64, .flags = STREAM},
    {"cuMemAllocAsync", "4 GiB", .call = c_allocate_async, .done = drop_allocated_async, .size = G4, .flags = STREAM, .group = "cuMemAllocAsync, large"},
    {"cuMemAllocAsync", "64 MiB that the gated stream freed behind the semaphore", .queue = allocate_and_free_behind, .call = c_allocate_async, .done = drop_allocated_async, .size = M64, .flags = STREAM, .where = EVERY & ~AT(DEV1_NB)},
    {"cuMemAllocAsync", "4 GiB that the gated stream freed behind the semaphore", .queue = allocate_and_free_behind, .call = c_allocate_async, .done = drop_allocated_async, .size = G4, .flags = STREAM, .where = FEW & ~AT(DEV1_NB), .group = "cuMemAllocAsync, large"},
    {"cuMemAllocAsync", "where memory runs short and some is freed behind the semaphore", .prepare = p_nearly_all, .queue = q_free_nearly_all, .call = c_allocate_async, .done = d_nearly_all, .size = G4, .flags = STREAM, .where = AT(NONE) | AT(OWN_NB) | AT(NB_NB), .group = "alone: memory runs short", .limit = 1500},
    {"cuMemAlloc_v2", "where memory runs short and some is freed behind the semaphore", .prepare = p_nearly_all, .queue = q_free_nearly_all, .call = c_allocate, .done = d_nearly_all, .b = 2, .size = G4, .where = AT(NONE) | AT(NB_NB), .group = "alone: memory runs short", .limit = 1500},
    {"cuMemFreeAsync", "64 B", .prepare = allocate_many_async, .call = c_free_async, .done = drop_rest_async, .size = 64, .flags = STREAM | QUEUES},
    {"cuMemFreeAsync", "64 MiB", .prepare = allocate_many_async, .call = c_free_async, .done = drop_rest_async, .size = M64, .flags = STREAM, .where = FEW},
    {"cuMemGetInfo_v2", "", .call = c_memory_info},
    {"cuDeviceGetDefaultMemPool", "", .call = c_default_pool},
    {"cuDeviceGetMemPool", "", .call = c_device_pool},
    {"cuMemPoolCreate", "", .call = make_own_pool, .done = drop_own_pools},
    {"cuMemPoolDestroy", "that keeps 64 MiB unused", .prepare = make_filled_pool, .call = c_pool_destroy, .size = M64},
    {"cuMemPoolDestroy", "with 64 MiB alive", .prepare = make_filled_pool, .call = c_pool_destroy, .done = drop_pool_memory, .size = M64, .a = 1},
    {"cuMemPoolDestroy", "with 64 MiB freed behind the semaphore", .prepare = make_filled_pool, .queue = free_behind, .call = c_pool_destroy, .size = M64, .a = 1, .where = APART & ~AT(DEV1_NB)},
    {"cuMemPoolGetAttribute", "the bytes in use", .prepare = make_own_pool, .call = c_pool_get, .done = drop_own_pools, .a = 7},
    {"cuMemPoolSetAttribute", "the release threshold", .prepare = make_filled_pool, .call = c_pool_set, .done = drop_own_pools, .size = M64, .a = 4},
    {"cuMemPoolSetAttribute", "the most bytes in use", .prepare = make_own_pool, .call = c_pool_set, .done = drop_own_pools, .a = 8},
    {"cuMemPoolTrimTo", "64 MiB unused", .prepare = make_filled_pool, .call = c_pool_trim, .done = drop_own_pools, .size = M64},
    {"cuMemPoolTrimTo", "1 GiB unused", .prepare = make_filled_pool, .call = c_pool_trim, .done = drop_own_pools, .size = G4 / 4},
    {"cuMemPoolTrimTo", "64 MiB freed behind the semaphore", .prepare = make_filled_pool, .queue = free_behind, .call = c_pool_trim, .done = drop_own_pools, .size = M64, .a = 1, .where = APART & ~AT(DEV1_NB)},
    {"cuMemAllocFromPoolAsync", "64 B", .prepare = make_own_pool, .call = c_allocate_from_pool, .done = d_allocated_from_pool, .size = 64, .flags = STREAM},
    {"cuMemAllocFromPoolAsync", "64 MiB", .prepare = make_own_pool, .call = c_allocate_from_pool, .done = d_allocated_from_pool, .size = M64, .flags = STREAM},
    {"cuMemFreeAsync", "of memory from cuMemAlloc", .prepare = allocate_many_device, .call = c_free_async, .done = drop_rest_device, .size = M1, .flags = STREAM, .where = EVERY},
    {"cuMemsetD8Async", "64 B of device memory", .call = c_memset, .a = 8, .size = 64, .flags = STREAM | QUEUES},
    {"cuMemsetD8Async", "1 MiB of device memory", .call = c_memset, .a = 8, .size = M1, .flags = STREAM},
    {"cuMemsetD8Async", "64 B of pinned memory", .call = c_memset, .a = 8, .b = 1, .size = 64, .flags = STREAM | QUEUES},
    {"cuMemsetD8Async", "1 MiB of pinned memory", .call = c_memset, .a = 8, .b = 1, .size = M1, .flags = STREAM},
    {"cuMemsetD16Async", "64 B of device memory", .call = c_memset, .a = 16, .size = 64, .flags = STREAM | QUEUES},
    {"cuMemsetD16Async", "1 MiB of pinned memory", .call = c_memset, .a = 16, .b = 1, .size = M1, .flags = STREAM},
    {"cuMemsetD32Async", "64 B of device memory", .call = c_memset, .a = 32, .size = 64, .flags = STREAM | QUEUES},
    {"cuMemsetD32Async", "1 MiB of pinned memory", .call = c_memset, .a = 32, .b = 1, .size = M1, .flags = STREAM},
    {"cuMemsetD2D8Async", "64 KiB of device memory", .call = c_memset_rows, .a = 8, .size = K64, .flags = STREAM | QUEUES},
    {"cuMemsetD2D8Async", "1 MiB of pinned memory", .call = c_memset_rows, .a = 8, .b = 1, .size = M1, .flags = STREAM},
    {"cuMemsetD2D16Async", "64 KiB of device memory", .call = c_memset_rows, .a = 16, .size = K64, .flags = STREAM | QUEUES},
    {"cuMemsetD2D32Async", "64 KiB of device memory", .call = c_memset_rows, .a = 32, .size = K64, .flags = STREAM | QUEUES},
    {"cuPointerGetAttribute", "device ordinal", .call = c_pointer_attribute, .a = 9},
    {"cuPointerGetAttribute", "device ordinal of pinned memory", .call = c_pointer_attribute, .a = 9, .b = 1},
    {"cuPointerGetAttribute", "memory pool", .call = c_pointer_attribute, .a = 17},
    {"cuPointerGetAttribute", "can be shared with processes", .call = c_pointer_attribute, .a = 10},
};

/* ---- all tests, the copies among them --------------------------------------------------------------------------------- */

#define MOST_TESTS 1024
static struct test tests[MOST_TESTS];
static int test_count;

static char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *text(const char *format, ...) {
  char *made_text;
  va_list arguments;
  va_start(arguments, format);
  if (vasprintf(&made_text, format, arguments) < 0) abort();
  va_end(arguments);
  return made_text;
}

static const size_t sizes[] = {64, K64, M1, M64};
static const char *const size_names[] = {"64 B", "64 KiB", "1 MiB", "64 MiB"};

/* A process takes a while to begin: functions that are not likely to wait share one. */
static const struct {
  const char *name, *functions;
} together[] = {
    {"getters", "cuInit cuDriverGetVersion cuDeviceGetCount cuDeviceGet cuDeviceGetName cuDeviceGetUuid_v2 cuDeviceGetPCIBusId cuDeviceGetAttribute "
                "cuDeviceCanAccessPeer cuDevicePrimaryCtxRetain cuCtxGetCurrent cuCtxSetCurrent cuCtxGetDevice "
                "cuCtxGetStreamPriorityRange cuStreamGetCtx_v2 cuStreamGetId cuStreamGetFlags cuStreamGetPriority cuStreamSetAttribute cuStreamCopyAttributes cuProfilerStart cuProfilerStop "
                "cuStreamIsCapturing cuStreamQuery cuStreamGetCaptureInfo_v3 cuThreadExchangeStreamCaptureMode "
                "cuPointerGetAttribute cuMemGetAddressRange_v2 cuIpcGetMemHandle cuLogsCurrent cuLogsDumpToMemory "},
    {"functions", "cuModuleGetFunction cuModuleEnumerateFunctions cuModuleGetGlobal_v2 cuFuncGetParamInfo cuFuncGetModule cuFuncGetAttribute cuFuncSetAttribute cuCtxGetLimit cuCtxSetLimit cuOccupancyMaxActiveBlocksPerMultiprocessor "},
    {"events", "cuCtxRecordEvent cuEventCreate cuEventDestroy_v2 cuEventRecord cuEventRecordWithFlags cuEventQuery "
               "cuEventElapsedTime cuIpcGetEventHandle "},
    {"streams", "cuStreamCreateWithPriority cuStreamDestroy_v2 cuStreamWaitEvent cuStreamBatchMemOp_v2 "
                "cuStreamBeginCapture_v2 cuStreamEndCapture "},
    {"nodes of graphs", "cuStreamBeginCaptureToGraph cuStreamUpdateCaptureDependencies_v2 cuGraphAddNode_v2 "
                        "cuGraphChildGraphNodeGetGraph cuGraphNodeFindInClone cuGraphNodeGetType cuGraphGetEdges_v2 "
                        "cuGraphKernelNodeGetParams_v2 cuFuncGetName cuGraphMemcpyNodeGetParams cuGraphMemsetNodeGetParams cuGraphNodeGetParams "},
    {"changed nodes", "cuGraphExecNodeSetParams cuGraphNodeSetEnabled cuGraphNodeGetEnabled "},
    {"green contexts", "cuDeviceGetDevResource cuDevSmResourceSplitByCount cuDevResourceGenerateDesc cuGreenCtxCreate "
                       "cuGreenCtxDestroy cuGreenCtxGetDevResource cuGreenCtxStreamCreate cuCtxFromGreenCtx "},
    {"graphs", "cuGraphGetNodes cuGraphDebugDotPrint cuGraphDestroy cuGraphInstantiateWithFlags "
               "cuGraphConditionalHandleCreate cuGraphNodeSetParams cuGraphExecUpdate_v2 cuGraphUpload "},
    {"launches of graphs", "cuGraphLaunch cuGraphExecDestroy "},
    {"fills", "cuMemsetD8Async cuMemsetD16Async cuMemsetD32Async cuMemsetD2D8Async cuMemsetD2D16Async cuMemsetD2D32Async "},
    {"allocations", "cuMemHostAlloc cuMemAlloc_v2 cuMemAllocAsync cuMemFreeAsync "},
    {"pools", "cuMemGetInfo_v2 cuDeviceGetDefaultMemPool cuDeviceGetMemPool cuMemPoolCreate cuMemPoolDestroy cuMemPoolGetAttribute cuMemPoolSetAttribute cuMemPoolTrimTo cuMemAllocFromPoolAsync "},
};

static const char *group_of(const char *function_name) {
  for (size_t i = 0; i < sizeof together / sizeof *together; i += 1) {
    const char *at = strstr(together[i].functions, text("%s ", function_name));
    if (at != NULL && (at == together[i].functions || at[-1] == ' ')) return together[i].name;
  }
  return function_name;
}

static void add_copy(const char *name, enum how how, const char *with, long from, long to, int size, unsigned at, int more, const char *group) {
  struct test test = {name, text("%s to %s, %s%s", memory_names[from], memory_names[to], size_names[size], with),
                      .prepare = copy_prepare, .queue = copy_queue, .call = copy_call, .done = copy_done,
                      .flags = STREAM | ONCE | COPIES | more, .where = at, .a = from, .b = to, .c = how, .size = sizes[size], .group = group};
  if (from == PEER || to == PEER) test.flags |= TWO;
  tests[test_count++] = test;
}

static void collect_tests(void) {
  for (int from = 0; from < MEMORIES; from += 1) {
    for (int size = 0; size < 4; size += 1) {
      for (int to = 0; to < MEMORIES; to += 1) {
        int often = size == 0 || size == 2;
        char *group = text("copies from %s%s", memory_names[from], !is_host(from) ? "" : size < 2 ? ", small" : ", large");
        add_copy("cuMemcpyAsync", PLAIN, "", from, to, size, often ? EVERY : AT(NONE) | AT(OWN_NB) | AT(NB_NB), size == 0 && from != PAGEABLE ? QUEUES : 0, group);
      }
    }
  }
  static const struct {
    const char *name, *with;
  } hows[HOWS] = {
      [HTOD] = {"cuMemcpyHtoDAsync_v2", ""},
      [DTOH] = {"cuMemcpyDtoHAsync_v2", ""},
      [DTOD] = {"cuMemcpyDtoDAsync_v2", ""},
      [TWO_D_HOST] = {"cuMemcpy2DAsync_v2", ", HOST to HOST"},
      [TWO_D_DEVICE] = {"cuMemcpy2DAsync_v2", ", DEVICE to DEVICE"},
      [TWO_D_UNIFIED] = {"cuMemcpy2DAsync_v2", ", UNIFIED to UNIFIED"},
      [TWO_D_MIXED] = {"cuMemcpy2DAsync_v2", ", HOST to DEVICE"},
      [THREE_D] = {"cuMemcpy3DAsync_v2", ", HOST to HOST"},
      [ROWS] = {"cuMemcpy3DAsync_v2", ", in eight rows, UNIFIED to UNIFIED"},
      [PEER_COPY] = {"cuMemcpyPeerAsync", ""},
      [BATCH] = {"cuMemcpyBatchAsync", ""},
      [GRAPH_NODE] = {"cuGraphLaunch", ", a graph with this copy"},
      [CAPTURED] = {"cuGraphLaunch", ", a graph with this copy, captured"},
      [CAPTURING] = {"cuMemcpyAsync", ", into a capture"},
      [BOUNCE] = {"cuMemcpyAsync", ", two of them by way of device memory"},
      [KERNEL] = {"cuLaunchKernelEx", ", a kernel that copies"},
  };
  for (int how = PLAIN + 1; how < HOWS; how += 1) {
    for (int size = 0; size < 4; size += 1) {
      unsigned at = size == 0 || size == 2 ? FEW : AT(OWN_NB) | AT(NB_NB);
      add_copy(hows[how].name, (enum how)how, hows[how].with, PINNED, PINNED, size, at, 0, text("pinned to pinned, %s", how < TWO_D_HOST ? "one dimension" : how < PEER_COPY ? "two dimensions" : how < CAPTURED ? "three kinds" : "in steps"));
    }
  }
  for (int size = 0; size < 4; size += 1) {
    add_copy("cuMemcpyPeerAsync", PEER_COPY, "", DEVICE, DEVICE, size, 0, size == 0 ? QUEUES : 0, "cuMemcpyPeerAsync");
    add_copy("cuMemcpyPeerAsync", PEER_COPY, "", DEVICE, PEER, size, 0, size == 0 ? QUEUES : 0, "cuMemcpyPeerAsync");
    add_copy("cuMemcpyPeerAsync", PEER_COPY, "", PEER, DEVICE, size, 0, 0, "cuMemcpyPeerAsync");
    add_copy("cuMemcpyPeerAsync", PEER_COPY, "", DEVICE, PINNED, size, FEW, 0, "cuMemcpyPeerAsync");
  }
  static const long ends[][2] = {{DEVICE, DEVICE}, {DEVICE, PINNED}, {PINNED, DEVICE}, {DEVICE, REGISTERED}, {REGISTERED, DEVICE}, {DEVICE, PEER}, {PEER, DEVICE}};
  for (size_t end = 0; end < sizeof ends / sizeof *ends; end += 1) {
    for (int size = 0; size < 4; size += 1) {
      add_copy(hows[ROWS].name, ROWS, hows[ROWS].with, ends[end][0], ends[end][1], size, size == 0 || size == 2 ? FEW : AT(OWN_NB) | AT(NB_NB), size == 0 ? QUEUES : 0, "copies of rows");
    }
  }
  for (size_t i = 0; i < sizeof ledger / sizeof *ledger; i += 1) tests[test_count++] = ledger[i];
  for (int i = 0; i < test_count; i += 1) {
    if (tests[i].group == NULL) tests[i].group = group_of(tests[i].function);
    if (tests[i].where == 0) tests[i].where = tests[i].flags & STREAM ? EVERY : APART;
  }
}

static int applies(const struct test *t, int place, int full) {
  if (!(t->where & AT(place))) return 0;
  if ((t->flags & TWO || place == DEV1_NB) && devices < 2) return 0;
  if (t->flags & NO_PEER && place == DEV1_NB) return 0;
  return !full || (t->flags & QUEUES && (place == NB_NB || (place == OWN_NB && t->flags & STREAM)));
}

/* ---- a try -------------------------------------------------------------------------------------------------------------- */

enum phase { IDLE, PREPARING, QUEUEING, CALLING, RETURNED, OVER };
static volatile enum phase phase;
static volatile long since;
static sem_t start_call, start_probe;
static const struct test *trying;
static int trying_full;
static long call_ns;
static const char *volatile failure;

static void enter(enum phase next) {
  since = now();
  __sync_synchronize();
  phase = next;
}

static CUresult fail(const char *what, CUresult result) {
  if (failure == NULL) failure = what;
  return result;
}

#define NEED(what, call)                                              \
  do {                                                                \
    CUresult needed_ = (call);                                        \
    if (needed_ != CUDA_SUCCESS) return fail(what, needed_);          \
  } while (0)

struct probe;
static CUresult prepare_probe(void);
static CUresult finish_probe(void);

static CUresult stand(const struct test *t) {
  enum kind call = places[where].call, gated = places[where].gated;
  NEED("making a stream", make_stream(&S, call));
  if (places[where].own) G = S;
  else NEED("making a stream", make_stream(&G, gated));
  if (places[where].graph && gate_graph == NULL) NEED("making a graph with a semaphore", make_gate_graph());
  if (t->prepare != NULL) NEED("preparing", t->prepare(t));
  NEED("preparing the second thread's call", prepare_probe());
  NEED("synchronizing", p_cuCtxSynchronize());
  if (where == NONE) return CUDA_SUCCESS;
  if (places[where].graph) NEED("launching the semaphore", p_cuGraphLaunch(gate_graph, G));
  else NEED("queueing the semaphore", queue_gate(G));
  for (long begun = now(); word[ARRIVED] == 0;) {
    if (now() - begun > 2000000000L) return fail("the stream does not come to the semaphore", CUDA_ERROR_UNKNOWN);
    pause_us(20);
  }
  enter(QUEUEING);
  if (trying_full) {
    for (int i = 0; i < FULL_QUEUE; i += 1) NEED("filling the queue", p_cuMemsetD8Async(some_memory, 0, 4, G));
  }
  return CUDA_SUCCESS;
}

static void one_try(void) {
  const struct test *t = trying;
  call_ns = 0;
  call_result = stand(t);
  if (failure == NULL) {
    if (t->queue != NULL) {
      CUresult queued = t->queue(t);
      if (queued != CUDA_SUCCESS) {
        failure = "queueing behind the semaphore";
        call_result = queued;
      }
    }
  }
  int called = failure == NULL;
  if (called) {
    int times = trying_full ? CALLS_INTO_FULL_QUEUE : 1;
    while (made < times) {
      enter(CALLING);
      long begun = now();
      call_result = t->call(t);
      long took = now() - begun;
      if (took > call_ns) call_ns = took;
      if (call_result != CUDA_SUCCESS && !(times > 1 && call_result == CUDA_ERROR_NOT_READY)) break;
      made += 1;
    }
    if (made == 0) made = 1;
    if (t->call == copy_call) copy_returned(t);
  }
  enter(RETURNED);
  while (word[GO] == 0) pause_us(20);
  if (called && t->after != NULL) t->after(t);
  CUresult ended = p_cuCtxSynchronize();
  if (ended == CUDA_SUCCESS && where == DEV1_NB) ended = p_cuStreamSynchronize(G);
  if (called && t->done != NULL) {
    CUresult cleaned = t->done(t);
    if (cleaned != CUDA_SUCCESS && call_result == CUDA_SUCCESS) remark("cleaning up: %s", result_name(cleaned));
  }
  if (ended != CUDA_SUCCESS) remark("synchronizing: %s", result_name(ended));
  finish_probe();
  if (!places[where].own && is_made(places[where].gated)) p_cuStreamDestroy(G);
  if (is_made(places[where].call) && !S_gone) p_cuStreamDestroy(S);
  enter(OVER);
}

static void *caller(void *unused) {
  (void)unused;
  p_cuCtxSetCurrent(context[0]);
  for (;;) {
    while (sem_wait(&start_call) != 0) {}
    one_try();
  }
  return NULL;
}

static void open_gate(void) {
  __sync_synchronize();
  word[GO] = 1;
}

static void begin_try(const struct test *t, enum place place, int full) {
  word[ARRIVED] = word[GO] = word[SCRATCH] = 0;
  where = place;
  trying = t;
  trying_full = full;
  S_gone = made = 0;
  note[0] = 0;
  failure = NULL;
  enter(PREPARING);
  sem_post(&start_call);
}

/* The line of the test under way, without the outcome: the parent finishes it where this process cannot. */
static char line[512];

static void stuck(const char *what) {
  say("R\t%s\tstuck\t-\t%ld\t%s\n", line, (now() - since) / 1000, what);
  _exit(3);
}

#define STUCK_AFTER 6000000000L

/* Returns what came of it. The semaphore is open when it returns, and nothing is pending. */
static const char *watch_try(void) {
  const char *outcome = "returns";
  int opened = 0, accepted = 0;
  for (;;) {
    enum phase seen = phase;
    __sync_synchronize();
    long age = now() - since;
    if (seen == OVER) break;
    if (seen == QUEUEING && !opened && age > 1000000000L) {
      failure = "what is queued first waits";
      open_gate();
      opened = 1;
    }
    if (seen == CALLING && !opened && age > (trying->limit > 0 ? trying->limit : limit_ms) * 1000000L) {
      outcome = "waits";
      accepted = made;
      open_gate();
      opened = 1;
    }
    if (seen == RETURNED && !opened) {
      accepted = made;
      open_gate();
      opened = 1;
    }
    if (age > STUCK_AFTER && (seen == CALLING || age > 2 * STUCK_AFTER))
      stuck(seen == CALLING ? "" : seen == PREPARING ? "while preparing" : seen == QUEUEING ? "while queueing" : "afterwards");
    pause_us(50);
  }
  if (failure != NULL) {
    outcome = "failed";
    remark("%s", failure);
  } else if (trying_full) {
    remark("accepted %d", accepted);
  }
  return outcome;
}

static void measure(const struct test *t, enum place place, int full) {
  int waited = 0, tries = 0;
  const char *outcome;
  /* Something else may have taken the time, another process above all: so what waits is tried again. */
  do {
    begin_try(t, place, full);
    outcome = watch_try();
    tries += 1;
    waited += strcmp(outcome, "waits") == 0;
  } while (!(t->flags & ONCE) && tries < 3 && waited > 0 && (tries < 2 || waited < tries));
  if (waited > 0 && waited < tries) remark("waited in %d of %d tries", waited, tries);
  say("R\t%s\t%s\t%s\t%ld\t%s\n", line, outcome, result_name(call_result), call_ns / 1000, note);
}

static const char *place_name(const struct test *t, int place) {
  return t->flags & STREAM ? places[place].of_stream : places[place].of_call;
}

/* ---- two threads --------------------------------------------------------------------------------------------------------- */

struct probe {
  const char *name;
  CUresult (*prepare)(void), (*call)(void), (*done)(void);
};

static CUevent probe_event, probe_timed;
static CUstream probe_stream;
static CUdeviceptr probe_pointer;
static void *probe_host;
static CUmodule probe_module;
static CUgraph probe_graph;
static CUgraphExec probe_instance;
static const struct probe *probing;
static volatile enum phase probe_phase;
static CUresult probe_result;
static long probe_ns;

#define DO(name, body) \
  static CUresult name(void) { body }
DO(pp_event, TRY(p_cuEventCreate(&probe_event, 2)); TRY(p_cuEventCreate(&probe_timed, 0)); TRY(p_cuEventRecord(probe_timed, B)); return p_cuEventRecord(probe_event, B);)
DO(pd_event, TRY(p_cuEventDestroy(probe_timed)); return p_cuEventDestroy(probe_event);)
DO(pc_event_query, return p_cuEventQuery(probe_event);)
DO(pc_event_synchronize, return p_cuEventSynchronize(probe_event);)
DO(pc_elapsed, float ms; return p_cuEventElapsedTime(&ms, probe_timed, probe_timed);)
DO(pc_stream_query, return p_cuStreamQuery(B);)
DO(pc_stream_synchronize, return p_cuStreamSynchronize(B);)
DO(pc_record, return p_cuEventRecord(probe_event, B);)
DO(pc_record_timed, return p_cuEventRecord(probe_timed, B);)
DO(pc_context_record, return p_cuCtxRecordEvent(context[0], probe_event);)
DO(pc_wait, return p_cuStreamWaitEvent(B, probe_event, 0);)
DO(pc_memset, return p_cuMemsetD8Async(some_memory, 0, 64, B);)
DO(pc_launch, return launch(empty, B, 0, 0, 1, NULL);)
DO(pc_write, CUstreamBatchMemOpParams op = write_word(SCRATCH, 5); return p_cuStreamBatchMemOp(B, 1, &op, 0);)
DO(pc_is_capturing, CUstreamCaptureStatus status; return p_cuStreamIsCapturing(B, &status);)
DO(pc_stream_id, unsigned long long id; return p_cuStreamGetId(B, &id);)
DO(pc_exchange, return c_exchange(NULL);)
DO(pc_get_current, return c_get_current(NULL);)
DO(pc_set_current, return p_cuCtxSetCurrent(context[0]);)
DO(pc_attribute, int value; return p_cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device[0]);)
DO(pc_pointer, uint64_t value[4]; return p_cuPointerGetAttribute(value, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, some_memory);)
DO(pc_stream_create, return p_cuStreamCreateWithPriority(&probe_stream, CU_STREAM_NON_BLOCKING, 0);)
DO(pc_stream_destroy, return p_cuStreamDestroy(probe_stream);)
DO(pc_event_create, return p_cuEventCreate(&probe_event, 2);)
DO(pc_event_destroy, return p_cuEventDestroy(probe_event);)
DO(pc_allocate_async, return p_cuMemAllocAsync(&probe_pointer, 1 << 20, B);)
DO(pc_free_async, return p_cuMemFreeAsync(probe_pointer, B);)
DO(pc_allocate, return p_cuMemAlloc(&probe_pointer, 1 << 20);)
DO(pc_free, return p_cuMemFree(probe_pointer);)
DO(pc_host_allocate, return p_cuMemHostAlloc(&probe_host, 1 << 16, 3);)
DO(pc_host_free, return p_cuMemFreeHost(probe_host);)
DO(pc_to_host, return p_cuMemcpyAsync((CUdeviceptr)(uintptr_t)some_pinned, some_memory, 1024, B);)
DO(pc_to_device, return p_cuMemcpyAsync(some_memory, (CUdeviceptr)(uintptr_t)some_pinned, 1024, B);)
DO(pc_between, return p_cuMemcpyAsync((CUdeviceptr)(uintptr_t)some_pinned, (CUdeviceptr)(uintptr_t)some_pinned + 4096, 1024, B);)
DO(pp_graph, CUstream stream; TRY(begin_graph(&stream)); TRY(launch(empty, stream, 0, 0, 1, NULL)); return end_graph(stream, &probe_graph);)
DO(pp_instance, TRY(pp_graph()); return p_cuGraphInstantiateWithFlags(&probe_instance, probe_graph, 0);)
DO(pc_instantiate, return p_cuGraphInstantiateWithFlags(&probe_instance, probe_graph, 0);)
DO(pc_graph_launch, return p_cuGraphLaunch(probe_instance, B);)
DO(pd_instance, TRY(p_cuGraphExecDestroy(probe_instance)); return p_cuGraphDestroy(probe_graph);)
DO(pc_begin_capture, return p_cuStreamBeginCapture(probe_stream, CU_STREAM_CAPTURE_MODE_RELAXED);)
DO(pc_load, return p_cuModuleLoadData(&probe_module, FRESH);)
DO(pd_load, return p_cuModuleUnload(probe_module);)
#undef DO

static const struct probe probes[] = {
    {"cuEventQuery", pp_event, pc_event_query, pd_event},
    {"cuStreamQuery", 0, pc_stream_query, 0},
    {"cuEventRecord", pp_event, pc_record, pd_event},
    {"cuEventRecord, timed", pp_event, pc_record_timed, pd_event},
    {"cuCtxRecordEvent", pp_event, pc_context_record, pd_event},
    {"cuStreamWaitEvent", pp_event, pc_wait, pd_event},
    {"cuStreamBatchMemOp_v2", 0, pc_write, 0},
    {"cuMemsetD8Async", 0, pc_memset, 0},
    {"cuLaunchKernelEx", 0, pc_launch, 0},
    {"cuGraphLaunch", pp_instance, pc_graph_launch, pd_instance},
    {"cuMemcpyAsync, device to pinned", 0, pc_to_host, 0},
    {"cuMemcpyAsync, pinned to device", 0, pc_to_device, 0},
    {"cuMemcpyAsync, pinned to pinned", 0, pc_between, 0},
    {"cuEventSynchronize, done", pp_event, pc_event_synchronize, pd_event},
    {"cuStreamSynchronize, idle", 0, pc_stream_synchronize, 0},
    {"cuEventElapsedTime", pp_event, pc_elapsed, pd_event},
    {"cuStreamIsCapturing", 0, pc_is_capturing, 0},
    {"cuStreamGetId", 0, pc_stream_id, 0},
    {"cuThreadExchangeStreamCaptureMode", 0, pc_exchange, 0},
    {"cuCtxGetCurrent", 0, pc_get_current, 0},
    {"cuCtxSetCurrent", 0, pc_set_current, 0},
    {"cuDeviceGetAttribute", 0, pc_attribute, 0},
    {"cuPointerGetAttribute", 0, pc_pointer, 0},
    {"cuStreamCreateWithPriority", 0, pc_stream_create, pc_stream_destroy},
    {"cuStreamDestroy_v2", pc_stream_create, pc_stream_destroy, 0},
    {"cuEventCreate", 0, pc_event_create, pc_event_destroy},
    {"cuEventDestroy_v2", pc_event_create, pc_event_destroy, 0},
    {"cuStreamBeginCapture_v2", pc_stream_create, pc_begin_capture, pc_stream_destroy},
    {"cuGraphInstantiateWithFlags", pp_graph, pc_instantiate, pd_instance},
    {"cuMemAllocAsync", 0, pc_allocate_async, pc_free_async},
    {"cuMemFreeAsync", pc_allocate_async, pc_free_async, 0},
    {"cuMemAlloc_v2", 0, pc_allocate, pc_free},
    {"cuMemHostAlloc", 0, pc_host_allocate, pc_host_free},
    {"cuModuleLoadData", 0, pc_load, pd_load},
};
#define PROBES ((int)(sizeof probes / sizeof *probes))

static CUresult prepare_probe(void) { return probing != NULL && probing->prepare != NULL ? probing->prepare() : CUDA_SUCCESS; }

static CUresult finish_probe(void) {
  if (probing == NULL || probe_phase == IDLE) return CUDA_SUCCESS;
  while (probe_phase != OVER) pause_us(20);
  if (probing->done == NULL || (probe_result != CUDA_SUCCESS && probing->prepare == NULL)) return CUDA_SUCCESS;
  probing->done();
  return p_cuCtxSynchronize();
}

static void *prober(void *unused) {
  (void)unused;
  p_cuCtxSetCurrent(context[0]);
  for (;;) {
    while (sem_wait(&start_probe) != 0) {}
    long begun = now();
    probe_result = probing->call();
    probe_ns = now() - begun;
    __sync_synchronize();
    probe_phase = OVER;
  }
  return NULL;
}

STEP(h_nothing) {
  UNUSED;
  while (word[GO] == 0) pause_us(50);
  return CUDA_SUCCESS;
}
STEP(h_large_up) {
  (void)t;
  return p_cuMemcpyAsync(buffers[DEVICE][1], buffers[PAGEABLE][0], M64, S);
}
STEP(hp_large_up) {
  (void)t;
  TRY(buffer(DEVICE, 1));
  return buffer(PAGEABLE, 0);
}

/* What the first thread is inside of. The semaphore is at .where. */
static const struct test holders[] = {
    {"(nothing)", "only the semaphore stands", .call = h_nothing, .where = NB_NB},
    {"cuStreamSynchronize", "", .call = c_stream_synchronize, .where = OWN_NB},
    {"cuStreamSynchronize", "the null stream", .call = c_stream_synchronize, .where = BL_NUL},
    {"cuStreamSynchronize", "context made for blocking sync", .call = c_stream_synchronize, .where = OWN_NB, .group = "blocking-sync context"},
    {"cuEventSynchronize", "spinning", .prepare = make_event, .queue = record, .call = c_event_synchronize, .done = drop_event, .where = OWN_NB},
    {"cuEventSynchronize", "blocking sync", .prepare = make_event, .queue = record, .call = c_event_synchronize, .done = drop_event, .a = 1, .where = OWN_NB},
    {"cuCtxSynchronize", "", .call = c_context_synchronize, .where = NB_NB},
    {"cuCtxSynchronize", "context made for blocking sync", .call = c_context_synchronize, .where = NB_NB, .group = "blocking-sync context"},
    {"cuModuleLoadData", "PTX", .prepare = p_forget_modules, .call = c_load, .done = drop_made_modules, .where = NB_NB},
    {"cuModuleUnload", "", .prepare = load_and_launch, .call = drop_fresh, .where = NB_NB},
    {"cuMemFree_v2", "64 MiB", .prepare = allocate_device, .call = c_free, .done = drop_device, .size = M64, .where = NB_NB},
    {"cuMemFreeHost", "64 KiB", .prepare = allocate_pinned, .call = c_host_free, .done = drop_pinned, .size = K64, .where = NB_NB},
    {"cuMemHostUnregister", "64 KiB", .prepare = make_registered, .call = c_host_unregister, .done = drop_plain, .size = K64, .where = NB_NB},
    {"cuMemcpyAsync", "pinned to pinned, 64 KiB", .prepare = copy_prepare, .call = copy_call, .done = copy_done, .a = PINNED, .b = PINNED, .size = K64, .where = OWN_NB},
    {"cuMemcpyAsync", "device to pageable, 64 KiB", .prepare = copy_prepare, .call = copy_call, .done = copy_done, .a = DEVICE, .b = PAGEABLE, .size = K64, .where = OWN_NB},
    {"cuMemcpyAsync", "pageable to device, 64 MiB", .prepare = hp_large_up, .call = h_large_up, .where = OWN_NB},
    {"cuLaunchKernelEx", "into a full queue", .call = c_launch, .where = OWN_NB, .c = 1, .flags = QUEUES},
    {"cuMemsetD8Async", "into a full queue", .call = c_memset, .a = 8, .size = 64, .where = OWN_NB, .flags = QUEUES},
    {"cuStreamBatchMemOp_v2", "into a full queue", .call = c_batch, .a = 1, .where = OWN_NB, .flags = QUEUES},
    {"cuGraphLaunch", "into a full queue", .prepare = make_instance, .call = c_graph_launch, .done = drop_instance, .b = 1, .where = OWN_NB, .flags = QUEUES},
    {"cuIpcCloseMemHandle", "", .prepare = c_open_memory, .call = c_close_memory, .where = NB_NB, .group = "ipc:"},
    {"cuLaunchKernelEx", "the first that needs so much local memory", .prepare = load_local, .call = launch_fresh, .done = drop_fresh, .where = NB_NB, .group = "local memory"},
};
#define HOLDERS ((int)(sizeof holders / sizeof *holders))
#define HELD_AFTER 200000000L
/* So long must the first thread have been inside of its call. */
#define INSIDE 30000000L

static void measure_lock(const struct test *holder, const struct probe *probe) {
  probing = probe;
  probe_phase = IDLE;
  begin_try(holder, (enum place)holder->where, holder->flags & QUEUES ? 1 : 0);
  const char *outcome = NULL;
  while (phase != OVER) {
    enum phase seen = phase;
    __sync_synchronize();
    long age = now() - since;
    if (seen == RETURNED) break;
    if (seen == CALLING && age > INSIDE) {
      long begun = now();
      probe_phase = CALLING;
      sem_post(&start_probe);
      while (probe_phase != OVER && now() - begun < HELD_AFTER) pause_us(50);
      outcome = probe_phase == OVER ? "returns" : "held";
      if (phase != CALLING) outcome = NULL;
      break;
    }
    if (age > STUCK_AFTER) stuck("the first thread, before the semaphore opened");
    pause_us(50);
  }
  open_gate();
  for (long begun = now(); phase != OVER; pause_us(50)) {
    if (now() - begun > STUCK_AFTER) stuck(phase == CALLING ? "the first thread" : "the second thread, or synchronizing");
  }
  if (outcome == NULL) say("R\t%s\tfailed\t-\t0\t%s\n", line, failure != NULL ? failure : "the first thread's call does not wait");
  else say("R\t%s\t%s\t%s\t%ld\t\n", line, outcome, result_name(probe_result), probe_ns / 1000);
  probing = NULL;
}

/* ---- processes ----------------------------------------------------------------------------------------------------------- */

/* Makes what another process opens, and stays until that is gone. */
static void be_partner(int write_to, int parent_alive) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  CUdevice of;
  CUcontext current;
  CUdeviceptr memory;
  CUevent shared_event;
  if (p_cuInit(0) || p_cuDeviceGet(&of, 0) || p_cuDevicePrimaryCtxRetain(&current, of) || p_cuCtxSetCurrent(current)) _exit(5);
  if (p_cuMemAlloc(&memory, M1) || p_cuIpcGetMemHandle(&partner.memory, memory)) _exit(5);
  if (p_cuEventCreate(&shared_event, IPC) || p_cuIpcGetEventHandle(&partner.event, shared_event)) _exit(5);
  if (write(write_to, &partner, sizeof partner) != sizeof partner) _exit(5);
  char byte;
  while (read(parent_alive, &byte, 1) > 0) {}
  _exit(0);
}

static int start_partner(void) {
  int handles[2], alive[2];
  if (pipe(handles) != 0 || pipe(alive) != 0) return -1;
  if (fork() == 0) {
    close(alive[1]);
    close(out);
    be_partner(handles[1], alive[0]);
  }
  close(handles[1]);
  close(alive[0]);
  partner_pipe = alive[1];
  ssize_t got = read(handles[0], &partner, sizeof partner);
  close(handles[0]);
  return got == sizeof partner ? 0 : -1;
}

static int counted;
/* Is this the next test? The parent hears of it, so that it knows where the process ended. */
static int reach(int from, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int reach(int from, const char *format, ...) {
  if (counted++ < from) return 0;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  say("B\t%d\t%s\n", counted - 1, line);
  return 1;
}

static char *holder_group(int index) {
  const struct test *holder = &holders[index];
  return text("locks: %s %s%s%s", holder->function, holder->variant, holder->group ? ", " : "", holder->group ? holder->group : "");
}

static void run_group(const char *group, int from) {
  if (strstr(group, "eager loading")) setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  load_library(library_path);
  if (strstr(group, "ipc:") && start_partner() != 0) {
    say("F\tthe partner process failed\n");
    _exit(6);
  }
  CUresult opened = open_device(group);
  if (opened == CUDA_SUCCESS && devices > 1 && !strstr(group, "first retain")) opened = retain_other();
  if (opened != CUDA_SUCCESS) {
    say("F\topening the device: %s\n", result_name(opened));
    _exit(6);
  }
  pthread_t thread;
  sem_init(&start_call, 0, 0);
  sem_init(&start_probe, 0, 0);
  if (pthread_create(&thread, NULL, caller, NULL) != 0 || pthread_create(&thread, NULL, prober, NULL) != 0) _exit(6);
  for (int i = 0; i < test_count; i += 1) {
    const struct test *t = &tests[i];
    if (strcmp(t->group, group) != 0) continue;
    for (int full = 0; full < 2; full += 1) {
      for (int place = 0; place < PLACES; place += 1) {
        if (!applies(t, place, full)) continue;
        const char *separator = *t->variant && full ? ", " : "";
        if (!reach(from, "%s\t%s\t%s%s%s\t%s", t->flags & COPIES ? "copies" : "calls", t->function, t->variant, separator, full ? "full queue" : "", place_name(t, place))) continue;
        measure(t, (enum place)place, full);
      }
    }
  }
  for (int i = 0; i < HOLDERS; i += 1) {
    if (strcmp(holder_group(i), group) != 0) continue;
    for (int probe = 0; probe < PROBES; probe += 1) {
      if (reach(from, "locks\t%s\t%s\t%s", holders[i].function, holders[i].variant, probes[probe].name)) measure_lock(&holders[i], &probes[probe]);
    }
  }
  say("E\n");
  _exit(0);
}

/* ---- the parent ------------------------------------------------------------------------------------------------------------ */

#define MOST_GROUPS 1024
static struct {
  const char *name;
  int from;
} waiting[MOST_GROUPS];
static int waiting_count;

static int is_alone(const char *group) { return strncmp(group, "alone:", 6) == 0; }

static struct job {
  const char *group;
  pid_t pid;
  int pipe, from, index, over;
  long heard;
  char buffer[4096], line[512];
  size_t length;
} *running;

static int broken, untried;

static void start_job(struct job *job, const char *group, int from) {
  int ends[2];
  if (pipe(ends) != 0) {
    perror("pipe");
    exit(1);
  }
  fflush(stdout);
  memset(job, 0, sizeof *job);
  job->group = group;
  job->from = from;
  job->index = from - 1;
  job->pipe = ends[0];
  job->heard = now();
  job->pid = fork();
  if (job->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    out = ends[1];
    run_group(group, from);
  }
  close(ends[1]);
}

/* Tells whether the test under way has been reported. */
static void take_line(struct job *job, char *read_line) {
  job->heard = now();
  if (read_line[0] == 'B') {
    char *rest = NULL;
    job->index = (int)strtol(read_line + 2, &rest, 10);
    snprintf(job->line, sizeof job->line, "%s", rest + 1);
  } else if (read_line[0] == 'R') {
    job->line[0] = 0;
    untried += strstr(read_line, "\tfailed\t") != NULL;
    puts(read_line + 2);
  } else if (read_line[0] == 'E') {
    job->over = 1;
  } else {
    fprintf(stderr, "%s: %s\n", job->group, read_line + 2);
  }
}

static void hear(struct job *job) {
  ssize_t got = read(job->pipe, job->buffer + job->length, sizeof job->buffer - job->length - 1);
  if (got <= 0) {
    int status = 0;
    waitpid(job->pid, &status, 0);
    close(job->pipe);
    if (!job->over) {
      if (WIFSIGNALED(status)) fprintf(stderr, "%s: ended by signal %d at %s\n", job->group, WTERMSIG(status), job->line);
      if (job->line[0] != 0) printf("%s\tcrashed\t-\t0\tsignal %d\n", job->line, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
      /* Unless a test was reached, the next process would end the same way. */
      if (job->index >= job->from && waiting_count < MOST_GROUPS) {
        waiting[waiting_count].name = job->group;
        waiting[waiting_count++].from = job->index + 1;
      } else {
        broken = 1;
      }
    }
    job->pid = 0;
    return;
  }
  job->length += (size_t)got;
  job->buffer[job->length] = 0;
  char *begin = job->buffer, *end;
  while ((end = strchr(begin, '\n')) != NULL) {
    *end = 0;
    take_line(job, begin);
    begin = end + 1;
  }
  job->length = strlen(begin);
  memmove(job->buffer, begin, job->length + 1);
}

static void about(void) {
  int ends[2];
  char text_of[512];
  if (pipe(ends) != 0) exit(1);
  pid_t pid = fork();
  if (pid == 0) {
    load_library(library_path);
    out = ends[1];
    int version = 0, count = 0;
    char name[100] = "";
    CUdevice of = 0;
    CUresult result = p_cuInit(0);
    if (result == CUDA_SUCCESS) result = p_cuDeviceGetCount(&count);
    if (result == CUDA_SUCCESS) result = p_cuDeviceGet(&of, 0);
    if (result != CUDA_SUCCESS) {
      fprintf(stderr, "no GPU: %s\n", result_name(result));
      _exit(2);
    }
    p_cuDriverGetVersion(&version);
    p_cuDeviceGetName(name, sizeof name, of);
    if (count < devices) {
      fprintf(stderr, "--devices %d, and there are %d\n", devices, count);
      _exit(2);
    }
    say("about\t%s\tCUDA %d.%d\t-\t-\t-\t0\t%d of %d devices used; limit %d ms; CUDA_DEVICE_MAX_CONNECTIONS=%s\n", name, version / 1000, version % 1000 / 10, devices, count, limit_ms, getenv("CUDA_DEVICE_MAX_CONNECTIONS"));
    _exit(0);
  }
  close(ends[1]);
  ssize_t got = read(ends[0], text_of, sizeof text_of - 1);
  int status;
  waitpid(pid, &status, 0);
  if (got <= 0) exit(2);
  text_of[got] = 0;
  printf("table\tfunction\tvariant\tsemaphore\toutcome\tresult\ttime\tnote\n%s", text_of);
}

int main(int count, char **arguments) {
  const char *only = "";
  int list = 0;
  for (int i = 1; i < count; i += 1) {
    const char *name = arguments[i], *value = i + 1 < count ? arguments[i + 1] : "";
    if (strcmp(name, "--list") == 0) {
      list = 1;
      continue;
    }
    i += 1;
    if (strcmp(name, "--devices") == 0) devices = atoi(value);
    else if (strcmp(name, "--jobs") == 0) jobs = atoi(value);
    else if (strcmp(name, "--seconds") == 0) most_seconds = atoi(value);
    else if (strcmp(name, "--limit-ms") == 0) limit_ms = atoi(value);
    else if (strcmp(name, "--only") == 0) only = value;
    else if (strcmp(name, "--lib") == 0) library_path = value;
    else {
      fprintf(stderr, "unknown: %s (the head of blocking.c says what there is)\n", name);
      return 2;
    }
  }
  if (devices < 1 || devices > 2 || jobs < 1 || limit_ms < 1) {
    fprintf(stderr, "--devices 1 or 2, --jobs 1 or more, --limit-ms 1 or more\n");
    return 2;
  }
  setvbuf(stdout, NULL, _IOLBF, 0);
  /* With few hardware queues a stream can be stuck behind another's semaphore, which is not what is measured here. */
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  setenv("CUDA_CACHE_DISABLE", "1", 0);
  collect_tests();
  /* The longest first, since each is in a process of its own. */
  for (int i = 0; i < HOLDERS; i += 1) waiting[waiting_count++].name = holder_group(i);
  for (int i = 0; i < test_count; i += 1) {
    int known = tests[i].flags & TWO && devices < 2;
    for (int j = 0; j < waiting_count; j += 1) known |= strcmp(waiting[j].name, tests[i].group) == 0;
    if (!known) waiting[waiting_count++].name = tests[i].group;
  }
  int kept = 0;
  for (int i = 0; i < waiting_count; i += 1) {
    if (strstr(waiting[i].name, only)) waiting[kept++] = waiting[i];
  }
  waiting_count = kept;
  /* What needs the GPU's memory for itself comes last. */
  for (int pass = 0, end = waiting_count; pass < end; pass += 1) {
    for (int i = 0; i + 1 < waiting_count; i += 1) {
      if (is_alone(waiting[i].name) && !is_alone(waiting[i + 1].name)) {
        __typeof__(waiting[0]) first = waiting[i];
        waiting[i] = waiting[i + 1];
        waiting[i + 1] = first;
      }
    }
  }
  if (list) {
    for (int i = 0; i < waiting_count; i += 1) puts(waiting[i].name);
    return 0;
  }
  about();
  long begun = now();
  running = calloc((size_t)jobs, sizeof *running);
  struct pollfd *polled = calloc((size_t)jobs, sizeof *polled);
  int next = 0;
  for (;;) {
    int active = 0, alone = 0;
    for (int i = 0; i < jobs; i += 1) {
      active += running[i].pid != 0;
      alone |= running[i].pid != 0 && is_alone(running[i].group);
    }
    for (int i = 0; i < jobs && next < waiting_count && !alone; i += 1) {
      if (running[i].pid != 0) continue;
      if (is_alone(waiting[next].name) && active > 0) break;
      fprintf(stderr, "%5.1f s  %s%s\n", (double)(now() - begun) / 1e9, waiting[next].name, waiting[next].from ? ", the rest" : "");
      start_job(&running[i], waiting[next].name, waiting[next].from);
      next += 1;
      active += 1;
      alone = is_alone(waiting[next - 1].name);
    }
    if (active == 0) break;
    for (int i = 0; i < jobs; i += 1) {
      polled[i].fd = running[i].pid != 0 ? running[i].pipe : -1;
      polled[i].events = POLLIN;
    }
    poll(polled, (nfds_t)jobs, 200);
    long time = now();
    int given_up = time - begun > most_seconds * 1000000000L;
    for (int i = 0; i < jobs; i += 1) {
      if (running[i].pid == 0) continue;
      if (polled[i].revents != 0) hear(&running[i]);
      else if (given_up || time - running[i].heard > 20000000000L) kill(running[i].pid, SIGKILL);
      if (running[i].pid != 0 && time - running[i].heard > 25000000000L) {
        /* Killed, and the kernel does not let go of it. */
        printf("%s\tstuck\t-\t0\tnot even SIGKILL ended the process\n", running[i].line);
        broken = 1;
        close(running[i].pipe);
        running[i].pid = 0;
      }
    }
    if (given_up) {
      fprintf(stderr, "given up after %d s:", most_seconds);
      for (int i = 0; i < jobs; i += 1) {
        if (running[i].pid != 0) {
          kill(running[i].pid, SIGKILL);
          fprintf(stderr, " [%s]", running[i].group);
        }
      }
      for (int i = next; i < waiting_count; i += 1) fprintf(stderr, " [%s]", waiting[i].name);
      fprintf(stderr, "\n");
      broken = 1;
      break;
    }
  }
  fprintf(stderr, "%5.1f s  %s; %d tests \"failed\"\n", (double)(now() - begun) / 1e9, broken ? "not everything was measured" : "everything was measured", untried);
  fflush(stdout);
  _exit(broken);
}

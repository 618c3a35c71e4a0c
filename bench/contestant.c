/*
 * The driver's own calls, timed without any library around them: what the bench measures the others against. No CUDA toolkit is
 * needed to build it, in two ways (bench/contestants.ts):
 *
 * - With -DADDON -shared, for the process of cuda-streams itself: bench/pairs.ts plays both in turns there. The streams and events
 *   are C's own, since cuda-streams asks the driver more often once the handle of one of its own is known elsewhere.
 * - As a program, `contestant LIBCUDA PTX`, for what the whole process takes. Prints "ready VERSION KEY..." once, then answers each
 *   line "run KEY CALLS" with "ns PER_CALL" or "fail WHY", and leaves when stdin closes.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int CUresult;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef unsigned long long CUdeviceptr;
typedef void (*CUhostFn)(void *);
typedef struct { unsigned grid[3], block[3], shared; CUstream stream; void *attributes; unsigned count; } Config;

/* Each function under the name that cuda.h gives it, and the symbol that cuda.h maps that name to. */
#define DRIVER(X) \
  X(cuInit, "cuInit", (unsigned)) \
  X(cuDriverGetVersion, "cuDriverGetVersion", (int *)) \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *, int)) \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int *, int, int)) \
  X(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext)) \
  X(cuCtxSynchronize, "cuCtxSynchronize", (void)) \
  X(cuModuleLoadData, "cuModuleLoadData", (CUmodule *, const void *)) \
  X(cuModuleGetFunction, "cuModuleGetFunction", (CUfunction *, CUmodule, const char *)) \
  X(cuStreamCreate, "cuStreamCreate", (CUstream *, unsigned)) \
  X(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream)) \
  X(cuStreamQuery, "cuStreamQuery", (CUstream)) \
  X(cuStreamSynchronize, "cuStreamSynchronize", (CUstream)) \
  X(cuStreamGetPriority, "cuStreamGetPriority", (CUstream, int *)) \
  X(cuStreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned)) \
  X(cuStreamWaitValue32, "cuStreamWaitValue32_v2", (CUstream, CUdeviceptr, uint32_t, unsigned)) \
  X(cuEventCreate, "cuEventCreate", (CUevent *, unsigned)) \
  X(cuEventDestroy, "cuEventDestroy_v2", (CUevent)) \
  X(cuEventRecord, "cuEventRecord", (CUevent, CUstream)) \
  X(cuEventQuery, "cuEventQuery", (CUevent)) \
  X(cuEventSynchronize, "cuEventSynchronize", (CUevent)) \
  X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, int)) \
  X(cuStreamEndCapture, "cuStreamEndCapture", (CUstream, CUgraph *)) \
  X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", (CUgraphExec *, CUgraph, unsigned long long)) \
  X(cuGraphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream)) \
  X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr *, size_t)) \
  X(cuMemAllocAsync, "cuMemAllocAsync", (CUdeviceptr *, size_t, CUstream)) \
  X(cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr, CUstream)) \
  X(cuMemHostAlloc, "cuMemHostAlloc", (void **, size_t, unsigned)) \
  X(cuMemcpyAsync, "cuMemcpyAsync", (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
  X(cuLaunchHostFunc, "cuLaunchHostFunc", (CUstream, CUhostFn, void *)) \
  X(cuLaunchKernelEx, "cuLaunchKernelEx", (const Config *, CUfunction, void **, void **))

#define DECLARE(name, symbol, arguments) static CUresult(*name) arguments;
DRIVER(DECLARE)

enum { NON_BLOCKING = 1, BLOCKING_SYNC = 1, DISABLE_TIMING = 2, COPY_BYTES = 256 << 20, NOT_READY = 600, MULTIPROCESSORS = 16 };
/* As bench/rows.ts and bench/catalogue.ts have them. */
enum { MOST_BESIDE = 200, KERNELS_A_FRAME = 40, FILLING_NS = 100000, KERNEL_TO_AWAIT_NS = 100000000 };

/* Where a stream has allocated memory once, each record there takes longer: only `allocating` has. */
static CUstream stream, other, held, allocating;
static CUevent event, elsewhere, held_event, blocking_event;
static int sleeps;
/* `held` waits for it to be as large as `turn`. */
static volatile uint32_t *gate;
static uint32_t turn;
static CUfunction empty, four, spin;
static CUstream *beside_streams;
static int multiprocessors;
static CUgraphExec exec, large_exec;
static CUdeviceptr small, device_memory, pinned, ordinary;
/* What a row counts in place of the time of its calls; not a number where it counts nothing. */
static double counted;
/* The last result: not 0 fails the run. One store a call, as a careful C program would pay. */
static CUresult result;

#define CHECK(call) \
  do { \
    const CUresult r = (call); \
    if (__builtin_expect(r != 0, 0)) result = r; \
  } while (0)
#define LOOP for (long i = 0; i < calls; i++)

/* As cuda-streams does. */
static CUresult launch(CUfunction function, unsigned grid, unsigned block, CUstream on, void **parameters) {
  const Config config = { { grid, 1, 1 }, { block, 1, 1 }, 0, on, NULL, 0 };
  return cuLaunchKernelEx(&config, function, parameters, NULL);
}

static void nothing(void *data) { (void)data; }

static void record(long calls) { LOOP CHECK(cuEventRecord(event, stream)); }

static void record_allocated(long calls) { LOOP CHECK(cuEventRecord(event, allocating)); }

static void record_new(long calls) {
  LOOP {
    CUevent fresh;
    CHECK(cuEventCreate(&fresh, DISABLE_TIMING));
    CHECK(cuEventRecord(fresh, stream));
    CHECK(cuEventDestroy(fresh));
  }
}

static void wait_event(long calls) { LOOP CHECK(cuStreamWaitEvent(stream, elsewhere, 0)); }

static void wait_stream(long calls) {
  LOOP {
    CHECK(cuEventRecord(elsewhere, other));
    CHECK(cuStreamWaitEvent(stream, elsewhere, 0));
  }
}

static void stream_query(long calls) { LOOP CHECK(cuStreamQuery(stream)); }
static void event_query(long calls) { LOOP CHECK(cuEventQuery(event)); }

static void hold(void) {
  CHECK(cuStreamWaitValue32(held, (CUdeviceptr)(uintptr_t)gate, ++turn, 0));
  CHECK(cuEventRecord(held_event, held));
}

#define CHECK_BUSY(call) \
  do { \
    const CUresult r = (call); \
    if (__builtin_expect(r != NOT_READY, 0)) result = r ? r : -1; \
  } while (0)

static void stream_query_busy(long calls) { LOOP CHECK_BUSY(cuStreamQuery(held)); }
static void event_query_busy(long calls) { LOOP CHECK_BUSY(cuEventQuery(held_event)); }

static void synchronize_idle(long calls) { LOOP CHECK(cuStreamSynchronize(stream)); }

static void priority(long calls) {
  int value;
  LOOP CHECK(cuStreamGetPriority(stream, &value));
}

static void event_create(long calls) {
  LOOP {
    CUevent fresh;
    CHECK(cuEventCreate(&fresh, DISABLE_TIMING));
    CHECK(cuEventDestroy(fresh));
  }
}

static void stream_create(long calls) {
  LOOP {
    CUstream fresh;
    CHECK(cuStreamCreate(&fresh, NON_BLOCKING));
    CHECK(cuStreamDestroy(fresh));
  }
}

static void host_function(long calls) {
  LOOP {
    CHECK(cuLaunchHostFunc(stream, nothing, NULL));
    CHECK(cuStreamSynchronize(stream));
  }
}

static void launch_four(long calls) {
  float c = 1;
  uint32_t d;
  void *parameters[] = { &small, &small, &c, &d };
  LOOP {
    d = i;
    CHECK(launch(four, 1, 1, allocating, parameters));
  }
}

static void graph_launch(long calls) { LOOP CHECK(cuGraphLaunch(exec, stream)); }

static void large_graph_launch(long calls) { LOOP CHECK(cuGraphLaunch(large_exec, stream)); }

static void launch_synchronize(long calls) {
  LOOP {
    CHECK(launch(empty, 1, 1, stream, NULL));
    CHECK(cuStreamSynchronize(stream));
  }
}

static void copy_once(CUdeviceptr to, CUdeviceptr from) {
  CHECK(cuMemcpyAsync(to, from, COPY_BYTES, stream));
  CHECK(cuStreamSynchronize(stream));
}

/* Made at the first use: not every process copies. */
static void make_copied(void) {
  if (device_memory) return;
  void *host, *fresh = malloc(COPY_BYTES);
  CHECK(cuMemAlloc(&device_memory, COPY_BYTES));
  CHECK(cuMemHostAlloc(&host, COPY_BYTES, 3));
  memset(host, 1, COPY_BYTES);
  memset(fresh, 1, COPY_BYTES);
  pinned = (CUdeviceptr)(uintptr_t)host;
  ordinary = (CUdeviceptr)(uintptr_t)fresh;
}

static void copy_in(long calls) { LOOP copy_once(device_memory, pinned); }

static void copy_out(long calls) { LOOP copy_once(pinned, device_memory); }

static void upload(long calls) { LOOP copy_once(device_memory, ordinary); }

static void download_into(long calls) { LOOP copy_once(ordinary, device_memory); }

static void download(long calls) {
  LOOP {
    void *fresh = malloc(COPY_BYTES);
    copy_once((CUdeviceptr)(uintptr_t)fresh, device_memory);
    free(fresh);
  }
}

static void launch_spin(CUstream on, uint64_t nanoseconds, unsigned grid, unsigned block) {
  void *parameters[] = { &nanoseconds };
  CHECK(launch(spin, grid, block, on, parameters));
}

static double clock_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static double now(void) { return clock_of(CLOCK_MONOTONIC); }

/* The thread sleeps where an event is made for that, and spins otherwise. */
static void wait_for_stream(void) {
  if (!sleeps) CHECK(cuStreamSynchronize(stream));
  else {
    CHECK(cuEventRecord(blocking_event, stream));
    CHECK(cuEventSynchronize(blocking_event));
  }
}

static void late(long calls, double kernel_ns) {
  const double start = now();
  LOOP {
    launch_spin(stream, kernel_ns, 1, 1);
    wait_for_stream();
  }
  counted = (now() - start) / calls - kernel_ns;
}

static void late_100us(long calls) { late(calls, 1e5); }
static void late_1ms(long calls) { late(calls, 1e6); }
static void late_10ms(long calls) { late(calls, 1e7); }
static void late_100ms(long calls) { late(calls, 1e8); }

static void cpu_await(long calls) {
  LOOP launch_spin(stream, KERNEL_TO_AWAIT_NS, 1, 1);
  const double start = now(), before = clock_of(CLOCK_PROCESS_CPUTIME_ID);
  wait_for_stream();
  counted = 100 * (clock_of(CLOCK_PROCESS_CPUTIME_ID) - before) / (now() - start);
}

static void allocate(long calls) {
  static CUstream streams[16];
  if (!streams[0])
    for (int i = 0; i < 16; i++) CHECK(cuStreamCreate(&streams[i], NON_BLOCKING));
  LOOP {
    CUdeviceptr piece;
    CHECK(cuMemAllocAsync(&piece, 16 * 1024, streams[i % 16]));
    CHECK(cuMemFreeAsync(piece, streams[i % 16]));
  }
}

static void beside(long calls, int streams) {
  const long frames = (calls + KERNELS_A_FRAME - 1) / KERNELS_A_FRAME;
  if (!beside_streams) {
    beside_streams = calloc(MOST_BESIDE, sizeof *beside_streams);
    for (int i = 0; i < MOST_BESIDE; i++) CHECK(cuStreamCreate(&beside_streams[i], NON_BLOCKING));
  }
  CHECK(cuCtxSynchronize());
  const double start = now();
  LOOP launch_spin(stream, FILLING_NS, 2 * multiprocessors, 1024);
  for (long frame = 0; frame < frames; frame++) {
    for (int i = 0; i < streams; i++) {
      CHECK(launch(empty, 1, 1, beside_streams[i], NULL));
      CHECK(cuLaunchHostFunc(beside_streams[i], nothing, NULL));
    }
  }
  CHECK(cuStreamSynchronize(stream));
  counted = (now() - start) / calls;
}

static void beside_0(long calls) { beside(calls, 0); }
static void beside_31(long calls) { beside(calls, 31); }
static void beside_200(long calls) { beside(calls, 200); }

/* `before` is not timed. */
static const struct {
  const char *key;
  void (*loop)(long calls);
  void (*before)(void);
} rows[] = {
  { "record", record },
  { "record-allocated", record_allocated },
  { "record-new", record_new },
  { "wait-event", wait_event },
  { "wait-stream", wait_stream },
  { "stream-query", stream_query },
  { "event-query", event_query },
  { "stream-query-busy", stream_query_busy, hold },
  { "event-query-busy", event_query_busy, hold },
  { "synchronize-idle", synchronize_idle },
  { "priority", priority },
  { "event-create", event_create },
  { "stream-create", stream_create },
  { "allocate", allocate },
  { "host-function", host_function },
  { "launch-four", launch_four },
  { "graph-launch", graph_launch },
  { "graph-launch-1000", large_graph_launch },
  { "launch-synchronize", launch_synchronize },
  { "copy-in", copy_in, make_copied },
  { "copy-out", copy_out, make_copied },
  { "upload", upload, make_copied },
  { "download", download, make_copied },
  { "download-into", download_into, make_copied },
  { "late-100us", late_100us },
  { "late-1ms", late_1ms },
  { "late-10ms", late_10ms },
  { "late-100ms", late_100ms },
  { "cpu-await", cpu_await },
  { "beside-0", beside_0 },
  { "beside-31", beside_31 },
  { "beside-200", beside_200 },
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Why C does not take part. */
static char refusal[200];

#define NEED(call) \
  if ((call) != 0) { \
    snprintf(refusal, sizeof refusal, "refused: %s", #call); \
    return 0; \
  }
#define REFUSE(why, detail) \
  do { \
    snprintf(refusal, sizeof refusal, "%s %s", why, detail); \
    return 0; \
  } while (0)

static int set_up_graph(CUgraphExec *instance, int nodes) {
  CUgraph graph;
  NEED(cuStreamBeginCapture(stream, 1));
  for (int i = 0; i < nodes; i++) NEED(launch(empty, 1, 1, stream, NULL));
  NEED(cuStreamEndCapture(stream, &graph));
  NEED(cuGraphInstantiateWithFlags(instance, graph, 0));
  return 1;
}

static int set_up(const char *libcuda, const char *ptx) {
  static char image[1 << 16];
  CUcontext context;
  CUmodule module;
  void *library = dlopen(libcuda, RTLD_NOW);
  if (!library) REFUSE("cannot load", dlerror());
#define RESOLVE(name, symbol, arguments) \
  *(void **)&name = dlsym(library, symbol); \
  if (!name) REFUSE("libcuda has no", symbol);
  DRIVER(RESOLVE)
  FILE *file = fopen(ptx, "rb");
  if (!file) REFUSE("cannot read", ptx);
  const size_t length = fread(image, 1, sizeof image - 1, file);
  fclose(file);
  if (length == 0) REFUSE("empty", ptx);
  NEED(cuInit(0));
  NEED(cuDevicePrimaryCtxRetain(&context, 0));
  NEED(cuCtxSetCurrent(context));
  NEED(cuModuleLoadData(&module, image));
  NEED(cuModuleGetFunction(&empty, module, "empty"));
  NEED(cuModuleGetFunction(&four, module, "four"));
  NEED(cuModuleGetFunction(&spin, module, "spin"));
  NEED(cuDeviceGetAttribute(&multiprocessors, MULTIPROCESSORS, 0));
  NEED(cuStreamCreate(&stream, NON_BLOCKING));
  NEED(cuStreamCreate(&other, NON_BLOCKING));
  NEED(cuStreamCreate(&held, NON_BLOCKING));
  NEED(cuStreamCreate(&allocating, NON_BLOCKING));
  NEED(cuEventCreate(&held_event, DISABLE_TIMING));
  NEED(cuEventCreate(&event, DISABLE_TIMING));
  NEED(cuEventCreate(&blocking_event, DISABLE_TIMING | BLOCKING_SYNC));
  NEED(cuEventCreate(&elsewhere, DISABLE_TIMING));
  NEED(cuEventRecord(event, stream));
  NEED(cuEventRecord(elsewhere, other));
  if (!set_up_graph(&exec, 100) || !set_up_graph(&large_exec, 1000)) return 0;
  void *host;
  NEED(cuMemHostAlloc(&host, sizeof *gate, 3));
  gate = host;
  *gate = 0;
  NEED(cuMemAllocAsync(&small, 1024, allocating));
  /* Records are slower on a stream that has had no work since streams were made. */
  CUstream used[] = { stream, other, allocating };
  for (int i = 0; i < 3; i++) NEED(launch(empty, 1, 1, used[i], NULL));
  NEED(cuCtxSynchronize());
  return 1;
}

static int row_of(const char *key) {
  for (int row = 0; row < ROWS; row++)
    if (strcmp(rows[row].key, key) == 0) return row;
  return -1;
}

/* Nanoseconds of all calls. It ends untimed with a wait: a context with anything unacknowledged answers queries slowly. */
static double timed(int row, long calls) {
  if (rows[row].before) rows[row].before();
  const double start = now();
  rows[row].loop(calls);
  const double elapsed = now() - start;
  *gate = turn;
  CHECK(cuCtxSynchronize());
  return elapsed;
}

#ifdef ADDON
#include "../native/node-api.h"

/* setUp(libcuda, ptx) gives the keys of the rows, with spaces between them. */
static napi_value set_up_here(napi_env env, napi_callback_info info) {
  size_t count = 2, length;
  napi_value arguments[2], list;
  static char libcuda[4096], ptx[4096], keys[4096];
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  napi_get_value_string_utf8(env, arguments[0], libcuda, sizeof libcuda, &length);
  napi_get_value_string_utf8(env, arguments[1], ptx, sizeof ptx, &length);
  if (!set_up(libcuda, ptx)) {
    napi_throw_error(env, NULL, refusal);
    return NULL;
  }
  for (int row = 0; row < ROWS; row++) {
    if (row > 0) strcat(keys, " ");
    strcat(keys, rows[row].key);
  }
  napi_create_string_utf8(env, keys, NAPI_AUTO_LENGTH, &list);
  return list;
}

/* time(key, calls) gives the nanoseconds of all calls. */
static napi_value time_here(napi_env env, napi_callback_info info) {
  size_t count = 2, length;
  napi_value arguments[2], elapsed;
  char key[64], why[64];
  double calls;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  napi_get_value_string_utf8(env, arguments[0], key, sizeof key, &length);
  napi_get_value_double(env, arguments[1], &calls);
  const int row = row_of(key);
  result = 0;
  napi_create_double(env, row < 0 ? 0 : timed(row, (long)calls), &elapsed);
  if (row >= 0 && !result) return elapsed;
  snprintf(why, sizeof why, row < 0 ? "C has no such row" : "C: CUresult %d", result);
  napi_throw_error(env, NULL, why);
  return NULL;
}

napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  napi_value function;
  napi_create_function(env, "setUp", NAPI_AUTO_LENGTH, set_up_here, NULL, &function);
  napi_set_named_property(env, exports, "setUp", function);
  napi_create_function(env, "time", NAPI_AUTO_LENGTH, time_here, NULL, &function);
  napi_set_named_property(env, exports, "time", function);
  return exports;
}
#else
static void answer(const char *key, long calls) {
  const int row = row_of(key);
  if (row < 0) {
    printf("fail no row %s\n", key);
    return;
  }
  result = 0;
  timed(row, calls / 4 + 1);
  counted = 0.0 / 0.0;
  const double elapsed = timed(row, calls);
  if (result) printf("fail CUresult %d\n", result);
  else printf("ns %.2f\n", counted == counted ? counted : elapsed / calls);
}

int main(int count, char **arguments) {
  char line[256], key[64];
  long calls;
  int version = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  sleeps = count > 3;
  if (!set_up(count > 1 ? arguments[1] : "libcuda.so.1", count > 2 ? arguments[2] : "kernels.ptx")) {
    printf("left-out %s\n", refusal);
    return 0;
  }
  cuDriverGetVersion(&version);
  printf("ready %d.%d", version / 1000, version % 1000 / 10);
  for (int row = 0; row < ROWS; row++) printf(" %s", rows[row].key);
  printf("\n");
  while (fgets(line, sizeof line, stdin)) {
    if (sscanf(line, "run %63s %ld", key, &calls) == 2 && calls > 0) answer(key, calls);
    else printf("fail expected: run KEY CALLS\n");
  }
  return 0;
}
#endif

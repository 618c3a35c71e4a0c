/* Loads the library that traces a process as the CUDA driver does, and calls it as CUPTI does, with the calls of a small program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "callback-data.h"


static void (*callback)(void *, int, uint32_t, const void *);
static const char *const NAMES[] = {
    "cuMemAlloc_v2", "cuStreamCreate", "cuEventCreate", "cuLaunchKernel", "cuEventRecord", "cuStreamWaitEvent_ptsz",
    "cuMemcpyDtoHAsync_v2", "cuMemAllocHost_v2", "cuStreamQuery", "cuMemFree_v2", "cuLaunchKernelEx", "cuDeviceGetCount",
    "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize", "cuMemcpyBatchAsync_v2", "cuMemFreeHost", "cuLaunchHostFunc", "cuMemcpy2DAsync_v2",
    "cuGraphCreate", "cuGraphClone", "cuGraphNodeFindInClone", "cuGraphAddKernelNode_v2", "cuGraphAddMemcpyNode", "cuGraphAddMemsetNode", "cuGraphAddHostNode",
    "cuGraphAddEmptyNode", "cuGraphAddChildGraphNode", "cuGraphAddEventRecordNode", "cuGraphAddEventWaitNode", "cuGraphAddMemAllocNode",
    "cuGraphAddMemFreeNode", "cuGraphAddNode_v2", "cuGraphDestroyNode", "cuGraphAddDependencies_v2", "cuGraphRemoveDependencies", "cuGraphKernelNodeSetParams_v2",
    "cuGraphExecKernelNodeSetParams_v2", "cuGraphExecMemsetNodeSetParams", "cuGraphExecMemcpyNodeSetParams", "cuGraphNodeSetEnabled", "cuGraphInstantiateWithFlags",
    "cuGraphExecUpdate_v2", "cuGraphLaunch", "cuGraphDestroy", "cuGraphExecDestroy", "cuStreamBeginCapture_v2", "cuStreamBeginCaptureToGraph", "cuStreamEndCapture",
    "cuMemFreeAsync", "cuMemsetD32Async", "cuEventElapsedTime_v2"};
static int enabled[64];

__attribute__((visibility("default"))) int cuptiSubscribe(void **out, void *called, void *user) {
  (void)user;
  *out = &callback;
  memcpy(&callback, &called, sizeof callback);
  return 0;
}
__attribute__((visibility("default"))) int cuptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t id) {
  (void)subscriber;
  enabled[id] = enable && domain == 1;
  return 0;
}
__attribute__((visibility("default"))) int cuptiGetCallbackName(int domain, uint32_t id, const char **name) {
  (void)domain;
  if (id == 0 || id > sizeof NAMES / sizeof *NAMES) return 1;
  *name = NAMES[id - 1];
  return 0;
}

/* ---- What the GPU does, and when: by a clock that goes on with each look and each call, and by nothing else --------------- */

enum { MEMCPY = 1, MEMSET = 2, KERNEL = 10, COPY_BYTES = 136, KERNEL_BYTES = 248, LOOK = 10, CALL = 2000, BETWEEN = 3000, LATE = 700 };
static uint64_t now = 1700000000000000000u;
static int active[64];
static void (*requested)(uint8_t **, size_t *, size_t *);
static void (*completed)(void *, uint32_t, uint8_t *, size_t, size_t);
/* The work that the next call queues, and when each stream is through. */
static struct { uint32_t kind; uint64_t duration, stream, bytes; } next[8];
static int nexts;
static struct { uint64_t stream, until; } streams[8];
static uint8_t pending[64][KERNEL_BYTES];
static int waiting;
static uint32_t correlation = 100;

static uint64_t *untilOf(uint64_t stream) {
  int at = 0;
  while (streams[at].stream != stream && streams[at].stream != 0) at++;
  streams[at].stream = stream;
  return &streams[at].until;
}
static void gpu(uint32_t kind, uint64_t duration, uint64_t stream, uint64_t bytes) {
  next[nexts].kind = kind, next[nexts].duration = duration, next[nexts].stream = stream, next[nexts++].bytes = bytes;
}
static size_t lengthOf(const uint8_t *record) { return *(const uint32_t *)record == KERNEL ? KERNEL_BYTES : COPY_BYTES; }
static void deliver(void) {
  uint8_t *buffer = NULL;
  size_t size = 0, most = 0, used = 0;
  if (waiting == 0) return;
  requested(&buffer, &size, &most);
  for (int at = 0; at < waiting; used += lengthOf(pending[at++])) memcpy(buffer + used, pending[at], lengthOf(pending[at]));
  waiting = 0;
  completed(NULL, 0, buffer, size, used);
}
/* The layouts are those of CUPTI 13. */
static void run(void) {
  for (int at = 0; at < nexts; at++) {
    const uint32_t kind = next[at].kind;
    uint64_t *until = untilOf(next[at].stream);
    const uint64_t start = (*until > now ? *until : now) + LATE, end = start + next[at].duration;
    *until = end;
    if (!active[kind]) continue;
    if (waiting == 4) deliver();
    uint8_t *record = memset(pending[waiting++], 0, KERNEL_BYTES);
    memcpy(record, &kind, 4), memcpy(record + 16, &start, 8), memcpy(record + 24, &end, 8);
    memcpy(record + (kind == KERNEL ? 92 : 44), &correlation, 4);
    if (kind != KERNEL) memcpy(record + 8, &next[at].bytes, 8);
  }
  nexts = 0;
}
#define API __attribute__((visibility("default")))
API int cuptiGetTimestamp(uint64_t *time) { const char *took = getenv("FAKE_CUPTI_LOOK"); *time = now += took ? (uint64_t)atoi(took) : LOOK; return 0; }
API int cuptiGetVersion(uint32_t *version) { const char *said = getenv("FAKE_CUPTI_VERSION"); *version = said ? (uint32_t)atoi(said) : 130001; return 0; }
API int cuptiActivityEnable(int kind) { active[kind] = 1; return getenv("FAKE_CUPTI_REFUSES") ? 35 : 0; }
API int cuptiActivityRegisterCallbacks(void *request, void *complete) {
  memcpy(&requested, &request, sizeof requested), memcpy(&completed, &complete, sizeof completed);
  return 0;
}
API int cuptiActivityGetNextRecord(uint8_t *buffer, size_t used, uint8_t **record) {
  uint8_t *at = *record == NULL ? buffer : *record + lengthOf(*record);
  if (at >= buffer + used) return 12;
  *record = at;
  return 0;
}
API int cuptiActivityFlushAll(uint32_t flag) { (void)flag; deliver(); return 0; }
API int cuptiActivityFlushPeriod(uint32_t milliseconds) { (void)milliseconds; return 0; }
API int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) { *count = 0; return (void)context, (void)stream, 0; }

/* What the next call does in the process besides: waits until then, or ends it. */
static uint64_t until;
static int isLast;

static void call(const char *name, const void *params, int result, const char *symbol) {
  uint32_t id = 0;
  while (strcmp(NAMES[id], name) != 0) id++;
  id++;
  correlation++;
  now += BETWEEN;
  uint64_t shared = 0;
  CallbackData data = {0, name, params, NULL, symbol, (void *)1, 1, &shared, correlation};
  if (enabled[id]) callback(NULL, 1, id, &data);
  if (isLast) raise(SIGKILL);
  run();
  /* CUPTI may hand records back before the call that waits for their work returns. */
  if (until > now) deliver();
  now = (until > now ? until : now) + CALL;
  until = 0;
  data.site = 1;
  data.functionReturnValue = &result;
  if (enabled[id]) callback(NULL, 1, id, &data);
}

static uint64_t x = 0x7f0000000000, host = 0x7e0000000000, one = 0x5000000010, two = 0x5000000020, event = 0x5000000030;

/* A training loop in small: a kernel, a copy of its result on another stream, and a kernel that touches no memory that is known. */
static void playTimed(const char *how) {
  const uint64_t millisecond = 1000000, none = 5;
  void *pointers[] = {&x, NULL}, *numbers[] = {(void *)&none, NULL};
  struct { uint64_t f; uint32_t shape[7]; uint64_t stream; void **arguments; void **extra; } set = {77, {66, 1, 1, 1024, 1, 1, 0}, one, pointers, NULL},
    spin = {78, {1, 1, 1, 32, 1, 1, 0}, one, numbers, NULL};
  void (*line)(const char *);
  *(void **)&line = dlsym(RTLD_DEFAULT, "cuda_streams_site");
  if (line == NULL) exit(8);
  for (int step = 0; step < 3; step++) {
    /* As Python has them: the innermost line is a package's. */
    line("at set (/usr/lib/python3/dist-packages/kernels.py:5)\nat step (/app/train.py:12)\nat <module> (/app/train.py:40)");
    gpu(KERNEL, millisecond, one, 0);
    call("cuLaunchKernel", &set, 0, "_Z3setPfi");
    call("cuEventRecord", &(struct { uint64_t event, stream; }){event, one}, 0, NULL);
    call("cuStreamWaitEvent_ptsz", &(struct { uint64_t stream, event; uint32_t flags; }){two, event, 0}, 0, NULL);
    *untilOf(two) = *untilOf(one);
    gpu(MEMCPY, millisecond / 4, two, 4096);
    call("cuMemcpyDtoHAsync_v2", &(struct { uint64_t to, from, bytes, stream; }){host, x, 4096, two}, 0, NULL);
    gpu(KERNEL, millisecond / 2, one, 0);
    call("cuLaunchKernel", &spin, 0, "_Z4spinv");
    line("at step (/app/train.py:17)\nat <module> (/app/train.py:40)");
    until = *untilOf(two);
    call("cuStreamSynchronize", &two, 0, NULL);
  }
  /* Waits for work of which no memory is known. */
  line("at last (/app/train.py:21)");
  call("cuEventRecord", &(struct { uint64_t event, stream; }){event, one}, 0, NULL);
  call("cuStreamWaitEvent_ptsz", &(struct { uint64_t stream, event; uint32_t flags; }){two, event, 0}, 0, NULL);
  *untilOf(two) = *untilOf(one);
  spin.stream = two;
  gpu(KERNEL, millisecond / 2, two, 0);
  call("cuLaunchKernel", &spin, 0, "_Z4spinv");
  line(NULL);
  gpu(MEMCPY, 100000, one, 4096), gpu(MEMCPY, 50000, one, 64);
  uint64_t to[2] = {x, x + 64}, from[2] = {host, host + 64}, lengths[2] = {64, 128}, firsts[1] = {0};
  uint32_t attributes[6] = {1};
  struct { void *to, *from, *lengths; uint64_t count; void *attributes, *firsts; uint64_t groups, stream; } copies = {to, from, lengths, 2, attributes, firsts, 1, one};
  call("cuMemcpyBatchAsync_v2", &copies, 0, NULL);
  /* A kernel of which it is not known whether it reads or writes. */
  struct { uint64_t f; uint32_t shape[7]; uint64_t stream; void **arguments; void **extra; } gemm = {79, {1, 1, 1, 32, 1, 1, 0}, one, pointers, NULL};
  gpu(KERNEL, 10000, one, 0);
  call("cuLaunchKernel", &gemm, 0, "gemm");
  gpu(MEMSET, millisecond / 8, one, 4096);
  call("cuMemsetD32Async", &(struct { uint64_t to; uint32_t value; uint64_t count, stream; }){x, 0, 1024, one}, 0, NULL);
  gpu(KERNEL, millisecond / 10, one, 0), gpu(KERNEL, millisecond / 10, one, 0);
  call("cuGraphLaunch", &(struct { uint64_t exec, stream; }){88, one}, 0, NULL);
  /* CUPTI knows of work whose call is not traced. */
  gpu(KERNEL, 1, one, 0);
  call("cuDeviceGetCount", &x, 0, NULL);
  isLast = strcmp(how, "killed") == 0;
  until = now + 3 * millisecond;
  call("cuMemFree_v2", &x, 0, NULL);
}

static void *copyThere(void *ordered) {
  if (ordered != NULL) call("cuStreamWaitEvent_ptsz", &(struct { uint64_t stream, event; uint32_t flags; }){two, event, 0}, 0, NULL);
  /* A query that is not answered with yes orders nothing. */
  call("cuStreamQuery", &one, 600, NULL);
  gpu(MEMCPY, 250000, two, 4096);
  call("cuMemcpyDtoHAsync_v2", &(struct { uint64_t to, from, bytes, stream; }){host, x, 4096, two}, 0, NULL);
  return NULL;
}

/* ---- What the host does while copies are pending ------------------------------------------------------------------------ */

/* The words that the fake stream will have written once it is through. */
static struct { volatile uint64_t *at; uint64_t value; } marks[64];
static int marked;
__attribute__((visibility("default"))) int cuStreamWriteValue64_v2(void *stream, uint64_t at, uint64_t value, unsigned flags) {
  (void)stream, (void)flags;
  marks[marked].at = (volatile uint64_t *)(uintptr_t)at;
  marks[marked++].value = value;
  return 0;
}
__attribute__((visibility("default"))) int cuStreamIsCapturing(void *stream, int *status) { *status = 0; return (void)stream, 0; }
__attribute__((visibility("default"))) int cuThreadExchangeStreamCaptureMode(int *mode) { *mode = 0; return 0; }
__attribute__((visibility("default"))) int cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags) { return (void)at, (void)bytes, (void)flags, 0; }

static void finish(void) {
  for (; marked > 0; marked--) *marks[marked - 1].at = marks[marked - 1].value;
}
static void upload(char *from, uint64_t bytes) { call("cuMemcpyHtoDAsync_v2", &(struct { uint64_t to, from, bytes, stream; }){x, (uint64_t)(uintptr_t)from, bytes, one}, 0, NULL); }
static void download(char *to, uint64_t bytes) { call("cuMemcpyDtoHAsync_v2", &(struct { uint64_t to, from, bytes, stream; }){(uint64_t)(uintptr_t)to, x, bytes, one}, 0, NULL); }
static void synchronize(void) { finish(); call("cuStreamSynchronize", &one, 0, NULL); }
static void order(int isRight) { if (isRight) synchronize(); }
static volatile char *bytes;
static volatile char seen;

static void source(int isRight) { upload((char *)bytes, 4096); order(isRight); bytes[5] = 1; }
static void destination(int isRight) { download((char *)bytes, 4096); order(isRight); seen = bytes[5]; }
static void overwritten(int isRight) { download((char *)bytes, 4096); order(isRight); bytes[5] = 1; }
static void *inThread(void *unused) { bytes[100] = 1; return unused; }
static void thread(int isRight) {
  pthread_t other;
  upload((char *)bytes, 4096);
  order(isRight);
  pthread_create(&other, NULL, inThread, NULL);
  pthread_join(other, NULL);
}
/* The kernel says EFAULT of a page without permission, and the program would not expect that. */
static void fromFile(int isRight) {
  int ends[2];
  if (pipe(ends) != 0 || write(ends[1], "abc", 3) != 3) exit(3);
  upload((char *)bytes, 4096);
  order(isRight);
  if (read(ends[0], (char *)bytes + 10, 3) != 3) exit(4);
}
static void toFile(int isRight) {
  int ends[2];
  download((char *)bytes, 4096);
  order(isRight);
  if (pipe(ends) != 0 || write(ends[1], (char *)bytes + 10, 3) != 3) exit(5);
}
/* The copy is over before the host touches the memory, but nothing has told the host. */
static void unseen(int isRight) { upload((char *)bytes, 4096); finish(); order(isRight); bytes[5] = 1; }
static void neighbour(int isRight) {
  upload((char *)bytes, 100);
  download((char *)bytes + 200, 100);
  for (int at = 300; at < 400; at++) bytes[at] += (char)at;
  if (bytes[399] != (char)399) exit(6);
  order(isRight);
  bytes[99] = 1;
}
static void rows(int isRight) {
  uint64_t words[17] = {0, 0, 1, (uint64_t)(uintptr_t)bytes, 0, 0, 128, 0, 0, 2, 0, x, 0, 64, 64, 10, one};
  const void *pointer = words;
  struct { const void *words; uint64_t stream; } arguments = {pointer, one};
  call("cuMemcpy2DAsync_v2", &arguments, 0, NULL);
  for (int row = 0; row < 9; row++) bytes[128 * row + 100] = 1;
  order(isRight);
  bytes[128 * 9 + 63] = 1;
}
static void batch(int order_of_source, int isRight) {
  uint64_t to[2] = {x, x + 4096}, from[2] = {(uint64_t)(uintptr_t)bytes, (uint64_t)(uintptr_t)bytes + 4096}, lengths[2] = {4096, 64}, firsts[1] = {0};
  uint32_t attributes[6] = {(uint32_t)order_of_source};
  struct { void *to, *from, *lengths; uint64_t count; void *attributes, *firsts; uint64_t groups, stream; } all = {to, from, lengths, 2, attributes, firsts, 1, one};
  call("cuMemcpyBatchAsync_v2", &all, 0, NULL);
  order(isRight);
  bytes[4096 + 63] = 1;
}
static void inBatch(int isRight) { batch(1, isRight); }
static void inAnyOrder(int isRight) { batch(3, isRight); }
static void duringCall(int isRight) { (void)isRight; batch(2, 0); }
static void reused(int isRight) {
  char *memory;
  call("cuMemAllocHost_v2", &(struct { uint64_t *out; uint64_t bytes; }){(uint64_t *)&memory, 4096}, (memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) == MAP_FAILED, NULL);
  upload(memory, 4096);
  finish();
  /* The call waits for the GPU. */
  call("cuMemFreeHost", &memory, 0, NULL);
  munmap(memory, 4096);
  volatile char *again = mmap(memory, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  again[0] = 1;
  if (!isRight) source(0);
}
static void child(int isRight) {
  upload((char *)bytes, 4096);
  int status = 0;
  const int pid = fork();
  if (pid == 0) { bytes[5] = 1; _exit(0); }
  if (waitpid(pid, &status, 0) != pid || status != 0) exit(7);
  order(isRight);
  bytes[6] = 1;
}
/* A host function may have told the host that the copy is over. */
static void told(int isRight) {
  upload((char *)bytes, 4096);
  call("cuLaunchHostFunc", &(struct { uint64_t stream, function; }){one, 8}, 0, NULL);
  if (isRight) finish();
  bytes[5] = 1;
}
/* The time between two events is told only where both are done. */
static void elapsed(int isRight) {
  upload((char *)bytes, 4096);
  call("cuEventRecord", &(struct { uint64_t event, stream; }){event, one}, 0, NULL);
  finish();
  if (isRight) call("cuEventElapsedTime_v2", &(struct { uint64_t out, from, to; }){1, event, event}, 0, NULL);
  bytes[5] = 1;
}
static void several(int isRight) {
  for (int at = 0; at < 8; at++) upload((char *)bytes + 8192 * at, 4096);
  order(isRight);
  for (int at = 0; at < 8; at++) bytes[8192 * at] = 1;
}
/* A file is read to the bytes between two rows, and then to a row. */
static void rowsFromFile(int isRight) {
  uint64_t words[17] = {0, 0, 1, (uint64_t)(uintptr_t)bytes, 0, 0, 128, 0, 0, 2, 0, x, 0, 64, 64, 10, one};
  const void *pointer = words;
  struct { const void *words; uint64_t stream; } arguments = {pointer, one};
  char text[80] = {1};
  int ends[2];
  if (pipe(ends) != 0 || write(ends[1], text, 80) != 80) exit(8);
  call("cuMemcpy2DAsync_v2", &arguments, 0, NULL);
  if (read(ends[0], (char *)bytes + 64, 64) != 64) exit(9);
  order(isRight);
  if (read(ends[0], (char *)bytes + 120, 16) != 16) exit(9);
}
/* The GPU writes to what it has read, in the order of the stream: the host has not. This is played where no page has lost a permission. */
static void answered(int isRight) {
  (void)isRight;
  upload((char *)bytes, 4096);
  download((char *)bytes, 4096);
  bytes[0] = 1;
  synchronize();
}
static void large(int isRight) { upload((char *)bytes, 1 << 20); order(isRight); memset((char *)bytes, 7, 1 << 20); synchronize(); }

static const struct { const char *name; void (*run)(int); } HOST[] = {
    {"source", source}, {"destination", destination}, {"overwritten", overwritten}, {"thread", thread}, {"fromFile", fromFile}, {"toFile", toFile},
    {"unseen", unseen}, {"neighbour", neighbour}, {"rows", rows}, {"inBatch", inBatch}, {"inAnyOrder", inAnyOrder}, {"duringCall", duringCall},
    {"reused", reused}, {"child", child}, {"told", told}, {"large", large}, {"answered", answered}, {"several", several}, {"elapsed", elapsed}, {"rowsFromFile", rowsFromFile}};

/* ---- Graphs whose nodes are added one by one ---------------------------------------------------------------------------- */

static void (*site)(const char *);
static uint64_t y = 0x7f0000100000, z = 0x7f0000200000, graph = 0x6100000000, exec = 0x6200000000, lastHandle = 0x6000000000;
enum { SET = 77, READ = 78 };

/* Nodes, with their number first. */
typedef struct { uint64_t count, of[3]; } Nodes;
#define AFTER(...) ((Nodes){sizeof((uint64_t[]){__VA_ARGS__}) / 8, {__VA_ARGS__}})
static const Nodes NONE = {0, {0}};
/* The nodes, without the last one where the program lacks a wait. */
static Nodes needs(int isRight, Nodes nodes) { nodes.count -= !isRight; return nodes; }

/* A node is added by the line of its name. */
static uint64_t add(const char *function, const char *line, uint64_t to, Nodes after, const void *parameters) {
  uint64_t node = lastHandle += 16;
  char lines[64];
  snprintf(lines, sizeof lines, "at %s (/app/nodes.c:1)", line);
  site(lines);
  if (strcmp(function, "cuGraphAddNode_v2") == 0)
    call(function, &(struct { uint64_t *out, graph, *after, edges, count; const void *parameters; }){&node, to, after.of, 0, after.count, parameters}, 0, NULL);
  else
    call(function, &(struct { uint64_t *out, graph, *after, count; const void *parameters; uint64_t context; }){&node, to, after.of, after.count, parameters, 1}, 0, NULL);
  site(NULL);
  return node;
}
typedef struct { uint64_t function; uint32_t shape[7]; void **arguments, **extra; uint64_t kernel, context; } Kernel;
static Kernel kernelOf(uint64_t function, uint64_t *pointer) {
  static void *arguments[4][1];
  static int used;
  arguments[used = (used + 1) % 4][0] = pointer;
  return (Kernel){function, {1, 1, 1, 32, 1, 1, 0}, arguments[used], NULL, 0, 1};
}
static uint64_t kernel(const char *line, uint64_t function, uint64_t *pointer, Nodes after) {
  Kernel parameters = kernelOf(function, pointer);
  return add("cuGraphAddKernelNode_v2", line, graph, after, &parameters);
}
typedef struct { uint64_t to, pitch; uint32_t value, width; uint64_t columns, rows; } Fill;
static uint64_t fill(const char *line, Fill parameters, Nodes after) { return add("cuGraphAddMemsetNode", line, graph, after, &parameters); }
typedef struct { uint64_t words[25]; } Copy;
static Copy copyOf(uint64_t to, uint64_t from, uint64_t bytes, uint64_t rows, uint64_t pitch) {
  /* The halves of words behind the types of memory are gaps. */
  return (Copy){{0, 0, 0, 0, 2 | 7ull << 32, 0, from, 0, 0, pitch, rows, 0, 0, 0, 0, 2 | 7ull << 32, 0, to, 0, 0, pitch, rows, bytes, rows, 1}};
}
static uint64_t copy(const char *line, Copy parameters, Nodes after) { return add("cuGraphAddMemcpyNode", line, graph, after, &parameters); }
static uint64_t value(const char *function, const char *line, uint64_t of, Nodes after) { return add(function, line, graph, after, (void *)(uintptr_t)of); }
static uint64_t empty(Nodes after) { return value("cuGraphAddEmptyNode", "empty", 0, after); }
static void create(uint64_t handle) { graph = handle; call("cuGraphCreate", &(struct { uint64_t *out; uint32_t flags; }){&graph, 0}, 0, NULL); }
static void destroyGraph(uint64_t handle) { call("cuGraphDestroy", &handle, 0, NULL); }
static void instantiate(uint64_t from) { call("cuGraphInstantiateWithFlags", &(struct { uint64_t *out, graph, flags; }){&exec, from, 0}, 0, NULL); }
static void launchOn(uint64_t stream) { call("cuGraphLaunch", &(struct { uint64_t exec, stream; }){exec, stream}, 0, NULL); }
static void launchGraph(void) { instantiate(graph); launchOn(one); }
static void edges(const char *function, uint64_t from, uint64_t to) {
  if (strcmp(function, "cuGraphRemoveDependencies") == 0) call(function, &(struct { uint64_t graph, *from, *to, count; }){graph, &from, &to, 1}, 0, NULL);
  else call(function, &(struct { uint64_t graph, *from, *to, data, count; }){graph, &from, &to, 0, 1}, 0, NULL);
}
static void join(uint64_t from, uint64_t to) { edges("cuGraphAddDependencies_v2", from, to); }
static void orderStreams(int isRight) {
  if (!isRight) return;
  call("cuEventRecord", &(struct { uint64_t event, stream; }){event, one}, 0, NULL);
  call("cuStreamWaitEvent_ptsz", &(struct { uint64_t stream, event; uint32_t flags; }){two, event, 0}, 0, NULL);
}
static void capture(uint64_t stream, uint64_t function, uint64_t *pointer) {
  void *arguments[] = {pointer};
  call("cuLaunchKernel", &(struct { uint64_t f; uint32_t shape[7]; uint64_t stream; void **arguments, **extra; }){function, {1, 1, 1, 32, 1, 1, 0}, stream, arguments, NULL}, 0,
       function == SET ? "_Z3setPfi" : "_Z4readPKfi");
}
static void begin(uint64_t stream) { call("cuStreamBeginCapture_v2", &(struct { uint64_t stream; uint32_t mode; }){stream, 0}, 0, NULL); }
static void beginInto(uint64_t stream, uint64_t into, Nodes after) {
  call("cuStreamBeginCaptureToGraph", &(struct { uint64_t stream, graph, *after, edges, count; uint32_t mode; }){stream, into, after.of, 0, after.count, 0}, 0, NULL);
}
static void end(uint64_t stream, uint64_t captured) { call("cuStreamEndCapture", &(struct { uint64_t stream, *out; }){stream, &captured}, 0, NULL); }

static void forkJoin(int isRight) {
  const uint64_t root = kernel("first", SET, &x, NONE), left = kernel("left", READ, &x, AFTER(root)), right = kernel("right", READ, &x, AFTER(root));
  kernel("last", SET, &x, needs(isRight, AFTER(left, right)));
  launchGraph();
}
static void diamond(int isRight) {
  const uint64_t root = kernel("first", SET, &x, NONE), left = copy("left", copyOf(y, x, 4096, 1, 0), AFTER(root));
  const uint64_t right = fill("right", (Fill){z, 0, 0, 4, 1024, 1}, AFTER(root));
  const uint64_t bottom = copy("bottom", copyOf(x, y, 4096, 1, 0), AFTER(left));
  copy("last", copyOf(y, z, 4096, 1, 0), needs(isRight, AFTER(bottom, right)));
  launchGraph();
}
/* The edges are added later, and against the order in which the nodes were. */
static void throughEmpty(int isRight) {
  const uint64_t last = kernel("last", READ, &x, NONE), between = empty(NONE), first = kernel("first", SET, &x, NONE);
  join(between, last);
  if (isRight) join(first, between);
  launchGraph();
}
static void removed(int isRight) {
  const uint64_t first = kernel("first", SET, &x, NONE), last = kernel("last", READ, &x, AFTER(first));
  if (!isRight) edges("cuGraphRemoveDependencies", first, last);
  launchGraph();
}
/* A node takes its edges with it. */
static void destroyed(int isRight) {
  const uint64_t first = kernel("first", SET, &x, NONE), between = empty(AFTER(first));
  kernel("last", READ, &x, AFTER(between));
  if (!isRight) call("cuGraphDestroyNode", &between, 0, NULL);
  launchGraph();
}
/* Columns of one matrix: the rows of both lie between each other, and meet where one begins too early. */
static void rowsOfNodes(int isRight) {
  fill("first", (Fill){x, 64, 0, 4, 8, 10}, NONE);
  copy("last", copyOf(x + (isRight ? 32 : 28), y, 32, 10, 64), NONE);
  launchGraph();
}
static void inChild(int isRight) {
  const uint64_t parent = graph, child = 0x6100000010;
  create(child);
  kernel("first", SET, &x, NONE);
  graph = parent;
  const uint64_t node = value("cuGraphAddChildGraphNode", "child", child, NONE);
  /* The parent has a copy of what the graph was. */
  graph = child;
  kernel("later", SET, &y, NONE);
  destroyGraph(child);
  graph = parent;
  kernel("beside", READ, &y, NONE);
  kernel("last", READ, &x, needs(isRight, AFTER(node)));
  launchGraph();
}
static void capturedChild(int isRight) {
  const uint64_t child = 0x6100000010;
  begin(one);
  capture(one, SET, &x);
  end(one, child);
  const uint64_t node = value("cuGraphAddChildGraphNode", "child", child, NONE);
  destroyGraph(child);
  kernel("last", READ, &x, needs(isRight, AFTER(node)));
  launchGraph();
}
static void changedKernel(int isRight) {
  kernel("first", SET, &x, NONE);
  const uint64_t last = kernel("before", SET, &y, NONE);
  launchGraph();
  const Kernel parameters = kernelOf(READ, isRight ? &z : &x);
  site("at last (/app/nodes.c:1)");
  call("cuGraphExecKernelNodeSetParams_v2", &(struct { uint64_t exec, node; const void *parameters; }){exec, last, &parameters}, 0, NULL);
  site(NULL);
  launchOn(one);
}
static void changedFill(int isRight) {
  kernel("first", SET, &x, NONE);
  const uint64_t last = fill("before", (Fill){y, 0, 0, 1, 64, 1}, NONE);
  instantiate(graph);
  const Fill parameters = {isRight ? z : x, 0, 0, 1, 64, 1};
  site("at last (/app/nodes.c:1)");
  call("cuGraphExecMemsetNodeSetParams", &(struct { uint64_t exec, node; const void *parameters; uint64_t context; }){exec, last, &parameters, 1}, 0, NULL);
  site(NULL);
  launchOn(one);
}
static void changedCopy(int isRight) {
  kernel("first", SET, &x, NONE);
  const uint64_t last = copy("before", copyOf(y, z, 64, 1, 0), NONE);
  instantiate(graph);
  const Copy parameters = copyOf(y, isRight ? y + 1024 : x, 64, 1, 0);
  site("at last (/app/nodes.c:1)");
  call("cuGraphExecMemcpyNodeSetParams", &(struct { uint64_t exec, node; const void *parameters; uint64_t context; }){exec, last, &parameters, 1}, 0, NULL);
  site(NULL);
  launchOn(one);
}
/* The change comes before the instance. */
static void changedNode(int isRight) {
  kernel("first", SET, &x, NONE);
  const uint64_t last = kernel("before", READ, &y, NONE);
  const Kernel parameters = kernelOf(READ, isRight ? &z : &x);
  site("at last (/app/nodes.c:1)");
  call("cuGraphKernelNodeSetParams_v2", &(struct { uint64_t node; const void *parameters; }){last, &parameters}, 0, NULL);
  site(NULL);
  launchGraph();
}
static void updatedExec(int isRight) {
  const uint64_t first = kernel("before", SET, &x, NONE);
  kernel("before", READ, &x, AFTER(first));
  launchGraph();
  create(0x6100000010);
  const uint64_t other = kernel("first", SET, &x, NONE);
  kernel("last", READ, &x, needs(isRight, AFTER(other)));
  call("cuGraphExecUpdate_v2", &(struct { uint64_t exec, graph; void *result; }){exec, graph, NULL}, 0, NULL);
  launchOn(one);
}
static void switchedOff(int isRight) {
  kernel("first", SET, &x, NONE);
  const uint64_t last = kernel("last", READ, &x, NONE);
  instantiate(graph);
  call("cuGraphNodeSetEnabled", &(struct { uint64_t exec, node; uint32_t isEnabled; }){exec, last, !isRight}, 0, NULL);
  launchOn(one);
}
static void inClone(int isRight) {
  const uint64_t originals[] = {kernel("first", SET, &x, NONE), kernel("last", READ, &x, NONE)}, original = graph;
  uint64_t clone = 0x6100000010, found[2];
  instantiate(original);
  call("cuGraphClone", &(struct { uint64_t *out, graph; }){&clone, original}, 0, NULL);
  destroyGraph(original);
  for (int at = 0; at < 2; at++) {
    found[at] = lastHandle += 16;
    call("cuGraphNodeFindInClone", &(struct { uint64_t *out, original, clone; }){&found[at], originals[at], clone}, 0, NULL);
  }
  graph = clone;
  if (isRight) join(found[0], found[1]);
  launchGraph();
}
static void ofAnyType(int isRight) {
  struct { uint32_t type, reserved[3]; union { Kernel kernel; struct { uint64_t flags, context; Copy copy; } copy; uint64_t words[29]; }; uint64_t end; } node = {.type = 0, .kernel = kernelOf(SET, &x)};
  const uint64_t first = add("cuGraphAddNode_v2", "first", graph, NONE, &node);
  node.type = 5;
  const uint64_t between = add("cuGraphAddNode_v2", "empty", graph, AFTER(first), &node);
  node.type = 1;
  node.copy.copy = copyOf(y, x, 64, 1, 0);
  add("cuGraphAddNode_v2", "last", graph, needs(isRight, AFTER(between)), &node);
  launchGraph();
}
/* The driver makes the bodies, to which the program adds nodes, or a stream what it captures. */
static void inBody(int isRight) {
  const uint64_t outer = graph, bodies[2] = {0x6100000010, 0x6100000020};
  struct { uint32_t type, reserved[3]; uint64_t handle; uint32_t kind, count; const uint64_t *bodies; uint64_t context, rest[26]; } node = {13, {0}, 1, 0, 2, bodies, 1, {0}};
  const uint64_t first = kernel("before", SET, &x, NONE), branch = add("cuGraphAddNode_v2", "branch", graph, AFTER(first), &node);
  graph = bodies[0];
  kernel("first", SET, &x, NONE);
  beginInto(one, bodies[1], NONE);
  capture(one, SET, &x);
  end(one, bodies[1]);
  graph = outer;
  /* One behind the other: the captured body of the racy program is beside the last node, too. */
  kernel("last", READ, isRight ? &x : &y, AFTER(isRight ? branch : first));
  if (!isRight) {
    graph = bodies[0];
    kernel("last", READ, &x, NONE);
    graph = outer;
  }
  launchGraph();
}
static void twoStreams(int isRight) {
  kernel("first", SET, &x, NONE);
  launchGraph();
  create(0x6100000010);
  exec += 16;
  kernel("last", READ, &x, NONE);
  orderStreams(isRight);
  instantiate(graph);
  launchOn(two);
}
/* The launches of one instance wait for each other. */
static void twoLaunches(int isRight) {
  kernel("first", SET, &x, NONE);
  launchGraph();
  launchOn(two);
  if (!isRight) capture(one, SET, &x);
}
static void eventNodes(int isRight) {
  const uint64_t first = kernel("first", SET, &x, NONE);
  value("cuGraphAddEventRecordNode", "record", event, AFTER(first));
  launchGraph();
  create(0x6100000010);
  exec += 16;
  const uint64_t wait = value("cuGraphAddEventWaitNode", "wait", event, NONE);
  kernel("last", READ, &x, needs(isRight, AFTER(wait)));
  instantiate(graph);
  launchOn(two);
}
static void allocationNode(int isRight) {
  uint64_t parameters[15] = {0};
  const uint64_t memory = 0x7f0000300000;
  parameters[13] = 4096;
  parameters[14] = memory;
  const uint64_t allocation = add("cuGraphAddMemAllocNode", "first", graph, NONE, parameters);
  const uint64_t used = kernel("last", SET, &(uint64_t){memory}, needs(isRight, AFTER(allocation)));
  if (isRight) value("cuGraphAddMemFreeNode", "free", memory, AFTER(used));
  launchGraph();
  launchOn(one);
}
/* The free comes after each launch, in its stream; what the next launch uses is not gone. */
static void freedOutside(int isRight) {
  uint64_t parameters[15] = {0};
  const uint64_t memory = 0x7f0000300000;
  parameters[13] = 4096;
  parameters[14] = memory;
  const uint64_t allocation = add("cuGraphAddMemAllocNode", "allocation", graph, NONE, parameters);
  kernel("first", SET, &(uint64_t){memory}, AFTER(allocation));
  instantiate(graph);
  for (int time = 0; time < 2; time++) {
    launchOn(one);
    orderStreams(isRight);
    call("cuMemFreeAsync", &(struct { uint64_t pointer, stream; }){memory, two}, 0, NULL);
    if (!isRight) break;
    call("cuEventRecord", &(struct { uint64_t event, stream; }){event, two}, 0, NULL);
    call("cuStreamWaitEvent_ptsz", &(struct { uint64_t stream, event; uint32_t flags; }){one, event, 0}, 0, NULL);
  }
}
static void capturedInto(int isRight) {
  const uint64_t first = kernel("first", SET, &x, NONE);
  beginInto(one, graph, needs(isRight, AFTER(first)));
  site("at last (/app/nodes.c:1)");
  capture(one, READ, &x);
  site(NULL);
  end(one, graph);
  launchGraph();
}
/* The handles of captured nodes are not known: a node after one of them comes after all. */
static void afterCaptured(int isRight) {
  begin(one);
  site("at first (/app/nodes.c:1)");
  capture(one, SET, &x);
  site(NULL);
  end(one, graph);
  kernel("last", READ, &x, needs(isRight, AFTER(12345)));
  launchGraph();
}
/* Nothing is concluded from a graph or an instance of which a node is not known. */
static void unknownNode(int isRight) {
  kernel("first", SET, &x, NONE);
  const uint64_t last = kernel("last", READ, &x, NONE);
  if (isRight) join(12345, last);
  launchGraph();
}
static void unknownChange(int isRight) {
  kernel("first", SET, &x, NONE);
  kernel("last", READ, &x, NONE);
  instantiate(graph);
  const Kernel parameters = kernelOf(READ, &x);
  if (isRight) call("cuGraphExecKernelNodeSetParams_v2", &(struct { uint64_t exec, node; const void *parameters; }){exec, 12345, &parameters}, 0, NULL);
  launchOn(one);
}
/* More nodes than values have room. */
static void manyNodes(int isRight) {
  enum { MANY = 500 };
  uint64_t all[MANY], node = 0;
  all[0] = kernel("first", SET, &x, NONE);
  for (int at = 1; at < MANY; at++) all[at] = empty(AFTER(all[at == MANY - 1 && isRight ? 0 : at - 1]));
  /* Only the last of the list has an order, of which the racy program has none. */
  node = lastHandle += 16;
  Kernel parameters = kernelOf(READ, &x);
  uint64_t tail[MANY];
  for (int at = 0; at < MANY; at++) tail[at] = at == 0 ? kernel("beside", READ, &y, NONE) : empty(AFTER(tail[0]));
  tail[MANY - 1] = isRight ? all[MANY - 1] : tail[MANY - 1];
  site("at last (/app/nodes.c:1)");
  call("cuGraphAddKernelNode_v2", &(struct { uint64_t *out, graph, *after, count; const void *parameters; }){&node, graph, tail, MANY, &parameters}, 0, NULL);
  site(NULL);
  launchGraph();
}

static const struct { const char *name; void (*run)(int); } NODES[] = {
    {"forkJoin", forkJoin}, {"diamond", diamond}, {"throughEmpty", throughEmpty}, {"removed", removed}, {"destroyed", destroyed}, {"rowsOfNodes", rowsOfNodes},
    {"inChild", inChild}, {"capturedChild", capturedChild}, {"changedKernel", changedKernel}, {"changedFill", changedFill}, {"changedCopy", changedCopy},
    {"changedNode", changedNode}, {"updatedExec", updatedExec}, {"switchedOff", switchedOff}, {"inClone", inClone}, {"ofAnyType", ofAnyType}, {"inBody", inBody},
    {"twoStreams", twoStreams}, {"twoLaunches", twoLaunches}, {"eventNodes", eventNodes}, {"allocationNode", allocationNode}, {"freedOutside", freedOutside},
    {"capturedInto", capturedInto}, {"afterCaptured", afterCaptured}, {"unknownNode", unknownNode}, {"unknownChange", unknownChange}, {"manyNodes", manyNodes}};

static int playNodes(const char *name, int isRight) {
  call("cuMemAlloc_v2", &(struct { uint64_t *out; uint64_t bytes; }){&x, 4096}, 0, NULL);
  call("cuMemAlloc_v2", &(struct { uint64_t *out; uint64_t bytes; }){&y, 4096}, 0, NULL);
  call("cuMemAlloc_v2", &(struct { uint64_t *out; uint64_t bytes; }){&z, 4096}, 0, NULL);
  call("cuStreamCreate", &(struct { uint64_t *out; uint32_t flags; }){&one, 1}, 0, NULL);
  call("cuStreamCreate", &(struct { uint64_t *out; uint32_t flags; }){&two, 1}, 0, NULL);
  call("cuEventCreate", &(struct { uint64_t *out; uint32_t flags; }){&event, 2}, 0, NULL);
  for (size_t at = 0; at < sizeof NODES / sizeof *NODES; at++)
    if (strcmp(NODES[at].name, name) == 0) {
      if (strcmp(name, "afterCaptured") != 0) create(graph);
      NODES[at].run(isRight);
      call("cuGraphExecDestroy", &exec, 0, NULL);
      destroyGraph(graph);
      return 0;
    }
  return 2;
}

static int playHost(const char *name, int isRight) {
  static char *memory;
  memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bytes = memory;
  call("cuMemAlloc_v2", &(struct { uint64_t *out; uint64_t bytes; }){&x, 1 << 20}, 0, NULL);
  call("cuMemAllocHost_v2", &(struct { char **out; uint64_t bytes; }){&memory, 1 << 20}, 0, NULL);
  call("cuStreamCreate", &(struct { uint64_t *out; uint32_t flags; }){&one, 1}, 0, NULL);
  for (size_t at = 0; at < sizeof HOST / sizeof *HOST; at++)
    if (strcmp(HOST[at].name, name) == 0) {
      HOST[at].run(isRight);
      /* A call, by which what was not watched is compared. */
      call("cuStreamQuery", &one, 600, NULL);
      return 0;
    }
  return 2;
}

__attribute__((visibility("default"))) int play(int count, char **arguments) {
  void *library = dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL);
  int (*initialize)(void);
  *(void **)&initialize = library == NULL ? NULL : dlsym(library, "InitializeInjection");
  if (initialize == NULL || initialize() != 1) return 1;
  call("cuDeviceGetCount", &x, 0, NULL);
  *(void **)&site = dlsym(library, "cuda_streams_site");
  if (count > 4 && strcmp(arguments[3], "nodes") == 0) return playNodes(arguments[4], strcmp(arguments[2], "right") == 0);
  if (count > 4 && strcmp(arguments[3], "host") == 0) return playHost(arguments[4], strcmp(arguments[2], "right") == 0);
  call("cuMemAlloc_v2", &(struct { uint64_t *out; uint64_t bytes; }){&x, 4096}, 0, NULL);
  call("cuMemAllocHost_v2", &(struct { uint64_t *out; uint64_t bytes; }){&host, 4096}, 0, NULL);
  call("cuStreamCreate", &(struct { uint64_t *out; uint32_t flags; }){&one, 1}, 0, NULL);
  call("cuStreamCreate", &(struct { uint64_t *out; uint32_t flags; }){&two, 1}, 0, NULL);
  call("cuEventCreate", &(struct { uint64_t *out; uint32_t flags; }){&event, 2}, 0, NULL);
  if (strcmp(arguments[2], "timed") == 0 || strcmp(arguments[2], "killed") == 0) return playTimed(arguments[2]), 0;
  void *pointers[] = {&x, NULL};
  struct { uint64_t f; uint32_t shape[7]; uint64_t stream; void **arguments; void **extra; } launch = {77, {1, 1, 1, 32, 1, 1, 0}, one, pointers, NULL};
  void *extra[] = {(void *)1, &x, (void *)2, &(size_t){8}, NULL};
  if (count > 3) { launch.arguments = NULL; launch.extra = extra; }
  gpu(KERNEL, 1000000, one, 0);
  call("cuLaunchKernel", &launch, 0, "_Z3setPfi");
  call("cuEventRecord", &(struct { uint64_t event, stream; }){event, one}, 0, NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, copyThere, strcmp(arguments[2], "right") == 0 ? &x : NULL);
  pthread_join(thread, NULL);
  /* An allocation that failed is none. */
  call("cuMemAlloc_v2", &(struct { uint64_t *out; uint64_t bytes; }){&x, 1 << 20}, 2, NULL);
  return 0;
}
/* What the traced library asks the driver for: the parameters of the kernel and its name, and the device of a context. */
__attribute__((visibility("default"))) int cuFuncGetName(const char **name, void *f) {
  *name = f == (void *)SET ? "_Z3setPfi" : "_Z4readPKfi";
  return 0;
}
__attribute__((visibility("default"))) int cuFuncGetParamInfo(void *f, size_t index, size_t *offset, size_t *size) {
  (void)f;
  *offset = 8 * index;
  *size = 8;
  return index == 0 ? 0 : 1;
}
__attribute__((visibility("default"))) int cuCtxGetDevice(int *device) { *device = 1; return 0; }
API int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 16 ? 132 : 2048; return (void)device, 0; }
API int cuDeviceGetName(char *name, int length, int device) { return snprintf(name, (size_t)length, "Fake %d", device) < 0; }

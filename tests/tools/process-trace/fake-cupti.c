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
    "cuGraphLaunch", "cuMemsetD32Async"};
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
    {"reused", reused}, {"child", child}, {"told", told}, {"large", large}, {"answered", answered}};

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
/* What the traced library asks the driver for: the parameters of the kernel, and the device of a context. */
__attribute__((visibility("default"))) int cuFuncGetParamInfo(void *f, size_t index, size_t *offset, size_t *size) {
  (void)f;
  *offset = 8 * index;
  *size = 8;
  return index == 0 ? 0 : 1;
}
__attribute__((visibility("default"))) int cuCtxGetDevice(int *device) { *device = 1; return 0; }
API int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 16 ? 132 : 2048; return (void)device, 0; }
API int cuDeviceGetName(char *name, int length, int device) { return snprintf(name, (size_t)length, "Fake %d", device) < 0; }

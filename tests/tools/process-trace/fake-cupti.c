/* Loads the library that traces a process as the CUDA driver does, and calls it as CUPTI does, with the calls of a small program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
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
    "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize", "cuMemcpyBatchAsync_v2", "cuMemFreeHost", "cuLaunchHostFunc", "cuMemcpy2DAsync_v2"};
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

static void call(const char *name, const void *params, int result, const char *symbol) {
  uint32_t id = 0;
  while (strcmp(NAMES[id], name) != 0) id++;
  id++;
  if (!enabled[id]) return;
  CallbackData data = {0, name, params, NULL, symbol, (void *)1, 1, NULL, 0};
  callback(NULL, 1, id, &data);
  data.site = 1;
  data.functionReturnValue = &result;
  callback(NULL, 1, id, &data);
}

static uint64_t x = 0x7f0000000000, host = 0x7e0000000000, one = 0x5000000010, two = 0x5000000020, event = 0x5000000030;

static void *copyThere(void *ordered) {
  if (ordered != NULL) call("cuStreamWaitEvent_ptsz", &(struct { uint64_t stream, event; uint32_t flags; }){two, event, 0}, 0, NULL);
  /* A query that is not answered with yes orders nothing. */
  call("cuStreamQuery", &one, 600, NULL);
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
    {"reused", reused}, {"child", child}, {"told", told}, {"large", large}, {"answered", answered}, {"several", several}, {"rowsFromFile", rowsFromFile}};

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
  void *library = dlopen(arguments[1], RTLD_NOW);
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
  void *pointers[] = {&x, NULL};
  struct { uint64_t f; uint32_t shape[7]; uint64_t stream; void **arguments; void **extra; } launch = {77, {1, 1, 1, 32, 1, 1, 0}, one, pointers, NULL};
  void *extra[] = {(void *)1, &x, (void *)2, &(size_t){8}, NULL};
  if (count > 3) { launch.arguments = NULL; launch.extra = extra; }
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

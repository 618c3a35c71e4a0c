/* Loads the library that traces a process as the CUDA driver does, and calls it as CUPTI does, with the calls of a small program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "callback-data.h"


static void (*callback)(void *, int, uint32_t, const void *);
static const char *const NAMES[] = {
    "cuMemAlloc_v2", "cuStreamCreate", "cuEventCreate", "cuLaunchKernel", "cuEventRecord", "cuStreamWaitEvent_ptsz",
    "cuMemcpyDtoHAsync_v2", "cuMemAllocHost_v2", "cuStreamQuery", "cuMemFree_v2", "cuLaunchKernelEx", "cuDeviceGetCount"};
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

static void *wait(void *ordered) {
  if (ordered != NULL) call("cuStreamWaitEvent_ptsz", &(struct { uint64_t stream, event; uint32_t flags; }){two, event, 0}, 0, NULL);
  /* A query that is not answered with yes orders nothing. */
  call("cuStreamQuery", &one, 600, NULL);
  call("cuMemcpyDtoHAsync_v2", &(struct { uint64_t to, from, bytes, stream; }){host, x, 4096, two}, 0, NULL);
  return NULL;
}

__attribute__((visibility("default"))) int play(int count, char **arguments) {
  void *library = dlopen(arguments[1], RTLD_NOW);
  int (*initialize)(void);
  *(void **)&initialize = library == NULL ? NULL : dlsym(library, "InitializeInjection");
  if (initialize == NULL || initialize() != 1) return 1;
  call("cuDeviceGetCount", &x, 0, NULL);
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
  pthread_create(&thread, NULL, wait, strcmp(arguments[2], "right") == 0 ? &x : NULL);
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

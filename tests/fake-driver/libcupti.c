/*
 * A fake CUPTI, for the libcuda beside it: it writes records of what that libcuda did, and asks for memory and
 * hands it back on threads of its own while the caller waits, as NVIDIA's does. FAKE_CUPTI_TAKEN=1: another tool has it.
 * FAKE_CUPTI_VERSION: the version that it says it has. FAKE_SMALL=1: a buffer for each of the first 200 records.
 *
 *   cc -shared -fPIC -O2 -pthread -o libcupti.so libcupti.c
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int R;
typedef uint64_t u64;
typedef uint32_t u32;
typedef uint8_t u8;
#define API __attribute__((visibility("default")))
enum { MEMCPY = 1, MEMSET = 2, DRIVER = 4, KERNEL = 10, BYTES = 248, NUMBERS = 1000, FEW = 200, INVALID = 1, QUEUE_EMPTY = 18, MULTIPLE = 39 };

typedef struct Record { u32 kind; u64 start, end; u32 stream, correlation; u64 bytes; u32 thread; const char *name; } Record;
static Record records[1 << 20];
static int written, read, subscribed, enabled[100];
static u64 lastCall;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*requested)(u8 **, size_t *, size_t *);
static void (*completed)(void *, u32, u8 *, size_t, size_t);
static u64 dropped;

/* CUPTI's clock is another one than the library's. */
static u64 wall(double monotonic) { return 1700000000000000000u + (u64)(monotonic * 1e6); }
static double monotonic(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }

static void over(u64 call, const char *what, u64 bytes, u64 stream, double asked, double begun, u64 thread) {
  pthread_mutex_lock(&lock);
  u32 kind = !strcmp(what, "copy") ? MEMCPY : !strcmp(what, "fill") ? MEMSET : KERNEL;
  if (enabled[DRIVER] && call != lastCall) records[written++] = (Record){DRIVER, wall(asked), wall(asked) + 1, 0, (u32)call, 0, (u32)thread, 0};
  lastCall = call;
  /* As C++ writes ours::spin(int). */
  const char *name = !strcmp(what, "spin") ? "_ZN4ours4spinEi" : what;
  if (enabled[kind]) records[written++] = (Record){kind, wall(begun), wall(monotonic()), (u32)stream + NUMBERS, (u32)call, bytes, 0, name};
  pthread_mutex_unlock(&lock);
}
static void put(u8 *at, const void *value, size_t bytes) { memcpy(at, value, bytes); }
static void write(u8 *at, Record *r) {
  u32 device = 0;
  memset(at, 0, BYTES);
  put(at, &r->kind, 4);
  int isCall = r->kind == DRIVER, isKernel = r->kind == KERNEL;
  put(at + (isCall ? 8 : 16), &r->start, 8);
  put(at + (isCall ? 16 : 24), &r->end, 8);
  put(at + (isCall ? 32 : isKernel ? 92 : 44), &r->correlation, 4);
  if (isCall) put(at + 28, &r->thread, 4);
  else {
    put(at + (isKernel ? 40 : 32), &device, 4);
    put(at + (isKernel ? 48 : 40), &r->stream, 4);
    if (isKernel) put(at + 104, &r->name, 8); else put(at + 8, &r->bytes, 8);
  }
}
/* On a thread of its own: the thread of JavaScript waits for it. */
static void *deliver(void *unused) {
  (void)unused;
  pthread_mutex_lock(&lock);
  while (read < written) {
    u8 *buffer = 0; size_t size = 0, most = 0, used = 0;
    requested(&buffer, &size, &most);
    if (!buffer) { dropped += (u64)(written - read); read = written; break; }
    if (getenv("FAKE_SMALL") && read < FEW) size = BYTES;
    for (; read < written && used + BYTES <= size; used += BYTES) write(buffer + used, &records[read++]);
    completed(0, 0, buffer, size, used);
  }
  pthread_mutex_unlock(&lock);
  return 0;
}

/* Not of CUPTI: another thread that fills again and again. */
static struct { void *to; void *stream; volatile int left; } fills;
static void *fill(void *unused) {
  (void)unused;
  R (*set)(void *, u32, size_t, void *) = (R (*)(void *, u32, size_t, void *))dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), "cuMemsetD8Async");
  for (; fills.left > 0; fills.left--) set(fills.to, 1, 21, fills.stream);
  return 0;
}
API void fillOften(void *to, void *stream, int count) { fills.to = to; fills.stream = stream; fills.left = count; pthread_t t; pthread_create(&t, 0, fill, 0); pthread_detach(t); }
API int fillsLeft(void) { return fills.left; }

API R cuptiGetVersion(u32 *version) { const char *said = getenv("FAKE_CUPTI_VERSION"); *version = said ? (u32)atoi(said) : 130001; return 0; }
API R cuptiSubscribe(void **s, void *f, void *u) { (void)f; (void)u; if (subscribed || getenv("FAKE_CUPTI_TAKEN")) return MULTIPLE; subscribed = 1; *s = &subscribed; return 0; }
API R cuptiUnsubscribe(void *s) { if (s != &subscribed || !subscribed) return INVALID; subscribed = 0; return 0; }
API R cuptiActivityRegisterCallbacks(void *r, void *c) { requested = r; completed = c; return 0; }
API R cuptiActivityEnable(int kind) {
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!cuda) return INVALID;
  enabled[kind] = 1;
  *(void **)dlsym(cuda, "fakeOver") = (void *)over;
  return 0;
}
API R cuptiActivityEnableDriverApi(u32 call, u8 enable) { (void)enable; return call > 800 ? INVALID : 0; }
API R cuptiActivityEnableRuntimeApi(u32 call, u8 enable) { (void)enable; return call > 500 ? INVALID : 0; }
/* CUPTI counts streams otherwise than the driver. */
API R cuptiGetStreamIdEx(void *context, void *stream, u8 perThread, u32 *id) {
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD); u64 said;
  R (*ask)(void *, u64 *) = (R (*)(void *, u64 *))dlsym(cuda, "cuStreamGetId");
  if (!context) return INVALID;
  R result = ask(perThread ? (void *)2 : stream, &said);
  *id = (u32)said + NUMBERS; return result;
}
API R cuptiActivityDisable(int kind) { enabled[kind] = 0; return 0; }
API R cuptiActivityFlushAll(u32 flag) { (void)flag; pthread_t t; pthread_create(&t, 0, deliver, 0); pthread_join(t, 0); return 0; }
API R cuptiActivityGetNextRecord(u8 *buffer, size_t valid, u8 **record) {
  u8 *next = *record ? *record + BYTES : buffer;
  if (next + BYTES > buffer + valid) return QUEUE_EMPTY;
  *record = next; return 0;
}
API R cuptiActivityGetNumDroppedRecords(void *c, u32 s, size_t *n) { (void)c; (void)s; *n = dropped; dropped = 0; return 0; }
API R cuptiGetTimestamp(u64 *t) { *t = wall(monotonic()); return 0; }
API R cuptiGetResultString(R result, const char **text) { *text = result == MULTIPLE ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED" : "CUPTI_ERROR_UNKNOWN"; return 0; }

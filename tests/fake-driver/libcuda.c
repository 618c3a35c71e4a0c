/*
 * A fake libcuda: streams, events, graphs and memory in the memory of the process, and above all its locks and
 * waits as they were measured on an H200 (docs/internals/cuda-facts.md). The CUDA driver of the library runs on it as on a GPU, with
 * several threads, on a machine that has none. Where a program could crash a real one, this one says what was wrong and aborts.
 *
 *   cc -shared -fPIC -O2 -pthread -o libcuda.so.1 libcuda.c
 *   zig cc -target x86_64-windows-gnu -shared -O2 -o nvcuda.dll libcuda.c -lpthread -lntdll
 *
 * With -DOLDEST it lacks what CUDA 12.5, the oldest that the library works with, has not; with -DFUTURE it lacks what CUDA has announced
 * that it will deprecate.
 *
 * It is a compiler, too: NVRTC's functions take CUDA C++ for what it says. Kernels that are known by name run.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef _WIN32
#include <malloc.h>
#define aligned_alloc(alignment, bytes) _aligned_malloc(bytes, alignment)
#define freeAligned _aligned_free
#define pause() sleep(1)
/* Windows sleeps for milliseconds otherwise. Units of 100 ns, less than 0 from now on. */
long NtDelayExecution(unsigned char isAlertable, const int64_t *units);
#define usleep(microseconds) NtDelayExecution(0, &(int64_t){-10 * (microseconds)})
#define API __declspec(dllexport)
#else
#include <sys/mman.h>
#define freeAligned free
#define API __attribute__((visibility("default")))
#endif

typedef int R;
typedef uint64_t u64;
typedef uint32_t u32;
typedef uint8_t u8;
enum { OK = 0, INVALID_VALUE = 1, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, ILLEGAL_STATE = 401, NOT_FOUND = 500, NOT_READY = 600, CONTEXT_IS_DESTROYED = 709,
  INVALID_RESOURCE_TYPE = 914, INVALID_RESOURCE_CONFIGURATION = 915,
  CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_MERGE = 902, CAPTURE_UNMATCHED = 903, CAPTURE_UNJOINED = 904, CAPTURE_ISOLATION = 905,
  CAPTURE_IMPLICIT = 906, CAPTURED_EVENT = 907, CAPTURE_WRONG_THREAD = 908 };

/* Entries of a hardware queue, and how many streams CUDA makes at one time. */
/* Nodes that one comes after at once. */
enum { WIDEST = 16 };
enum { ENTRIES = 1020, CHANNELS = 32, FIRST_PLACES = 33, MORE_PLACES = 36, MOST_STREAMS = 1 << 16 };
/* FAKE_BLOCK=1 makes it strict: each stream that finds no place waits for the device. */
static int block = MORE_PLACES;
/* FAKE_FRESH=1: no stream has the handle of an earlier one, so that each use of one that is destroyed is found. */
static int fresh;
/* CUDA_LAUNCH_BLOCKING=1, as a real one has it: launches of kernels and graphs, and copies within the device, wait for the whole device. */
static int launchBlocking;
/* FAKE_FAILS names calls that destroy or free, with anything between them: they do nothing and return CUDA_ERROR_INVALID_VALUE. */
static const char *failing;
#define FAILS(name) (failing && strstr(failing, name))
/* FAKE_FORGETS=1 makes it broken: copies do not arrive. */
static int forgets;
/* FAKE_POLL_MS=N makes it slow: it polls its channels only each N milliseconds, so that work runs long after its call. */
static int pollMilliseconds;
/* FAKE_REVERSE=1: it polls the last channel first, so that work which nothing orders runs in another order. */
static int reverse;
/* FAKE_FREES=1: what was destroyed is freed, once all is over that was queued before. Otherwise it stays, so that what asks about it is told so. */
static int frees;

typedef struct Stream Stream;
typedef struct Op Op;
/* The primary context, or a green one. */
typedef struct Context { u64 magic; u32 multiprocessors; int alive, streams, places; } Context;
typedef struct { u32 kind; u64 address; u64 value; u32 flags; } MemOp;
typedef struct { Stream *stream; u64 life, seq; } Mark; /* all that the stream held then */

typedef enum { SET, COPY, MEMOPS, FREE, KERNEL, WAIT, RECORD, GRAPH, NOTHING, EVENT_WAIT, EVENT_RECORD, CONDITIONAL } Kind;
struct Op {
  Kind kind;
  Stream *stream;
  u64 seq, serial; /* its number in its stream, and among all work */
  Op *next;
  int entry;
  void *to; const void *from; size_t bytes; u32 value; int width;
  size_t rows, planes, toRow, fromRow, toPlane, fromPlane; /* of a copy of rows */
  int ops, at; MemOp mem[3];
  Mark mark; Mark *marks; int nmarks;
  int fn; u32 grid, block; double until; u64 args[8]; u8 wide[8][32]; /* the arguments, and the whole of those of more than 8 bytes */
  int off; /* of a node of a body */
  u32 *values; u64 condition; int type, nbodies; struct Graph **bodies; struct Exec **execs; int playing; /* of a conditional node; `values` are the conditions of the launch, for kernels too */
  struct Exec *exec; int node; struct Graph *child; /* of a graph within a graph: the copy of that */
  struct Event *event;
  int index, after[WIDEST], nafter; /* its place in its graph, and those that it comes after */
  int rank; /* its place among those that nothing comes after, if it was one of them at the end of a capture; else 0 */
  Context *green; /* of the stream that it was captured on */
  void *function;
  double *time;
  double asked, begun; u64 thread; /* when its call was made, by which thread, and when it began to run */
};
typedef struct { u64 magic; Stream *self; u64 id; } Inner;
/* The nodes that the next work of a stream comes after. */
typedef struct { struct Node *nodes[WIDEST]; int n; } Front;
struct Stream {
  Inner *inner;
  int alive; u64 life; u32 flags; int priority; u64 queued, done, covered; int channel; int placed;
  struct Capture *capture; Front front; Context *green;
};
typedef struct Event { Context *context; u64 magic; u32 flags; int recorded; Mark mark; Mark *marks; int nmarks; double *time; struct Capture *capture; Front front; } Event;
typedef struct Node { Op op; struct Node *next, *original; u64 id; } Node;
typedef struct Capture { u64 id; int valid, active, refs, branches, adds, before, mode; pthread_t thread; Stream *origin; struct Graph *graph; } Capture;
enum { MOST_CONDITIONS = 512 };
typedef struct Graph { Node *first, *last; int count, branches, gone; struct Graph *root; u32 conditions[MOST_CONDITIONS]; int nconditions, uses[MOST_CONDITIONS], instances; } Graph;
typedef struct Exec { Op *ops; int count, branches, homes; Context *home[8]; u64 launched, done; int alive; Graph *graph; u8 *off; Mark last; u32 conditions[MOST_CONDITIONS]; } Exec;
typedef struct { Op *first, *last; int entries; } Channel;
/* What was freed stays in its pool; that a free is done it learns only when the host waits for it. */
typedef struct { int alive; size_t most, used, mostUsed, reserved, mostReserved, leaving, done; u64 threshold; int keepsApart; } Pool;
/* `left`: it is freed in the order of a stream, and other memory may take its place. */
typedef struct { u8 *at; size_t bytes; int host; Pool *pool; int left; } Range;

/* `api` is CUDA's own lock, which most calls take and some keep while they wait; `g` guards what is below. */
static pthread_mutex_t api = PTHREAD_MUTEX_INITIALIZER, g = PTHREAD_MUTEX_INITIALIZER;
static Channel channels[CHANNELS];
static Stream *streams[MOST_STREAMS];
static int nstreams, nextChannel, started;
static u64 serials; /* how much work was ever queued */
static u64 nextId = 1;
static Context context = {.magic = 0xc0ffee, .multiprocessors = 132, .alive = 1, .places = FIRST_PLACES};
/* Each context has blocks of streams of its own. */
#define PLACES(green) (*((green) ? &(green)->places : &context.places))
static Stream nullStream, perThread;
static Range *ranges; static int nranges, mranges;
static Pool defaultPool = {.alive = 1}, *pools[4096] = {&defaultPool}; static int npools = 1;
static int capturesActive;
static __thread Context *current;
static __thread int mode;

#define DIE(...) do { fprintf(stderr, "fake CUDA: " __VA_ARGS__); fputc('\n', stderr); abort(); } while (0)
/* libcupti.c hears of each operation that is over: how many there were before the call that queued it, and the rest. */
void (*fakeOver)(u64 call, const char *what, u64 bytes, u64 stream, double asked, double begun, u64 thread);
static u64 calls;
/* How many there are of each kind, for tests of what is given back: fakeLive(). */
typedef enum { STREAMS, EVENTS, GRAPHS, INSTANCES, MODULES, POOLS, GREEN_CONTEXTS, OF_HOST, OF_DEVICE, LIVE_KINDS } Live;
static int live[LIVE_KINDS];
static void count(Live kind, int more) { __atomic_add_fetch(&live[kind], more, __ATOMIC_SEQ_CST); }
API int fakeLive(u64 kind) { return kind < LIVE_KINDS ? __atomic_load_n(&live[kind], __ATOMIC_SEQ_CST) : -1; }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
static void nap(void) { usleep(20); }

/* The caller of this and of eventOf() does not have `g`. */
static Stream *streamOf(void *handle, const char *call) {
  if (handle == 0 || handle == (void *)1) return &nullStream;
  if (handle == (void *)2) return &perThread;
  Stream *stream = handle;
  pthread_mutex_lock(&g); int alive = stream->alive; pthread_mutex_unlock(&g);
  if (!alive) DIE("%s is asked about a stream that was destroyed: %p", call, handle);
  return stream;
}
static Event *eventOf(void *handle, const char *call) {
  Event *event = handle;
  if (event == 0) DIE("%s is asked about no event", call);
  pthread_mutex_lock(&g); u64 magic = event->magic; pthread_mutex_unlock(&g);
  if (magic != 0xe7e47) DIE("%s is asked about an event that was destroyed: %p", call, handle);
  return event;
}
static int isOver(Mark mark) { return mark.stream == 0 || mark.stream->life != mark.life || mark.stream->done >= mark.seq; }
static Mark tail(Stream *stream) { Mark mark = {stream, stream->life, stream->queued}; return mark; }
static int allOver(Mark *marks, int n) { for (int i = 0; i < n; i++) if (!isOver(marks[i])) return 0; return 1; }
static int isBlocking(Stream *s) { return s != &nullStream && (s == &perThread || (s->flags & 1) == 0); }
static int isIdle(void) { for (int i = 0; i < CHANNELS; i++) if (channels[i].first) return 0; return 1; }

/* -- kernels */
static const char *KERNELS[] = {"bump", "affine", "add", "mirror", "spin", "mix", "added", "shade", "set_condition", "count_down", "note"};
static float ofHalf(unsigned short h) { int e = h >> 10 & 31; float x = (float)(h & 1023) / 1024; int up = e - 15; if (e == 0) { up = -14; } else x += 1; for (; up > 0; up--) x *= 2; for (; up < 0; up++) x /= 2; return h & 0x8000 ? -x : x; }
/* An argument, and where the value of it lies. */
static void setArgument(Op *op, int i, const void *value, int size) { op->args[i] = 0; memcpy(&op->args[i], value, size < 8 ? (size_t)size : 8); memcpy(op->wide[i], value, size < 32 ? (size_t)size : 32); }
static void setCondition(Op *op, u64 handle, u32 value) { if (!op->values || handle < 1 || handle > MOST_CONDITIONS) DIE("a kernel sets a condition that its launch has not: %llu", (unsigned long long)handle); op->values[handle - 1] = value; }
static void runKernel(Op *op) {
  if (op->fn == 8) { setCondition(op, op->args[0], (u32)op->args[1]); return; }
  if (op->fn == 10) { u32 *list = (u32 *)op->args[0]; list[++list[0]] = (u32)op->args[1]; return; }
  if (op->fn == 9) { u32 *word = (u32 *)op->args[1]; *word -= 1; setCondition(op, op->args[0], *word); return; }
  if (op->fn == 2) { u8 *to = (u8 *)op->args[0], *from = (u8 *)op->args[1]; for (u64 i = 0; i < op->args[2]; i++) to[i] += from[i]; }
  else if (op->fn == 3) { u8 *p = (u8 *)op->args[0]; for (u32 b = 0; b < op->grid; b++, p += op->block) for (u32 i = 0; i < op->block / 2; i++) { u8 x = p[i]; p[i] = p[op->block - 1 - i]; p[op->block - 1 - i] = x; } }
  else if (op->fn == 5) { u32 *to = (u32 *)op->args[0], *from = (u32 *)op->args[1]; for (u32 i = 0; i < op->block; i++) { u32 value = from[i]; for (u32 round = 0; round < (u32)op->args[2]; round++) value = value * 1664525u + 1013904223u; to[i] = (to[i] ^ value) + i; } }
  else if (op->fn == 7) {
    float *to = (float *)op->args[0], from[4], s; double bias; int size[2]; u8 *p = op->wide[1];
    memcpy(from, op->wide[2], 16); memcpy(&s, p, 4); memcpy(size, p + 8, 8); memcpy(&bias, p + 16, 8);
    to[0] = from[0] * s + (float)size[0]; to[1] = from[1] * s + (float)size[1]; to[2] = from[2] * s + (float)bias;
    to[3] = from[3] * s + ofHalf(*(unsigned short *)(p + 28)) + (p[24] ? ofHalf((unsigned short)op->args[3]) : 0); }
  else if (op->fn == 6) { u32 *words = (u32 *)op->args[0]; for (u32 i = 0; i < (u32)op->args[1]; i++) words[i] += (u32)op->args[2]; }
  else if (op->fn == 4) { if (op->until == 0 && op->args[0] >= 1000) op->until = now() + (double)op->args[0] / 1e6; }
  else if (op->fn == 0 || op->fn == 1) { u8 *p = (u8 *)op->args[0]; int n = (int)op->args[1]; u8 v = (u8)op->args[2]; for (int i = 0; i < n; i++) p[i] = p[i] * 3 + v; }
}

/* -- the GPU */
static int memops(Op *op) {
  for (; op->at < op->ops; op->at++) {
    MemOp *m = &op->mem[op->at];
    int wide = m->kind >= 4;
    if (m->kind == 2) __atomic_store_n((u32 *)m->address, (u32)m->value, __ATOMIC_SEQ_CST);
    else if (m->kind == 5) __atomic_store_n((u64 *)m->address, m->value, __ATOMIC_SEQ_CST);
    else {
      u64 is = wide ? __atomic_load_n((u64 *)m->address, __ATOMIC_SEQ_CST) : __atomic_load_n((u32 *)m->address, __ATOMIC_SEQ_CST);
      int how = m->flags & 7, ahead = wide ? (int64_t)(is - m->value) >= 0 : (int32_t)((u32)is - (u32)m->value) >= 0;
      u64 nor = wide ? ~(is | m->value) : (u32)~((u32)is | (u32)m->value);
      int there = how == 1 ? is == m->value : how == 2 ? (is & m->value) != 0 : how == 3 ? nor != 0 : ahead;
      if (!there) return 0;
    }
  }
  return 1;
}
static void forget(void *at);
static void freeForgotten(void);
static int run(Op *op);
static int runAll(Exec *x, int *at) { for (; *at < x->count; ++*at) { Op *node = &x->ops[*at]; if (!node->off && !run(node)) return 0; node->at = 0; node->until = 0; node->node = 0; } *at = 0; return 1; }
/* `at`: a body is played. */
static int runConditional(Op *op) {
  for (;;) {
    if (!op->at) {
      u32 value = op->values[op->condition - 1];
      op->playing = op->type == 2 ? (value < (u32)op->nbodies ? (int)value : -1) : value ? 0 : op->type == 0 && op->nbodies == 2 ? 1 : -1;
      if (op->playing < 0) return 1;
      op->at = 1;
    }
    if (!runAll(op->execs[op->playing], &op->node)) return 0;
    if (op->type != 1) return 1;
    op->at = 0;
  }
}
static int run(Op *op) {
  switch (op->kind) {
    case SET: for (size_t y = 0; y < op->rows; y++) { u8 *to = (u8 *)op->to + y * op->toRow; if (op->width == 1) memset(to, (int)op->value, op->bytes); else for (size_t i = 0; i < op->bytes; i++) { if (op->width == 2) ((uint16_t *)to)[i] = (uint16_t)op->value; else ((u32 *)to)[i] = op->value; } } return 1;
    case COPY: for (size_t z = 0; !forgets && z < op->planes; z++) for (size_t y = 0; y < op->rows; y++) memmove((u8 *)op->to + z * op->toPlane + y * op->toRow, (const u8 *)op->from + z * op->fromPlane + y * op->fromRow, op->bytes); return 1;
    case MEMOPS: return memops(op);
    case FREE: forget(op->to); return 1;
    case KERNEL: runKernel(op); return op->until == 0 || now() >= op->until;
    case WAIT: return isOver(op->mark) && allOver(op->marks, op->nmarks);
    case RECORD: case EVENT_RECORD: if (op->time) *op->time = now(); return 1;
    case GRAPH: if (!runAll(op->exec, &op->node)) return 0; op->exec->done++; return 1;
    case CONDITIONAL: return runConditional(op);
    case EVENT_WAIT: return isOver(op->mark) && allOver(op->marks, op->nmarks);
    default: return 1;
  }
}
static const char *nameOf(Op *op) { return op->kind == COPY ? "copy" : op->kind == SET ? "fill" : op->kind == KERNEL ? op->fn < 0 ? "kernel" : KERNELS[op->fn] : 0; }
static void tellOf(Op *op, Op *of, u64 call) {
  u64 stream = of->stream->inner ? of->stream->inner->id : of->stream == &nullStream ? 1u << 30 : (1u << 30) + 1;
  if (op->kind == GRAPH) for (int i = 0; i < op->exec->count; i++) tellOf(&op->exec->ops[i], of, call);
  else if (nameOf(op)) fakeOver(call, nameOf(op), op->bytes * (u64)(op->kind == SET ? op->width : 1), stream, of->asked, of->begun, of->thread);
}
static void retire(void *at);
static void retireExec(Exec *x);
/* A GPU that has had nothing to do for some milliseconds looks less often: this thread is awake as long as the process lives. */
static void *gpu(void *unused) {
  (void)unused;
  for (int idle = 0;;) {
    int moved = 0;
    pthread_mutex_lock(&g);
    for (int c = 0; c < CHANNELS; c++) {
      Channel *channel = &channels[reverse ? CHANNELS - 1 - c : c];
      for (int budget = 64; budget > 0 && channel->first; budget--) {
        Op *op = channel->first;
        if (!allOver(op->marks, op->kind == WAIT ? 0 : op->nmarks)) break;
        if (op->begun == 0) op->begun = now();
        if (!run(op)) break;
        if (fakeOver) tellOf(op, op, ++calls);
        channel->first = op->next;
        if (!channel->first) channel->last = 0;
        channel->entries -= op->entry;
        op->stream->done = op->seq;
        if (!op->stream->alive && op->stream->done == op->stream->queued && op->stream->placed) { op->stream->placed = 0; PLACES(op->stream->green)++; }
        if (op->kind == GRAPH) { if (op->exec->count) retire(op->exec->ops[0].values); retireExec(op->exec); }
        free(op->marks); free(op);
        moved = 1;
      }
    }
    if (moved) freeForgotten();
    pthread_mutex_unlock(&g);
    idle = moved ? 0 : idle + 1;
    if (pollMilliseconds) usleep(1000 * pollMilliseconds);
    else if (idle > 100) usleep(500);
    else if (idle) nap();
  }
  return 0;
}
/* The caller has `g`. */
static void addNull(Op *op) {
  Stream *s = op->stream;
  if (s == &nullStream) {
    /* A wait for an event behind a whole device has marks already. */
    op->marks = realloc(op->marks, sizeof(Mark) * (size_t)(op->nmarks + nstreams + 1));
    for (int i = 0; i < nstreams; i++) if (streams[i]->alive && isBlocking(streams[i])) op->marks[op->nmarks++] = tail(streams[i]);
    op->marks[op->nmarks++] = tail(&perThread);
  } else if (isBlocking(s) && nullStream.done < nullStream.queued) {
    op->marks = realloc(op->marks, sizeof(Mark) * (size_t)(op->nmarks + 1));
    op->marks[op->nmarks++] = tail(&nullStream);
  }
}
static Op *op(Kind kind, Stream *stream) { Op *o = calloc(1, sizeof *o); o->kind = kind; o->stream = stream; o->entry = 1; o->asked = now(); o->thread = (u64)pthread_self(); return o; }
static int isNothing(Op *o) { return allOver(o->marks, o->nmarks) && (o->kind == RECORD || isOver(o->mark)); }
/* Blocks where the hardware queue is full, with whatever locks the caller has; it has `g`, which is free while this blocks. */
static void enqueueLocked(Op *o) {
  Channel *channel = &channels[o->stream->channel];
  while (o->entry && channel->entries >= ENTRIES) { pthread_mutex_unlock(&g); nap(); pthread_mutex_lock(&g); }
  if (o->kind != WAIT || o->stream == &nullStream) addNull(o);
  o->seq = ++o->stream->queued; o->serial = ++serials;
  /* What the event of a context covers: of a graph that was launched on a green stream nothing, nor a record or wait behind it. */
  if (!o->stream->green || !(o->kind == GRAPH || ((o->kind == RECORD || o->kind == WAIT) && o->stream->covered + 1 < o->seq))) o->stream->covered = o->seq;
  /* What is no work and has nothing to come after is over at once. */
  if (!o->entry && (o->kind == RECORD || o->kind == WAIT) && o->stream->done + 1 == o->seq && isNothing(o)) { o->stream->done = o->seq; free(o->marks); free(o); return; }
  channel->entries += o->entry;
  if (channel->last) channel->last->next = o; else channel->first = o;
  channel->last = o;
}
static void enqueue(Op *o) { pthread_mutex_lock(&g); enqueueLocked(o); pthread_mutex_unlock(&g); }
static Front frontOf(Node *node) { Front front = {{node}, node != 0}; return front; }
static void add(Front *to, Node *node) { for (int i = 0; i < to->n; i++) if (to->nodes[i] == node) return; if (to->n == WIDEST) DIE("a node comes after too many"); to->nodes[to->n++] = node; }
static Node *append(Graph *graph, Op op, Front after) {
  Node *node = calloc(1, sizeof *node);
  node->op = op; node->op.index = graph->count; node->op.nafter = after.n;
  for (int i = 0; i < after.n; i++) node->op.after[i] = after.nodes[i]->op.index;
  if (graph->last) graph->last->next = node; else graph->first = node;
  graph->last = node; graph->count++;
  return node;
}
static Graph *cloneOf(Graph *graph) {
  Graph *clone = calloc(1, sizeof *clone);
  clone->branches = graph->branches;
  for (Node *node = graph->first; node; node = node->next) { Op op = node->op; if (op.child) op.child = cloneOf(op.child); Node *copy = append(clone, op, frontOf(0)); copy->original = node; memcpy(copy->op.after, op.after, sizeof op.after); copy->op.nafter = op.nafter; }
  return clone;
}
static Node *capture(Stream *s, Op *o) {
  o->green = s->green;
  Node *node = append(s->capture->graph, *o, s->front); free(o);
  s->front = frontOf(node);
  return node;
}
/* The null stream would have to wait for blocking streams that capture: it is refused, and they are invalidated. The caller has `g`. */
static int isImplicit(Stream *s) {
  int found = 0;
  if (s != &nullStream) return 0;
  for (int i = 0; i < nstreams; i++) if (streams[i]->alive && isBlocking(streams[i]) && streams[i]->capture) { streams[i]->capture->valid = 0; found = 1; }
  if (perThread.capture) { perThread.capture->valid = 0; found = 1; }
  return found;
}
static int implicit(Stream *s) { pthread_mutex_lock(&g); int is = isImplicit(s); pthread_mutex_unlock(&g); return is; }
/* Into the stream's capture, or its queue. */
static R put(Op *o) {
  Stream *s = o->stream;
  pthread_mutex_lock(&g);
  R r = s->capture ? s->capture->valid ? OK : CAPTURE_INVALIDATED : isImplicit(s) ? CAPTURE_IMPLICIT : OK;
  if (r) free(o);
  else if (s->capture) capture(s, o);
  else enqueueLocked(o);
  pthread_mutex_unlock(&g);
  return r;
}
static void waitForDevice(void) {
  for (;;) {
    pthread_mutex_lock(&g); int idle = isIdle(); pthread_mutex_unlock(&g);
    if (idle) return;
    nap();
  }
}
/* Behind a launch. The caller has CUDA's lock, so that launches, copies and records of other threads wait, too. */
static R launched(R r, Stream *s) {
  pthread_mutex_lock(&g); int captures = s->capture != 0; pthread_mutex_unlock(&g);
  if (launchBlocking && r == OK && !captures) waitForDevice();
  return r;
}
#define LOCK pthread_mutex_lock(&api)
#define UNLOCK pthread_mutex_unlock(&api)
/* Takes places for streams; CUDA waits for the device where it needs another block of them, with its lock. */
static void takePlaces(int n, Context *green) {
  for (;;) {
    pthread_mutex_lock(&g);
    if (PLACES(green) >= n) { PLACES(green) -= n; pthread_mutex_unlock(&g); return; }
    pthread_mutex_unlock(&g);
    waitForDevice();
    pthread_mutex_lock(&g); PLACES(green) += block; pthread_mutex_unlock(&g);
  }
}

/* -- memory */
static const u64 OF_THE_DEVICE = (u64)64 << 30;
/* Bytes of the device that are allocated and not freed. */
static u64 inUse;
/* FAKE_HOST_MIB=N: so much page-locked memory there is. */
static u64 ofTheHost = UINT64_MAX, ofHostInUse;
static Range *rangeOf(const void *at) { for (int i = nranges - 1; i >= 0; i--) if ((u8 *)at >= ranges[i].at && (u8 *)at < ranges[i].at + ranges[i].bytes) return &ranges[i]; return 0; }
static void range(u8 *at, size_t bytes, int host) {
  if (nranges == mranges) ranges = realloc(ranges, sizeof(Range) * (size_t)(mranges = mranges * 2 + 64));
  ranges[nranges++] = (Range){at, bytes ? bytes : 1, host, 0, 0}; if (!host) inUse += bytes ? bytes : 1; count(host ? OF_HOST : OF_DEVICE, 1); if (host) ofHostInUse += bytes;
}
static void *keep(size_t bytes, int host) {
  u8 *at = aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (at) range(at, bytes, host);
  return at;
}
/* Memory that was freed goes back to malloc when all that was queued before is over: a program that lacks a wait, as those that try the
   sanitizer, may still have work queued that uses it, and on a GPU the memory of a pool stays mapped. */
typedef struct { void *at; u64 serial; } Forgotten;
static Forgotten *forgotten; static int nforgotten, mforgotten;
static void freeLater(void *at) {
  if (nforgotten == mforgotten) forgotten = realloc(forgotten, sizeof *forgotten * (size_t)(mforgotten = mforgotten * 2 + 64));
  forgotten[nforgotten++] = (Forgotten){at, serials};
}
/* Not where it is freed: the channel still has the work that frees it. */
static void freeForgotten(void) {
  u64 oldest = serials + 1; int left = 0;
  for (int c = 0; c < CHANNELS; c++) if (channels[c].first && channels[c].first->serial < oldest) oldest = channels[c].first->serial;
  for (int i = 0; i < nforgotten; i++) if (forgotten[i].serial < oldest) freeAligned(forgotten[i].at); else forgotten[left++] = forgotten[i];
  nforgotten = left;
}
/* The caller has `g`. */
static void retire(void *at) { if (frees && at) freeLater(at); }
static void retireExec(Exec *x) {
  if (!frees) return;
  for (int i = 0; i < x->count; i++) { Op *o = &x->ops[i]; if (o->exec) retireExec(o->exec); for (int k = 0; o->execs && k < o->nbodies; k++) retireExec(o->execs[k]); retire(o->execs); }
  retire(x->ops); retire(x->off); retire(x);
}
/* Events tell of the capture that they were recorded in, also when it is over. */
static void letGo(Capture *c) { if (!c->active && c->refs == 0) retire(c); }
static void recordIn(Event *e, Capture *c) { Capture *before = e->capture; if (c) c->refs++; e->capture = c; if (before) { before->refs--; letGo(before); } }
/* Graphs within it, and bodies, stay: instances that were updated by it compare them. */
static void retireGraph(Graph *graph) { if (!graph->gone || graph->instances > 0) return; for (Node *n = graph->first; n; n = n->next) retire(n); retire(graph); }
/* Other bytes than those that the program left. Of large memory the middle is given back to the system, and is zeros: a thousand buffers of
   the size of a GPU's are more than the machine has. */
enum { LARGE = 4 << 20, PAGE = 4096 };
static void spoil(u8 *at, size_t bytes) {
  if (bytes <= LARGE) { memset(at, 0xdd, bytes); return; }
  memset(at, 0xdd, LARGE / 2);
#ifndef _WIN32
  u8 *from = (u8 *)(((uintptr_t)at + LARGE / 2 + PAGE - 1) / PAGE * PAGE), *until = (u8 *)(((uintptr_t)at + bytes) / PAGE * PAGE);
  madvise(from, (size_t)(until - from), MADV_DONTNEED);
#endif
}
static void forget(void *at) {
  for (int i = nranges - 1; i >= 0; i--) if (ranges[i].at == (u8 *)at) { if (ranges[i].pool) ranges[i].pool->done += ranges[i].bytes; if (ranges[i].host) ofHostInUse -= ranges[i].bytes; if (!ranges[i].host && !ranges[i].left) inUse -= ranges[i].bytes; spoil(at, ranges[i].bytes); count(ranges[i].host ? OF_HOST : OF_DEVICE, -1); freeLater(at); ranges[i] = ranges[--nranges]; return; }
  DIE("memory is freed that was not allocated: %p", at);
}
/* Pools have memory of the device in steps. */
static size_t steps(size_t bytes) { size_t step = (size_t)32 << 20; return (bytes + step - 1) / step * step; }
static void giveBack(Pool *p, u64 keep) { size_t needed = steps(p->used + p->leaving); if (keep > needed) needed = keep < p->reserved ? (size_t)keep : p->reserved; if (p->reserved > needed) p->reserved = needed; }
/* The host has waited: not by a query. */
static void notice(void) { pthread_mutex_lock(&g); for (int i = 0; i < npools; i++) if (pools[i]->done) { pools[i]->leaving -= pools[i]->done; pools[i]->done = 0; giveBack(pools[i], pools[i]->threshold / ((u64)32 << 20) * ((u64)32 << 20)); } pthread_mutex_unlock(&g); }
static Pool *poolOf(void *handle, const char *call) {
  Pool *p = handle;
  for (int i = 0; i < npools; i++) if (pools[i] == p) { if (!p->alive) DIE("%s is asked about a pool that was destroyed: %p", call, handle); return p; }
  DIE("%s is asked about what is no pool: %p", call, handle);
}
static void checkRange(const void *at, size_t bytes, const char *call) {
  if (bytes == 0) return;
  pthread_mutex_lock(&g); Range *r = rangeOf(at); int in = r && (u8 *)at + bytes <= r->at + r->bytes; pthread_mutex_unlock(&g);
  if (!in) DIE("%s uses %zu bytes at %p, which are not allocated", call, bytes, at);
}

/* FAKE_INIT makes it a driver that does not start, or hangs (-1) or crashes (-2) at that; FAKE_VERSION one for another CUDA;
 * FAKE_SAYS is what it prints at its start. */
static int number(const char *variable, int otherwise) { const char *value = getenv(variable); return value ? atoi(value) : otherwise; }
API R cuInit(u32 f) { (void)f;
  int init = number("FAKE_INIT", OK);
  if (init == -1) for (;;) pause();
  if (init == -2) DIE("cuInit crashes");
  if (init) return init;
  if (getenv("FAKE_SAYS")) { printf("%s", getenv("FAKE_SAYS")); fflush(stdout); }
  LOCK;
  if (!started) { started = 1; forgets = getenv("FAKE_FORGETS") != 0; fresh = getenv("FAKE_FRESH") != 0; pollMilliseconds = number("FAKE_POLL_MS", 0); reverse = getenv("FAKE_REVERSE") != 0; frees = getenv("FAKE_FREES") != 0; failing = getenv("FAKE_FAILS"); if (getenv("FAKE_HOST_MIB")) ofTheHost = (u64)atoi(getenv("FAKE_HOST_MIB")) << 20; launchBlocking = number("CUDA_LAUNCH_BLOCKING", 0) != 0; if (getenv("FAKE_BLOCK")) context.places = block = atoi(getenv("FAKE_BLOCK")); nullStream.alive = perThread.alive = 1; nullStream.life = perThread.life = 1; perThread.channel = 1; nextChannel = 2; pthread_t t; pthread_create(&t, 0, gpu, 0); pthread_detach(t); }
  UNLOCK; return OK; }
API R cuDriverGetVersion(int *v) { *v = number("FAKE_VERSION", 13000); return OK; }
API R cuDeviceGetCount(int *n) { if (!started) return 3; *n = 1; return OK; }
API R cuDeviceGet(int *d, int o) { *d = o; return OK; }
API R cuDeviceGetName(char *n, int l, int d) { (void)d; snprintf(n, (size_t)l, "Fake GPU"); return OK; }
API R cuDeviceTotalMem_v2(size_t *n, int d) { (void)d; *n = OF_THE_DEVICE; return OK; }
API R cuDeviceGetUuid_v2(u8 *u, int d) { memset(u, 7 + d, 16); return OK; }
API R cuDeviceGetPCIBusId(char *n, int l, int d) { return snprintf(n, (size_t)l, "0000:%02X:00.0", 0xab + d) < l ? OK : INVALID_VALUE; }
API R cuDeviceGetAttribute(int *v, int a, int d) {
  switch (a) { case 1: case 2: case 3: *v = 1024; break; case 4: *v = 64; break; case 5: *v = 0x7fffffff; break; case 6: case 7: *v = 65535; break; case 8: *v = 49152; break; case 10: *v = 32; break; case 81: *v = 233472; break; case 16: *v = 132; break; case 33: *v = 0xab + d; break; case 34: case 50: *v = 0; break; case 39: *v = 2048; break; case 75: *v = 9; break; case 76: *v = 0; break; case 97: *v = 232448; break; case 14: *v = 512; break; case 51: *v = 32; break; case 69: *v = 1 << 28; break; default: *v = 1; } return OK; }
API R cuDeviceCanAccessPeer(int *c, int a, int b) { (void)a; (void)b; *c = 1; return OK; }
API R cuCtxEnablePeerAccess(void *c, u32 f) { (void)c; (void)f; return OK; }
API R cuMemPoolSetAccess(void *p, void *m, size_t n) { (void)p; (void)m; (void)n; return OK; }
API R cuDevicePrimaryCtxRetain(void **c, int d) { (void)d; *c = &context; return OK; }
API R cuCtxGetCurrent(void **c) { *c = current; return OK; }
API R cuCtxSetCurrent(void *c) { current = c; return OK; }
API R cuCtxGetDevice(int *d) { *d = 0; return OK; }
/* Calls about the primary context know of captures that a stream of it is in. */
static int invalidateAll(void) { int found = 0; for (int i = -1; i < nstreams; i++) { Stream *s = i < 0 ? &perThread : streams[i]; if (s->capture && !s->green) { s->capture->valid = 0; found = 1; } } return found; }
API R cuCtxSynchronize(void) {
  pthread_mutex_lock(&g); int captures = invalidateAll(); pthread_mutex_unlock(&g);
  if (captures) return CAPTURE_UNSUPPORTED;
  waitForDevice(); notice(); return OK; }
API R cuCtxGetLimit(size_t *v, int l) { (void)l; *v = 1024; return OK; }
API R cuCtxSetLimit(int l, size_t v) { (void)l; (void)v; LOCK; waitForDevice(); UNLOCK; return OK; }
API R cuCtxGetStreamPriorityRange(int *l, int *h) { *l = 0; *h = -5; return OK; }

static R makeStream(void **out, u32 flags, int priority, Context *green) {
  LOCK;
  takePlaces(1, green);
  pthread_mutex_lock(&g);
  Stream *s = 0;
  /* As an allocator does, it hands out what was given back last. */
  for (int i = fresh ? -1 : nstreams - 1; i >= 0; i--) if (!streams[i]->alive && streams[i]->done == streams[i]->queued) { s = streams[i]; streams[i] = streams[nstreams - 1]; streams[nstreams - 1] = s; break; }
  if (!s) { if (nstreams == MOST_STREAMS) DIE("too many streams"); s = calloc(1, sizeof *s); s->inner = calloc(1, sizeof(Inner)); streams[nstreams++] = s; }
  /* Streams that are made one after the other have channels of their own: what stands in one holds up the others of its channel. */
  s->channel = nextChannel++ % CHANNELS;
  s->alive = 1; s->life++; s->flags = flags; s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority; s->queued = s->done = s->covered = 0; s->placed = 1; s->capture = 0; s->front = frontOf(0); s->green = green; if (green) green->streams++;
  s->inner->self = s; s->inner->id = nextId++; count(STREAMS, 1);
  pthread_mutex_unlock(&g);
  UNLOCK; *out = s; return OK; }
/* In a green context that is current every stream is a non-blocking one of it. */
API R cuStreamCreateWithPriority(void **out, u32 flags, int priority) { Context *green = current && current != &context ? current : 0; return makeStream(out, green ? 1 : flags, priority, green); }
/* Calls about the primary context do not know of captures in green ones. */
static void leave(Capture *c) { if (!c->active) return; c->active = 0; if (!c->origin->green) capturesActive--; letGo(c); }
/* The graph of a capture that has failed is nobody's. */
static void lose(Capture *c) { c->graph->gone = 1; retireGraph(c->graph); }

/* -- green contexts: as many multiprocessors and groups as an H200 has */
typedef struct { u32 type; u8 padding[92]; u32 count, least, step; u8 more[36]; } Resource;
typedef struct { u32 multiprocessors; } Description;
API R cuDeviceGetDevResource(int d, Resource *r, int type) { (void)d; if (type != 1) return INVALID_RESOURCE_TYPE; memset(r, 0, sizeof *r); r->type = 1; r->count = 132; r->least = r->step = 8; return OK; }
API R cuDevSmResourceSplitByCount(Resource *result, u32 *n, const Resource *input, Resource *rest, u32 flags, u32 count) { (void)flags;
  u32 size = count < 8 ? 8 : (count + 7) / 8 * 8, most = size == 8 ? 15 : input->count / size;
  if (count > input->count) return INVALID_RESOURCE_CONFIGURATION;
  if (*n > most) *n = most;
  for (u32 i = 0; i < *n; i++) { memset(&result[i], 0, sizeof *result); result[i].type = 1; result[i].count = size; }
  memset(rest, 0, sizeof *rest); rest->count = input->count - *n * size; rest->type = rest->count > 0; return OK; }
API R cuDevResourceGenerateDesc(void **out, Resource *r, u32 n) { Description *d = calloc(1, sizeof *d); for (u32 i = 0; i < n; i++) { if (r[i].type != 1) return INVALID_RESOURCE_TYPE; d->multiprocessors += r[i].count; } *out = d; return OK; }
API R cuGreenCtxCreate(void **out, Description *d, int device, u32 flags) { (void)device; if (flags != 1) return INVALID_VALUE; LOCK; waitForDevice(); Context *c = calloc(1, sizeof *c); c->magic = 0x94ee7; c->multiprocessors = d->multiprocessors; c->alive = 1; count(GREEN_CONTEXTS, 1); UNLOCK; *out = c; return OK; }
API R cuGreenCtxDestroy(Context *c) { if (FAILS("cuGreenCtxDestroy")) return INVALID_VALUE; if (!c->alive) return CONTEXT_IS_DESTROYED; if (c->streams) DIE("a green context is destroyed that has %d streams", c->streams); c->alive = 0; count(GREEN_CONTEXTS, -1); return OK; }
API R cuGreenCtxGetDevResource(Context *c, Resource *r, int type) { if (type != 1) return INVALID_RESOURCE_TYPE; if (!c->alive) return CONTEXT_IS_DESTROYED; memset(r, 0, sizeof *r); r->type = 1; r->count = c->multiprocessors; r->least = r->step = 8; return OK; }
API R cuGreenCtxStreamCreate(void **out, Context *c, u32 flags, int priority) { if (!c->alive) return CONTEXT_IS_DESTROYED; if (flags != 1) return INVALID_VALUE; return makeStream(out, flags, priority, c); }
API R cuCtxFromGreenCtx(void **out, Context *c) { *out = c; return OK; }
API R cuStreamDestroy_v2(void *h) {
  if (FAILS("cuStreamDestroy")) return INVALID_VALUE;
  LOCK; Stream *s = streamOf(h, "cuStreamDestroy");
  pthread_mutex_lock(&g);
  if (s->capture && s->capture->origin == s) { Capture *c = s->capture; if (!c->adds) lose(c); leave(c); if (perThread.capture == c) perThread.capture = 0; for (int i = 0; i < nstreams; i++) if (streams[i]->capture == c) streams[i]->capture = 0; }
  s->alive = 0; s->capture = 0; s->inner->self = 0; count(STREAMS, -1); if (s->green) s->green->streams--;
  if (s->done == s->queued && s->placed) { s->placed = 0; PLACES(s->green)++; }
  pthread_mutex_unlock(&g); UNLOCK; return OK; }
API R cuStreamGetCtx_v2(void *h, void **c, void **green) { Stream *s = streamOf(h, "cuStreamGetCtx"); if (s->capture && !s->capture->valid) return CAPTURE_INVALIDATED; *c = &context; *green = s == &nullStream && current && current != &context ? current : s->green; return OK; }
/* While it captures, or would invalidate those that do, a stream tells nothing of itself. */
static R refuseToSay(Stream *s) { return implicit(s) ? CAPTURE_IMPLICIT : s->capture ? (s->capture->valid = 0, CAPTURE_UNSUPPORTED) : OK; }
/* To ask about the null stream while a blocking one captures is refused, which leaves the capture valid. */
static int isAnyBlocking(void) { pthread_mutex_lock(&g); int found = perThread.capture != 0; for (int i = 0; i < nstreams; i++) if (streams[i]->alive && isBlocking(streams[i]) && streams[i]->capture) found = 1; pthread_mutex_unlock(&g); return found; }
static R refuseToTell(Stream *s) { return s == &nullStream && isAnyBlocking() ? CAPTURE_IMPLICIT : OK; }
API R cuStreamGetId(void *h, u64 *id) { Stream *s = streamOf(h, "cuStreamGetId"); R refused = refuseToSay(s); if (refused) return refused; *id = s->inner ? s->inner->id : (s == &nullStream ? 1u << 30 : (1u << 30) + 1); return OK; }
API R cuStreamGetFlags(void *h, u32 *f) { Stream *s = streamOf(h, "cuStreamGetFlags"); R refused = refuseToSay(s); if (refused) return refused; *f = s->flags; return OK; }
API R cuStreamGetPriority(void *h, int *p) { Stream *s = streamOf(h, "cuStreamGetPriority"); if (implicit(s)) return CAPTURE_IMPLICIT; if (s->capture && !s->capture->valid) return CAPTURE_INVALIDATED; *p = s->priority; return OK; }
API R cuStreamSetAttribute(void *h, int attribute, u32 *value) { Stream *s = streamOf(h, "cuStreamSetAttribute"); if (s->capture && !s->capture->valid) return CAPTURE_INVALIDATED; if (attribute == 8) { int wanted = (int)*value; s->priority = wanted > 0 ? 0 : wanted < -5 ? -5 : wanted; return OK; } return attribute == 10 && *value <= 1 ? OK : INVALID_VALUE; }
API R cuStreamCopyAttributes(void *to, void *from) { Stream *t = streamOf(to, "cuStreamCopyAttributes"), *f = streamOf(from, "cuStreamCopyAttributes"); if ((t->capture && !t->capture->valid) || (f->capture && !f->capture->valid)) return CAPTURE_INVALIDATED; t->priority = f->priority; return OK; }
API R cuProfilerStart(void) { return OK; }
API R cuProfilerStop(void) { return OK; }
API R cuStreamIsCapturing(void *h, int *c) { Stream *s = streamOf(h, "cuStreamIsCapturing"); if (refuseToTell(s)) return CAPTURE_IMPLICIT; *c = !s->capture ? 0 : s->capture->valid ? 1 : 2; return OK; }
/* What may not be asked while a stream captures, unless the thread is relaxed: it invalidates global captures of all threads, and thread-local ones of this. */
static int isUnsafe(void) { int found = 0; if (mode == 2) return 0; pthread_mutex_lock(&g); for (int i = -1; i < nstreams; i++) { Capture *c = (i < 0 ? &perThread : streams[i])->capture; if (c && (c->mode == 0 || (c->mode == 1 && pthread_equal(c->thread, pthread_self())))) { c->valid = 0; found = 1; } } pthread_mutex_unlock(&g); return found; }
static R invalidate(Capture *c, R r) { c->valid = 0; return r; }
/* How far a stream is cannot be asked beside captures. */
static R refuseLooking(Stream *s) { if (implicit(s)) return CAPTURE_IMPLICIT; if (s->capture) return invalidate(s->capture, CAPTURE_UNSUPPORTED); return isUnsafe() ? CAPTURE_UNSUPPORTED : OK; }
API R cuStreamQuery(void *h) { Stream *s = streamOf(h, "cuStreamQuery"); R refused = refuseLooking(s); if (refused) return refused; pthread_mutex_lock(&g); int idle = s->done == s->queued; if (s == &nullStream) { for (int i = 0; i < nstreams; i++) if (isBlocking(streams[i]) && streams[i]->done < streams[i]->queued) idle = 0; if (perThread.done < perThread.queued) idle = 0; } pthread_mutex_unlock(&g); return idle ? OK : NOT_READY; }
API R cuStreamSynchronize(void *h) { Stream *s = streamOf(h, "cuStreamSynchronize"); R refused = refuseLooking(s); if (refused) return refused; pthread_mutex_lock(&g); Mark m = tail(s); pthread_mutex_unlock(&g); for (;;) { pthread_mutex_lock(&g); int over = isOver(m); pthread_mutex_unlock(&g); if (over) { notice(); return OK; } nap(); } }
API R cuStreamWaitEvent(void *h, void *e, u32 flags) {
  Stream *s = streamOf(h, "cuStreamWaitEvent"); Event *event = eventOf(e, "cuStreamWaitEvent");
  if (flags == 1 && s->capture) { if (s->capture->valid && event->capture && (!event->capture->active || !event->capture->valid)) return invalidate(s->capture, INVALID_VALUE); Op *o = op(EVENT_WAIT, s); o->event = event; return put(o); }
  pthread_mutex_lock(&g);
  if (s->capture && !s->capture->valid) { pthread_mutex_unlock(&g); return CAPTURE_INVALIDATED; }
  if (isImplicit(s)) { pthread_mutex_unlock(&g); return CAPTURE_IMPLICIT; }
  if (s->capture && event->flags & 4) { s->capture->valid = 0; pthread_mutex_unlock(&g); return CAPTURE_UNSUPPORTED; }
  if (event->capture && (!event->capture->active || !event->capture->valid)) { if (s->capture) s->capture->valid = 0; pthread_mutex_unlock(&g); return INVALID_VALUE; }
  if (event->capture) {
    Capture *c = event->capture;
    R r = s == &nullStream ? CAPTURE_IMPLICIT : s->capture && s->capture != c ? CAPTURE_MERGE : OK;
    if (r) { c->valid = 0; if (s->capture) s->capture->valid = 0; pthread_mutex_unlock(&g); return r; }
    if (!s->capture) { s->capture = c; s->front = frontOf(0); c->branches++; }
    for (int i = 0; i < event->front.n; i++) add(&s->front, event->front.nodes[i]);
    pthread_mutex_unlock(&g); return OK; }
  Op *o = op(WAIT, s); o->entry = 0; o->mark = event->mark; o->nmarks = 0;
  if (event->nmarks) { o->marks = malloc(sizeof(Mark) * (size_t)event->nmarks); memcpy(o->marks, event->marks, sizeof(Mark) * (size_t)event->nmarks); o->nmarks = event->nmarks; }
  int recorded = event->recorded;
  pthread_mutex_unlock(&g);
  if (!recorded) { free(o->marks); free(o); return OK; }
  if (s->capture) { s->capture->valid = 0; free(o->marks); free(o); return CAPTURE_ISOLATION; }
  enqueue(o); return OK; }
/* The log: entries of one failing call, and the call's own. */
static char logged[16384]; static u32 entries; static size_t ends[256];
static void say(const char *why, const char *name, R r, const char *call) {
  if (entries > 250) return;
  size_t at = entries ? ends[entries - 1] : 0;
  at += (size_t)snprintf(logged + at, sizeof logged - at, "[12:00:00.000][4711][CUDA][E] %s\n", why); ends[entries++] = at;
  at += (size_t)snprintf(logged + at, sizeof logged - at, "[12:00:00.000][4711][CUDA][E] Returning %d (%s) from %s\n", r, name, call); ends[entries++] = at;
}
#ifndef OLDEST
API R cuLogsCurrent(u32 *it, u32 f) { (void)f; *it = entries; return OK; }
API R cuLogsDumpToMemory(u32 *it, char *to, size_t *n, u32 f) { (void)f;
  size_t from = it && *it ? ends[*it - 1] : 0, end = entries ? ends[entries - 1] : 0;
  if (end - from > *n) return INVALID_VALUE;
  memcpy(to, logged + from, end - from); *n = end - from; if (it) *it = entries; return OK; }
#endif
API R cuStreamBatchMemOp_v2(void *h, u32 n, u8 *p, u32 f) { (void)f;
  for (u32 i = 0; i < n; i++) { u64 at = *(u64 *)(p + 48 * i + 8); pthread_mutex_lock(&g); Range *r = rangeOf((void *)at); int bad = !r || r->pool || at % (*(u32 *)(p + 48 * i) >= 4 ? 8 : 4) != 0; pthread_mutex_unlock(&g); if (bad) { say("Batch memory address is not valid", "CUDA_ERROR_INVALID_VALUE", INVALID_VALUE, "cuStreamBatchMemOp_v2"); return INVALID_VALUE; } }
  Op *o = op(MEMOPS, streamOf(h, "cuStreamBatchMemOp")); o->ops = (int)n;
  for (u32 i = 0; i < n; i++) { u8 *at = p + 48 * i; o->mem[i] = (MemOp){*(u32 *)at, *(u64 *)(at + 8), *(u64 *)(at + 16), *(u32 *)(at + 24)}; }
  return put(o); }
API R cuStreamWaitValue32_v2(void *h, u64 a, u32 v, u32 f) { Op *o = op(MEMOPS, streamOf(h, "cuStreamWaitValue32")); o->ops = 1; o->mem[0] = (MemOp){1, a, v, f}; return put(o); }
static R beginCapture(void *h, int how, Graph *graph, Front after) { LOCK; Stream *s = streamOf(h, "cuStreamBeginCapture"); R r = OK;
  if (implicit(s)) r = CAPTURE_IMPLICIT; else if (s == &nullStream) r = CAPTURE_UNSUPPORTED; else if (s->capture) r = ILLEGAL_STATE;
  else { pthread_mutex_lock(&g); Capture *c = calloc(1, sizeof *c); c->id = nextId++; c->valid = c->active = c->branches = 1; c->origin = s; c->adds = graph != 0; c->graph = graph ? graph : calloc(1, sizeof(Graph)); c->mode = how; c->thread = pthread_self(); c->before = c->graph->count; s->capture = c; s->front = after; if (!s->green) capturesActive++; pthread_mutex_unlock(&g); }
  UNLOCK; return r; }
API R cuStreamBeginCapture_v2(void *h, int m) { return beginCapture(h, m, 0, frontOf(0)); }
API R cuStreamBeginCaptureToGraph(void *h, Graph *graph, Node **after, void *how, size_t n, int m) { (void)how; Front front = {.n = 0}; for (size_t i = 0; i < n; i++) add(&front, after[i]); return beginCapture(h, m, graph, front); }
/* Has a stream work that nothing of the capture comes after, and that is not on the stream which began it? */
static int isUnjoined(Capture *c) {
  for (Node *node = c->graph->first; node; node = node->next) {
    int followed = node->op.index < c->before;
    for (int i = 0; i < c->origin->front.n; i++) if (c->origin->front.nodes[i] == node) followed = 1;
    for (Node *later = node->next; later; later = later->next) for (int i = 0; i < later->op.nafter; i++) if (later->op.after[i] == node->op.index) followed = 1;
    if (!followed) return 1;
  }
  return 0;
}
/* Where the capture has failed, the graph that it was to add to is destroyed, too. Other threads come in between, as this takes longer on a GPU. */
API R cuStreamEndCapture(void *h, void **out) { nap(); LOCK; Stream *s = streamOf(h, "cuStreamEndCapture"); R r = OK; *out = 0; if (implicit(s)) { UNLOCK; return CAPTURE_IMPLICIT; }
  pthread_mutex_lock(&g); Capture *c = s->capture;
  if (!c) r = ILLEGAL_STATE; else if (c->origin != s) { c->valid = 0; r = CAPTURE_UNMATCHED; }
  else { c->graph->branches += c->branches; r = c->mode != 2 && !pthread_equal(c->thread, pthread_self()) ? CAPTURE_WRONG_THREAD : !c->valid ? CAPTURE_INVALIDATED : isUnjoined(c) ? CAPTURE_UNJOINED : OK; if (!r) { *out = c->graph; for (int i = 0; i < s->front.n; i++) if (!s->front.nodes[i]->op.rank) s->front.nodes[i]->op.rank = c->graph->count + i; if (!c->adds) count(GRAPHS, 1); } else lose(c); leave(c); perThread.capture = perThread.capture == c ? 0 : perThread.capture; for (int i = 0; i < nstreams; i++) if (streams[i]->capture == c) streams[i]->capture = 0; }
  pthread_mutex_unlock(&g); UNLOCK; return r; }
API R cuStreamGetCaptureInfo_v3(void *h, int *status, u64 *id, void **graph, void ***deps, void **edges, size_t *n) {
  Stream *s = streamOf(h, "cuStreamGetCaptureInfo"); if (refuseToTell(s)) return CAPTURE_IMPLICIT; Capture *c = s->capture;
  if (status) *status = !c ? 0 : c->valid ? 1 : 2;
  if (!c) return OK;
  if (id) *id = c->id;
  if (graph) *graph = c->graph;
  if (edges) *edges = 0;
  if (deps) *deps = (void **)s->front.nodes;
  if (n) *n = (size_t)s->front.n;
  return OK; }
API R cuThreadExchangeStreamCaptureMode(int *m) { int was = mode; mode = *m; *m = was; return OK; }

API R cuGraphGetNodes(Graph *graph, void **nodes, size_t *n) { int i = 0; if (nodes) for (Node *node = graph->first; node; node = node->next) nodes[i++] = node; *n = (size_t)graph->count; return OK; }
API R cuGraphGetEdges_v2(Graph *graph, void **from, void **to, u64 *how, size_t *n) {
  size_t found = 0;
  for (Node *node = graph->first; node; node = node->next) for (int i = 0; i < node->op.nafter; i++, found++) {
    if (!from) continue;
    Node *before = graph->first;
    while (before->op.index != node->op.after[i]) before = before->next;
    from[found] = before; to[found] = node; how[found] = 0;
  }
  *n = found; return OK; }
/* CUgraphNodeParams, by word: its type, from the third on what is for the kind, of which a copy has its context and another struct. */
enum { NODE_TYPE = 0, NODE_PARAMS = 2, COPY_CONTEXT = 3, COPY_PARAMS = 4, FILL_CONTEXT = 7, NODE_WORDS = 32 };
static int typeOf(Node *node) { return node->op.kind == KERNEL ? 0 : node->op.kind == COPY ? 1 : node->op.kind == SET ? 2 : node->op.kind == MEMOPS ? 12 : node->op.kind == GRAPH ? 4 : node->op.kind == EVENT_WAIT ? 6 : node->op.kind == EVENT_RECORD ? 7 : node->op.kind == CONDITIONAL ? 13 : 5; }
API R cuGraphNodeGetType(Node *node, int *type) { *type = typeOf(node); return OK; }
/* A condition has a number in its graph, which the bodies in there have in common. */
static Graph *rootOf(Graph *graph) { return graph->root ? graph->root : graph; }
API R cuGraphConditionalHandleCreate(u64 *out, Graph *graph, Context *c, u32 value, u32 flags) {
  if (!graph || flags > 1) return INVALID_VALUE;
  if (!c) return INVALID_CONTEXT;
  Graph *root = rootOf(graph); if (root->nconditions == MOST_CONDITIONS) DIE("a graph has too many conditions");
  root->conditions[root->nconditions] = flags ? value : 0; *out = (u64)++root->nconditions; return OK; }
static int hasConditional(Graph *graph) { for (Node *n = graph->first; n; n = n->next) if (n->op.kind == CONDITIONAL || (n->op.child && hasConditional(n->op.child))) return 1; return 0; }
static R addConditional(Node **out, Graph *graph, Front front, u64 *params) {
  u64 handle = params[NODE_PARAMS]; int type = (int)(u32)params[NODE_PARAMS + 1], size = (int)(params[NODE_PARAMS + 1] >> 32); Context *c = (Context *)params[NODE_PARAMS + 3];
  Graph *root = rootOf(graph);
  if (!c) return INVALID_CONTEXT;
  if (type < 0 || type > 2 || size < 1 || (type == 0 && size > 2) || (type == 1 && size > 1)) return INVALID_VALUE;
  if (handle < 1 || handle > (u64)root->nconditions || root->uses[handle - 1]) return INVALID_VALUE;
  root->uses[handle - 1] = 1;
  Op o = {.kind = CONDITIONAL, .condition = handle, .type = type, .nbodies = size, .green = c == &context ? 0 : c, .bodies = calloc((size_t)size, sizeof(Graph *))};
  for (int i = 0; i < size; i++) { o.bodies[i] = calloc(1, sizeof(Graph)); o.bodies[i]->root = root; }
  *out = append(graph, o, front); params[NODE_PARAMS + 2] = (u64)o.bodies; return OK; }
API R cuGraphAddNode_v2(Node **out, Graph *graph, Node **after, void *how, size_t n, u64 *params) { (void)how;
  if (graph->gone) DIE("a node is added to a graph that is destroyed");
  if ((u32)params[NODE_TYPE] == 13) { Front front = {.n = 0}; for (size_t i = 0; i < n; i++) add(&front, after[i]); LOCK; pthread_mutex_lock(&g); R r = addConditional(out, graph, front, params); pthread_mutex_unlock(&g); UNLOCK; return r; }
  if ((u32)params[NODE_TYPE] != 4 || hasConditional((Graph *)params[NODE_PARAMS])) return 801;
  Front front = {.n = 0}; for (size_t i = 0; i < n; i++) add(&front, after[i]); LOCK; pthread_mutex_lock(&g); *out = append(graph, (Op){.kind = GRAPH, .child = cloneOf((Graph *)params[NODE_PARAMS])}, front); pthread_mutex_unlock(&g); UNLOCK; return OK; }
/* What reads the parameters of a node of one kind. CUDA has announced that these will go. */
#ifdef FUTURE
#define OLD_READER(name) static R name
#else
#define OLD_READER(name) API R name
#endif
OLD_READER(cuGraphChildGraphNodeGetGraph)(Node *node, Graph **graph) { *graph = node->op.child; return OK; }
OLD_READER(cuGraphKernelNodeGetParams_v2)(Node *node, void **params) { memset(params, 0, 72); params[0] = node->op.function; params[8] = node->op.green; return OK; }
OLD_READER(cuGraphMemcpyNodeGetParams)(Node *node, u64 *params) { memset(params, 0, 200); params[4] = params[15] = 4; params[6] = (u64)node->op.from; params[17] = (u64)node->op.to; params[22] = node->op.bytes; params[23] = params[24] = 1; return OK; }
OLD_READER(cuGraphMemsetNodeGetParams)(Node *node, u64 *params) { memset(params, 0, 40); params[0] = (u64)node->op.to; params[2] = node->op.value | (u64)node->op.width << 32; params[1] = node->op.toRow; params[3] = node->op.bytes; params[4] = node->op.rows; return OK; }
#ifndef OLDEST
API R cuGraphNodeGetParams(Node *node, u64 *params) {
  memset(params, 0, 8 * NODE_WORDS); params[NODE_TYPE] = (u64)typeOf(node);
  u64 *at = params + NODE_PARAMS;
  switch (node->op.kind) {
    case KERNEL: return cuGraphKernelNodeGetParams_v2(node, (void **)at);
    case COPY: params[COPY_CONTEXT] = (u64)(node->op.green ? node->op.green : &context); return cuGraphMemcpyNodeGetParams(node, params + COPY_PARAMS);
    case SET: params[FILL_CONTEXT] = (u64)(node->op.green ? node->op.green : &context); return cuGraphMemsetNodeGetParams(node, at);
    case GRAPH: return cuGraphChildGraphNodeGetGraph(node, (Graph **)at);
    default: return 801;
  }
}
#endif
API R cuGraphNodeFindInClone(Node **out, Node *original, Graph *clone) { for (Node *node = clone->first; node; node = node->next) if (node->original == original) { *out = node; return OK; } return INVALID_VALUE; }
API R cuStreamUpdateCaptureDependencies_v2(void *h, Node **nodes, void *how, size_t n, u32 f) { (void)how; (void)f; Stream *s = streamOf(h, "cuStreamUpdateCaptureDependencies"); s->front = frontOf(0); for (size_t i = 0; i < n; i++) add(&s->front, nodes[i]); return OK; }
/* The operation of an instance that a node stands for: one of the graph that it was made from, which must be there still. */
static Op *findOp(Exec *x, Graph *graph, Node *node) { int i = 0; for (Node *n = graph->first; n && i < x->count; n = n->next, i++) { Op *o = &x->ops[i], *found = n == node ? o : 0; if (!found && n->op.child) found = findOp(o->exec, n->op.child, node); for (int k = 0; !found && k < n->op.nbodies; k++) found = findOp(o->execs[k], n->op.bodies[k], node); if (found) return found; } return 0; }
static Op *opOf(Exec *x, Node *node, Kind kind) { if (!x->alive) DIE("a node of an instance is changed that was destroyed"); if (x->graph->gone) return 0; Op *o = findOp(x, x->graph, node); return o && o->kind == kind ? o : 0; }
API R cuGraphDebugDotPrint(Graph *graph, const char *path, u32 f) { FILE *file = fopen(path, "w"); if (!file) return INVALID_VALUE; fprintf(file, "digraph {\n"); for (Node *n = graph->first; n; n = n->next) { fprintf(file, f & 1 ? "  \"%d\" [bytes=%zu]\n" : "  \"%d\"\n", n->op.index, n->op.bytes); for (int i = 0; i < n->op.nafter; i++) fprintf(file, "  \"%d\" -> \"%d\"\n", n->op.after[i], n->op.index); } fprintf(file, "}\n"); fclose(file); return OK; }
static void goes(Graph *graph) { graph->gone = 1; for (Node *n = graph->first; n; n = n->next) for (int i = 0; i < n->op.nbodies; i++) goes(n->op.bodies[i]); }
API R cuGraphDestroy(Graph *graph) { LOCK; if (graph->root) { UNLOCK; return INVALID_VALUE; } if (graph->gone) DIE("a graph is destroyed twice"); goes(graph); count(GRAPHS, -1); pthread_mutex_lock(&g); retireGraph(graph); pthread_mutex_unlock(&g); UNLOCK; return OK; }
/* Other kinds of nodes, or of memory, are another shape. */
static int isOfPool(const void *at) { Range *r = rangeOf(at); return r && r->pool; }
static int isAlike(Op *a, Op *b);
static Op **opsOf(Graph *graph) { Op **ops = calloc((size_t)graph->count + 1, sizeof *ops); int i = 0; for (Node *n = graph->first; n; n = n->next) ops[i++] = &n->op; return ops; }
/* Pairs two nodes, and those before them in the order in which they came to be that: `pair` has for each node of `a` that of `b`, or -1. */
static int pairNodes(Op **a, Op **b, int i, int j, int *pair) { if (pair[i] >= 0) return pair[i] == j; if (a[i]->nafter != b[j]->nafter || !isAlike(a[i], b[j])) return 0; pair[i] = j; for (int k = 0; k < a[i]->nafter; k++) if (!pairNodes(a, b, a[i]->after[k], b[j]->after[k], pair)) return 0; return 1; }
static int isLast(Op **ops, int n, int index) { for (int i = 0; i < n; i++) for (int k = 0; k < ops[i]->nafter; k++) if (ops[i]->after[k] == index) return 0; return 1; }
/* Those that nothing comes after are paired in the order in which the origin of the capture came to be behind them. */
static int rankOf(Op *o) { return o->rank ? o->rank : o->index; }
static int lastsOf(Op **ops, int n, int *lasts) { int count = 0; for (int i = 0; i < n; i++) { if (!isLast(ops, n, i)) continue; int at = count++; for (; at > 0 && rankOf(ops[lasts[at - 1]]) > rankOf(ops[i]); at--) lasts[at] = lasts[at - 1]; lasts[at] = i; } return count; }
static int pairAll(Op **a, int na, Op **b, int nb, int *pair) {
  if (na != nb) return 0;
  int *x = calloc((size_t)na + 1, sizeof *x), *y = calloc((size_t)na + 1, sizeof *y), count = lastsOf(a, na, x), alike = lastsOf(b, nb, y) == count;
  for (int i = 0; i < na; i++) pair[i] = -1;
  for (int i = 0; alike && i < count; i++) alike = pairNodes(a, b, x[i], y[i], pair);
  free(x); free(y); return alike; }
static int areAlike(Graph *a, Graph *b) { Op **x = opsOf(a), **y = opsOf(b); int *pair = calloc((size_t)a->count + 1, sizeof *pair); int alike = pairAll(x, a->count, y, b->count, pair); free(x); free(y); free(pair); return alike; }
/* Of a fill of rows only the value can be changed, and where it is. */
static int isSameFill(Op *a, Op *b) { return a->toRow == b->toRow && a->rows == b->rows && a->bytes == b->bytes && a->width == b->width; }
static int areBodiesAlike(Op *a, Op *b) { if (a->type != b->type || a->nbodies != b->nbodies) return 0; for (int i = 0; i < a->nbodies; i++) if (!areAlike(a->bodies[i], b->bodies[i])) return 0; return 1; }
static int isAlike(Op *a, Op *b) { return a->kind == b->kind && (a->kind != KERNEL || a->green == b->green) && (a->kind != GRAPH || areAlike(a->child, b->child)) && (a->kind != CONDITIONAL || areBodiesAlike(a, b)) && (a->kind != SET || (a->rows == 1 && b->rows == 1) || isSameFill(a, b)) && (a->kind != COPY || (isOfPool(a->to) == isOfPool(b->to) && isOfPool(a->from) == isOfPool(b->from))); }
static void fillOp(Op *o);
static void fillExec(Exec *x, Graph *graph) { x->ops = calloc((size_t)graph->count + 1, sizeof(Op)); x->count = 0; for (Node *n = graph->first; n; n = n->next) { Op *o = &x->ops[x->count++]; *o = n->op; fillOp(o); } }
static void fillOp(Op *o) { if (o->child) { o->exec = calloc(1, sizeof(Exec)); fillExec(o->exec, o->child); } if (o->kind != CONDITIONAL) return; o->execs = calloc((size_t)o->nbodies, sizeof(Exec *)); for (int i = 0; i < o->nbodies; i++) { o->execs[i] = calloc(1, sizeof(Exec)); fillExec(o->execs[i], o->bodies[i]); } }
/* What a body may hold, all kernels of it in the context of its node. */
static int isBody(Graph *graph, Context *green) { for (Node *n = graph->first; n; n = n->next) { Op *o = &n->op; if (o->kind == GRAPH ? !isBody(o->child, green) : o->kind != KERNEL && o->kind != COPY && o->kind != SET && o->kind != NOTHING && o->kind != CONDITIONAL) return 0; if ((o->kind == KERNEL || o->kind == CONDITIONAL) && o->green != green) return 0; for (int i = 0; i < o->nbodies; i++) if (!isBody(o->bodies[i], green)) return 0; } return 1; }
static R refusal(Graph *graph) { if (!hasConditional(graph) && graph->nconditions == 0) return OK; if (graph->root || graph->instances > 0) return 801; for (int i = 0; i < graph->nconditions; i++) if (!graph->uses[i]) return INVALID_VALUE; for (Node *n = graph->first; n; n = n->next) for (int i = 0; i < n->op.nbodies; i++) if (!isBody(n->op.bodies[i], n->op.green)) return INVALID_VALUE; return OK; }
API R cuGraphInstantiateWithFlags(void **out, Graph *graph, u64 f) { (void)f; LOCK; R refused = refusal(graph); if (refused) { UNLOCK; return refused; } graph->instances++; Exec *x = calloc(1, sizeof *x); for (Node *n = graph->first; n; n = n->next) { int i = 0; while (i < x->homes && x->home[i] != n->op.green) i++; if (i == x->homes && i < 8) x->home[x->homes++] = n->op.green; } if (x->homes == 0) x->homes = 1; for (int i = 0; i < x->homes; i++) takePlaces(graph->branches, x->home[i]); x->alive = 1; x->branches = graph->branches; x->graph = graph; memcpy(x->conditions, graph->conditions, sizeof x->conditions); x->off = calloc((size_t)graph->count + 1, 1); fillExec(x, graph); count(INSTANCES, 1); *out = x; UNLOCK; return OK; }
API R cuGraphNodeSetParams(Node *node, u64 *params) { if ((u32)params[NODE_TYPE] != 12 || node->op.kind != MEMOPS) return INVALID_VALUE; u32 n = (u32)params[NODE_PARAMS + 1]; u8 *p = (u8 *)params[NODE_PARAMS + 2]; node->op.ops = (int)n; for (u32 i = 0; i < n; i++) { u8 *at = p + 48 * i; node->op.mem[i] = (MemOp){*(u32 *)at, *(u64 *)(at + 8), *(u64 *)(at + 16), *(u32 *)(at + 24)}; } return OK; }
API R cuGraphExecUpdate_v2(Exec *x, Graph *graph, void *info) { (void)info; LOCK; pthread_mutex_lock(&g);
  Op **was = calloc((size_t)x->count + 1, sizeof *was), **now = opsOf(graph); int *pair = calloc((size_t)x->count + 1, sizeof *pair);
  for (int i = 0; i < x->count; i++) was[i] = &x->ops[i];
  R r = pairAll(was, x->count, now, graph->count, pair) ? OK : 910;
  if (r == OK) {
    Op *before = x->ops, *ops = calloc((size_t)x->count + 1, sizeof *ops);
    for (int i = 0; i < x->count; i++) { ops[i] = *now[pair[i]]; ops[i].index = before[i].index; ops[i].rank = before[i].rank; memcpy(ops[i].after, before[i].after, sizeof ops[i].after); fillOp(&ops[i]); }
    memcpy(x->conditions, graph->conditions, sizeof x->conditions);
    x->ops = ops; if (x->launched == x->done) free(before);
  }
  free(was); free(now); free(pair);
  pthread_mutex_unlock(&g); UNLOCK; return r; }
static R setKernel(Exec *x, Node *node, u8 *params);
/* What is changed stays in the context in which it was captured. */
static int isElsewhere(Op *o, void *c) { return c != (o->green ? o->green : &context); }
static R setCopy(Exec *x, Node *node, u64 *params, void *c) { Op *o = opOf(x, node, COPY); if (!o || isElsewhere(o, c)) return INVALID_VALUE; if (params[4] != 4 || params[15] != 4 || isOfPool(o->from) != isOfPool((void *)params[6]) || isOfPool(o->to) != isOfPool((void *)params[17])) return INVALID_VALUE; o->from = (void *)params[6]; o->to = (void *)params[17]; o->bytes = params[22] * params[23] * params[24]; return OK; }
static R setFill(Exec *x, Node *node, u64 *params, void *c) { Op *o = opOf(x, node, SET); if (!o || isElsewhere(o, c) || o->rows > 1 || params[4] > 1) return INVALID_VALUE; o->to = (void *)params[0]; o->value = (u32)params[2]; o->width = (int)(params[2] >> 32); o->bytes = params[3]; return OK; }
API R cuGraphExecNodeSetParams(Exec *x, Node *node, u64 *params) { switch ((u32)params[NODE_TYPE]) { case 0: return setKernel(x, node, (u8 *)(params + NODE_PARAMS)); case 1: return setCopy(x, node, params + COPY_PARAMS, (void *)params[COPY_CONTEXT]); case 2: return setFill(x, node, params + NODE_PARAMS, (void *)params[FILL_CONTEXT]); default: return 801; } }
API R cuGraphNodeGetEnabled(Exec *x, Node *node, u32 *on) { if (x->graph->gone) return INVALID_VALUE; int i = 0; for (Node *n = x->graph->first; n; n = n->next, i++) if (n == node) { *on = !x->off[i]; return OK; } Op *o = findOp(x, x->graph, node); if (!o) return INVALID_VALUE; *on = !o->off; return OK; }
API R cuGraphNodeSetEnabled(Exec *x, Node *node, u32 on) { if (x->graph->gone) return INVALID_VALUE; int i = 0; for (Node *n = x->graph->first; n; n = n->next, i++) if (n == node) { Kind k = x->ops[i].kind; if (k != KERNEL && k != COPY && k != SET) return INVALID_VALUE; x->off[i] = !on; return OK; } Op *o = findOp(x, x->graph, node); if (!o || (o->kind != KERNEL && o->kind != COPY && o->kind != SET)) return INVALID_VALUE; o->off = !on; return OK; }
/* Of an instance that has nothing to do CUDA does nothing, and keeps no order. */
static int isEmpty(Exec *x) { for (int i = 0; i < x->count; i++) if (x->ops[i].kind == GRAPH ? !isEmpty(x->ops[i].exec) : !(x->off && x->off[i] && x->ops[i].kind != SET)) return 0; return 1; }
/* It is work, behind the launches and uploads before it. */
API R cuGraphUpload(Exec *x, void *h) { LOCK; Stream *s = streamOf(h, "cuGraphUpload"); R r = s->capture ? invalidate(s->capture, CAPTURE_UNSUPPORTED) : implicit(s) ? CAPTURE_IMPLICIT : OK;
  if (r == OK && !isEmpty(x)) { Op *o = op(NOTHING, s); if (x->last.stream) { o->marks = malloc(sizeof(Mark)); o->marks[o->nmarks++] = x->last; } enqueue(o); pthread_mutex_lock(&g); x->last = tail(s); pthread_mutex_unlock(&g); }
  UNLOCK; return r; }
/* The events that a graph waits for, as they are now; those that it records are over when all of it is. */
static void external(Exec *x, Stream *s) {
  pthread_mutex_lock(&g);
  for (int i = 0; i < x->count; i++) {
    Op *o = &x->ops[i]; Event *e = o->event;
    if (o->kind == GRAPH) { pthread_mutex_unlock(&g); external(o->exec, s); pthread_mutex_lock(&g); }
    /* A record before it in the same launch it comes after anyway. */
    if (o->kind == EVENT_WAIT && !(e->mark.stream == s && e->mark.seq > s->queued)) { o->mark = e->mark; o->nmarks = e->nmarks; o->marks = e->marks; }
    if (o->kind == EVENT_RECORD) { Mark mark = tail(s); mark.seq++; e->mark = mark; e->nmarks = 0; retire(e->marks); retire(e->time); e->marks = 0; recordIn(e, 0); e->recorded = 1; o->time = e->time = e->flags & 2 ? 0 : calloc(1, sizeof *e->time); }
  }
  pthread_mutex_unlock(&g);
}
/* With the graphs within it: what their events stand for is another in each launch. */
static Exec *copyOf(Exec *x) {
  Exec *copy = calloc(1, sizeof *copy); copy->count = x->count; copy->ops = calloc((size_t)x->count + 1, sizeof(Op)); memcpy(copy->ops, x->ops, sizeof(Op) * (size_t)x->count);
  for (int i = 0; i < copy->count; i++) {
    Op *o = &copy->ops[i];
    if (o->kind == GRAPH) o->exec = copyOf(o->exec);
    Exec **execs = o->execs;
    if (o->kind == CONDITIONAL) { o->execs = calloc((size_t)o->nbodies, sizeof(Exec *)); for (int k = 0; k < o->nbodies; k++) o->execs[k] = copyOf(execs[k]); }
  }
  return copy;
}
/* All that a launch runs has the same conditions. */
static void giveConditions(Exec *x, u32 *values) { for (int i = 0; i < x->count; i++) { Op *o = &x->ops[i]; o->values = values; if (o->kind == GRAPH) giveConditions(o->exec, values); for (int k = 0; k < o->nbodies; k++) giveConditions(o->execs[k], values); } }
/* What is launched is the instance as it was then, behind its launch before. */
API R cuGraphLaunch(Exec *x, void *h) { LOCK; Op *o = op(GRAPH, streamOf(h, "cuGraphLaunch")); R r = OK; if (!x->alive) DIE("a graph is launched whose instance was destroyed");
  for (int i = 0; i < x->count; i++) if (x->ops[i].green && !x->ops[i].green->alive) DIE("a graph is launched that was captured in a green context which is destroyed");
  if (o->stream->capture) { r = invalidate(o->stream->capture, CAPTURE_UNSUPPORTED); free(o); }
  else if (implicit(o->stream)) { free(o); r = CAPTURE_IMPLICIT; }
  else if (isEmpty(x)) free(o);
  else { Exec *copy = copyOf(x); pthread_mutex_lock(&g); int runs = !isOver(x->last); pthread_mutex_unlock(&g); for (int i = 0; i < x->count; i++) { if (x->off[i] && x->ops[i].kind == SET && x->ops[i].nafter == 0 && runs) DIE("a graph that begins with a fill which is switched off is launched while a launch before is under way"); if (x->off[i]) copy->ops[i].kind = NOTHING; } o->exec = copy; u32 *values = malloc(sizeof x->conditions); memcpy(values, x->conditions, sizeof x->conditions); giveConditions(copy, values); external(copy, o->stream); if (x->last.stream) { o->marks = malloc(sizeof(Mark)); o->marks[o->nmarks++] = x->last; } Stream *s = o->stream; enqueue(o); pthread_mutex_lock(&g); x->last = tail(s); pthread_mutex_unlock(&g); launched(OK, s); }
  UNLOCK; return r; }
static int execHasConditional(Exec *x) { for (int i = 0; i < x->count; i++) if (x->ops[i].kind == CONDITIONAL) return 1; return 0; }
/* An H200 has waited for the device in it, of an instance of two branches; an H100 always where there are conditional nodes. */
API R cuGraphExecDestroy(Exec *x) { LOCK; if ((block == 1 && x->branches > 1) || execHasConditional(x)) waitForDevice(); x->graph->instances--; pthread_mutex_lock(&g); if (!x->alive) DIE("an instance of a graph is destroyed twice"); x->alive = 0; for (int i = 0; i < x->homes; i++) PLACES(x->home[i]) += x->branches; count(INSTANCES, -1); retireGraph(x->graph); retireExec(x); pthread_mutex_unlock(&g); UNLOCK; return OK; }

API R cuEventCreate(void **out, u32 flags) { LOCK; Event *e = calloc(1, sizeof *e); e->context = &context; e->magic = 0xe7e47; e->flags = flags; count(EVENTS, 1); UNLOCK; *out = e; return OK; }
API R cuEventDestroy_v2(void *h) { if (FAILS("cuEventDestroy")) return INVALID_VALUE; LOCK; Event *e = eventOf(h, "cuEventDestroy"); pthread_mutex_lock(&g); e->magic = 0; e->context = 0; count(EVENTS, -1); recordIn(e, 0); retire(e->marks); retire(e->time); retire(e); pthread_mutex_unlock(&g); UNLOCK; return OK; }
static R record(Event *e, Stream *s) {
  pthread_mutex_lock(&g);
  if (s->capture) { if (!s->capture->valid) { pthread_mutex_unlock(&g); return CAPTURE_INVALIDATED; } if (e->flags & 4) { pthread_mutex_unlock(&g); return CAPTURE_UNSUPPORTED; } recordIn(e, s->capture); e->front = s->front; pthread_mutex_unlock(&g); return OK; }
  pthread_mutex_unlock(&g);
  if (implicit(s)) return CAPTURE_IMPLICIT;
  /* On a blocking stream it is no work: the stream is as idle as it was, though the null stream's work is to come before. */
  if (e->flags == 2 && isBlocking(s)) { pthread_mutex_lock(&g); recordIn(e, 0); e->recorded = 1; e->mark = tail(s); retire(e->marks); retire(e->time); e->marks = malloc(sizeof(Mark)); e->marks[0] = tail(&nullStream); e->nmarks = 1; e->time = 0; pthread_mutex_unlock(&g); return OK; }
  double *time = 0;
  Op *o = op(RECORD, s); o->entry = e->flags != 2;
  if ((e->flags & 2) == 0) { time = calloc(1, sizeof *time); o->time = time; }
  /* A record of an interprocess event waits for the one before. */
  if (e->flags & 4) { pthread_mutex_lock(&g); o->marks = malloc(sizeof(Mark) * (size_t)(e->nmarks + 1)); memcpy(o->marks, e->marks, sizeof(Mark) * (size_t)e->nmarks); o->nmarks = e->nmarks; o->marks[o->nmarks++] = e->mark; pthread_mutex_unlock(&g); }
  enqueue(o);
  pthread_mutex_lock(&g); recordIn(e, 0); e->recorded = 1; e->mark = tail(s); e->mark.seq = o == 0 ? 0 : e->mark.seq; e->nmarks = 0; retire(e->time); e->time = time; pthread_mutex_unlock(&g);
  return OK; }
API R cuEventRecord(void *e, void *h) { LOCK; R r = record(eventOf(e, "cuEventRecord"), streamOf(h, "cuEventRecord")); UNLOCK; return r; }
API R cuEventRecordWithFlags(void *e, void *h, u32 f) { (void)f; LOCK; Op *o = op(EVENT_RECORD, streamOf(h, "cuEventRecordWithFlags")); o->event = eventOf(e, "cuEventRecordWithFlags"); R r = put(o); UNLOCK; return r; }
API R cuCtxRecordEvent(void *c, void *h) { (void)c; LOCK; Event *e = eventOf(h, "cuCtxRecordEvent"); R r = OK; pthread_mutex_lock(&g);
  if (invalidateAll()) r = CAPTURE_UNSUPPORTED;
  else { retire(e->marks); e->marks = malloc(sizeof(Mark) * (size_t)(nstreams + 2)); e->nmarks = 0; for (int i = 0; i < nstreams; i++) if (streams[i]->done < streams[i]->covered) { e->marks[e->nmarks] = tail(streams[i]); e->marks[e->nmarks++].seq = streams[i]->covered; } e->marks[e->nmarks++] = tail(&nullStream); e->marks[e->nmarks++] = tail(&perThread); e->mark = (Mark){0, 0, 0}; recordIn(e, 0); e->recorded = 1; }
  pthread_mutex_unlock(&g); UNLOCK; return r; }
/* An event of a capture has no work to ask about, and none at all when the capture is over. */
static R ofCapture(Event *e) { return e->capture->active && e->capture->valid ? CAPTURED_EVENT : INVALID_VALUE; }
static int isEventOver(Event *e) { pthread_mutex_lock(&g); int over = isOver(e->mark) && allOver(e->marks, e->nmarks); pthread_mutex_unlock(&g); return over; }
API R cuEventQuery(void *h) { Event *e = eventOf(h, "cuEventQuery"); if (e->capture) { R r = ofCapture(e); e->capture->valid = 0; return r; } if (isUnsafe()) return CAPTURE_UNSUPPORTED; return isEventOver(e) ? OK : NOT_READY; }
API R cuEventSynchronize(void *h) { for (;;) { R r = cuEventQuery(h); if (r != NOT_READY) { notice(); return r; } nap(); } }
API R cuEventElapsedTime(float *ms, void *a, void *b) { Event *events[] = {eventOf(a, "cuEventElapsedTime"), eventOf(b, "cuEventElapsedTime")};
  for (int i = 0; i < 2; i++) { Event *e = events[i]; if (e->capture) return ofCapture(e); if ((e->flags & 2) || !e->recorded) return INVALID_HANDLE; }
  for (int i = 0; i < 2; i++) if (!isEventOver(events[i])) return NOT_READY;
  if (!events[0]->time || !events[1]->time) return INVALID_HANDLE;
  *ms = (float)(*events[1]->time - *events[0]->time); return OK; }
API R cuIpcGetEventHandle(u8 *h, void *e) { if ((((Event *)e)->flags & 4) == 0) return INVALID_HANDLE; memset(h, 0, 64); memcpy(h, &e, 8); return OK; }
typedef struct { char reserved[64]; } Ipc;
API R cuIpcOpenEventHandle(void **e, Ipc h) { (void)e; (void)h; return INVALID_CONTEXT; }
API R cuIpcGetMemHandle(u8 *h, u64 p) { memset(h, 0, 64); memcpy(h, &p, 8); return OK; }
API R cuIpcOpenMemHandle_v2(u64 *p, Ipc h, u32 f) { (void)p; (void)h; (void)f; return INVALID_CONTEXT; }
API R cuIpcCloseMemHandle(u64 p) { (void)p; return OK; }

/* The most threads of a block, the shared memory that it declares, and what a launch may add. */
typedef struct Function { int fn; int params; int sizes[16]; int threads, fixed, dynamic; char name[64]; struct Function *next; } Function;
typedef struct Module { char *text; char variable[64]; void *at; Function *functions; struct Module *next; } Module;
static Module *modules;
/* PTX of a later major version than this driver's is refused, as by a real one. */
API R cuModuleLoadData(void **out, const char *image) { const char *version = strstr(image, ".version "); if (version && strtod(version + 9, 0) >= 10) return 222; LOCK; waitForDevice(); Module *m = calloc(1, sizeof *m); m->text = strdup(image); pthread_mutex_lock(&g); m->next = modules; modules = m; pthread_mutex_unlock(&g); count(MODULES, 1); *out = m; UNLOCK; return OK; }
API R cuModuleUnload(Module *m) { LOCK; waitForDevice(); pthread_mutex_lock(&g); for (Module **at = &modules; *at; at = &(*at)->next) if (*at == m) { *at = m->next; break; } for (Function *f = m->functions; f; f = f->next) retire(f); if (frees && m->at) forget(m->at); pthread_mutex_unlock(&g); free(m->text); free(m); count(MODULES, -1); UNLOCK; return OK; }
API R cuModuleGetFunction(void **out, Module *m, const char *name) {
  if (!*name) return INVALID_VALUE;
  char what[200]; snprintf(what, sizeof what, "void %s(", name); char *at = strstr(m->text, what), *ptx = 0;
  if (!at) { snprintf(what, sizeof what, ".entry %s(", name); ptx = strstr(m->text, what); if (!ptx) return NOT_FOUND; at = ptx; }
  Function *f = calloc(1, sizeof *f); f->fn = -1; snprintf(f->name, sizeof f->name, "%s", name);
  for (size_t k = 0; k < sizeof KERNELS / sizeof *KERNELS; k++) if (!strcmp(KERNELS[k], name)) f->fn = (int)k;
  char *p = strchr(at, '(') + 1, *end = strchr(p, ')');
  while (p < end) { char *comma = memchr(p, ',', (size_t)(end - p)); char *stop = comma ? comma : end; char part[200] = ""; memcpy(part, p, (size_t)(stop - p) < 199 ? (size_t)(stop - p) : 199);
    if (strspn(part, " ") == strlen(part)) break;
    char *bytes = strstr(part, ".b8 "), *length = bytes ? strchr(bytes, '[') : 0;
    f->sizes[f->params++] = length ? (int)strtol(length + 1, 0, 10) : strchr(part, '*') || strstr(part, "long") || strstr(part, "double") || strstr(part, ".u64") ? 8 : strstr(part, "char") || strstr(part, "bool") ? 1 : strstr(part, "short") || strstr(part, ".u16") ? 2 : 4;
    p = stop + 1; }
  /* Of PTX: `.maxntid 128` before the body, `.shared … .b8 fixed[1024]` in it. */
  f->threads = 1024;
  if (ptx) {
    char *body = strchr(end, '{'), *last = body ? strstr(body, "\n}") : 0, *bound = strstr(end, ".maxntid "), *fixed = body ? strstr(body, ".shared .align") : 0;
    if (bound && body && bound < body) f->threads = (int)strtol(bound + 9, 0, 10);
    if (fixed && last && fixed < last && (fixed = strchr(fixed, '['))) f->fixed = (int)strtol(fixed + 1, 0, 10);
  }
  f->dynamic = 49152 - f->fixed;
  /* There are two of this name: to bytes a number, or other bytes. */
  if (f->fn == 2 && f->sizes[1] == 4) f->fn = 6;
  pthread_mutex_lock(&g); f->next = m->functions; m->functions = f; pthread_mutex_unlock(&g);
  *out = f; return OK; }
API R cuFuncGetName(const char **name, Function *f) { *name = f->name; return OK; }
/* No address of the driver is followed that is no function. */
API R cuFuncGetModule(Module **out, Function *f) { Function *known = 0; pthread_mutex_lock(&g); for (Module *m = modules; m && !known; m = m->next) for (Function *at = m->functions; at; at = at->next) if (at == f) { known = at; *out = m; } pthread_mutex_unlock(&g); return known ? OK : INVALID_HANDLE; }
API R cuKernelGetFunction(Function **out, void *kernel) { (void)out; (void)kernel; return INVALID_HANDLE; }
/* Of CUDA C++, "void NAME(" is a kernel, and ".entry NAME(" of PTX. */
API R cuModuleEnumerateFunctions(Function **out, unsigned n, Module *m) {
  const char *begin[] = {"void ", ".entry "}; unsigned found = 0;
  for (int i = 0; i < 2; i++) for (char *at = strstr(m->text, begin[i]); at && found < n; at = strstr(at, begin[i])) {
    at += strlen(begin[i]); size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    char name[64]; snprintf(name, sizeof name, "%.*s", (int)length, at);
    if (at[length] == '(' && cuModuleGetFunction((void **)&out[found], m, name) == OK) found++; }
  return OK; }
/* One variable of each module, of as many bytes as its PTX says: `.b8 name[16]`. */
API R cuModuleGetGlobal_v2(u64 *at, size_t *bytes, Module *m, const char *name) {
  char what[80]; snprintf(what, sizeof what, " %s[", name); char *found = strstr(m->text, what);
  if (!found) return NOT_FOUND;
  *bytes = strtoul(found + strlen(what), 0, 10);
  pthread_mutex_lock(&g);
  if (strcmp(m->variable, name)) { snprintf(m->variable, sizeof m->variable, "%s", name); m->at = keep(*bytes, 0); }
  pthread_mutex_unlock(&g);
  *at = (u64)m->at; return OK; }
API R cuFuncGetParamInfo(Function *f, size_t i, size_t *o, size_t *s) { if (i >= (size_t)f->params) return INVALID_VALUE; *o = i * 8; *s = (size_t)f->sizes[i]; return OK; }
API R cuFuncGetAttribute(int *v, int a, Function *f) { *v = a == 0 ? f->threads : a == 1 ? f->fixed : a == 8 ? f->dynamic : 0; return OK; }
API R cuFuncSetAttribute(Function *f, int a, int v) { if (a != 8) return OK; if (f->fixed + v > 232448) return INVALID_VALUE; f->dynamic = v; return OK; }
static R setKernel(Exec *x, Node *node, u8 *params) { Op *o = opOf(x, node, KERNEL); if (!o || o->green != (current != &context ? current : 0) || (o->green && *(void **)(params + 64))) return INVALID_VALUE; Function *f = *(Function **)params; u32 *n = (u32 *)(params + 8); void **values = *(void ***)(params + 40); if (n[3] * n[4] * n[5] > (u32)f->threads || n[6] > (u32)f->dynamic) return INVALID_VALUE; o->fn = f->fn; o->grid = n[0] * n[1] * n[2]; o->block = n[3]; for (int i = 0; i < f->params && i < 8; i++) setArgument(o, i, values[i], f->sizes[i]); return OK; }
/* As cuda_occupancy.h counts: none where the function may not have so much shared memory. */
API R cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, Function *f, int b, size_t s) { int warps = (b + 31) / 32, blocks = 64 / warps, shared = (int)(233472 / (s + (size_t)f->fixed + 1024)); *n = s > (size_t)f->dynamic ? 0 : blocks > 32 ? 32 : blocks; if (*n > shared) *n = shared; return OK; }
/* Tensor maps with the rules that are told soonest: the address, the type, the rank, the strides and the boxes; of the bytes the address alone. */
static R tensorMap(u8 *map, int type, u32 rank, u64 at, const u64 *dims, const u64 *strides, const u32 *steps, int interleave, int fill) {
  if (type < 0 || type > 12 || rank < (interleave ? 3u : 1u) || rank > 5 || at % (interleave == 2 ? 32 : 16)) return INVALID_VALUE;
  if (fill && type < 6) return INVALID_VALUE;
  for (u32 i = 0; i < rank; i++) if (!dims[i] || steps[i] < 1 || steps[i] > 8) return INVALID_VALUE;
  for (u32 i = 0; i + 1 < rank; i++) if (strides[i] % 16 || strides[i] >> 40) return INVALID_VALUE;
  memset(map, 0, 128); memcpy(map, &at, 8); return OK; }
API R cuTensorMapEncodeTiled(u8 *map, int type, u32 rank, u64 at, const u64 *dims, const u64 *strides, const u32 *box, const u32 *steps, int interleave, int swizzle, int l2, int fill) {
  static const u32 bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4}; (void)l2;
  if (type < 0 || type > 12 || rank < 1 || rank > 5 || box[0] * bytes[type] % 16 || (swizzle && !interleave && box[0] * bytes[type] > 16u << swizzle)) return INVALID_VALUE;
  for (u32 i = 0; i < rank; i++) if (box[i] < 1 || box[i] > 256) return INVALID_VALUE;
  return tensorMap(map, type, rank, at, dims, strides, steps, interleave, fill); }
API R cuTensorMapEncodeIm2col(u8 *map, int type, u32 rank, u64 at, const u64 *dims, const u64 *strides, const int *lower, const int *upper, u32 channels, u32 pixels, const u32 *steps, int interleave, int swizzle, int l2, int fill) {
  (void)lower; (void)upper; (void)swizzle; (void)l2;
  if (rank < 3 || channels < 1 || channels > 256 || pixels < 1 || pixels > 1024) return INVALID_VALUE;
  return tensorMap(map, type, rank, at, dims, strides, steps, interleave, fill); }
/* A cooperative launch of more blocks than run at one time. */
static int isTooLarge(u8 *config, Stream *s) {
  u32 *shape = (u32 *)config; u8 *attributes = *(u8 **)(config + 40); u64 blocks = 32; int cooperative = 0;
  for (u32 i = 0; i < shape[12]; i++) if (*(u32 *)(attributes + 72 * i) == 2) cooperative = 1;
  u64 threads = ((u64)shape[3] * shape[4] * shape[5] + 31) / 32 * 32;
  if (threads > 1024) return 0;
  if (2048 / threads < blocks) blocks = 2048 / threads;
  return cooperative && (u64)shape[0] * shape[1] * shape[2] > blocks * (s->green && !s->capture ? s->green->multiprocessors : 132);
}
API R cuLaunchKernelEx(u8 *config, Function *f, void **params, void **extra) { (void)extra; LOCK; Op *o = op(KERNEL, streamOf(*(void **)(config + 32), "cuLaunchKernelEx")); u32 *shape = (u32 *)config; if ((u64)shape[3] * shape[4] * shape[5] > (u64)f->threads || shape[5] > 64 || shape[1] > 65535 || shape[2] > 65535 || shape[6] > (u32)f->dynamic || isTooLarge(config, o->stream)) { R r = o->stream->capture && !o->stream->capture->valid ? CAPTURE_INVALIDATED : implicit(o->stream) ? CAPTURE_IMPLICIT : isTooLarge(config, o->stream) ? 720 : INVALID_VALUE; if (o->stream->capture) o->stream->capture->valid = 0; free(o); UNLOCK; return r; } o->fn = f->fn; o->function = f; o->grid = *(u32 *)config * ((u32 *)config)[1] * ((u32 *)config)[2]; o->block = ((u32 *)config)[3]; for (int i = 0; i < f->params && i < 8; i++) setArgument(o, i, params[i], f->sizes[i]); Stream *s = o->stream; R r = launched(put(o), s); UNLOCK; return r; }

static R allocate(void **out, size_t bytes, int host) { pthread_mutex_lock(&g); *out = bytes > OF_THE_DEVICE || (host ? ofHostInUse + bytes > ofTheHost : inUse + bytes > OF_THE_DEVICE) ? 0 : keep(bytes, host); pthread_mutex_unlock(&g); return *out ? OK : 2; }
API R cuMemHostAlloc(void **p, size_t n, u32 f) { (void)f; LOCK; R r = allocate(p, n, 1); UNLOCK; return r; }
API R cuMemFreeHost(void *p) { if (FAILS("cuMemFreeHost")) return INVALID_VALUE; LOCK; waitForDevice(); pthread_mutex_lock(&g); forget(p); pthread_mutex_unlock(&g); UNLOCK; return OK; }
API R cuMemHostRegister_v2(void *p, size_t n, u32 f) { (void)f; LOCK; R r = OK; pthread_mutex_lock(&g);
  for (int i = 0; i < nranges; i++) if ((u8 *)p < ranges[i].at + ranges[i].bytes && ranges[i].at < (u8 *)p + n) r = 712;
  if (!r) { range(p, n, 1); }
  pthread_mutex_unlock(&g); UNLOCK; return r; }
/* The memory is the program's. */
API R cuMemHostUnregister(void *p) { if (FAILS("cuMemHostUnregister")) return INVALID_VALUE; LOCK; waitForDevice(); pthread_mutex_lock(&g); R r = 713; for (int i = 0; i < nranges; i++) if (ranges[i].at == (u8 *)p) { ofHostInUse -= ranges[i].bytes; ranges[i] = ranges[--nranges]; count(OF_HOST, -1); r = OK; break; } pthread_mutex_unlock(&g); UNLOCK; return r; }
API R cuMemAlloc_v2(void **p, size_t n) { LOCK; R r = allocate(p, n, 0); UNLOCK; return r; }
API R cuMemFree_v2(void *p) { LOCK; waitForDevice(); pthread_mutex_lock(&g); forget(p); pthread_mutex_unlock(&g); UNLOCK; return OK; }
API R cuMemGetAddressRange_v2(void **b, size_t *s, void *p) { pthread_mutex_lock(&g); Range *r = rangeOf(p); R result = r ? OK : NOT_FOUND; if (r) { if (b) *b = r->at; if (s) *s = r->bytes; } pthread_mutex_unlock(&g); return result; }
static R allocateFrom(Pool *pool, void **p, size_t n, Stream *s) {
  if (s->capture) return CAPTURE_UNSUPPORTED;
  pthread_mutex_lock(&g); size_t reserved = steps(pool->used + pool->leaving + n); if (pool->most && reserved > pool->most) reserved = steps(pool->used + n); R r = pool->most && reserved > pool->most ? 2 : OK; pthread_mutex_unlock(&g);
  if (!r) r = allocate(p, n, 0);
  if (r) return r;
  pthread_mutex_lock(&g); rangeOf(*p)->pool = pool; pool->used += n; if (pool->reserved < reserved) pool->reserved = reserved; if (pool->mostUsed < pool->used) pool->mostUsed = pool->used; if (pool->mostReserved < pool->reserved) pool->mostReserved = pool->reserved; pthread_mutex_unlock(&g);
  return OK; }
API R cuMemAllocAsync(void **p, size_t n, void *h) { LOCK; R r = allocateFrom(&defaultPool, p, n, streamOf(h, "cuMemAllocAsync")); UNLOCK; return r; }
API R cuMemAllocFromPoolAsync(void **p, size_t n, void *pool, void *h) { LOCK; R r = allocateFrom(poolOf(pool, "cuMemAllocFromPoolAsync"), p, n, streamOf(h, "cuMemAllocFromPoolAsync")); UNLOCK; return r; }
API R cuMemFreeAsync(void *p, void *h) { LOCK; Op *o = op(FREE, streamOf(h, "cuMemFreeAsync")); o->to = p; o->entry = 0; R r = OK; if (o->stream->capture) { free(o); r = CAPTURE_UNSUPPORTED; } else { pthread_mutex_lock(&g); Range *range = rangeOf(p); if (range && range->pool) { range->pool->used -= range->bytes; range->pool->leaving += range->bytes; inUse -= range->bytes; range->left = 1; } pthread_mutex_unlock(&g); enqueue(o); } UNLOCK; return r; }
/* Refused while a stream captures, unless the thread says that it knows. */
#define POOL_CALL(name) Pool *pool = poolOf(h, name); if (capturesActive && mode != 2) { for (int i = 0; i < nstreams; i++) if (streams[i]->capture) streams[i]->capture->valid = 0; return CAPTURE_UNSUPPORTED; }
API R cuDeviceGetDefaultMemPool(void **p, int d) { (void)d; *p = &defaultPool; return OK; }
API R cuDeviceGetMemPool(void **p, int d) { (void)d; *p = &defaultPool; return OK; }
API R cuMemPoolCreate(void **out, u8 *properties) { void *h = &defaultPool; POOL_CALL("cuMemPoolCreate") LOCK; pthread_mutex_lock(&g); pool = 0; for (int i = 1; i < npools; i++) if (!pools[i]->alive && pools[i]->leaving == 0 && pools[i]->used == 0) pool = pools[i]; if (!pool) { if (npools == 4096) DIE("too many pools"); pool = pools[npools++] = malloc(sizeof *pool); } count(POOLS, 1); *pool = (Pool){.alive = 1, .most = steps(*(size_t *)(properties + 24))}; pthread_mutex_unlock(&g); UNLOCK; *out = pool; return OK; }
API R cuMemPoolDestroy(void *h) { POOL_CALL("cuMemPoolDestroy") if (pool == &defaultPool) return INVALID_VALUE; LOCK; pthread_mutex_lock(&g); if (pool->used) DIE("a pool is destroyed of which %zu bytes are in use", pool->used); pool->alive = 0; count(POOLS, -1); pthread_mutex_unlock(&g); UNLOCK; return OK; }
API R cuMemPoolGetAttribute(void *h, int a, u64 *v) { POOL_CALL("cuMemPoolGetAttribute") pthread_mutex_lock(&g); if (a == 2) *(int *)v = !pool->keepsApart; else *v = a == 4 ? pool->threshold : a == 5 ? pool->reserved : a == 6 ? pool->mostReserved : a == 7 ? pool->used : a == 8 ? pool->mostUsed : 0; pthread_mutex_unlock(&g); return OK; }
API R cuMemPoolSetAttribute(void *h, int a, u64 *v) { POOL_CALL("cuMemPoolSetAttribute") R r = OK; pthread_mutex_lock(&g); if (a == 4) pool->threshold = *v; else if (a == 2) pool->keepsApart = !*(int *)v; else if ((a != 6 && a != 8) || *v) r = INVALID_VALUE; else if (a == 6) pool->mostReserved = pool->reserved; else pool->mostUsed = pool->used; pthread_mutex_unlock(&g); return r; }
API R cuMemPoolTrimTo(void *h, size_t keep) { POOL_CALL("cuMemPoolTrimTo") LOCK; pthread_mutex_lock(&g); giveBack(pool, steps(keep)); pthread_mutex_unlock(&g); UNLOCK; return OK; }
static int isWithinDevice(const void *to, const void *from) { pthread_mutex_lock(&g); Range *a = rangeOf(to), *b = rangeOf(from); int within = a && b && !a->host && !b->host; pthread_mutex_unlock(&g); return within; }
static R copy(void *to, const void *from, size_t n, Stream *s) { checkRange(to, n, "a copy"); checkRange(from, n, "a copy"); Op *o = op(COPY, s); o->to = to; o->from = from; o->bytes = n; o->rows = o->planes = 1; return put(o); }
/* Within the host the call waits for the stream. */
static void waitWithinHost(void *to, const void *from, Stream *s) {
  pthread_mutex_lock(&g); Range *a = rangeOf(to), *b = rangeOf(from); int within = a && b && a->host && b->host && !s->capture; Mark m = tail(s); pthread_mutex_unlock(&g);
  while (within) { pthread_mutex_lock(&g); int over = isOver(m); pthread_mutex_unlock(&g); if (over) break; nap(); }
}
API R cuMemcpyAsync(void *to, const void *from, size_t n, void *h) { LOCK; Stream *s = streamOf(h, "cuMemcpyAsync"); R r = copy(to, from, n, s); if (isWithinDevice(to, from)) launched(r, s); waitWithinHost(to, from, s); UNLOCK; return r; }
/* -- arrays, textures and surfaces: the elements of an array lie row after row, and kernels use none */
typedef struct { u64 magic; size_t row, rows, planes; u8 *at; } Array;
enum { ARRAY_MAGIC = 0xa44a7 };
typedef struct { u64 magic; Array *array; } TextureObject;
static Array *arrayOf(Array *a, const char *call) { if (!a || a->magic != ARRAY_MAGIC) DIE("%s of what is no array", call); return a; }
/* Refused while a stream captures, unless the thread says that it knows. */
static R beside(void) { if (!capturesActive || mode == 2) return OK; for (int i = 0; i < nstreams; i++) if (streams[i]->capture) streams[i]->capture->valid = 0; return CAPTURE_UNSUPPORTED; }
API R cuArray3DCreate_v2(void **out, const u64 *d) {
  const u32 *more = (const u32 *)(d + 3); R r = beside(); if (r) return r;
  size_t channel = more[0] == 1 || more[0] == 8 ? 1 : more[0] == 3 || more[0] == 10 || more[0] == 32 ? 4 : 2;
  if (!d[0] || (more[1] != 1 && more[1] != 2 && more[1] != 4) || d[0] > 131072 || d[1] > 65536 || d[2] > 16384) return INVALID_VALUE;
  LOCK; Array *a = calloc(1, sizeof *a); *a = (Array){.magic = ARRAY_MAGIC, .row = d[0] * channel * more[1], .rows = d[1] ? d[1] : 1, .planes = d[2] ? d[2] : 1};
  r = allocate((void **)&a->at, a->row * a->rows * a->planes, 0); if (r) free(a); else *out = a; UNLOCK; return r; }
API R cuArrayDestroy(Array *a) { arrayOf(a, "cuArrayDestroy"); LOCK; waitForDevice(); pthread_mutex_lock(&g); forget(a->at); pthread_mutex_unlock(&g); a->magic = 0; UNLOCK; return OK; }
static TextureObject *textures[4096];
static R newTexture(u64 *out, const u64 *resource) {
  R r = beside(); if (r) return r;
  if ((u32)resource[0] == 0) arrayOf((Array *)resource[1], "cuTexObjectCreate");
  pthread_mutex_lock(&g); for (int i = 1; i < 4096; i++) if (!textures[i]) { textures[i] = calloc(1, sizeof **textures); textures[i]->array = (u32)resource[0] == 0 ? (Array *)resource[1] : 0; *out = (u64)i; break; } pthread_mutex_unlock(&g); return OK; }
static R endTexture(u64 handle) { pthread_mutex_lock(&g); R r = handle < 4096 && textures[handle] ? OK : INVALID_VALUE; if (!r) { if (textures[handle]->array && textures[handle]->array->magic != ARRAY_MAGIC) DIE("an array was destroyed before its texture"); free(textures[handle]); textures[handle] = 0; } pthread_mutex_unlock(&g); return r; }
API R cuTexObjectCreate(u64 *out, const u64 *resource, const u32 *description, const void *view) { (void)view; return description[0] > 3 || description[3] > 1 ? INVALID_VALUE : newTexture(out, resource); }
API R cuTexObjectDestroy(u64 handle) { return endTexture(handle); }
API R cuSurfObjectCreate(u64 *out, const u64 *resource) { return (u32)resource[0] ? INVALID_VALUE : newTexture(out, resource); }
API R cuSurfObjectDestroy(u64 handle) { return endTexture(handle); }

/* CUDA_MEMCPY3D: words. The destination has the same fields behind those of the source. */
enum { AT_X = 0, AT_Y = 1, AT_Z = 2, MEMORY = 4, AT_DEVICE = 6, AT_ARRAY = 7, AT_PITCH = 9, AT_HEIGHT = 10, DESTINATION = 11, WIDTH = 22, HEIGHT = 23, DEPTH = 24 };
typedef struct { u8 *at; size_t row, plane; } End;
static R endOf(const u64 *p, const u64 *all, End *end) {
  size_t w = all[WIDTH], rows = all[HEIGHT], planes = all[DEPTH];
  if ((u32)p[MEMORY] == 3) {
    Array *a = arrayOf((Array *)p[AT_ARRAY], "cuMemcpy3DAsync");
    if (p[AT_X] + w > a->row || p[AT_Y] + rows > a->rows || p[AT_Z] + planes > a->planes) return INVALID_VALUE;
    *end = (End){a->at + (p[AT_Z] * a->rows + p[AT_Y]) * a->row + p[AT_X], a->row, a->row * a->rows}; return OK; }
  if (p[AT_PITCH] < w || (planes > 1 && p[AT_HEIGHT] < rows)) return INVALID_VALUE;
  *end = (End){(u8 *)p[AT_DEVICE], p[AT_PITCH], p[AT_PITCH] * p[AT_HEIGHT]}; return OK; }
API R cuMemcpy3DAsync_v2(const u64 *p, void *h) {
  size_t w = p[WIDTH], rows = p[HEIGHT], planes = p[DEPTH]; End to, from;
  if (!w || !rows || !planes) return OK;
  if (endOf(p, p, &from) || endOf(p + DESTINATION, p, &to)) return INVALID_VALUE;
  LOCK; Stream *s = streamOf(h, "cuMemcpy3DAsync"); Op *o = op(COPY, s);
  o->to = to.at; o->from = from.at; o->bytes = w; o->rows = rows; o->planes = planes;
  o->toRow = to.row; o->fromRow = from.row; o->toPlane = to.plane; o->fromPlane = from.plane;
  checkRange(o->to, (planes - 1) * o->toPlane + (rows - 1) * o->toRow + w, "a copy of rows"); checkRange(o->from, (planes - 1) * o->fromPlane + (rows - 1) * o->fromRow + w, "a copy of rows");
  R r = put(o); waitWithinHost(to.at, from.at, s); UNLOCK; return r; }
API R cuMemcpyPeerAsync(void *to, void *tc, const void *from, void *fc, size_t n, void *h) { (void)tc; (void)fc; LOCK; R r = copy(to, from, n, streamOf(h, "cuMemcpyPeerAsync")); UNLOCK; return r; }
#ifndef OLDEST
API R cuMemcpyBatchAsync(void **to, void **from, size_t *n, size_t count, void *a, void *i, size_t na, size_t *f, void *h) { (void)a; (void)i; (void)na; (void)f; if (h == 0) return INVALID_VALUE; LOCK; Stream *s = streamOf(h, "cuMemcpyBatchAsync"); if (s->green && count > 1) DIE("cuMemcpyBatchAsync on a stream of a green context"); R r = s->capture ? CAPTURE_UNSUPPORTED : OK; for (size_t k = 0; k < count && !r; k++) if (n[k] == 0) { r = INVALID_VALUE; } for (size_t k = 0; k < count && !r; k++) r = copy(to[k], from[k], n[k], s); UNLOCK; return r; }
#endif
static R fillRows(void *to, size_t pitch, u32 v, size_t n, size_t rows, int width, void *h) { checkRange(to, (rows - 1) * pitch + n * (size_t)width, "a fill"); if (rows > 1 && (pitch % (size_t)width || pitch < n * (size_t)width)) return INVALID_VALUE; Op *o = op(SET, streamOf(h, "a fill")); LOCK; o->to = to; o->value = v; o->bytes = n; o->width = width; o->rows = rows; o->toRow = pitch; R r = put(o); UNLOCK; return r; }
static R fill(void *to, u32 v, size_t n, int width, void *h) { return fillRows(to, 0, v, n, 1, width, h); }
API R cuMemsetD2D8Async(void *to, size_t pitch, u32 v, size_t n, size_t rows, void *h) { return fillRows(to, pitch, v & 255, n, rows, 1, h); }
API R cuMemsetD2D16Async(void *to, size_t pitch, u32 v, size_t n, size_t rows, void *h) { return fillRows(to, pitch, v, n, rows, 2, h); }
API R cuMemsetD2D32Async(void *to, size_t pitch, u32 v, size_t n, size_t rows, void *h) { return fillRows(to, pitch, v, n, rows, 4, h); }
API R cuMemsetD8Async(void *to, u32 v, size_t n, void *h) { return fill(to, v & 255, n, 1, h); }
API R cuMemsetD16Async(void *to, u32 v, size_t n, void *h) { return fill(to, v, n, 2, h); }
API R cuMemsetD32Async(void *to, u32 v, size_t n, void *h) { return fill(to, v, n, 4, h); }
API R cuPointerGetAttribute(void *data, int a, void *p) { pthread_mutex_lock(&g); Range *r = rangeOf(p); R result = r ? OK : INVALID_VALUE; if (r) { if (a == 10) *(int *)data = !r->host && !r->pool; else if (a == 17) *(u64 *)data = (u64)r->pool; else if (a == 9) *(int *)data = 0; else if (a == 2) *(u32 *)data = r->host ? 1 : 2; else if (a == 8) *(u32 *)data = 0; else *(u64 *)data = 0; } pthread_mutex_unlock(&g); return result; }

API R cuMemGetInfo_v2(size_t *left, size_t *all) { pthread_mutex_lock(&g); size_t used = 0; for (int i = 0; i < nranges; i++) if (!ranges[i].host) used += ranges[i].bytes; pthread_mutex_unlock(&g); *all = OF_THE_DEVICE; *left = used < *all ? *all - used : 0; return OK; }

/* -- the compiler */
typedef struct { char *source; } Program;
API R nvrtcCreateProgram(void **out, const char *source, const char *name, int n, void *h, void *i) { (void)name; (void)n; (void)h; (void)i; Program *p = calloc(1, sizeof *p); p->source = strdup(source); *out = p; return 0; }
API R nvrtcVersion(int *major, int *minor) { *major = 13; *minor = 0; return 0; }
API R nvrtcDestroyProgram(void **p) { free(((Program *)*p)->source); free(*p); *p = 0; return 0; }
API R nvrtcCompileProgram(void *p, int n, const char **o) { (void)p; (void)n; (void)o; return 0; }
API R nvrtcGetProgramLogSize(void *p, size_t *n) { (void)p; *n = 1; return 0; }
API R nvrtcGetProgramLog(void *p, char *l) { (void)p; *l = 0; return 0; }
API R nvrtcGetPTXSize(Program *p, size_t *n) { *n = strlen(p->source) + 1; return 0; }
API R nvrtcGetPTX(Program *p, char *c) { strcpy(c, p->source); return 0; }
API R nvrtcGetCUBINSize(Program *p, size_t *n) { *n = strlen(p->source) + 1; return 0; }
API R nvrtcGetCUBIN(Program *p, char *c) { strcpy(c, p->source); return 0; }
API const char *nvrtcGetErrorString(R r) { (void)r; return "error"; }

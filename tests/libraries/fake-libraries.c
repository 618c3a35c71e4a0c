/*
 * Pretends to be cuBLAS and NCCL, for machines without a GPU: writes down what it is asked, and answers as they would. So do the files of
 * other libraries in the folders here.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char text[1 << 16];
static size_t used;
/* Calls come from other threads, too. */
static atomic_flag taken = ATOMIC_FLAG_INIT;
static void take(void) {
  while (atomic_flag_test_and_set(&taken)) continue;
}

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say(const char *format, ...) {
  va_list args;
  take();
  va_start(args, format);
  if (used < sizeof text) used += (size_t)vsnprintf(text + used, sizeof text - used, format, args);
  va_end(args);
  atomic_flag_clear(&taken);
}

/* What was asked since the last time. */
const char *fake_said(void) {
  static char last[sizeof text];
  take();
  memcpy(last, text, sizeof text);
  used = 0;
  text[0] = 0;
  atomic_flag_clear(&taken);
  return last;
}

/* Handles of all libraries that were made and not destroyed. */
static atomic_int handles;
int fake_handles(size_t unused) {
  (void)unused;
  return handles;
}
void fake_count(int more) { handles += more; }

/* cuBLAS */

int next_status;
void fake_next_status(int status) { next_status = status; }

int cublasDestroy_v2(void *handle) {
  fake_count(-1);
  return handle == 0;
}
int cublasCreate_v2(void **handle) {
  *handle = malloc(1);
  fake_count(1);
  say("create\n");
  return 0;
}
int cublasGetProperty(int part, int *value) {
  *value = part + 13;
  return 0;
}

int cublasGetVersion_v2(void *handle, int *version) {
  (void)handle;
  *version = 130100;
  return 0;
}
int cublasSetStream_v2(void *handle, void *stream) {
  (void)handle;
  say("stream %lx\n", (unsigned long)(uintptr_t)stream);
  return 0;
}
int cublasSetWorkspace_v2(void *handle, void *workspace, size_t bytes) {
  (void)handle;
  say("workspace %lx %zu\n", (unsigned long)(uintptr_t)workspace, bytes);
  return 0;
}
static double factor(const void *at, int compute) { return compute == 70 ? *(const double *)at : *(const float *)at; }
int cublasGemmEx(void *handle, int transa, int transb, int m, int n, int k, const void *alpha, const void *A, int atype,
                 int lda, const void *B, int btype, int ldb, const void *beta, void *C, int ctype, int ldc, int compute,
                 int algo) {
  (void)handle;
  say("gemm %d%d m%d n%d k%d %g A%lx:%d/%d B%lx:%d/%d %g C%lx:%d/%d compute %d algo %d\n", transa, transb, m, n, k,
      factor(alpha, compute), (unsigned long)(uintptr_t)A, atype, lda, (unsigned long)(uintptr_t)B, btype, ldb,
      factor(beta, compute), (unsigned long)(uintptr_t)C, ctype, ldc, compute, algo);
  int status = next_status;
  next_status = 0;
  return status;
}
int cublasGemmStridedBatchedEx(void *handle, int transa, int transb, int m, int n, int k, const void *alpha,
                               const void *A, int atype, int lda, long long stridea, const void *B, int btype, int ldb,
                               long long strideb, const void *beta, void *C, int ctype, int ldc, long long stridec,
                               int count, int compute, int algo) {
  (void)handle;
  say("batch %d%d m%d n%d k%d %g A%lx:%d/%d+%lld B%lx:%d/%d+%lld %g C%lx:%d/%d+%lld x%d compute %d algo %d\n", transa,
      transb, m, n, k, factor(alpha, compute), (unsigned long)(uintptr_t)A, atype, lda, stridea,
      (unsigned long)(uintptr_t)B, btype, ldb, strideb, factor(beta, compute), (unsigned long)(uintptr_t)C, ctype, ldc,
      stridec, count, compute, algo);
  return 0;
}
#define GEAM(type, number)                                                                                             \
  int cublas##type##geam(void *handle, int transa, int transb, int m, int n, const number *alpha, const number *A,     \
                         int lda, const number *beta, const number *B, int ldb, number *C, int ldc) {                  \
    (void)handle;                                                                                                      \
    say(#type "geam %d%d m%d n%d %g A%lx/%d %g B%lx/%d C%lx/%d\n", transa, transb, m, n, *alpha,                       \
        (unsigned long)(uintptr_t)A, lda, *beta, (unsigned long)(uintptr_t)B, ldb, (unsigned long)(uintptr_t)C, ldc);  \
    return 0;                                                                                                          \
  }
GEAM(S, float)
GEAM(D, double)

/* NCCL */

typedef struct {
  char internal[128];
} Id;
typedef struct {
  size_t size;
  unsigned magic, version;
  int blocking;
} Config;
/* JavaScript loads this library. Its thread is not the first one of the process on every run time. */
static pid_t javaScript;
__attribute__((constructor)) static void loaded(void) { javaScript = gettid(); }

/* The half of another blocks, and returns when that is aborted. */
typedef struct Comm {
  int rank, polls, error;
  struct Comm *whole;
  atomic_int aborted;
} Comm;

static Comm *comms[64];
static int made;
static int polls = 3;
static _Thread_local int depth;
static _Thread_local Comm *half_in_group;
static int nccl_version = 22609;
void fake_nccl_version(size_t version) { nccl_version = (int)version; }

/* How many looks a call takes; -1: for ever. */
void fake_polls(int count) { polls = count; }
void fake_error(int rank, int error) {
  for (int i = 0; i < made; i += 1)
    if (comms[i]->rank == rank) comms[i]->error = error;
}

/* A half waits for ever where a look would be for ever. */
static int wait_in(Comm *half) {
  say("half %d, by %s thread\n", half->rank, gettid() == javaScript ? "this" : "another");
  while (polls == -1 && !half->whole->aborted) usleep(100);
  return half->whole->aborted ? 3 : half->error;
}
static int begin(Comm *comm) {
  if (comm->whole != NULL) {
    if (depth > 0) half_in_group = comm;
    return depth > 0 ? 0 : wait_in(comm);
  }
  comm->polls = polls;
  return 7;
}

int ncclGetVersion(int *version) {
  *version = nccl_version;
  return 0;
}
int ncclGetUniqueId(Id *id) {
  static unsigned char count;
  memset(id, 0, sizeof *id);
  id->internal[0] = (char)(count += 1);
  id->internal[8] = 2;
  id->internal[10] = 1;
  return 0;
}
int ncclCommInitRankConfig(Comm **comm, int size, Id id, int rank, Config *config) {
  say("init rank %d of %d id %d config %zu %x %u %d\n", rank, size, id.internal[0] > 0 && id.internal[8] == 2,
      config->size, config->magic, config->version, config->blocking);
  fake_count(1);
  *comm = calloc(1, sizeof **comm);
  (*comm)->rank = rank;
  comms[made++ % 64] = *comm;
  return begin(*comm);
}
int ncclCommSplit(Comm *comm, int color, int key, Comm **half, Config *config) {
  say("split %d color %d key %d config %zu %u %d\n", comm->rank, color, key, config->size, config->version,
      config->blocking);
  fake_count(1);
  *half = calloc(1, sizeof **half);
  (*half)->rank = comm->rank;
  (*half)->whole = comm;
  comms[made++ % 64] = *half;
  return begin(comm);
}
int ncclCommGetAsyncError(Comm *comm, int *error) {
  if (comm->polls != 0) {
    if (comm->polls > 0) comm->polls -= 1;
    *error = 7;
  } else
    *error = comm->error;
  return 0;
}
int ncclCommFinalize(Comm *comm) {
  say("finalize %d%s\n", comm->rank, comm->whole ? " half" : "");
  return begin(comm);
}
int ncclCommDestroy(Comm *comm) {
  fake_count(-1);
  say("destroy %d%s\n", comm->rank, comm->whole ? " half" : "");
  return 0;
}
int ncclCommAbort(Comm *comm) {
  fake_count(-1);
  say("abort %d%s\n", comm->rank, comm->whole ? " half" : "");
  comm->aborted = 1;
  return 0;
}
int ncclGroupStart(void) {
  say("group %d{\n", depth += 1);
  return 0;
}
int ncclGroupEnd(void) {
  say("}\n");
  depth -= 1;
  Comm *half = half_in_group;
  half_in_group = NULL;
  return half == NULL ? 7 : wait_in(half);
}
const char *ncclGetErrorString(int result) { return result == 6 ? "remote process exited" : "some error"; }
const char *ncclGetLastError(Comm *comm) {
  (void)comm;
  return "the last thing said";
}

#define X(pointer) ((unsigned long)(uintptr_t)(pointer))

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, Comm *comm, void *stream) {
  say("allReduce %d: %lx %lx %zu type %d op %d on %lx\n", comm->rank, X(from), X(to), count, type, op, X(stream));
  return begin(comm);
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, Comm *comm, void *stream) {
  say("broadcast %d: %lx %lx %zu type %d root %d on %lx\n", comm->rank, X(from), X(to), count, type, root, X(stream));
  return begin(comm);
}
int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, Comm *comm, void *stream) {
  say("reduce %d: %lx %lx %zu type %d op %d root %d on %lx\n", comm->rank, X(from), X(to), count, type, op, root,
      X(stream));
  return begin(comm);
}
int ncclAllGather(const void *from, void *to, size_t count, int type, Comm *comm, void *stream) {
  say("allGather %d: %lx %lx %zu type %d on %lx\n", comm->rank, X(from), X(to), count, type, X(stream));
  return begin(comm);
}
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int op, Comm *comm, void *stream) {
  say("reduceScatter %d: %lx %lx %zu type %d op %d on %lx\n", comm->rank, X(from), X(to), count, type, op, X(stream));
  return begin(comm);
}
int ncclSend(const void *from, size_t count, int type, int peer, Comm *comm, void *stream) {
  say("send %d: %lx %zu type %d to %d on %lx\n", comm->rank, X(from), count, type, peer, X(stream));
  return begin(comm);
}
int ncclRecv(void *to, size_t count, int type, int peer, Comm *comm, void *stream) {
  say("recv %d: %lx %zu type %d from %d on %lx\n", comm->rank, X(to), count, type, peer, X(stream));
  return begin(comm);
}

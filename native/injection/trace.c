/*
 * Writes down what a process does with CUDA, of every library and thread. The CUDA driver loads this library when it
 * is initialised, if CUDA_INJECTION64_PATH names it; CUPTI then calls it before and after each call of the driver. The
 * trace is read by src/tools/recording/process-trace.ts. It goes to the file that CUDA_STREAMS_TRACE names, through a mapping,
 * so that nothing is lost when the process is killed.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "callback-data.h"
#include "batches.h"
#include "graphs.h"
#include "times.h"
#include "trace.h"

#ifdef __GLIBC__
#include <execinfo.h>
#else
/* musl has none: there calls of C have no site. */
static int backtrace(void **addresses, int most) { return (void)addresses, (void)most, 0; }
#endif

#define EXPORT __attribute__((visibility("default")))

/* CUPTI: of its interface only what is used. */
enum { DOMAIN_DRIVER = 1, SITE_ENTER = 0 };
typedef void (*Callback)(void *, int, uint32_t, const void *);

/*
 * The calls that are written, with the types of their parameters: p a word, u 32 bits, c less, o a pointer to a word
 * that the call sets, 2 a pointer to the 16 words of a CUDA_MEMCPY2D, k the arguments of a kernel, x the same in another
 * form, l a CUlaunchConfig, t code that may be the text of PTX; d a list of nodes, n its length, e what is not written, and in capitals the
 * parameters of a node (graphs.h). A call ending in `!` is written before it is made: it ends what another thread may be given at once.
 */
static const struct {
  const char *name, *types;
  enum Role role;
} KNOWN[] = {
    {"cuMemAlloc_v2", "op", NONE},
    {"cuMemAllocPitch_v2", "oopp", NONE},
    {"cuMemAllocManaged", "opu", NONE},
    {"cuMemAllocAsync", "opp", NONE},
    {"cuMemAllocFromPoolAsync", "oppp", NONE},
    {"cuMemFree_v2", "p!", OBSERVES},
    {"cuMemFreeAsync", "pp!", NONE},
    {"cuMemMap", "pp", NONE},
    {"cuMemUnmap", "pp!", NONE},
    {"cuMemAllocHost_v2", "op", ALLOCATES},
    {"cuMemHostAlloc", "opu", ALLOCATES},
    {"cuMemFreeHost", "p!", FREES},
    {"cuMemHostRegister_v2", "ppu", REGISTERS},
    {"cuMemHostUnregister", "p!", FREES},
    {"cuMemcpy", "ppp", ANSWERS},
    {"cuMemcpyAsync", "pppp", COPIES},
    {"cuMemcpyHtoD_v2", "ppp", ANSWERS},
    {"cuMemcpyHtoDAsync_v2", "pppp", COPIES},
    {"cuMemcpyDtoH_v2", "ppp", ANSWERS},
    {"cuMemcpyDtoHAsync_v2", "pppp", COPIES},
    {"cuMemcpyDtoD_v2", "ppp", FILLS},
    {"cuMemcpyDtoDAsync_v2", "pppp", FILLS},
    {"cuMemcpyPeerAsync", "pppppp", FILLS},
    {"cuMemcpyBatchAsync", "ppppppppp", BATCHES},
    {"cuMemcpyBatchAsync_v2", "pppppppp", BATCHES},
    {"cuMemcpy3DBatchAsync", "ppppp", BATCHES_3D},
    {"cuMemcpy3DBatchAsync_v2", "pppp", BATCHES_3D},
    {"cuMemcpy2D_v2", "2", OBSERVES},
    {"cuMemcpy2DUnaligned_v2", "2", OBSERVES},
    {"cuMemcpy2DAsync_v2", "2p", COPIES_2D},
    {"cuMemsetD8_v2", "pcp", FILLS},
    {"cuMemsetD8Async", "pcpp", FILLS},
    {"cuMemsetD16_v2", "pcp", FILLS},
    {"cuMemsetD16Async", "pcpp", FILLS},
    {"cuMemsetD32_v2", "pup", FILLS},
    {"cuMemsetD32Async", "pupp", FILLS},
    {"cuMemsetD2D8Async", "ppcppp", FILLS},
    {"cuMemsetD2D16Async", "ppcppp", FILLS},
    {"cuMemsetD2D32Async", "ppuppp", FILLS},
    {"cuLaunchKernel", "puuuuuuupkx", LAUNCHES},
    {"cuLaunchCooperativeKernel", "puuuuuuupk", LAUNCHES},
    {"cuLaunchKernelEx", "lpkx", LAUNCHES},
    {"cuLaunchHostFunc", "pp", CHANNEL},
    {"cuStreamCreate", "ou", NONE},
    {"cuStreamCreateWithPriority", "ouu", NONE},
    {"cuStreamDestroy_v2", "p!", NONE},
    {"cuStreamSynchronize", "p", OBSERVES},
    {"cuStreamQuery", "p", OBSERVES},
    {"cuStreamWaitEvent", "ppu", NONE},
    {"cuEventCreate", "ou", NONE},
    {"cuEventDestroy_v2", "p!", NONE},
    {"cuEventRecord", "pp", NONE},
    {"cuEventRecordWithFlags", "ppu", NONE},
    {"cuEventQuery", "p", OBSERVES},
    {"cuEventSynchronize", "p", OBSERVES},
    {"cuEventElapsedTime", "ppp", OBSERVES},
    {"cuEventElapsedTime_v2", "ppp", OBSERVES},
    {"cuCtxSynchronize", "", OBSERVES},
    {"cuCtxSynchronize_v2", "p", OBSERVES},
    {"cuStreamWaitValue32", "ppuu", NONE},
    {"cuStreamWaitValue32_v2", "ppuu", NONE},
    {"cuStreamWaitValue64", "pppu", NONE},
    {"cuStreamWaitValue64_v2", "pppu", NONE},
    {"cuStreamBatchMemOp", "pup", CHANNEL},
    {"cuStreamBatchMemOp_v2", "pup", CHANNEL},
    {"cuStreamBeginCapture", "p", NONE},
    {"cuStreamBeginCapture_v2", "pu", NONE},
    {"cuStreamBeginCaptureToGraph", "ppden", NONE},
    {"cuStreamEndCapture", "po", NONE},
    {"cuGraphInstantiate", "op", NONE},
    {"cuGraphInstantiate_v2", "op", NONE},
    {"cuGraphInstantiateWithFlags", "op", NONE},
    {"cuGraphInstantiateWithParams", "op", NONE},
    {"cuGraphExecUpdate", "pp", NONE},
    {"cuGraphExecUpdate_v2", "pp", NONE},
    {"cuGraphExecDestroy", "p!", NONE},
    {"cuGraphDestroy", "p!", NONE},
    {"cuGraphLaunch", "pp", CHANNEL},
    {"cuGraphCreate", "o", NONE},
    {"cuGraphClone", "op", NONE},
    {"cuGraphNodeFindInClone", "opp", NONE},
    {"cuGraphAddKernelNode", "opdnK", NONE},
    {"cuGraphAddKernelNode_v2", "opdnK", NONE},
    {"cuGraphAddMemcpyNode", "opdnR", NONE},
    {"cuGraphAddMemsetNode", "opdnM", NONE},
    {"cuGraphAddHostNode", "opdn", NONE},
    {"cuGraphAddEmptyNode", "opdn", NONE},
    {"cuGraphAddChildGraphNode", "opdnp", NONE},
    {"cuGraphAddEventRecordNode", "opdnp", NONE},
    {"cuGraphAddEventWaitNode", "opdnp", NONE},
    {"cuGraphAddExternalSemaphoresSignalNode", "opdn", NONE},
    {"cuGraphAddExternalSemaphoresWaitNode", "opdn", NONE},
    {"cuGraphAddBatchMemOpNode", "opdn", NONE},
    {"cuGraphAddMemAllocNode", "opdnA", NONE},
    {"cuGraphAddMemFreeNode", "opdnp", NONE},
    {"cuGraphAddNode", "opdnN", NONE},
    {"cuGraphAddNode_v2", "opdenN", NONE},
    {"cuGraphDestroyNode", "p!", NONE},
    {"cuGraphAddDependencies", "pddn", NONE},
    {"cuGraphAddDependencies_v2", "pdden", NONE},
    {"cuGraphRemoveDependencies", "pddn", NONE},
    {"cuGraphRemoveDependencies_v2", "pdden", NONE},
    {"cuGraphKernelNodeSetParams", "pK", NONE},
    {"cuGraphKernelNodeSetParams_v2", "pK", NONE},
    {"cuGraphMemcpyNodeSetParams", "pR", NONE},
    {"cuGraphMemsetNodeSetParams", "pM", NONE},
    {"cuGraphEventRecordNodeSetEvent", "pp", NONE},
    {"cuGraphEventWaitNodeSetEvent", "pp", NONE},
    {"cuGraphNodeSetParams", "pN", NONE},
    {"cuGraphExecKernelNodeSetParams", "ppK", NONE},
    {"cuGraphExecKernelNodeSetParams_v2", "ppK", NONE},
    {"cuGraphExecMemcpyNodeSetParams", "ppR", NONE},
    {"cuGraphExecMemsetNodeSetParams", "ppM", NONE},
    {"cuGraphExecChildGraphNodeSetParams", "ppp", NONE},
    {"cuGraphExecEventRecordNodeSetEvent", "ppp", NONE},
    {"cuGraphExecEventWaitNodeSetEvent", "ppp", NONE},
    {"cuGraphExecNodeSetParams", "ppN", NONE},
    {"cuGraphNodeSetEnabled", "ppu", NONE},
    {"cuModuleLoadData", "ot", NONE},
    {"cuModuleLoadDataEx", "ot", NONE},
    {"cuModuleLoadFatBinary", "ot", NONE},
    {"cuLibraryLoadData", "ot", NONE},
};
enum { FUNCTIONS = sizeof KNOWN / sizeof *KNOWN, IDS = 4096, WORDS = 128, FRAMES = 12, SITES = 1 << 16, TEXT = 4096 };

/* What a record is. Each begins with its length in bytes and its kind, and is a multiple of eight bytes long. */
enum { IS_FUNCTION = 1, IS_SITE, IS_CALL, IS_KERNEL, IS_PTX, IS_CONTEXT, IS_HOST_USE, IS_CLOCK, IS_CALL_TIMES, IS_ACTIVITY, IS_DEVICE, IS_RANK };

static struct {
  int file;
  size_t size, used;
  char *map;
  pthread_mutex_t lock;
  int isOpen;
} trace = {.file = -1, .lock = PTHREAD_MUTEX_INITIALIZER};
static const size_t PIECE = 16u << 20;
static size_t mapped; /* where the mapping begins in the file */

/* By CUPTI's number: one more than the index in KNOWN; 0 not seen yet, -1 of no interest. */
static int16_t known[IDS];
static char isDefined[FUNCTIONS];
static __thread int busy;
static __thread uint32_t site;
/* The line of the language that has no stack in memory, such as JavaScript; told by `cuda_streams_site`. */
static __thread uint32_t given;
/* The line of JavaScript that made the thread's latest call. */
static __thread uint32_t latest;
static uint32_t threads;
static __thread uint32_t thread;

static int grow(size_t more) {
  if (trace.map != NULL && trace.used - mapped + more <= PIECE) return 1;
  if (trace.map != NULL) munmap(trace.map, PIECE);
  mapped = trace.used & ~(size_t)4095;
  if (more > PIECE - 4096 || ftruncate(trace.file, (off_t)(mapped + PIECE)) != 0) {
    trace.map = NULL;
    return 0;
  }
  trace.map = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED, trace.file, (off_t)mapped);
  if (trace.map == MAP_FAILED) trace.map = NULL;
  return trace.map != NULL;
}

/* The place for a record of so many bytes; NULL once the file can grow no more. The lock is held. */
static char *record(uint32_t kind, size_t bytes) {
  size_t whole = (bytes + 8 + 7) & ~(size_t)7;
  if (!trace.isOpen || !grow(whole)) {
    trace.isOpen = 0;
    return NULL;
  }
  char *at = trace.map + (trace.used - mapped);
  memcpy(at + 4, &kind, 4);
  uint32_t length = (uint32_t)whole;
  memcpy(at, &length, 4);
  trace.used += whole;
  return at + 8;
}

static void text(uint32_t kind, uint64_t number, const char *bytes, size_t length) {
  char *at = record(kind, 8 + length + 1);
  if (at == NULL) return;
  memcpy(at, &number, 8);
  memcpy(at + 8, bytes, length);
  at[8 + length] = 0;
}

/* ---- Where a call comes from ---------------------------------------------------------------------------------------- */

static struct {
  int (*isInitialized)(void);
  int (*isFinalizing)(void);
  int (*check)(void);
  void *(*thisThread)(void);
  int (*ensure)(void);
  void (*release)(int);
  void *(*frame)(void);
  void *(*back)(void *);
  void *(*code)(void *);
  int (*line)(void *);
  void *(*attribute)(void *, const char *);
  const char *(*utf8)(void *);
  void (*forget)(void *);
} python;

static void *find(const char *name) { return dlsym(RTLD_DEFAULT, name); }

static int hasPython(void) {
  static int state; /* 1: found; the interpreter may be loaded late */
  if (state == 1) return 1;
  *(void **)&python.isInitialized = find("Py_IsInitialized");
  if (python.isInitialized == NULL) return 0;
  *(void **)&python.isFinalizing = find("Py_IsFinalizing");
  if (python.isFinalizing == NULL) *(void **)&python.isFinalizing = find("_Py_IsFinalizing");
  *(void **)&python.check = find("PyGILState_Check");
  *(void **)&python.thisThread = find("PyGILState_GetThisThreadState");
  *(void **)&python.ensure = find("PyGILState_Ensure");
  *(void **)&python.release = find("PyGILState_Release");
  *(void **)&python.frame = find("PyEval_GetFrame");
  *(void **)&python.back = find("PyFrame_GetBack");
  *(void **)&python.code = find("PyFrame_GetCode");
  *(void **)&python.line = find("PyFrame_GetLineNumber");
  *(void **)&python.attribute = find("PyObject_GetAttrString");
  *(void **)&python.utf8 = find("PyUnicode_AsUTF8");
  *(void **)&python.forget = find("Py_DecRef");
  if (python.back == NULL || python.code == NULL || python.utf8 == NULL || python.forget == NULL) return 0;
  state = 1;
  return 1;
}

/* Sites by hash. Number 0 is no site. Full, it gives no new numbers. */
static struct {
  uint64_t hash;
  uint32_t number;
} sites[SITES];
static uint32_t siteCount;

static uint32_t siteOf(uint64_t hash, int *isNew) {
  *isNew = 0;
  for (uint32_t at = (uint32_t)(hash % SITES), tried = 0; tried < SITES; tried++, at = (at + 1) % SITES) {
    if (sites[at].number != 0 && sites[at].hash != hash) continue;
    if (sites[at].number == 0) {
      if (siteCount >= SITES / 2) return 0;
      sites[at].hash = hash;
      sites[at].number = ++siteCount;
      *isNew = 1;
    }
    return sites[at].number;
  }
  return 0;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value;
  hash *= 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

static size_t put(char *text, size_t used, void *object, const char *name) {
  void *value = python.attribute(object, name);
  const char *bytes = value == NULL ? NULL : python.utf8(value);
  used += (size_t)snprintf(text + used, TEXT - used, "%s", bytes == NULL ? "?" : bytes);
  if (value != NULL) python.forget(value);
  return used < TEXT ? used : TEXT - 1;
}

/* Adds a line for the compiled part of a package of Python, as that may have made the call without a frame of Python. */
static size_t putLibrary(char *lines, size_t used) {
  void *addresses[32];
  const int count = backtrace(addresses, 32);
  for (int at = 1; at < count; at++) {
    Dl_info info;
    if (dladdr(addresses[at], &info) == 0 || info.dli_fname == NULL) continue;
    if (strstr(info.dli_fname, "/torch/lib/") == NULL && strstr(info.dli_fname, "/cupy") == NULL) continue;
    used += (size_t)snprintf(lines + used, TEXT - used, "\nat %s (%s:0)", strrchr(info.dli_fname, '/') + 1, info.dli_fname);
    return used < TEXT ? used : TEXT - 1;
  }
  return used;
}

static uint32_t pythonSite(void) {
  void *frames[FRAMES];
  int count = 0;
  uint64_t hash = 1;
  for (void *frame = python.frame(); frame != NULL && count < FRAMES;) {
    void *code = python.code(frame);
    hash = mix(mix(hash, (uint64_t)(uintptr_t)code), (uint64_t)python.line(frame));
    python.forget(code);
    frames[count++] = frame;
    frame = python.back(frame);
    if (frame != NULL && count == FRAMES) python.forget(frame);
  }
  uint32_t number = 0;
  if (count > 0) {
    int isNew;
    pthread_mutex_lock(&trace.lock);
    number = siteOf(hash, &isNew);
    pthread_mutex_unlock(&trace.lock);
    if (isNew) {
      static __thread char lines[TEXT];
      size_t used = 0;
      for (int at = 0; at < count && used < TEXT - 64; at++) {
        void *code = python.code(frames[at]);
        used += (size_t)snprintf(lines + used, TEXT - used, "%sat ", at == 0 ? "" : "\n");
        used = put(lines, used, code, "co_name");
        used += (size_t)snprintf(lines + used, TEXT - used, " (");
        if (used >= TEXT) used = TEXT - 1;
        used = put(lines, used, code, "co_filename");
        used += (size_t)snprintf(lines + used, TEXT - used, ":%d)", python.line(frames[at]));
        if (used >= TEXT) used = TEXT - 1;
        python.forget(code);
      }
      used = putLibrary(lines, used);
      pthread_mutex_lock(&trace.lock);
      text(IS_SITE, number, lines, used);
      pthread_mutex_unlock(&trace.lock);
    }
  }
  /* The first is borrowed. */
  for (int at = 1; at < count; at++) python.forget(frames[at]);
  return number;
}

/* The innermost functions of the program and of libraries that are not CUDA's own. */
static uint32_t nativeSite(void) {
  void *addresses[24];
  int count = backtrace(addresses, 24);
  uint64_t hash = 2;
  for (int at = 0; at < count; at++) hash = mix(hash, (uint64_t)(uintptr_t)addresses[at]);
  int isNew;
  pthread_mutex_lock(&trace.lock);
  uint32_t number = siteOf(hash, &isNew);
  if (isNew) {
    static char lines[TEXT];
    size_t used = 0;
    for (int at = 1; at < count && used < TEXT - 64; at++) {
      Dl_info info;
      if (dladdr(addresses[at], &info) == 0 || info.dli_fname == NULL) continue;
      const char *slash = strrchr(info.dli_fname, '/');
      const char *file = slash == NULL ? info.dli_fname : slash + 1;
      if (strstr(file, "libcuda") || strstr(file, "libcupti") || strstr(file, "injection") || strstr(file, "libc.so"))
        continue;
      unsigned long offset = (unsigned long)((uintptr_t)addresses[at] - (uintptr_t)info.dli_fbase);
      used += (size_t)snprintf(lines + used, TEXT - used, "%sat %s (%s+0x%lx)", used == 0 ? "" : "\n",
                               info.dli_sname == NULL ? "?" : info.dli_sname, file, offset - 1);
      if (used >= TEXT) used = TEXT - 1;
    }
    text(IS_SITE, number, lines, used);
  }
  pthread_mutex_unlock(&trace.lock);
  return number;
}

static uint32_t here(void) {
  if (given != 0) return given;
  if (!hasPython() || !python.isInitialized()) return nativeSite();
  if (python.isFinalizing != NULL && python.isFinalizing()) return 0;
  if (python.check()) return pythonSite();
  /* A thread that Python does not know, such as those of a backward pass, has none of its lines. */
  if (python.thisThread() == NULL) return 0;
  int state = python.ensure();
  uint32_t number = pythonSite();
  python.release(state);
  return number;
}

/* The lines of JavaScript that make the calls of this thread until the next call of this function. NULL: none. */
EXPORT void cuda_streams_site(const char *lines) {
  if (lines == NULL || !trace.isOpen) {
    given = 0;
    return;
  }
  uint64_t hash = 3;
  size_t length = strlen(lines);
  for (size_t at = 0; at < length; at++) hash = mix(hash, (unsigned char)lines[at]);
  int isNew;
  pthread_mutex_lock(&trace.lock);
  given = siteOf(hash, &isNew);
  if (isNew) text(IS_SITE, given, lines, length);
  latest = given;
  pthread_mutex_unlock(&trace.lock);
}

/* ---- Kernels ---------------------------------------------------------------------------------------------------------- */

/* The sizes of a kernel's parameters, of which the words that may be addresses are written. */
enum { KERNELS = 1 << 14, PARAMETERS = 64 };
typedef struct {
  uint64_t handle;
  int count;
  uint16_t sizes[PARAMETERS];
  uint32_t offsets[PARAMETERS];
} Kernel;
static Kernel *kernels[KERNELS];
static struct {
  int (*parameter)(void *, size_t, size_t *, size_t *);
  int (*parameterOfKernel)(void *, size_t, size_t *, size_t *);
  int (*contextDevice)(int *);
  int (*functionName)(const char **, void *);
  int (*kernelName)(const char **, void *);
  int (*deviceAttribute)(int *, int, int);
  int (*deviceName)(char *, int, int);
  char *(*demangle)(const char *, char *, size_t *, int *);
} cuda;

static Kernel *kernelOf(uint64_t handle, const char *name) {
  uint32_t at = (uint32_t)(mix(0, handle) % KERNELS);
  for (uint32_t tried = 0; tried < KERNELS; tried++, at = (at + 1) % KERNELS) {
    if (kernels[at] != NULL && kernels[at]->handle == handle) return kernels[at];
    if (kernels[at] == NULL) break;
  }
  if (kernels[at] != NULL) return NULL;
  Kernel *kernel = calloc(1, sizeof *kernel);
  if (kernel == NULL) return NULL;
  kernel->handle = handle;
  int (*parameter)(void *, size_t, size_t *, size_t *) = cuda.parameter;
  size_t offset, size;
  if (parameter != NULL && parameter((void *)(uintptr_t)handle, 0, &offset, &size) != 0) parameter = cuda.parameterOfKernel;
  while (parameter != NULL && kernel->count < PARAMETERS &&
         parameter((void *)(uintptr_t)handle, (size_t)kernel->count, &offset, &size) == 0) {
    kernel->offsets[kernel->count] = (uint32_t)offset;
    kernel->sizes[kernel->count++] = (uint16_t)(size > 4096 ? 4096 : size);
  }
  kernels[at] = kernel;
  char both[TEXT * 2];
  int status = -1;
  /* A node's parameters have no name. Older drivers than that of CUDA 12.3 do not tell it. */
  if (name == NULL && (cuda.functionName == NULL || cuda.functionName(&name, (void *)(uintptr_t)handle) != 0) &&
      (cuda.kernelName == NULL || cuda.kernelName(&name, (void *)(uintptr_t)handle) != 0))
    name = NULL;
  char *readable = cuda.demangle == NULL || name == NULL ? NULL : cuda.demangle(name, NULL, NULL, &status);
  int length = snprintf(both, sizeof both, "%s\n%s", name == NULL ? "?" : name, status == 0 ? readable : "");
  free(readable);
  text(IS_KERNEL, handle, both, length < (int)sizeof both ? (size_t)length : sizeof both - 1);
  return kernel;
}

static int mayBeAddress(uint64_t word) { return word >= 1u << 20 && word < (uint64_t)1 << 48; }

/* Each word that may be an address, behind its parameter and its place in it. */
static int words(uint64_t *out, int count, const unsigned char *bytes, uint32_t size, uint64_t parameter) {
  for (uint32_t at = 0; at + 8 <= size && count + 2 <= WORDS; at += 8) {
    uint64_t word;
    memcpy(&word, bytes + at, 8);
    if (!mayBeAddress(word)) continue;
    out[count++] = parameter << 32 | at;
    out[count++] = word;
  }
  return count;
}

/* ---- Calls ------------------------------------------------------------------------------------------------------------ */

static size_t aligned(size_t at, size_t size) { return (at + size - 1) & ~(size - 1); }

static void ptx(const char *code) {
  if (code == NULL || (code[0] != '/' && code[0] != '.' && code[0] != '\n' && code[0] != ' ')) return;
  size_t length = strnlen(code, 4u << 20);
  if (strstr(code, ".version") == NULL) return;
  text(IS_PTX, 0, code, length);
}

/* Reads the values of a call, and where its lists are. Returns the number of values. A kernel that was not met before is written. The lock is held. */
static int read_values(int index, const CallbackData *data, uint64_t *values, NodeLists *lists) {
  const char *types = KNOWN[index].types;
  const unsigned char *params = data->functionParams;
  int count = 0;
  size_t at = 0;
  uint64_t function = 0;
  const void *const *arguments = NULL;
  const void *const *extra = NULL;
  NodeKernel node = {0};
  for (; *types != 0 && *types != '!'; types++) {
    if (*types == 'u' || *types == 'c') {
      uint32_t value = 0;
      at = *types == 'u' ? aligned(at, 4) : at;
      memcpy(&value, params + at, *types == 'u' ? 4 : 1);
      values[count++] = value;
      at += *types == 'u' ? 4 : 1;
      continue;
    }
    at = aligned(at, 8);
    uint64_t value;
    memcpy(&value, params + at, 8);
    at += 8;
    const void *pointer = (const void *)(uintptr_t)value;
    switch (*types) {
      case 'o':
        values[count] = 0;
        if (pointer != NULL) memcpy(&values[count], pointer, 8);
        count++;
        break;
      case '2':
        memcpy(&values[count], pointer, 128);
        /* Types of memory, behind which the structure has gaps. */
        values[count + 2] &= UINT32_MAX;
        values[count + 9] &= UINT32_MAX;
        count += 16;
        break;
      case 'l':
        for (int word = 0; word < 7; word++) {
          uint32_t part;
          memcpy(&part, (const char *)pointer + 4 * word, 4);
          values[count++] = part;
        }
        memcpy(&values[count++], (const char *)pointer + 32, 8);
        break;
      case 'k':
        arguments = pointer;
        break;
      case 'x':
        extra = pointer;
        break;
      case 't':
        ptx(pointer);
        break;
      case 'd':
        lists->at[lists->count++] = pointer;
        break;
      case 'n':
        values[count++] = lists->length = value < MOST_OF_LIST ? value : MOST_OF_LIST;
        break;
      case 'e':
        break;
      case 'K':
      case 'R':
      case 'M':
      case 'A':
      case 'N':
        count = node_values(*types, pointer, values, count, &node);
        break;
      default:
        if (function == 0 && strncmp(KNOWN[index].name, "cuLaunchK", 9) == 0) function = value;
        else if (function == 0 && strncmp(KNOWN[index].name, "cuLaunchC", 9) == 0) function = value;
        values[count++] = value;
    }
  }
  const char *name = function == 0 ? NULL : data->symbolName;
  if (node.function != 0) function = node.function, arguments = node.arguments, extra = node.extra;
  if (function != 0) {
    Kernel *kernel = kernelOf(function, name);
    if (kernel != NULL && arguments != NULL) {
      for (int each = 0; each < kernel->count; each++)
        if (arguments[each] != NULL)
          count = words(values, count, arguments[each], kernel->sizes[each], (uint64_t)each);
    } else if (kernel != NULL && extra != NULL) {
      const unsigned char *buffer = NULL;
      size_t size = 0;
      for (; extra[0] != NULL; extra += 2) {
        if ((uintptr_t)extra[0] == 1) buffer = extra[1];
        if ((uintptr_t)extra[0] == 2) memcpy(&size, extra[1], sizeof size);
      }
      for (int each = 0; buffer != NULL && each < kernel->count; each++) {
        if (kernel->offsets[each] + kernel->sizes[each] > size) break;
        count = words(values, count, buffer + kernel->offsets[each], kernel->sizes[each], (uint64_t)each);
      }
    }
  }
  return count;
}

/* The call under way as CUPTI numbers it, also in the records of what it queues; 0 where no times are written. */
static __thread uint32_t correlation;
/* The nanoseconds that this library has taken of the thread since its latest call that was written. */
static __thread uint64_t aside;

/*
 * Writes when the call that follows began and ended. Returns where in the file the time of its end is, which is 0 in a
 * call that is not over. The lock is held.
 */
static uint64_t put_times(uint64_t began, uint64_t ended) {
  char *out = record(IS_CALL_TIMES, 32);
  if (out == NULL) return 0;
  const uint64_t times[4] = {correlation, began, ended, aside};
  memcpy(out, times, sizeof times);
  aside = 0;
  return trace.used - 32 + 16;
}

/* The mapping may be elsewhere in the file by now. */
static void put_end(uint64_t place, uint64_t ended) {
  if (place == 0 || pwrite(trace.file, &ended, sizeof ended, (off_t)place) == (ssize_t)sizeof ended) return;
  trace.isOpen = 0;
}

void trace_activity(const void *from, size_t bytes) {
  pthread_mutex_lock(&trace.lock);
  char *out = record(IS_ACTIVITY, bytes);
  if (out != NULL) memcpy(out, from, bytes);
  pthread_mutex_unlock(&trace.lock);
}

/* Writes a call, with its lists behind its values. The lock is held. */
static void put_call(int index, uint32_t context, const uint64_t *values, int count, NodeLists lists) {
  const size_t own = 8 * (size_t)count, listed = 8 * (size_t)lists.length;
  char *out = record(IS_CALL, 24 + own + listed * (size_t)lists.count);
  if (out == NULL) return;
  uint32_t head[6] = {(uint32_t)index, thread, site, context, (uint32_t)(count + lists.count * (int)lists.length), correlation};
  memcpy(out, head, 24);
  memcpy(out + 24, values, own);
  for (int at = 0; at < lists.count && listed > 0; at++) memcpy(out + 24 + own + listed * (size_t)at, lists.at[at], listed);
}

/* Writes the copies in pieces, each of which has the stream first. The lock is held. */
enum { IN_PIECE = 24 };
static void put_batch(int index, uint32_t context, Batch batch) {
  uint64_t piece[1 + IN_PIECE * OF_COPY] = {batch.stream};
  int used = 1;
  for (uint64_t at = 0; at < batch.count; at++) {
    copyOf(&batch, at, piece + used);
    used += OF_COPY;
    if (used < 1 + IN_PIECE * OF_COPY && at + 1 < batch.count) continue;
    put_call(index, context, piece, used, (NodeLists){0});
    used = 1;
  }
}

static void follow_batch(Batch batch, uint64_t stream) {
  uint64_t copy[OF_COPY];
  for (uint64_t at = 0; at < batch.count; at++) {
    copyOf(&batch, at, copy);
    host_copied(copy[TO], 0, copy[TO_BYTES], stream, site);
    if (copy[ORDER] != DURING_CALL) host_copied(0, copy[FROM], copy[FROM_BYTES], stream, site);
  }
}

/*
 * Twice the place in KNOWN; one more for the name that a call has where a null stream is the calling thread's own. -1: not known.
 */
static int indexOf(const char *name) {
  size_t length = strlen(name);
  int ofThread = 0;
  if (length > 5 && strcmp(name + length - 5, "_ptsz") == 0) {
    length -= 5;
    ofThread = 1;
  } else if (length > 5 && strcmp(name + length - 5, "_ptds") == 0) {
    length -= 5;
    ofThread = 1;
  }
  for (int at = 0; at < (int)FUNCTIONS; at++)
    if (strlen(KNOWN[at].name) == length && strncmp(KNOWN[at].name, name, length) == 0) return at << 1 | ofThread;
  return -1;
}

static void define(int index) {
  if (isDefined[index]) return;
  isDefined[index] = 1;
  text(IS_FUNCTION, (uint64_t)index, KNOWN[index].name, strlen(KNOWN[index].name));
}

/* What a device is, by which it is known how much of it a kernel occupies. Written where times are. */
static void put_device(int device) {
  enum { MULTIPROCESSORS = 16, THREADS_OF_MULTIPROCESSOR = 39 };
  int facts[2] = {0, 0};
  char name[256] = "";
  if (cuda.deviceAttribute == NULL || cuda.deviceName == NULL) return;
  if (cuda.deviceAttribute(&facts[0], MULTIPROCESSORS, device) != 0) return;
  if (cuda.deviceAttribute(&facts[1], THREADS_OF_MULTIPROCESSOR, device) != 0) return;
  if (cuda.deviceName(name, sizeof name, device) != 0) return;
  const size_t length = strnlen(name, sizeof name - 1);
  char *out = record(IS_DEVICE, 12 + length + 1);
  if (out == NULL) return;
  memcpy(out, &device, 4);
  memcpy(out + 4, facts, 8);
  memcpy(out + 12, name, length);
  out[12 + length] = 0;
}

static void contextSeen(uint32_t uid) {
  static uint32_t seen[64];
  static int count;
  for (int at = 0; at < count; at++)
    if (seen[at] == uid) return;
  int device = 0;
  if (cuda.contextDevice == NULL || cuda.contextDevice(&device) != 0 || count == 64) return;
  seen[count++] = uid;
  char *out = record(IS_CONTEXT, 8);
  if (out == NULL) return;
  memcpy(out, &uid, 4);
  memcpy(out + 4, &device, 4);
  if (times_are_on()) put_device(device);
}

/* The handle of a stream that means the same in each function of the driver. */
static uint64_t streamOf(uint64_t stream, int isOfThread) { return stream == 0 && isOfThread ? 2 : stream; }

static void called(void *user, int domain, uint32_t id, const void *info) {
  (void)user;
  const CallbackData *data = info;
  if (domain != DOMAIN_DRIVER || id >= IDS || busy || !trace.isOpen) return;
  int state = known[id];
  if (state == 0) {
    int index = indexOf(data->functionName);
    state = index < 0 ? -1 : index + 1;
    known[id] = (int16_t)state;
  }
  if (state < 0) return;
  busy = 1;
  const uint64_t entered = times_now();
  const int index = (state - 1) >> 1;
  const char *types = KNOWN[index].types;
  const enum Role role = KNOWN[index].role;
  int isBefore = types[0] != 0 && types[strlen(types) - 1] == '!';
  const int begins = data->site == SITE_ENTER;
  if (begins) site = here();
  /* A call that fails does nothing, and a query is asked again and again until it does not. */
  int hasFailed = !begins && data->functionReturnValue != NULL && *(const int *)data->functionReturnValue != 0;
  if (begins) host_look();
  /* What the host did before it learned that work is done is written before the call that told it. */
  else if (role == OBSERVES && !hasFailed) host_called(role, NULL, 0, site);
  uint64_t values[WORDS + 32];
  NodeLists lists = {0};
  if (!begins && role == ANSWERS && !hasFailed) host_called(role, values, read_values(index, data, values, &lists), site);
  if (begins == isBefore && !hasFailed) {
    const uint64_t began = begins ? times_now() : 0;
    pthread_mutex_lock(&trace.lock);
    if (thread == 0) thread = ++threads;
    define(index);
    contextSeen(data->contextUid);
    uint32_t own = thread;
    /* The null stream of a thread: told with the call, by its highest bit. */
    const int isOfThread = (state - 1) & 1;
    if (isOfThread) thread |= 1u << 31;
    if (entered != 0) {
      correlation = data->correlationId;
      /* 0: the call began before it was to be traced. */
      const uint64_t since = *data->correlationData;
      if (!begins) put_times(since == 0 ? entered : since, entered);
      else {
        aside += began - entered;
        *data->correlationData = put_times(began, 0);
      }
    }
    const int count = read_values(index, data, values, &lists);
    const int isBatch = role == BATCHES || role == BATCHES_3D;
    Batch batch = {0};
    if (isBatch) put_batch(index, data->contextUid, batch = batchOf(values, count, role == BATCHES_3D));
    else put_call(index, data->contextUid, values, count, lists);
    thread = own;
    pthread_mutex_unlock(&trace.lock);
    if (isBatch) follow_batch(batch, streamOf(batch.stream, isOfThread));
    else if (role != OBSERVES && role != ANSWERS) {
      uint64_t *stream = role == COPIES ? &values[3] : role == COPIES_2D ? &values[16] : NULL;
      if (stream != NULL) *stream = streamOf(*stream, isOfThread);
      host_called(role, values, count, site);
    }
  }
  if (entered != 0) {
    if (isBefore && !begins) put_end(*data->correlationData, entered);
    const uint64_t left = times_now();
    if (!isBefore && begins) *data->correlationData = left;
    if (!isBefore || !begins) aside += left - entered;
  }
  busy = 0;
}

/* The line is that of a call, after which the host used the memory; beside the bits in host.c. */
enum { AFTER_CALL = 16 };

/* ---- The host --------------------------------------------------------------------------------------------------------- */

int trace_is_busy(void) { return busy; }

uint32_t trace_line(void) {
  const uint32_t found = here();
  return found != 0 ? found : nativeSite();
}

void trace_host_use(uint64_t address, uint64_t bytes, uint32_t uses) {
  const int was = busy;
  busy = 1;
  /* In a callback, the line is that of the call. In JavaScript, which has no stack in memory, it is known behind which call it happens. */
  const uint32_t line = was ? site : latest != 0 ? latest : trace_line();
  if (!was && latest != 0) uses |= AFTER_CALL;
  pthread_mutex_lock(&trace.lock);
  if (thread == 0) thread = ++threads;
  char *out = record(IS_HOST_USE, 32);
  if (out != NULL) {
    memcpy(out, &address, 8);
    memcpy(out + 8, &bytes, 8);
    memcpy(out + 16, &line, 4);
    memcpy(out + 20, &thread, 4);
    memcpy(out + 24, &uses, 4);
  }
  pthread_mutex_unlock(&trace.lock);
  busy = was;
}

static void forked(void) { trace.isOpen = 0; }

static void exiting(void) {
  if (trace.isOpen) times_flush();
}

/* The first moment by CUPTI's clock, and the same since 1970. */
static void put_clock(void) {
  struct timespec since;
  clock_gettime(CLOCK_REALTIME, &since);
  const uint64_t clock[3] = {times_version(), times_now(), (uint64_t)since.tv_sec * 1000000000u + (uint64_t)since.tv_nsec};
  char *out = record(IS_CLOCK, sizeof clock);
  if (out != NULL) memcpy(out, clock, sizeof clock);
}

/* The process's number among those that a launcher has started together: torchrun, Open MPI, MPICH, PMIx, Slurm. */
static void put_rank(void) {
  static const char *const NAMES[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"};
  for (size_t at = 0; at < sizeof NAMES / sizeof *NAMES; at++) {
    const char *text = getenv(NAMES[at]);
    char *end = NULL;
    const unsigned long rank = text == NULL ? 0 : strtoul(text, &end, 10);
    if (end == NULL || end == text || *end != 0 || rank > UINT32_MAX) continue;
    const uint64_t number = rank;
    char *out = record(IS_RANK, sizeof number);
    if (out != NULL) memcpy(out, &number, sizeof number);
    return;
  }
}

static void *openCupti(void) {
  const char *chosen = getenv("CUDA_STREAMS_CUPTI");
  if (chosen != NULL && *chosen != 0) return dlopen(chosen, RTLD_NOW | RTLD_GLOBAL);
  static const char *const NAMES[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so",
                                      "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                                      "/usr/local/cuda/lib64/libcupti.so"};
  for (size_t at = 0; at < sizeof NAMES / sizeof *NAMES; at++) {
    /* One that the process has already is the one to use. */
    void *library = dlopen(NAMES[at], RTLD_NOW | RTLD_NOLOAD);
    if (library != NULL) return library;
  }
  for (size_t at = 0; at < sizeof NAMES / sizeof *NAMES; at++) {
    void *library = dlopen(NAMES[at], RTLD_NOW | RTLD_GLOBAL);
    if (library != NULL) return library;
  }
  return NULL;
}

static int failed(const char *what, int number) {
  fprintf(stderr, "cuda-streams: this process is not traced: %s", what);
  if (number != 0) fprintf(stderr, " (%d)", number);
  fprintf(stderr, "\n");
  return 0;
}

/* Called by the CUDA driver in cuInit. */
EXPORT int InitializeInjection(void) {
  static int isDone;
  const char *path = getenv("CUDA_STREAMS_TRACE");
  if (isDone || path == NULL || *path == 0) return 1;
  isDone = 1;
  char own[4096];
  snprintf(own, sizeof own, "%s/%ld.trace", path, (long)getpid());
  trace.file = open(own, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (trace.file < 0) return failed("its file cannot be made", 0);
  void *library = openCupti();
  if (library == NULL) return failed("libcupti.so is not found; CUDA_STREAMS_CUPTI=path names it", 0);
  int (*subscribe)(void **, Callback, void *);
  int (*enable)(uint32_t, void *, int, uint32_t);
  int (*nameOf)(int, uint32_t, const char **);
  *(void **)&subscribe = dlsym(library, "cuptiSubscribe");
  *(void **)&enable = dlsym(library, "cuptiEnableCallback");
  *(void **)&nameOf = dlsym(library, "cuptiGetCallbackName");
  if (subscribe == NULL || enable == NULL || nameOf == NULL) return failed("this CUPTI lacks cuptiSubscribe", 0);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == NULL) driver = RTLD_DEFAULT;
  *(void **)&cuda.parameter = dlsym(driver, "cuFuncGetParamInfo");
  *(void **)&cuda.parameterOfKernel = dlsym(driver, "cuKernelGetParamInfo");
  *(void **)&cuda.contextDevice = dlsym(driver, "cuCtxGetDevice");
  *(void **)&cuda.functionName = dlsym(driver, "cuFuncGetName");
  *(void **)&cuda.kernelName = dlsym(driver, "cuKernelGetName");
  *(void **)&cuda.deviceAttribute = dlsym(driver, "cuDeviceGetAttribute");
  *(void **)&cuda.deviceName = dlsym(driver, "cuDeviceGetName");
  void *runtime = dlopen("libstdc++.so.6", RTLD_NOW);
  *(void **)&cuda.demangle = runtime == NULL ? NULL : dlsym(runtime, "__cxa_demangle");
  trace.isOpen = 1;
  const char *why = host_begin(getenv("CUDA_STREAMS_TRACE_HOST"), driver);
  if (why != NULL) fprintf(stderr, "cuda-streams: what the host does is not traced: %s\n", why);
  pthread_atfork(NULL, NULL, forked);
  void *subscriber;
  int result = subscribe(&subscriber, called, NULL);
  if (result != 0) return failed("another tool uses CUPTI, a profiler perhaps: cuptiSubscribe", result);
  const char *times = getenv("CUDA_STREAMS_TRACE_TIMES");
  if (times != NULL && strcmp(times, "1") == 0) {
    int number = 0;
    const char *what = times_begin(library, &number);
    if (what != NULL) {
      char text[128];
      snprintf(text, sizeof text, "CUPTI gives no times: %s %s", what, number == 0 ? "is missing" : "failed");
      return failed(text, number);
    }
    put_clock();
    put_rank();
    atexit(exiting);
  }
  /* A call that is not written costs nothing. */
  int count = 0;
  for (uint32_t id = 1; id < IDS; id++) {
    const char *name = NULL;
    if (nameOf(DOMAIN_DRIVER, id, &name) != 0 || name == NULL || indexOf(name) < 0) continue;
    if (enable(1, subscriber, DOMAIN_DRIVER, id) == 0) count++;
  }
  if (count == 0) return failed("CUPTI knows none of the calls", 0);
  return 1;
}

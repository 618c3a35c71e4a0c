/*
 * What the host does with page-locked memory while copies of it are pending. The pages of such a copy lose the permission to be written (its
 * source) or touched (its destination) until the host has learned that the copy is over. Who touches them meanwhile gets a SIGSEGV, whose
 * handler notes the line, gives the permission back and lets the program go on. DMA does not ask for these permissions. Copies that are not
 * watched in this way have samples of their source compared.
 *
 * Whether a copy is over is read from a word of memory that its stream writes behind it: no call of the driver is made in a handler of signals.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "trace.h"

/*
 * How the host used memory, as process-trace.ts reads it: a write, or else a read; once the copy was over, with another way to have
 * learned of it; found by comparing, after it happened; by a call of the system.
 */
enum { WRITES = 1, MAY_KNOW = 2, COMPARED = 4, BY_SYSTEM = 8 };
enum { OFF, SAMPLED, EXACT };
enum { PENDING = 512, LOCKED = 1 << 14, SAMPLES = 32, COUNTED_LINES = 1 << 12, STEPPED_PAGES = 4, AT_ONCE = 4 };
/* The instructions beside one copy that are followed, each of which takes some microseconds. */
enum { MOST_STEPS = 1 << 16, MOST_STEPS_SAMPLED = 1 << 10 };
/* When only some copies are watched: the first of each line, and then one in so many, of at most so many bytes. */
enum { FIRST_OF_LINE = 8, ONE_IN = 64 };
static const size_t MOST_SAMPLED = 64u << 20;

typedef struct {
  uintptr_t start, end;
  /* Bytes between rows are not the copy's. 0: there are no rows. */
  size_t width, pitch;
  int isUsed, isDestination, isWatched, isHashed;
  uint64_t hash, value;
  uint32_t channels, steps;
} Pending;

static int level;
static size_t page;
static atomic_flag guard = ATOMIC_FLAG_INIT;
static Pending pending[PENDING];
/* One more than the highest place in use. */
static int pendingEnd;
static _Atomic int pendingCount, watchedCount;
static struct { uintptr_t start, end; int isReadOnly; } locked[LOCKED];
static int lockedCount;
/* What may have told the host, otherwise than by a call, that work is over. */
static _Atomic uint32_t channels;
/* The words that streams write. */
static volatile uint64_t *marks;
static uint64_t lastValue;
static uint8_t copiesOfLine[COUNTED_LINES];
static uint32_t copies;
static int isPreloaded, hasLostPages;
static struct { uintptr_t start, end; } driverCode;
static struct sigaction before, beforeTrap;
static struct {
  int (*write)(void *, uint64_t, uint64_t, unsigned);
  int (*isCapturing)(void *, int *);
  int (*exchangeMode)(int *);
  int (*registerMemory)(void *, size_t, unsigned);
} cuda;

/*
 * The code between touches no memory of the program's but sources, of which a page may be a destination's, too: then the thread has the
 * guard in the handler.
 */
static __thread int hasGuard;
static void enter(void) {
  while (atomic_flag_test_and_set_explicit(&guard, memory_order_acquire)) continue;
  hasGuard = 1;
}
static void leave(void) {
  hasGuard = 0;
  atomic_flag_clear_explicit(&guard, memory_order_release);
}

/* ---- Permissions ------------------------------------------------------------------------------------------------------ */

static uintptr_t down(uintptr_t at) { return at & ~(page - 1); }
static uintptr_t up(uintptr_t at) { return (at + page - 1) & ~(page - 1); }
static int permissionOf(const Pending *p) { return p->isDestination ? PROT_NONE : PROT_READ; }

/* Gives these pages what the watched copies leave of their permissions. */
static void permit(uintptr_t start, uintptr_t end) {
  mprotect((void *)start, end - start, PROT_READ | PROT_WRITE);
  for (int isDestination = 0; isDestination < 2; isDestination++)
    for (int at = 0; at < pendingEnd; at++) {
      const Pending *p = &pending[at];
      if (!p->isUsed || !p->isWatched || p->isDestination != isDestination) continue;
      const uintptr_t from = down(p->start) > start ? down(p->start) : start, to = up(p->end) < end ? up(p->end) : end;
      if (from < to) mprotect((void *)from, to - from, permissionOf(p));
    }
}

static void unwatch(Pending *p) {
  if (!p->isWatched) return;
  p->isWatched = 0;
  watchedCount--;
  permit(down(p->start), up(p->end));
}

static void drop(Pending *p) {
  unwatch(p);
  p->isUsed = 0;
  pendingCount--;
  while (pendingEnd > 0 && !pending[pendingEnd - 1].isUsed) pendingEnd--;
}

static int has(const Pending *p, uintptr_t from, uintptr_t to) {
  if (from >= p->end || to <= p->start) return 0;
  if (p->pitch == 0 || from < p->start) return 1;
  const size_t inRow = (from - p->start) % p->pitch;
  /* Between two rows, the next one begins so much later. */
  return inRow < p->width || from + (p->pitch - inRow) < to;
}

static int isOver(const Pending *p) { return marks[p - pending] == p->value; }

static uint32_t usesOf(const Pending *p, uint32_t uses) { return isOver(p) && channels != p->channels ? uses | MAY_KNOW : uses; }

/* ---- Samples ---------------------------------------------------------------------------------------------------------- */

static uint64_t hashOf(const Pending *p) {
  const size_t bytes = p->end - p->start, last = bytes < 8 ? 0 : bytes - 8;
  uint64_t hash = bytes;
  if (bytes < 8) {
    for (size_t at = 0; at < bytes; at++) hash = (hash ^ ((const unsigned char *)p->start)[at]) * 0x9e3779b97f4a7c15u;
    return hash;
  }
  const size_t step = last / (SAMPLES - 1) < 8 ? 8 : last / (SAMPLES - 1);
  for (size_t at = 0;; at += step) {
    if (at > last) at = last;
    if (p->pitch == 0 || at % p->pitch + 8 <= p->width) {
      uint64_t word;
      memcpy(&word, (const void *)(p->start + at), 8);
      hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 29;
    }
    if (at == last) return hash;
  }
}

/* Compares sources, and forgets the copies that are over if the host knows that now. Otherwise only some are compared, others the next time. The guard is not held. */
static void compare(int hostKnows) {
  static _Atomic int next;
  int left = hostKnows ? PENDING : AT_ONCE;
  if (pendingCount == 0) return;
  struct { uint64_t start, bytes; uint32_t uses; } found[8];
  int count = 0;
  enter();
  /* The end may come nearer while copies are forgotten. */
  const int end = pendingEnd;
  for (int each = 0; each < end && left > 0; each++) {
    const int at = hostKnows ? end - 1 - each : (next++ & INT32_MAX) % end;
    Pending *p = &pending[at];
    if (!p->isUsed) continue;
    const int ends = hostKnows && isOver(p);
    left -= p->isHashed;
    if (p->isHashed && count < 8 && hashOf(p) != p->hash) {
      found[count].start = p->start;
      found[count].bytes = p->end - p->start;
      found[count++].uses = usesOf(p, WRITES | COMPARED);
      p->isHashed = 0;
    }
    if (ends) drop(p);
  }
  leave();
  for (int at = 0; at < count; at++) trace_host_use(found[at].start, found[at].bytes, found[at].uses);
}

void host_look(void) { compare(0); }

/* ---- Touches ---------------------------------------------------------------------------------------------------------- */

/* Pages that this thread may touch for one instruction. */
#if defined __x86_64__
static __thread struct { uintptr_t pages[STEPPED_PAGES]; int count; } step;
#endif

/* Lets the thread make one instruction. 0 where the machine cannot. */
static int stepOver(ucontext_t *context, Pending *beside, uintptr_t at) {
#if defined __x86_64__
  if (step.count == STEPPED_PAGES || beside->steps++ >= (level == EXACT ? MOST_STEPS : MOST_STEPS_SAMPLED)) return 0;
  step.pages[step.count++] = at;
  mprotect((void *)at, page, PROT_READ | PROT_WRITE);
  context->uc_mcontext.gregs[REG_EFL] |= 0x100;
  return 1;
#else
  return (void)context, (void)beside, (void)at, 0;
#endif
}

static void stepped(int number, siginfo_t *info, void *raw) {
#if defined __x86_64__
  if (step.count > 0) {
    ((ucontext_t *)raw)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
    enter();
    for (; step.count > 0; step.count--) permit(step.pages[step.count - 1], step.pages[step.count - 1] + page);
    leave();
    return;
  }
#endif
  if (beforeTrap.sa_flags & SA_SIGINFO) beforeTrap.sa_sigaction(number, info, raw);
  else if (beforeTrap.sa_handler != SIG_DFL && beforeTrap.sa_handler != SIG_IGN) beforeTrap.sa_handler(number);
  else if (beforeTrap.sa_handler == SIG_DFL) signal(number, SIG_DFL), raise(number);
}

static int writes(const ucontext_t *context) {
#if defined __x86_64__
  return (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  return (void)context, 1;
#endif
}

static uintptr_t instruction(const ucontext_t *context) {
#if defined __x86_64__
  return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#else
  return (void)context, 0;
#endif
}

/* Gives a page back until the next change of a copy that shares it. */
static void open(uintptr_t at) { mprotect((void *)at, page, PROT_READ | PROT_WRITE); }

static int isLocked(uintptr_t at) {
  for (int each = lockedCount - 1; each >= 0; each--)
    if (at >= down(locked[each].start) && at < up(locked[each].end)) return 1;
  return 0;
}

/* Whether the touch was ours to explain. */
static int touched(uintptr_t at, ucontext_t *context) {
  const int isWrite = writes(context);
  const uintptr_t code = instruction(context);
  const int byDriver = (code >= driverCode.start && code < driverCode.end) || trace_is_busy();
  int isOurs = 0, isLost = 0;
  uint32_t uses = 0;
  if (hasGuard) {
    open(down(at));
    return 1;
  }
  enter();
  Pending *hit = NULL, *beside = NULL;
  for (int each = 0; each < pendingEnd; each++) {
    Pending *p = &pending[each];
    if (!p->isUsed || !p->isWatched || at < down(p->start) || at >= up(p->end)) continue;
    isOurs = 1;
    beside = p;
    if (!byDriver && has(p, at, at + 1) && (p->isDestination || isWrite)) hit = p;
  }
  if (hit != NULL) {
    uses = usesOf(hit, isWrite ? WRITES : 0);
    hit->isHashed = 0;
    unwatch(hit);
  } else if (isOurs && byDriver) {
    open(down(at));
  } else if (isOurs && !stepOver(context, beside, down(at))) {
    open(down(at));
    isLost = !hasLostPages;
    hasLostPages = 1;
  } else if (!isOurs) {
    /* Another thread may have given the permission back since. */
    static __thread struct { uintptr_t at, code; int count; } again;
    again.count = again.at == at && again.code == code ? again.count + 1 : 0;
    again.at = at;
    again.code = code;
    isOurs = isLocked(at) && again.count < 100;
  }
  leave();
  if (hit != NULL) trace_host_use(at, 1, uses);
  static const char LOST[] = "cuda-streams: the host uses memory beside pending copies so often that it is not followed there any more\n";
  if (isLost && write(2, LOST, sizeof LOST - 1) < 0) return isOurs;
  return isOurs;
}

static void faulted(int number, siginfo_t *info, void *raw) {
  const int error = errno;
  if (info->si_code == SEGV_ACCERR && touched((uintptr_t)info->si_addr, raw)) {
    errno = error;
    return;
  }
  errno = error;
  /* Handlers that hand a signal to each other would do so for ever. */
  static __thread int unknown;
  if (unknown++ > 3) signal(number, SIG_DFL);
  else if (before.sa_flags & SA_SIGINFO) before.sa_sigaction(number, info, raw);
  else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) signal(number, SIG_DFL);
  else before.sa_handler(number);
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *), struct sigaction *old) {
  struct sigaction now;
  if (sigaction(number, NULL, &now) != 0 || ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handler)) return;
  *old = now;
  struct sigaction ours = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigemptyset(&ours.sa_mask);
  sigaction(number, &ours, NULL);
}

/* ---- Calls of the driver ---------------------------------------------------------------------------------------------- */

/* Memory for the marks that lives as long as the process, whatever becomes of contexts. The guard is not held. */
static void makeMarks(void) {
  const size_t bytes = up(PENDING * sizeof *marks);
  int relaxed = 2;
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || cuda.exchangeMode(&relaxed) != 0) return;
  if (cuda.registerMemory(memory, bytes, 1) == 0) marks = memory;
  cuda.exchangeMode(&relaxed);
}

static int wants(size_t bytes, uint32_t site) {
  if (level == EXACT) return isPreloaded;
  if (!isPreloaded || bytes > MOST_SAMPLED) return 0;
  uint8_t *count = &copiesOfLine[site % COUNTED_LINES];
  if (*count < FIRST_OF_LINE) return ++*count;
  return ++copies % ONE_IN == 0;
}

/* Something else than the host writes here: what is compared there says nothing of the host. The guard is held. */
static void unhash(uintptr_t start, uintptr_t end) {
  for (int at = 0; at < pendingEnd; at++)
    if (pending[at].isUsed && pending[at].start < end && pending[at].end > start) pending[at].isHashed = 0;
}

/* The place of the page-locked allocation that has this address; -1: none has. */
static int lockedAt(uintptr_t address) {
  for (int at = lockedCount - 1; at >= 0; at--)
    if (address >= locked[at].start && address < locked[at].end) return at;
  return -1;
}

/* The same for a whole allocation, of which it is not known which bytes are written. */
static void unhashAround(uintptr_t address) {
  if (pendingCount == 0) return;
  enter();
  const int at = lockedAt(address);
  if (at >= 0) unhash(locked[at].start, locked[at].end);
  leave();
}

static void unhashAll(void) {
  enter();
  unhash(0, UINTPTR_MAX);
  leave();
}

static void add(uint64_t start, size_t bytes, size_t width, size_t pitch, int isDestination, uint64_t stream, uint32_t site) {
  if (bytes == 0 || marks == NULL) return;
  enter();
  const int within = lockedAt(start);
  const int isPinned = within >= 0 && start + bytes <= locked[within].end && !locked[within].isReadOnly;
  int at = 0;
  while (isPinned && at < PENDING && pending[at].isUsed) at++;
  if (isPinned && isDestination) unhash(start, start + bytes);
  if (!isPinned || at == PENDING) {
    leave();
    return;
  }
  Pending *p = &pending[at];
  *p = (Pending){start, start + bytes, width, pitch, 1, isDestination, 0, 0, 0, ++lastValue, channels, 0};
  p->isHashed = !isDestination;
  if (p->isHashed) p->hash = hashOf(p);
  pendingCount++;
  if (pendingEnd <= at) pendingEnd = at + 1;
  leave();
  /* The driver has locks of its own, and is not called with the guard. */
  if (cuda.write((void *)(uintptr_t)stream, (uint64_t)(uintptr_t)&marks[at], p->value, 0) != 0) {
    enter();
    drop(p);
    leave();
    return;
  }
  if (!wants(bytes, site)) return;
  handle(SIGSEGV, faulted, &before);
  handle(SIGTRAP, stepped, &beforeTrap);
  enter();
  /* By now the copy may be over, and another thread may know. */
  if (p->isUsed && p->end == start + bytes) {
    p->isWatched = 1;
    watchedCount++;
    permit(down(p->start), up(p->end));
  }
  leave();
}

static int isCaptured(uint64_t stream) {
  int status = 0;
  return cuda.isCapturing((void *)(uintptr_t)stream, &status) != 0 || status != 0;
}

void host_copied(uint64_t to, uint64_t from, uint64_t bytes, uint64_t stream, uint32_t site) {
  /* The driver is asked only for copies of page-locked memory. */
  if ((lockedAt(from) < 0 && lockedAt(to) < 0) || isCaptured(stream)) return;
  add(from, bytes, 0, 0, 0, stream, site);
  add(to, bytes, 0, 0, 1, stream, site);
}

/* The places of a CUDA_MEMCPY2D's fields among its words. */
enum { FROM_X, FROM_Y, FROM_TYPE, FROM_HOST, FROM_DEVICE, FROM_PITCH = 6, TO_X, TO_Y, TO_TYPE, TO_HOST, TO_DEVICE, TO_PITCH = 13, WIDTH, HEIGHT };
enum { ON_HOST = 1, IN_ARRAY = 3 };

static void copiedRows(const uint64_t *v, uint64_t stream, uint32_t site) {
  const size_t width = v[WIDTH], height = v[HEIGHT];
  if (width == 0 || height == 0) return;
  for (int side = 0; side < 2; side++) {
    const uint64_t *field = v + (side == 0 ? 0 : TO_X);
    if (field[FROM_TYPE] == IN_ARRAY) continue;
    const size_t pitch = field[FROM_PITCH] == 0 ? width : field[FROM_PITCH];
    const uint64_t start = field[field[FROM_TYPE] == ON_HOST ? FROM_HOST : FROM_DEVICE] + field[FROM_Y] * pitch + field[FROM_X];
    if (lockedAt(start) < 0 || isCaptured(stream)) continue;
    add(start, (height - 1) * pitch + width, width, pitch == width ? 0 : pitch, side, stream, site);
  }
}

static void allocated(uint64_t start, uint64_t bytes, int isReadOnly) {
  if (marks == NULL) makeMarks();
  enter();
  if (lockedCount < LOCKED && start != 0) {
    locked[lockedCount].start = start;
    locked[lockedCount].end = start + bytes;
    locked[lockedCount++].isReadOnly = isReadOnly;
  }
  leave();
}

/* The call waits for the device itself. */
static void freed(uint64_t start) {
  compare(1);
  enter();
  for (int at = 0; at < lockedCount; at++) {
    if (locked[at].start != start) continue;
    for (int each = pendingEnd - 1; each >= 0; each--)
      if (pending[each].isUsed && pending[each].start >= locked[at].start && pending[each].end <= locked[at].end) drop(&pending[each]);
    locked[at] = locked[--lockedCount];
    break;
  }
  leave();
}

static void launched(const uint64_t *values, int count) {
  /* Behind the head: a place, and a word that may be an address. */
  for (int at = 10; at < count; at += 2)
    if (lockedAt(values[at]) >= 0) {
      channels++;
      unhashAround(values[at]);
    }
}

void host_called(enum Role role, const uint64_t *values, int count, uint32_t site) {
  if (level == OFF) return;
  switch (role) {
    case COPIES: host_copied(values[0], values[1], values[2], values[3], site); break;
    case COPIES_2D: copiedRows(values, values[16], site); break;
    case ALLOCATES: allocated(values[0], values[1], 0); break;
    case REGISTERS: allocated(values[0], values[1], (values[2] & 8) != 0); break;
    case FREES: freed(values[0]); break;
    case OBSERVES: compare(1); break;
    case ANSWERS:
      unhashAround(values[0]);
      compare(1);
      break;
    case FILLS: unhashAround(values[0]); break;
    /* A graph, or a host function, may write anywhere. */
    case CHANNEL:
      channels++;
      unhashAll();
      break;
    case LAUNCHES: launched(values, count); break;
    default: break;
  }
}

/* ---- Calls of the system ---------------------------------------------------------------------------------------------- */

void host_used(const void *bytes, size_t length, int isWrite) {
  if (watchedCount == 0 || length == 0 || trace_is_busy()) return;
  const uintptr_t start = (uintptr_t)bytes, end = start + length;
  struct { uint64_t start, bytes; uint32_t uses; } found = {0, 0, 0};
  enter();
  for (int at = 0; at < pendingEnd; at++) {
    Pending *p = &pending[at];
    if (!p->isUsed || !p->isWatched || down(p->start) >= end || up(p->end) <= start) continue;
    if (has(p, start, end) && (p->isDestination || isWrite)) {
      found.start = start > p->start ? start : p->start;
      found.bytes = (end < p->end ? end : p->end) - found.start;
      found.uses = usesOf(p, BY_SYSTEM | (isWrite ? WRITES : 0));
      p->isHashed = 0;
      unwatch(p);
    } else if (p->isDestination || isWrite) {
      const uintptr_t from = down(p->start) > down(start) ? down(p->start) : down(start), to = up(p->end) < up(end) ? up(p->end) : up(end);
      mprotect((void *)from, to - from, PROT_READ | PROT_WRITE);
    }
  }
  leave();
  if (found.bytes > 0) trace_host_use(found.start, found.bytes, found.uses);
}

/* ---- Beginning and end ------------------------------------------------------------------------------------------------ */

static void giveAllBack(void) {
  enter();
  for (int at = pendingEnd - 1; at >= 0; at--)
    if (pending[at].isUsed) drop(&pending[at]);
  leave();
}

static void forkBegins(void) { enter(); }
static void forkEnded(void) { leave(); }
static void forkEndedInChild(void) {
  leave();
  giveAllBack();
  level = OFF;
}
static void ended(void) {
  level = OFF;
  giveAllBack();
}

static int findCode(struct dl_phdr_info *info, size_t size, void *name) {
  (void)size;
  if (info->dlpi_name == NULL || strstr(info->dlpi_name, (const char *)name) == NULL) return 0;
  for (int at = 0; at < info->dlpi_phnum; at++) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[at];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_X)) continue;
    driverCode.start = info->dlpi_addr + part->p_vaddr;
    driverCode.end = driverCode.start + part->p_memsz;
  }
  return 1;
}

const char *host_begin(const char *wanted, void *driver) {
  if (wanted == NULL || *wanted == 0 || strcmp(wanted, "off") == 0) return NULL;
  *(void **)&cuda.write = dlsym(driver, "cuStreamWriteValue64_v2");
  *(void **)&cuda.isCapturing = dlsym(driver, "cuStreamIsCapturing");
  *(void **)&cuda.exchangeMode = dlsym(driver, "cuThreadExchangeStreamCaptureMode");
  *(void **)&cuda.registerMemory = dlsym(driver, "cuMemHostRegister_v2");
  if (cuda.write == NULL || cuda.isCapturing == NULL || cuda.exchangeMode == NULL || cuda.registerMemory == NULL)
    return "the driver has no cuStreamWriteValue64";
  page = (size_t)sysconf(_SC_PAGESIZE);
  isPreloaded = host_is_preloaded();
  const int isExact = strcmp(wanted, "exact") == 0;
  if (isExact && !isPreloaded) return "LD_PRELOAD does not name this library";
  dl_iterate_phdr(findCode, (void *)(uintptr_t) "libcuda.so");
  pthread_atfork(forkBegins, forkEnded, forkEndedInChild);
  atexit(ended);
  /* The first of these allocates, which a handler must not. */
  trace_line();
  level = isExact ? EXACT : SAMPLED;
  return NULL;
}

/* The system is Linux, with glibc or musl. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "../system.h"

static const int64_t SECOND = 1000000000;

int spawn(Thread *thread, void *(*function)(void *), void *argument, size_t stack_bytes) {
  pthread_attr_t attributes;
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = pthread_create(thread, &attributes, function, argument);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error;
}

void join(Thread thread) { pthread_join(thread, NULL); }

void let_run(Thread thread) { pthread_detach(thread); }

Word thread_number(void) { return (Word)pthread_self(); }

int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * SECOND + time.tv_nsec;
}

void sleep_for(int64_t nanoseconds) {
  struct timespec time = {nanoseconds / SECOND, nanoseconds % SECOND};
  nanosleep(&time, NULL);
}

/**
 * Sets the slack of the thread's timers to none. Otherwise the system may let a thread sleep 50 microseconds longer than it asked
 * for.
 */
void sleep_precisely(void) { prctl(PR_SET_TIMERSLACK, 1); }

void let_others(void) { sched_yield(); }

int cores(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

bool alarm_make(Alarm *alarm) {
  pthread_condattr_t monotonic;
  pthread_mutex_init(&alarm->mutex, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&alarm->rung, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return true;
}

void alarm_sleep(Alarm *alarm, int64_t until) {
  struct timespec time = {until / SECOND, until % SECOND};
  if (until == INT64_MAX) pthread_cond_wait(&alarm->rung, &alarm->mutex);
  else pthread_cond_timedwait(&alarm->rung, &alarm->mutex, &time);
}

void at_end(void (*function)(void)) { atexit(function); }

int process_number(void) { return getpid(); }

void write_error(const char *text, size_t length) {
  if (write(STDERR_FILENO, text, length) < 0) return;
}

/** The first copy that runs this makes its own symbols visible to all libraries, so that every copy finds its symbol. */
void *first_of_process(const char *name, void *own) {
  void *program = dlopen(NULL, RTLD_LAZY), *found = dlsym(program, name);
  Dl_info self;
  if (found == NULL && dladdr(own, &self) != 0) {
    dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL | RTLD_NODELETE);
    // Another copy may have done so meanwhile.
    found = dlsym(program, name);
  }
  return found == NULL ? own : found;
}

/** The kernel copies by way of a pipe: a system call that no container forbids. */
static int read_by_pipe(const void *from, void *to, size_t length) {
  int ends[2];
  if (length > 4096 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return 0;
  // By its number: the C library's write() is looked at by AddressSanitizer, which would read the memory itself.
  int done = syscall(SYS_write, ends[1], from, length) == (ssize_t)length && read(ends[0], to, length) == (ssize_t)length;
  close(ends[0]);
  close(ends[1]);
  return done;
}

static _Atomic(pid_t) own_process;

static void forget_process(void) { own_process = 0; }

/** The number of this process, which is kept, since it takes a system call. */
static pid_t this_process(void) {
  static _Atomic(bool) is_watched;
  if (own_process == 0) {
    if (!atomic_exchange(&is_watched, true)) pthread_atfork(NULL, NULL, forget_process);
    own_process = getpid();
  }
  return own_process;
}

/** The kernel copies, which returns an error where a program would crash. */
static int read_by_kernel(void *from, void *to, size_t length) {
  static _Atomic(bool) is_forbidden;
  struct iovec into = {to, length}, source = {from, length};
  if (!is_forbidden) {
    if (process_vm_readv(this_process(), &into, 1, &source, 1, 0) == (ssize_t)length) return 1;
    // Some containers forbid the call: with EPERM, or as one that does not exist.
    if (errno != EPERM && errno != ENOSYS) return 0;
    is_forbidden = true;
  }
  return read_by_pipe(from, to, length);
}

/**
 * Reads memory that may not be there, always by the kernel: what is mapped when this looks may be unmapped when it copies, as by
 * another thread that trims the heap.
 */
int read_memory(Word from, Word to, Word length) {
  return read_by_kernel((void *)(uintptr_t)from, (void *)(uintptr_t)to, length);
}

int large_pages(Word address, Word length) {
  const Word page = 2 * 1024 * 1024, begin = (address + page - 1) & ~(page - 1), end = (address + length) & ~(page - 1);
  return end > begin ? madvise((void *)(uintptr_t)begin, end - begin, MADV_HUGEPAGE) : 0;
}

Word map_file(Word file, Word length) {
  void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, (int)file, 0);
  return at == MAP_FAILED ? 0 : (Word)(uintptr_t)at;
}

int unmap(Word address, Word length) { return munmap((void *)(uintptr_t)address, length); }

void *open_file(const char *path, const char **why) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == NULL) *why = dlerror();
  return library;
}

void *find_symbol(void *library, const char *name) { return dlsym(library == NULL ? RTLD_DEFAULT : library, name); }

bool file_at(const void *address, char *path, size_t room) {
  Dl_info found;
  char *whole = dladdr(address, &found) == 0 ? NULL : realpath(found.dli_fname, NULL);
  bool fits = whole != NULL && strlen(whole) < room;
  if (fits) strcpy(path, whole);
  free(whole);
  return fits;
}

int lend_symbols(Word path) {
  return dlopen((const char *)(uintptr_t)path, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL | RTLD_NODELETE) == NULL;
}

int set_variable(Word name, Word value) {
  return setenv((const char *)(uintptr_t)name, (const char *)(uintptr_t)value, 0);
}

/*
 * Node ends a process on SIGINT and SIGTERM by handlers that run once: they raise the signal again, and then it kills. NVRTC 13.0
 * saves the handlers while it compiles and puts them back by signal(), which forgets that they run once: from then on the signal is
 * raised again and again, and nothing but SIGKILL ends the process.
 */
static const int ENDING[] = {SIGINT, SIGTERM};
static struct sigaction noted[2];
static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;

/** Notes which of the two signals have such handlers, before NVRTC is used. */
int note_signals(void) {
  pthread_mutex_lock(&noting);
  for (int i = 0; i < 2; i++) {
    struct sigaction now;
    if (sigaction(ENDING[i], NULL, &now) == 0 && (now.sa_flags & (int)SA_RESETHAND) != 0) noted[i] = now;
  }
  pthread_mutex_unlock(&noting);
  return 0;
}

/**
 * Sets handlers again after each compilation: one that was noted, and no longer runs once. Another handler is the program's own.
 */
int restore_signals(void) {
  pthread_mutex_lock(&noting);
  for (int i = 0; i < 2; i++) {
    struct sigaction now;
    if ((noted[i].sa_flags & (int)SA_RESETHAND) == 0 || sigaction(ENDING[i], NULL, &now) != 0) continue;
    if ((now.sa_flags & (int)SA_RESETHAND) != 0 || now.sa_handler != noted[i].sa_handler) continue;
    now.sa_flags |= (int)SA_RESETHAND;
    sigaction(ENDING[i], &now, NULL);
  }
  pthread_mutex_unlock(&noting);
  return 0;
}


/* What the threads of the process have in common, and threads for what would block one of JavaScript. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include "threads.h"

int spawn(pthread_t *thread, void *(*function)(void *), void *argument, size_t stack_bytes) {
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

/*
 * The table of threads: one for the process, though a process may have loaded several copies of this file. The number in its name changes
 * whenever the struct does, so that copies of different versions do not share one.
 */
#define TABLE cuda_streams_threads_1
#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)
EXPORT Table TABLE;

static Table *shared;

/** The first copy that looks makes its own symbols visible to all libraries, and so its table is the one that every copy finds. */
static void find_table(void) {
  void *program = dlopen(NULL, RTLD_LAZY);
  Dl_info self;
  shared = dlsym(program, NAME_OF(TABLE));
  if (shared == NULL && dladdr((void *)find_table, &self) != 0) {
    dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL | RTLD_NODELETE);
    // Anew: another copy may have done so meanwhile.
    shared = dlsym(program, NAME_OF(TABLE));
  }
  if (shared == NULL) shared = &TABLE;
}

Table *thread_table(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_table);
  return shared;
}

static Word table_address(void) { return (Word)(uintptr_t)thread_table(); }

/** The number that CUPTI has for this thread. */
static Word thread_number(void) { return (Word)pthread_self(); }

/** A thread that blocks rests for so many microseconds. */
static int nap(Word microseconds) {
  struct timespec time = {(time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000};
  return nanosleep(&time, NULL);
}

/** A call on a thread of its own, as src/driver/cuda/libcuda/native-thread.ts writes it down. */
typedef struct {
  int (*function)(Word, Word, Word);
  Word arguments[3];
  int result;
  _Atomic(int) is_done;
} Apart;

/** NVRTC calls itself deeply. */
static const size_t APART_STACK = 16 * 1024 * 1024;

static void *make_apart(void *data) {
  Apart *call = data;
  call->result = call->function(call->arguments[0], call->arguments[1], call->arguments[2]);
  atomic_store(&call->is_done, 1);
  return NULL;
}

/** Begins the call, whose memory must stay until it is done. Returns an errno. */
static int call_apart(Apart *call) {
  pthread_t thread;
  int error = spawn(&thread, make_apart, call, APART_STACK);
  if (error == 0) pthread_detach(thread);
  return error;
}

const OwnFunction thread_functions[] = {{"threadTable", table_address}, {"threadNumber", thread_number}, {"nap", nap},
                                        {"callApart", call_apart},      {NULL, NULL}};

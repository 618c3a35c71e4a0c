/* The registry that the threads of the process share, and threads for calls that would block a thread of JavaScript. */
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
 * The process has one registry, although it may have loaded several copies of this file. The number in its name changes whenever the struct
 * does, so that copies of different versions do not share one.
 */
#define REGISTRY cuda_streams_threads_1
#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)
EXPORT Registry REGISTRY;

static Registry *shared;

/** The first copy that runs this makes its own symbols visible to all libraries, so that every copy finds its registry. */
static void find_registry(void) {
  void *program = dlopen(NULL, RTLD_LAZY);
  Dl_info self;
  shared = dlsym(program, NAME_OF(REGISTRY));
  if (shared == NULL && dladdr((void *)find_registry, &self) != 0) {
    dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL | RTLD_NODELETE);
    // Another copy may have done so meanwhile.
    shared = dlsym(program, NAME_OF(REGISTRY));
  }
  if (shared == NULL) shared = &REGISTRY;
}

Registry *process_registry(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_registry);
  return shared;
}

static Word registry_address(void) { return (Word)(uintptr_t)process_registry(); }

/** The number that CUPTI has for this thread. */
static Word thread_number(void) { return (Word)pthread_self(); }

/** Lets a blocked thread sleep for so many microseconds. */
static int nap(Word microseconds) {
  struct timespec time = {(time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000};
  return nanosleep(&time, NULL);
}

/** A call on a thread of its own, as src/native/native-thread.ts writes it. */
typedef struct {
  int (*function)(Word, Word, Word);
  Word arguments[3];
  int result;
  _Atomic(int) is_done;
} ThreadCall;

/** NVRTC calls itself deeply. */
static const size_t CALL_STACK = 16 * 1024 * 1024;

static void *make_call(void *data) {
  ThreadCall *call = data;
  call->result = call->function(call->arguments[0], call->arguments[1], call->arguments[2]);
  atomic_store(&call->is_done, 1);
  return NULL;
}

/** Begins the call, whose memory must stay until `is_done` is set. Returns an errno. */
static int call_on_thread(ThreadCall *call) {
  pthread_t thread;
  int error = spawn(&thread, make_call, call, CALL_STACK);
  if (error == 0) pthread_detach(thread);
  return error;
}

/** A call of up to eight words that returns an address, as src/libraries/onnx/onnx-library.ts writes it. */
typedef struct {
  Word (*function)(Word, Word, Word, Word, Word, Word, Word, Word);
  Word arguments[8];
  Word result;
} AddressCall;

/** Makes the call. A thread of its own calls functions of few words that return an int, and this is one. */
static int call_for_address(AddressCall *call) {
  const Word *a = call->arguments;
  call->result = call->function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
  return 0;
}

/** Calls of C, each in its context, as src/native/native-thread.ts writes them. */
typedef struct {
  /** cuCtxSetCurrent, or NULL. */
  int (*set_context)(Word);
  Word count;
  struct {
    Word context;
    int (*function)(Word, Word, Word, Word, Word, Word, Word, Word);
    Word arguments[8];
  } calls[];
} CallList;

/** Makes them in turn, until one is refused. The last is made all the same: it may end what the first began. Returns the first refusal. */
static int call_in_turn(CallList *list) {
  int result = 0;
  for (Word i = 0; i < list->count; i++) {
    const Word *a = list->calls[i].arguments;
    if (result != 0 && i + 1 < list->count) continue;
    if (list->set_context != NULL) list->set_context(list->calls[i].context);
    int status = list->calls[i].function(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
    if (result == 0) result = status;
  }
  return result;
}

/** Calls a function of one argument while no other thread is in here: for what a process may do only once at a time. */
static int call_alone(int (*function)(Word), Word argument) {
  static pthread_mutex_t alone = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&alone);
  int result = function(argument);
  pthread_mutex_unlock(&alone);
  return result;
}

const OwnFunction thread_functions[] = {{"processRegistry", registry_address}, {"threadNumber", thread_number}, {"nap", nap},
                                        {"callOnThread", call_on_thread},      {"callAlone", call_alone},       {"callForAddress", call_for_address},
                                        {"callInTurn", call_in_turn},
                                        {NULL, NULL}};

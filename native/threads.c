/* The registry that the threads of the process share, and threads for calls that would block a thread of JavaScript. */
#include <stdatomic.h>
#include <string.h>
#include "threads.h"

/*
 * The process has one registry, although it may have loaded several copies of this file. The number in its name changes whenever the struct
 * does, so that copies of different versions do not share one.
 */
#define REGISTRY cuda_streams_threads_1
#define TEXT_OF(name) #name
#define NAME_OF(name) TEXT_OF(name)
EXPORT Registry REGISTRY;

static Registry *shared;

static void find_registry(void) { shared = first_of_process(NAME_OF(REGISTRY), &REGISTRY); }

Registry *process_registry(void) {
  static Once finding = ONCE_INITIALIZER;
  once(&finding, find_registry);
  return shared;
}

/** The thread that had the slot before may have left a lock with it, and captures, which are not those of the thread that has it now. */
static void take_over(int32_t number) {
  _Atomic(int32_t) *locks[] = {&shared->exclusive, &shared->capturing, &shared->making_streams};
  for (int i = 0; i < 3; i++) {
    int32_t holder = number;
    atomic_compare_exchange_strong(locks[i], &holder, 0);
  }
  for (int i = 0; i < shared->captures.used; i++) {
    int32_t ended = number, wrapped = -number;
    atomic_compare_exchange_strong(&shared->captures.threads[i], &ended, INT32_MAX);
    atomic_compare_exchange_strong(&shared->captures.threads[i], &wrapped, -INT32_MAX);
  }
}

int32_t slot_for(int32_t owner) {
  Registry *registry = process_registry();
  for (int32_t slot = 0; slot < SLOTS; slot++) {
    int32_t nobody = 0;
    Slot *taken = &registry->slots[slot];
    if (!atomic_compare_exchange_strong(&taken->owner, &nobody, owner)) continue;
    memset((char *)taken + sizeof(taken->owner), 0, sizeof(Slot) - sizeof(taken->owner));
    take_over(slot + 1);
    int32_t most = registry->slots_used;
    while (most <= slot && !atomic_compare_exchange_weak(&registry->slots_used, &most, slot + 1)) continue;
    return slot + 1;
  }
  return 0;
}

static int take_slot(Word owner) { return slot_for((int32_t)owner); }

static Word registry_address(void) { return (Word)(uintptr_t)process_registry(); }

/** Lets a blocked thread sleep for so many microseconds. */
static int nap(Word microseconds) {
  sleep_for((int64_t)microseconds * 1000);
  return 0;
}

/** A call on a thread of its own, as src/foundation/native/native-thread.ts writes it. */
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

/** Begins the call, whose memory must stay until `is_done` is set. Returns 0, or an error of the system. */
static int call_on_thread(ThreadCall *call) {
  Thread thread;
  int error = spawn(&thread, make_call, call, CALL_STACK);
  if (error == 0) let_run(thread);
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

/** Calls of C, each in its context, as src/foundation/native/native-thread.ts writes them. */
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
  static Mutex alone = MUTEX_INITIALIZER;
  lock(&alone);
  int result = function(argument);
  unlock(&alone);
  return result;
}

const OwnFunction thread_functions[] = {{"processRegistry", registry_address}, {"threadNumber", thread_number}, {"nap", nap},
                                        {"callOnThread", call_on_thread},      {"callAlone", call_alone},       {"callForAddress", call_for_address},
                                        {"callInTurn", call_in_turn},          {"takeSlot", take_slot},
                                        {NULL, NULL}};

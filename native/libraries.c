/* Shared libraries: loading them, and the C functions that those of NVIDIA and others call, or need before or after their calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "layer.h"

enum { MOST_PATH = 4096, MOST_NAME = 256 };

/** open(path): loads a library for good, since its threads may run in it. Throws an Error with what the loader says. */
static napi_value open_library(napi_env env, napi_callback_info info) {
  napi_value given = NULL, made = NULL;
  char path[MOST_PATH];
  size_t length = 0;
  if (!arguments(env, info, 1, &given)) return NULL;
  if (napi_get_value_string_utf8(env, given, path, sizeof(path), &length) != 0) return fail(env, "A path is text");
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == NULL) return fail(env, dlerror());
  napi_create_double(env, (double)(uintptr_t)library, &made);
  return made;
}

/** symbol(library, name): an address, or 0. Library 0 is all that the program itself and what it began with have. */
static napi_value symbol(napi_env env, napi_callback_info info) {
  napi_value given[2], made = NULL;
  char name[MOST_NAME];
  size_t length = 0;
  if (!arguments(env, info, 2, given)) return NULL;
  if (napi_get_value_string_utf8(env, given[1], name, sizeof(name), &length) != 0) return fail(env, "A name is text");
  Word library = word_of(env, given[0]);
  void *found = dlsym(library == 0 ? RTLD_DEFAULT : (void *)(uintptr_t)library, name);
  napi_create_double(env, (double)(uintptr_t)found, &made);
  return made;
}

/** Makes the symbols of a library that is loaded visible to those that are loaded later. Returns 0, or 1 if it is not loaded. */
static int lend_symbols(Word path) {
  return dlopen((const char *)(uintptr_t)path, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL | RTLD_NODELETE) == NULL;
}

/** Sets a variable of the environment for C, which does not see the process.env of a worker. One that is set is kept. */
static int set_variable(Word name, Word value) {
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

/** Before NVRTC is used: notes which of the two signals have such handlers. */
static int note_signals(void) {
  pthread_mutex_lock(&noting);
  for (int i = 0; i < 2; i++) {
    struct sigaction now;
    if (sigaction(ENDING[i], NULL, &now) == 0 && (now.sa_flags & (int)SA_RESETHAND) != 0) noted[i] = now;
  }
  pthread_mutex_unlock(&noting);
  return 0;
}

/** After each compilation: a handler that was noted, and no longer runs once, does so again. Another handler is the program's own. */
static int restore_signals(void) {
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

/*
 * The deleter of DLPack's exported tensors. A consumer calls it on any thread, also while JavaScript waits for that thread,
 * so it only marks the first word, with a value that is no version and no address. JavaScript checks for it later.
 */
static void delete_tensor(_Atomic(uint64_t) *tensor) { atomic_store(tensor, UINT64_MAX); }

/*
 * Memory for CUPTI, which asks for it and hands it back, full of records, on any thread that uses CUDA and on one of its own, also while
 * JavaScript waits for that thread. CUPTI has one client in a process, so there is one list.
 */
typedef struct Records {
  struct Records *next;
  size_t length;
  unsigned char bytes[];
} Records;

static _Atomic(Records *) newest;
static _Atomic(size_t) requests, most_requests, record_bytes;

/** A CUpti_BuffersCallbackRequestFunc. */
static void records_requested(uint8_t **buffer, size_t *size, size_t *most_records) {
  *most_records = 0;
  Records *records = NULL;
  size_t bytes = record_bytes;
  if (atomic_fetch_add(&requests, 1) < most_requests) records = malloc(sizeof(Records) + bytes);
  if (records == NULL) atomic_fetch_sub(&requests, 1);
  *buffer = records == NULL ? NULL : records->bytes;
  *size = records == NULL ? 0 : bytes;
}

/** A CUpti_BuffersCallbackCompleteFunc. */
static void records_completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  if (buffer == NULL) return;
  Records *records = (Records *)(buffer - offsetof(Records, bytes));
  records->length = valid;
  records->next = atomic_load(&newest);
  while (!atomic_compare_exchange_weak(&newest, &records->next, records)) continue;
}

/** Lets so many more buffers of this size be asked for. */
static int allow_records(Word count, Word bytes) {
  record_bytes = bytes;
  most_requests = requests + count;
  return 0;
}

/** What was handed back since the last time, oldest first, as a list of Records; each is to be released. */
static Word take_records(void) {
  Records *taken = atomic_exchange(&newest, NULL), *oldest = NULL;
  while (taken != NULL) {
    Records *next = taken->next;
    taken->next = oldest;
    oldest = taken;
    taken = next;
  }
  return (Word)(uintptr_t)oldest;
}

const Method library_methods[] = {{"open", open_library}, {"symbol", symbol}, {NULL, NULL}};
const OwnFunction library_functions[] = {
    {"lendSymbols", lend_symbols},
    {"setVariable", set_variable},         {"noteSignals", note_signals},           {"restoreSignals", restore_signals},
    {"deleteTensor", delete_tensor},       {"recordsRequested", records_requested}, {"recordsCompleted", records_completed},
    {"allowRecords", allow_records},       {"takeRecords", take_records},           {NULL, NULL}};

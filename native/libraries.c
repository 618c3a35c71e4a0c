/* Shared libraries: loading them, and the C functions that those of NVIDIA and others call, or need before or after their calls. */
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
  const char *why = NULL;
  void *library = open_file(path, &why);
  if (library == NULL) return fail(env, why);
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
  void *found = find_symbol((void *)(uintptr_t)library, name);
  napi_create_double(env, (double)(uintptr_t)found, &made);
  return made;
}

/** fileAt(address): the path of the library that has the function there; no text where none has. */
static napi_value file_of(napi_env env, napi_callback_info info) {
  napi_value address = NULL, made = NULL;
  char path[MOST_PATH];
  if (!arguments(env, info, 1, &address)) return NULL;
  bool is_found = file_at((const void *)(uintptr_t)word_of(env, address), path, sizeof(path));
  napi_create_string_utf8(env, is_found ? path : "", NAPI_AUTO_LENGTH, &made);
  return made;
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

/** Allows so many more buffers of this size to be requested. */
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

const Method library_methods[] = {{"open", open_library}, {"symbol", symbol}, {"fileAt", file_of}, {NULL, NULL}};
const OwnFunction library_functions[] = {
    {"lendSymbols", lend_symbols},
    {"setVariable", set_variable},         {"noteSignals", note_signals},           {"restoreSignals", restore_signals},
    {"deleteTensor", delete_tensor},       {"recordsRequested", records_requested}, {"recordsCompleted", records_completed},
    {"allowRecords", allow_records},       {"takeRecords", take_records},           {NULL, NULL}};

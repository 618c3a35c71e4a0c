/* Memory outside of the heap of JavaScript: allocating it, viewing it, reading it although it may not be there, and detaching its views. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "layer.h"

/** view(address, length): an ArrayBuffer over memory of C. The memory is not freed with it. */
static napi_value view(napi_env env, napi_callback_info info) {
  napi_value given[2], buffer = NULL;
  if (!arguments(env, info, 2, given)) return NULL;
  void *address = (void *)(uintptr_t)word_of(env, given[0]), *unused;
  size_t length = word_of(env, given[1]);
  // Of no bytes, Node makes one that is detached.
  if (length == 0) napi_create_arraybuffer(env, 0, &unused, &buffer);
  else if (address == NULL) return fail(env, "Out of memory");
  else if (napi_create_external_arraybuffer(env, address, length, NULL, NULL, &buffer) != 0)
    return fail(env, "This run time allows no ArrayBuffer over memory of C");
  return buffer;
}

/** addressOf(bytes): where the bytes of a Uint8Array lie, until its ArrayBuffer is detached. */
static napi_value address_of(napi_env env, napi_callback_info info) {
  napi_value bytes = NULL, address = NULL;
  void *data = NULL;
  if (!arguments(env, info, 1, &bytes)) return NULL;
  if (napi_get_typedarray_info(env, bytes, NULL, NULL, &data, NULL, NULL) != 0) return fail(env, "This is no typed array");
  napi_create_double(env, (double)(uintptr_t)data, &address);
  return address;
}

/** text(address): the text there, in UTF-8 up to a zero; no text at address 0. */
static napi_value text(napi_env env, napi_callback_info info) {
  napi_value address = NULL, made = NULL;
  if (!arguments(env, info, 1, &address)) return NULL;
  const char *begin = (const char *)(uintptr_t)word_of(env, address);
  napi_create_string_utf8(env, begin == NULL ? "" : begin, NAPI_AUTO_LENGTH, &made);
  return made;
}

/** detach(buffer): takes the memory away from an ArrayBuffer, whose views are empty then. */
static napi_value detach(napi_env env, napi_callback_info info) {
  napi_value buffer = NULL;
  if (arguments(env, info, 1, &buffer) && napi_detach_arraybuffer(env, buffer) != 0)
    return fail(env, "This ArrayBuffer cannot be detached");
  return NULL;
}

typedef struct {
  void *address;
  size_t length;
  int byte;
} Fill;

static void fill(void *data) {
  Fill *f = data;
  _Atomic(uint32_t) *first = f->address;
  memset(first + 1, f->byte, f->length - sizeof(uint32_t));
  atomic_store(first, 0x01010101u * (uint8_t)f->byte);
  free(f);
}

/**
 * fillAtEnd(address, length, byte): fills memory when this thread's JavaScript ends, however it ends. Its first four bytes come last: once they are
 * zero, another thread may take the memory and write to it.
 */
static napi_value fill_at_end(napi_env env, napi_callback_info info) {
  napi_value given[3];
  if (!arguments(env, info, 3, given)) return NULL;
  Fill *f = malloc(sizeof(Fill));
  if (f == NULL) return fail(env, "Out of memory");
  *f = (Fill){(void *)(uintptr_t)word_of(env, given[0]), word_of(env, given[1]), (int)word_of(env, given[2])};
  if (napi_add_env_cleanup_hook(env, fill, f) == 0) return NULL;
  free(f);
  return fail(env, "This run time has no hooks at the end of a thread");
}

/** adjustExternalMemory(change): tells V8 that objects of JavaScript hold so many bytes more outside of its heap. Returns what they hold then. */
static napi_value adjust_external_memory(napi_env env, napi_callback_info info) {
  napi_value change = NULL, made = NULL;
  int64_t adjusted = 0;
  if (!arguments(env, info, 1, &change)) return NULL;
  napi_adjust_external_memory(env, (int64_t)word_of(env, change), &adjusted);
  napi_create_double(env, (double)adjusted, &made);
  return made;
}

/** weakReference(object): a number for an object, which keeps it not reachable. Node deletes it with its environment. */
static napi_value weak_reference(napi_env env, napi_callback_info info) {
  napi_value object = NULL, made = NULL;
  napi_ref reference = NULL;
  if (!arguments(env, info, 1, &object)) return NULL;
  if (napi_create_reference(env, object, 0, &reference) != 0) return fail(env, "This is no object");
  napi_create_double(env, (double)(uintptr_t)reference, &made);
  return made;
}

/** referent(reference): the object, or undefined once it was collected. Unlike WeakRef, a look keeps it reachable no longer than the result is. */
static napi_value referent(napi_env env, napi_callback_info info) {
  napi_value reference = NULL, object = NULL;
  if (!arguments(env, info, 1, &reference)) return NULL;
  napi_get_reference_value(env, (napi_ref)(uintptr_t)word_of(env, reference), &object);
  return object;
}

/** deleteReference(reference). */
static napi_value delete_reference(napi_env env, napi_callback_info info) {
  napi_value reference = NULL;
  if (arguments(env, info, 1, &reference)) napi_delete_reference(env, (napi_ref)(uintptr_t)word_of(env, reference));
  return NULL;
}

static _Atomic(int) blocks;

void *allocate_block(size_t length) {
  void *made = calloc(1, length);
  if (made != NULL) blocks += 1;
  return made;
}

void release_block(void *block) {
  if (block != NULL) blocks -= 1;
  free(block);
}

static Word allocate(Word length) { return (Word)(uintptr_t)allocate_block(length); }

static int release(Word address) {
  release_block((void *)(uintptr_t)address);
  return 0;
}

/** The number of blocks that JavaScript has allocated and still has, in all threads; for tests. */
static int count_blocks(void) { return blocks; }

const Method memory_methods[] = {{"view", view}, {"addressOf", address_of}, {"text", text},
                                 {"detach", detach}, {"fillAtEnd", fill_at_end},
                                 {"adjustExternalMemory", adjust_external_memory}, {"weakReference", weak_reference},
                                 {"referent", referent}, {"deleteReference", delete_reference}, {NULL, NULL}};
const OwnFunction memory_functions[] = {{"readMemory", read_memory}, {"allocate", allocate}, {"release", release}, {"countBlocks", count_blocks},
                                        {"largePages", large_pages}, {"mapFile", map_file}, {"unmap", unmap}, {NULL, NULL}};

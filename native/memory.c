/* Memory outside of the heap of JavaScript: allocating it, viewing it, reading it although it may not be there, and detaching its views. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
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
  memset(f->address, f->byte, f->length);
  free(f);
}

/** fillAtEnd(address, length, byte): fills memory when this thread's JavaScript ends, however it ends. */
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

/** The kernel copies, which returns an error where a program would crash. */
static int read_by_kernel(void *from, void *to, size_t length) {
  static _Atomic(bool) is_forbidden;
  struct iovec into = {to, length}, source = {from, length};
  if (!is_forbidden) {
    if (process_vm_readv(getpid(), &into, 1, &source, 1, 0) == (ssize_t)length) return 1;
    // Some containers forbid the call: with EPERM, or as one that does not exist.
    if (errno != EPERM && errno != ENOSYS) return 0;
    is_forbidden = true;
  }
  return read_by_pipe(from, to, length);
}

/** Where the heap begins that grows by brk: small objects of the main thread lie there. UINTPTR_MAX when that is not known. */
static uintptr_t find_heap(void) {
  char line[512];
  uintptr_t begin = UINTPTR_MAX;
  FILE *maps = fopen("/proc/self/maps", "re");
  if (maps == NULL) return begin;
  while (begin == UINTPTR_MAX && fgets(line, sizeof(line), maps) != NULL)
    if (strstr(line, "[heap]") != NULL) begin = strtoull(line, NULL, 16);
  fclose(maps);
  return begin;
}

int read_memory(Word from, Word to, Word length) {
  static _Atomic(uintptr_t) heap;
  if (heap == 0) heap = find_heap();
  void *source = (void *)(uintptr_t)from, *into = (void *)(uintptr_t)to;
  // What lies in the heap is there, and is copied without a system call, which costs more than all the rest.
  if (from < heap || from + length > (uintptr_t)sbrk(0)) return read_by_kernel(source, into, length);
  memcpy(into, source, length);
  return 1;
}

static Word allocate(Word length) { return (Word)(uintptr_t)calloc(1, length); }

static int release(Word address) {
  free((void *)(uintptr_t)address);
  return 0;
}

/** Asks for pages of 2 MiB for the whole ones in this memory. The system need not follow. */
static int large_pages(Word address, Word length) {
  const Word page = 2 * 1024 * 1024, begin = (address + page - 1) & ~(page - 1), end = (address + length) & ~(page - 1);
  return end > begin ? madvise((void *)(uintptr_t)begin, end - begin, MADV_HUGEPAGE) : 0;
}

/** Maps a file that processes share; 0 where the system refuses. */
static Word map_file(Word file, Word length) {
  void *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, (int)file, 0);
  return at == MAP_FAILED ? 0 : (Word)(uintptr_t)at;
}

static int unmap(Word address, Word length) { return munmap((void *)(uintptr_t)address, length); }

const Method memory_methods[] = {{"view", view}, {"addressOf", address_of}, {"text", text},
                                 {"detach", detach}, {"fillAtEnd", fill_at_end}, {NULL, NULL}};
const OwnFunction memory_functions[] = {{"readMemory", read_memory}, {"allocate", allocate}, {"release", release},
                                        {"largePages", large_pages}, {"mapFile", map_file}, {"unmap", unmap}, {NULL, NULL}};

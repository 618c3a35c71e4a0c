/*
 * Pretends to be ONNX Runtime, with its providers for CUDA and TensorRT: writes down what it is asked. Its one model has an input x and an
 * output y, of f32 ['n', 4] each.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern int next_status;
void fake_count(int more);

#define X(pointer) ((unsigned long)(uintptr_t)(pointer))
typedef void *Status;

/* A status is the number of an error. That of ORT_FAIL is about a library that the loader does not find. */
static Status answer(void) {
  int status = next_status;
  next_status = 0;
  return (Status)(intptr_t)status;
}
static Status make(void **out) {
  *out = malloc(8);
  return NULL;
}

static int get_error_code(Status status) { return (int)(intptr_t)status; }
static const char *get_error_message(Status status) {
  return (intptr_t)status == 1 ? "Failed to load with error: libnonesuch.so.7: cannot open shared object file: No such file"
                               : "what is wrong";
}
static void release(void *one) { free(one); }
/* Sessions, run options and memory infos, which a thread keeps, are counted. What they release leaves a word where a result would be. */
static long release_kept(void *one) {
  fake_count(-1);
  free(one);
  return 7;
}
static void release_status(Status status) { (void)status; }
static long release_session(void *session) {
  say("release session\n");
  return release_kept(session);
}

static Status create_env(int level, const char *name, void **env) {
  say("env %d %s\n", level, name);
  return make(env);
}
static Status create_session(void *env, const char *path, void *options, void **session) {
  (void)env, (void)options;
  say("session of %s\n", path);
  fake_count(1);
  make(session);
  return answer();
}
static Status create_session_from_array(void *env, const char *bytes, size_t length, void *options, void **session) {
  (void)env, (void)options;
  say("session of %zu bytes from %02x to %02x\n", length, bytes[0], bytes[length - 1]);
  fake_count(1);
  make(session);
  return answer();
}
static Status set_threads(void *options, int count) {
  (void)options;
  say("threads %d\n", count);
  return NULL;
}
static Status one(void *session, size_t *count) {
  (void)session;
  *count = 1;
  return NULL;
}
static Status type_info(void *session, size_t index, void **info) {
  (void)session, (void)index;
  return make(info);
}
static Status input_name(void *session, size_t index, void *allocator, char **name) {
  (void)session, (void)index, (void)allocator;
  *name = strdup("x");
  return NULL;
}
static Status output_name(void *session, size_t index, void *allocator, char **name) {
  (void)session, (void)index, (void)allocator;
  *name = strdup("y");
  return NULL;
}
static Status create(void **out) { return make(out); }
static Status run_options(void **out) {
  fake_count(1);
  return make(out);
}
static Status create_tensor(void *memory, void *data, size_t length, const int64_t *shape, size_t rank, int type,
                            void **value) {
  (void)memory;
  say("tensor %lx %zu bytes type %d shape", X(data), length, type);
  for (size_t i = 0; i < rank; i += 1) say(" %ld", (long)shape[i]);
  say("\n");
  return make(value);
}
static Status tensor_of(void *info, void **tensor) {
  *tensor = info;
  return NULL;
}
static Status is_one(void *info, int *number) {
  (void)info;
  *number = 1;
  return NULL;
}
static Status rank(void *info, size_t *count) {
  (void)info;
  *count = 2;
  return NULL;
}
static Status dims(void *info, int64_t *sizes, size_t count) {
  (void)info, (void)count;
  sizes[0] = -1;
  sizes[1] = 4;
  return NULL;
}
static Status symbols(void *info, const char **names, size_t count) {
  (void)info, (void)count;
  names[0] = "n";
  names[1] = "";
  return NULL;
}
static Status memory_info(const char *name, int allocator, int device, int type, void **info) {
  say("memory %s %d %d %d\n", name, allocator, device, type);
  fake_count(1);
  return make(info);
}
static Status allocator_free(void *allocator, void *memory) {
  (void)allocator;
  free(memory);
  return NULL;
}
static Status providers(char ***names, int *count) {
  static char *all[] = {"TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"};
  *names = all;
  *count = 3;
  return NULL;
}
static Status release_providers(char **names, int count) {
  (void)names, (void)count;
  return NULL;
}
static Status run(void *session, void *options, void *binding) {
  (void)session, (void)options, (void)binding;
  say("run\n");
  return answer();
}
static Status create_binding(void *session, void **binding) {
  (void)session;
  return make(binding);
}
static Status bind_input(void *binding, const char *name, void *value) {
  (void)binding, (void)value;
  say("input %s\n", name);
  return NULL;
}
static Status bind_output(void *binding, const char *name, void *value) {
  (void)binding, (void)value;
  say("output %s\n", name);
  return NULL;
}
static Status run_option(void *options, const char *key, const char *value) {
  (void)options;
  say("run with %s=%s\n", key, value);
  return NULL;
}
static Status update(void *options, const char *const *keys, const char *const *values, size_t count) {
  (void)options;
  for (size_t i = 0; i < count; i += 1) say("%s=%s\n", keys[i], values[i]);
  return answer();
}
static Status update_pointer(void *options, const char *key, void *value) {
  (void)options;
  say("%s=%lx\n", key, X(value));
  return NULL;
}
static Status append_cuda(void *options, void *provider) {
  (void)options, (void)provider;
  say("append CUDA\n");
  return NULL;
}
static Status append_tensorrt(void *options, void *provider) {
  (void)options, (void)provider;
  say("append TensorRT\n");
  return NULL;
}

/* The places of OrtApi. */
static void *api[264] = {
    [1] = get_error_code,       [2] = get_error_message, [3] = create_env,       [7] = create_session,
    [8] = create_session_from_array, [10] = create,      [24] = set_threads,     [30] = one,
    [31] = one,                 [33] = type_info,        [34] = type_info,       [36] = input_name,
    [37] = output_name,         [39] = run_options,           [49] = create_tensor,   [55] = tensor_of,
    [56] = is_one,              [60] = is_one,           [61] = rank,            [62] = dims,
    [63] = symbols,             [68] = memory_info,      [76] = allocator_free,  [78] = create,
    [93] = release_status,      [94] = release_kept,          [95] = release_session, [96] = release,
    [97] = release_kept,             [98] = release,          [100] = release,        [125] = providers,
    [126] = release_providers,  [133] = run,             [134] = create_binding, [135] = release,
    [136] = bind_input,         [137] = bind_output,     [165] = run_option,     [170] = append_tensorrt,
    [171] = create,             [172] = update,          [174] = release,        [204] = append_cuda,
    [205] = create,             [206] = update,          [208] = release,        [261] = update_pointer,
    [263] = update_pointer,
};

/* The newest version of the interface that it has. */
static size_t newest = 29;
void fake_onnx_version(size_t version) { newest = version; }

static const void *get_api(uint32_t version) { return version <= newest ? api : NULL; }
static const char *get_version(void) { return "1.32.0"; }

const void *OrtGetApiBase(void) {
  static const struct {
    const void *(*get_api)(uint32_t);
    const char *(*get_version)(void);
  } base = {get_api, get_version};
  return &base;
}

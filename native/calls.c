/*
 * A Node-API addon that calls C functions with arguments from memory which JavaScript writes: quicker than any way of passing
 * values. It uses three functions of Node-API and nothing of a C library, so one binary serves every Node, Bun and Deno of a
 * platform. `npm run build` compiles it where there is a C compiler; without it all calls go by koffi.
 */
#include <stddef.h>
#include <stdint.h>

/* From node_api.h, which is not part of every installation of Node. */
typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_callback_info;
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);
extern int napi_create_function(napi_env, const char *, size_t, napi_callback, void *, napi_value *);
extern int napi_get_cb_info(napi_env, napi_callback_info, size_t *, napi_value *, napi_value *, void **);
extern int napi_get_value_double(napi_env, napi_value, double *);

enum { SLOTS = 7 };
typedef uint64_t Word;

/* Laid out as in src/driver/cuda/libcuda/quick-calls.ts: arguments, of which the first makes room for the result. */
typedef struct {
  double slots[SLOTS];
  void *function;
} Call;

static Word word(double value) { return (Word)(int64_t)value; }

static Call *called(napi_env env, napi_callback_info info) {
  void *data = NULL;
  napi_get_cb_info(env, info, NULL, NULL, NULL, &data);
  return data;
}

static napi_value call1(napi_env env, napi_callback_info info) {
  Call *c = called(env, info);
  c->slots[0] = ((int (*)(Word))c->function)(word(c->slots[0]));
  return NULL;
}

static napi_value call2(napi_env env, napi_callback_info info) {
  Call *c = called(env, info);
  c->slots[0] = ((int (*)(Word, Word))c->function)(word(c->slots[0]), word(c->slots[1]));
  return NULL;
}

static napi_value call3(napi_env env, napi_callback_info info) {
  Call *c = called(env, info);
  const double *s = c->slots;
  c->slots[0] = ((int (*)(Word, Word, Word))c->function)(word(s[0]), word(s[1]), word(s[2]));
  return NULL;
}

static napi_value call4(napi_env env, napi_callback_info info) {
  Call *c = called(env, info);
  const double *s = c->slots;
  c->slots[0] = ((int (*)(Word, Word, Word, Word))c->function)(word(s[0]), word(s[1]), word(s[2]), word(s[3]));
  return NULL;
}

static const napi_callback CALLS[] = {call1, call2, call3, call4};

/* bind(address of a Call, number of arguments): a function without parameters that makes the call. */
static napi_value bind(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value given[2], bound = NULL;
  double address = 0, arguments = 0;
  if (napi_get_cb_info(env, info, &count, given, NULL, NULL) != 0 || count != 2) return NULL;
  if (napi_get_value_double(env, given[0], &address) != 0) return NULL;
  if (napi_get_value_double(env, given[1], &arguments) != 0 || arguments < 1 || arguments > 4) return NULL;
  napi_create_function(env, NULL, 0, CALLS[(int)arguments - 1], (void *)(uintptr_t)address, &bound);
  return bound;
}

__attribute__((visibility("default"))) napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  napi_value function = NULL;
  return napi_create_function(env, "bind", 4, bind, NULL, &function) == 0 ? function : exports;
}

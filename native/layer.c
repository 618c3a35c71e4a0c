/* The object with all functions that each thread of JavaScript gets when it loads the layer. */
#include "layer.h"

napi_value fail(napi_env env, const char *message) {
  napi_throw_error(env, NULL, message);
  return NULL;
}

bool arguments(napi_env env, napi_callback_info info, size_t count, napi_value *into) {
  size_t given = count;
  if (napi_get_cb_info(env, info, &given, into, NULL, NULL) == 0 && given >= count) return true;
  fail(env, "Too few arguments");
  return false;
}

Word word_of(napi_env env, napi_value value) {
  double number = 0;
  return napi_get_value_double(env, value, &number) == 0 ? (Word)(int64_t)number : 0;
}

static void add_methods(napi_env env, napi_value to, const Method *method) {
  for (; method->name != NULL; method++) {
    napi_value function = NULL;
    if (napi_create_function(env, method->name, NAPI_AUTO_LENGTH, method->function, NULL, &function) == 0)
      napi_set_named_property(env, to, method->name, function);
  }
}

static void add_functions(napi_env env, napi_value to, const OwnFunction *function) {
  for (; function->name != NULL; function++) {
    napi_value address = NULL;
    if (napi_create_double(env, (double)(uintptr_t)function->address, &address) == 0)
      napi_set_named_property(env, to, function->name, address);
  }
}

/** Electron keeps ArrayBuffers in a cage of V8: none may lie over memory of C. */
static bool is_caged(napi_env env) {
  static uint64_t word;
  napi_value buffer = NULL;
  return napi_create_external_arraybuffer(env, &word, sizeof(word), NULL, NULL, &buffer) == NAPI_NO_EXTERNAL_BUFFERS;
}

EXPORT napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  static const Method layout[] = {{"registryLayout", registry_layout}, {NULL, NULL}};
  napi_value own = NULL;
  // JavaScript shares memory with C at each call of the driver, so nothing works without it: layer.ts says the way out.
  if (is_caged(env)) {
    napi_throw_error(env, "NO_EXTERNAL_BUFFERS", "no ArrayBuffer may lie over memory of C");
    return exports;
  }
  if (napi_create_object(env, &own) != 0) return exports;
  add_methods(env, exports, call_methods);
  add_methods(env, exports, memory_methods);
  add_methods(env, exports, library_methods);
  add_methods(env, exports, timer_methods);
  add_methods(env, exports, callback_methods);
  add_methods(env, exports, owned_methods);
  add_methods(env, exports, leaving_methods);
  add_methods(env, exports, layout);
  add_functions(env, own, memory_functions);
  add_functions(env, own, copy_functions);
  add_functions(env, own, library_functions);
  add_functions(env, own, thread_functions);
  add_functions(env, own, watchdog_functions);
  add_functions(env, own, callback_functions);
  add_functions(env, own, owned_functions);
  add_functions(env, own, kept_functions);
  add_functions(env, own, leaving_functions);
  add_functions(env, own, in_order_functions);
  napi_set_named_property(env, exports, "functions", own);
  return exports;
}

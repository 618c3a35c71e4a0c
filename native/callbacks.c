/*
 * A function of JavaScript that C can call: on the thread of JavaScript itself, inside a call of C that JavaScript has made and waits for.
 * On any other thread the call returns 0.
 */
#include "layer.h"

static _Thread_local napi_env called_env;
static _Thread_local napi_ref called;

/** Runs at the end of the thread's JavaScript, which C may outlive on the same thread. */
static void forget_called(void *unused) {
  (void)unused;
  called_env = NULL;
}

/** callBackWith(function): what callBack() calls on this thread, with three integers; it returns an integer. */
static napi_value call_back_with(napi_env env, napi_callback_info info) {
  napi_value function = NULL;
  napi_ref made = NULL;
  if (!arguments(env, info, 1, &function)) return NULL;
  if (napi_create_reference(env, function, 1, &made) != 0) return fail(env, "This function cannot be kept");
  if (called_env == env) napi_delete_reference(env, called);
  else napi_add_env_cleanup_hook(env, forget_called, NULL);
  called_env = env;
  called = made;
  return NULL;
}

/** Calls the function of this thread. Returns 0 where there is none, and when it throws: it is to catch its errors itself. */
static int64_t call_back(int64_t a, int64_t b, int64_t c) {
  const napi_env env = called_env;
  napi_handle_scope scope;
  napi_value function, self, unused, given[3], result;
  double number = 0;
  if (env == NULL || napi_open_handle_scope(env, &scope) != 0) return 0;
  const int64_t words[] = {a, b, c};
  for (int i = 0; i < 3; i++) napi_create_double(env, (double)words[i], &given[i]);
  napi_get_undefined(env, &self);
  if (napi_get_reference_value(env, called, &function) == 0 &&
      napi_call_function(env, self, function, 3, given, &result) == 0)
    napi_get_value_double(env, result, &number);
  else napi_get_and_clear_last_exception(env, &unused);
  napi_close_handle_scope(env, scope);
  return (int64_t)number;
}

const Method callback_methods[] = {{"callBackWith", call_back_with}, {NULL, NULL}};
const OwnFunction callback_functions[] = {{"callBack", call_back}, {NULL, NULL}};

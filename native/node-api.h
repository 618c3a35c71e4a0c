/*
 * What is used of Node-API (node_api.h, which not every installation of Node has). These declarations are the same in every
 * version of Node, and in Bun and Deno: Node-API promises that.
 */
#ifndef NODE_API_H
#define NODE_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct napi_env__ *napi_env;
typedef struct napi_value__ *napi_value;
typedef struct napi_callback_info__ *napi_callback_info;
typedef struct napi_ref__ *napi_ref;
typedef struct napi_handle_scope__ *napi_handle_scope;
typedef struct napi_threadsafe_function__ *napi_threadsafe_function;
typedef napi_value (*napi_callback)(napi_env, napi_callback_info);
typedef void (*napi_finalize)(napi_env, void *data, void *hint);
typedef void (*napi_threadsafe_function_call_js)(napi_env, napi_value function, void *context, void *data);

/** napi_status: zero is success. */
typedef int napi_status;
enum { NAPI_NO_EXTERNAL_BUFFERS = 22, NAPI_TSFN_RELEASE = 0, NAPI_TSFN_NONBLOCKING = 0 };
#define NAPI_AUTO_LENGTH ((size_t)-1)

napi_status napi_get_cb_info(napi_env, napi_callback_info, size_t *count, napi_value *args, napi_value *self, void **data);
napi_status napi_create_function(napi_env, const char *name, size_t, napi_callback, void *data, napi_value *);
napi_status napi_create_object(napi_env, napi_value *);
napi_status napi_set_named_property(napi_env, napi_value object, const char *name, napi_value);
napi_status napi_get_undefined(napi_env, napi_value *);
napi_status napi_create_double(napi_env, double, napi_value *);
napi_status napi_get_value_double(napi_env, napi_value, double *);
napi_status napi_create_string_utf8(napi_env, const char *, size_t length, napi_value *);
napi_status napi_get_value_string_utf8(napi_env, napi_value, char *, size_t room, size_t *length);
napi_status napi_create_external_arraybuffer(napi_env, void *, size_t length, napi_finalize, void *hint, napi_value *);
napi_status napi_create_arraybuffer(napi_env, size_t length, void **data, napi_value *);
napi_status napi_get_arraybuffer_info(napi_env, napi_value, void **data, size_t *length);
napi_status napi_get_typedarray_info(napi_env, napi_value, int *type, size_t *length, void **data, napi_value *buffer,
                                     size_t *offset);
napi_status napi_detach_arraybuffer(napi_env, napi_value);
napi_status napi_throw_error(napi_env, const char *code, const char *message);
napi_status napi_call_function(napi_env, napi_value self, napi_value, size_t count, const napi_value *args, napi_value *);
napi_status napi_create_reference(napi_env, napi_value, uint32_t count, napi_ref *);
napi_status napi_delete_reference(napi_env, napi_ref);
napi_status napi_get_reference_value(napi_env, napi_ref, napi_value *);
napi_status napi_adjust_external_memory(napi_env, int64_t change, int64_t *adjusted);
napi_status napi_open_handle_scope(napi_env, napi_handle_scope *);
napi_status napi_close_handle_scope(napi_env, napi_handle_scope);
napi_status napi_get_and_clear_last_exception(napi_env, napi_value *);
napi_status napi_is_exception_pending(napi_env, bool *);
napi_status napi_fatal_exception(napi_env, napi_value);
napi_status napi_add_env_cleanup_hook(napi_env, void (*)(void *), void *);
napi_status napi_create_threadsafe_function(napi_env, napi_value function, napi_value resource, napi_value name,
                                            size_t room, size_t threads, void *data, napi_finalize, void *context,
                                            napi_threadsafe_function_call_js, napi_threadsafe_function *);
napi_status napi_call_threadsafe_function(napi_threadsafe_function, void *data, int mode);
napi_status napi_release_threadsafe_function(napi_threadsafe_function, int mode);
napi_status napi_ref_threadsafe_function(napi_env, napi_threadsafe_function);
napi_status napi_unref_threadsafe_function(napi_env, napi_threadsafe_function);

#endif

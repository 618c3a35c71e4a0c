/* What the files of the layer share. README.md beside this file says what each function is for, and on which thread it runs. */
#ifndef LAYER_H
#define LAYER_H

#include <stdint.h>
#include "node-api.h"
#include "system.h"

/** A function that JavaScript calls by Node-API. */
typedef struct {
  const char *name;
  napi_callback function;
} Method;

/** A C function that JavaScript calls as it calls those of libcuda: by its address. */
typedef struct {
  const char *name;
  void *address;
} OwnFunction;

/** Each list ends with a row without a name. */
extern const Method call_methods[], memory_methods[], library_methods[], timer_methods[], callback_methods[], owned_methods[],
    leaving_methods[];
extern const OwnFunction memory_functions[], copy_functions[], library_functions[], thread_functions[], watchdog_functions[],
    callback_functions[], owned_functions[], kept_functions[], leaving_functions[], in_order_functions[];

/** Throws an Error in JavaScript. Returns NULL. */
napi_value fail(napi_env env, const char *message);

/** The arguments of a call from JavaScript. False, with an Error thrown, when there are fewer. */
bool arguments(napi_env env, napi_callback_info info, size_t count, napi_value *into);

/** A number that JavaScript gave, as an address or a count; 0 for anything else. */
Word word_of(napi_env env, napi_value value);

/** memory.c: zeros for JavaScript, whose blocks are counted. NULL where there is no memory. */
void *allocate_block(size_t length);
void release_block(void *block);

/** The offsets of the fields in the struct of the process registry, for tests. */
napi_value registry_layout(napi_env env, napi_callback_info info);

#endif

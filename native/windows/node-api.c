/*
 * The functions of node-api.h. A library of Windows names the file that each function comes from, and Node-API comes from the program: node.exe,
 * electron.exe, bun.exe or whatever the user called it. So they are looked up in the program when the layer is loaded, or in the library
 * of a Node that is one, and each name is a jump to what was found.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <stdbool.h>

#define FUNCTIONS(_) \
  _(napi_get_cb_info) \
  _(napi_create_function) \
  _(napi_create_object) \
  _(napi_set_named_property) \
  _(napi_get_undefined) \
  _(napi_create_double) \
  _(napi_get_value_double) \
  _(napi_create_string_utf8) \
  _(napi_get_value_string_utf8) \
  _(napi_create_external_arraybuffer) \
  _(napi_create_arraybuffer) \
  _(napi_get_arraybuffer_info) \
  _(napi_get_typedarray_info) \
  _(napi_detach_arraybuffer) \
  _(napi_throw_error) \
  _(napi_call_function) \
  _(napi_create_reference) \
  _(napi_delete_reference) \
  _(napi_get_reference_value) \
  _(napi_adjust_external_memory) \
  _(napi_open_handle_scope) \
  _(napi_close_handle_scope) \
  _(napi_get_and_clear_last_exception) \
  _(napi_is_exception_pending) \
  _(napi_fatal_exception) \
  _(napi_add_env_cleanup_hook) \
  _(napi_create_threadsafe_function) \
  _(napi_call_threadsafe_function) \
  _(napi_release_threadsafe_function) \
  _(napi_ref_threadsafe_function) \
  _(napi_unref_threadsafe_function)

#define ADDRESS(name) void *name##_in_program;
#if defined(__aarch64__)
#define JUMP(name)                                                                                                     \
  __asm__(".globl " #name "\n" #name ":\n  adrp x16, " #name "_in_program\n  ldr x16, [x16, :lo12:" #name                \
          "_in_program]\n  br x16\n");
#else
#define JUMP(name) __asm__(".globl " #name "\n" #name ":\n  jmp *" #name "_in_program(%rip)\n");
#endif
#define ROW(name) {#name, &name##_in_program},

FUNCTIONS(ADDRESS)
__asm__(".text\n");
FUNCTIONS(JUMP)

static const struct {
  const char *name;
  void **address;
} ROWS[] = {FUNCTIONS(ROW)};

/** Connects the functions of Node-API. False if the program has none. */
bool connect_node(void) {
  const HMODULE places[] = {GetModuleHandleW(NULL), GetModuleHandleW(L"libnode.dll")};
  for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
    for (int place = 0; place < 2 && *ROWS[i].address == NULL; place++)
      if (places[place] != NULL) *ROWS[i].address = (void *)GetProcAddress(places[place], ROWS[i].name);
    if (*ROWS[i].address == NULL) return false;
  }
  return true;
}

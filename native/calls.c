/*
 * Calls of C functions at an address. The arguments and the result go through a frame, memory that JavaScript writes and reads
 * as a Float64Array, since to pass values through Node-API costs more than the calls themselves.
 */
#include "frame.h"
#include "layer.h"

typedef struct {
  unsigned char bytes[64];
} Bytes64;
typedef struct {
  unsigned char bytes[128];
} Bytes128;

static Frame *frame_of(napi_env env, napi_callback_info info) {
  void *frame = NULL;
  napi_get_cb_info(env, info, NULL, NULL, NULL, &frame);
  return frame;
}

#define A(n) ((Word)(int64_t)s[n])
#define BYTES(type, n) (*(const type *)(uintptr_t)A(n))
/** A function of Node-API that makes one kind of call. */
#define CALL(name, result, parameters, given)              \
  static napi_value name(napi_env env, napi_callback_info info) { \
    Frame *f = frame_of(env, info);                                \
    double *s = f->slots;                                          \
    s[0] = (double)((result(*) parameters)f->function)given;       \
    return NULL;                                                   \
  }

/* Each size that is called often has a call of its own. The others are given more than they take: on both architectures the caller
   cleans up after a call, so what is too much does no harm. */
CALL(call1, int, (Word), (A(0)))
CALL(call2, int, (Word, Word), (A(0), A(1)))
CALL(call3, int, (Word, Word, Word), (A(0), A(1), A(2)))
CALL(call4, int, (Word, Word, Word, Word), (A(0), A(1), A(2), A(3)))
CALL(call8, int, (Word, Word, Word, Word, Word, Word, Word, Word), (A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7)))
#define WORDS_6 Word, Word, Word, Word, Word, Word
#define A_6(n) A(n), A(n + 1), A(n + 2), A(n + 3), A(n + 4), A(n + 5)
CALL(call24, int, (WORDS_6, WORDS_6, WORDS_6, WORDS_6), (A_6(0), A_6(6), A_6(12), A_6(18)))
/* The result is an address. */
CALL(address4, Word, (Word, Word, Word, Word), (A(0), A(1), A(2), A(3)))
CALL(address8, Word, (Word, Word, Word, Word, Word, Word, Word, Word), (A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7)))
/* One argument is a struct passed by value, where the frame has its address: an IPC handle of CUDA, and NCCL's unique id. */
CALL(ipc_handle, int, (Word, Bytes64, Word), (A(0), BYTES(Bytes64, 1), A(2)))
CALL(unique_id, int, (Word, Word, Bytes128, Word, Word), (A(0), A(1), BYTES(Bytes128, 2), A(3), A(4)))

/* Floats and doubles go in registers of their own: three words before them, and one or two of them. */
#define WORDS_3 Word, Word, Word
CALL(floats, int, (WORDS_3, float, float), (A(0), A(1), A(2), (float)s[3], (float)s[4]))
CALL(doubles, int, (WORDS_3, double, double), (A(0), A(1), A(2), s[3], s[4]))

/** Each call with the number of slots that it reads, in the order of `SHAPES` in src/foundation/native/c-functions.ts. */
static const struct {
  napi_callback call;
  Word slots;
} SHAPES[] = {{call1, 1}, {call2, 2}, {call3, 3}, {call4, 4}, {call8, 8}, {call24, 24},
              {address4, 4}, {address8, 8}, {ipc_handle, 3}, {unique_id, 5}, {floats, 5}, {doubles, 5}};

/** bind(buffer, offset, shape): a function without parameters that makes the call of the frame there. It does not keep the buffer. */
static napi_value bind(napi_env env, napi_callback_info info) {
  napi_value given[3], bound = NULL;
  void *data = NULL;
  size_t length = 0;
  if (!arguments(env, info, 3, given)) return NULL;
  Word offset = word_of(env, given[1]), shape = word_of(env, given[2]);
  if (shape >= sizeof(SHAPES) / sizeof(SHAPES[0])) return fail(env, "No function has this shape");
  const size_t bytes = sizeof(Frame) + sizeof(double) * SHAPES[shape].slots;
  if (napi_get_arraybuffer_info(env, given[0], &data, &length) != 0 || offset > length || length - offset < bytes)
    return fail(env, "No frame of this shape lies there");
  napi_create_function(env, NULL, 0, SHAPES[shape].call, (char *)data + offset, &bound);
  return bound;
}

const Method call_methods[] = {{"bind", bind}, {NULL, NULL}};

/* The functions of libcuda that native/in-order.c calls, which write down their calls. The others do nothing. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef uintptr_t Word;
enum { LONGEST = 4096, OUT_OF_MEMORY = 2 };

static char log_[LONGEST];
static int length;
static Word current;
static int mode, searches = 1, is_full, refuses;

#define LOG(...) (length += snprintf(log_ + length, LONGEST - (size_t)length, __VA_ARGS__))

/* For the test. */
const char *fakeLog(void) { length = 0; return log_; }
int fakeState(Word context, Word searching, Word full, Word refusing) {
  current = context, searches = (int)searching, is_full = (int)full, refuses = (int)refusing, log_[0] = 0, length = 0;
  return 0;
}

int cuCtxGetCurrent(Word *context) { *context = current; return 0; }
int cuCtxSetCurrent(Word context) { LOG("context %d;", (int)context); current = context; return refuses == 1 ? 201 : 0; }
int cuThreadExchangeStreamCaptureMode(int *with) { int was = mode; LOG("mode %d;", *with); mode = *with; *with = was; return 0; }
int cuMemPoolGetAttribute(Word pool, int attribute, uint64_t *value) { (void)pool; *value = attribute == 2 ? searches : 9; return 0; }
int cuMemPoolSetAttribute(Word pool, int attribute, const int *value) {
  if (attribute == 2) { searches = *value; LOG("pool %d %s;", (int)pool, searches ? "searches" : "does not"); }
  return 0;
}
static int allocate(Word *pointer, size_t bytes) {
  LOG("allocate %d;", (int)bytes);
  *pointer = 0x1000;
  return is_full > 1 || (is_full && !searches) ? OUT_OF_MEMORY : 0;
}
int cuMemAllocAsync(Word *pointer, size_t bytes, Word stream) { (void)stream; return allocate(pointer, bytes); }
int cuMemAllocFromPoolAsync(Word *pointer, size_t bytes, Word pool, Word stream) { (void)stream; LOG("from %d: ", (int)pool); return allocate(pointer, bytes); }
int cuMemFreeAsync(Word pointer, Word stream) { LOG("free %x on %d in %d, mode %d;", (int)pointer, (int)stream, (int)current, mode); return refuses == 2 ? 1 : 0; }
int cuEventRecord(Word event, Word stream) { LOG("record %d on %d;", (int)event, (int)stream); return refuses == 3 ? 901 : 0; }
int cuStreamWaitEvent(Word stream, Word event, unsigned flags) { (void)flags; LOG("%d waits for %d;", (int)stream, (int)event); return refuses == 4 ? 905 : 0; }

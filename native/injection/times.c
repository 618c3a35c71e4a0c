/*
 * The times of a traced process. CUPTI writes a record of each kernel, copy and fill into memory that it asks for, and
 * hands that back when it is full, or flushed. The records go to the trace as they are: src/tools/timeline/cupti
 * knows their layouts.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "times.h"
#include "trace.h"

/* CUPTI: of its interface only what is used. */
enum { FORCED = 1 };
static const int KINDS[] = {1 /* MEMCPY */, 2 /* MEMSET */, 10 /* CONCURRENT_KERNEL */, 22 /* MEMCPY2 */};
typedef void (*Requested)(uint8_t **, size_t *, size_t *);
typedef void (*Completed)(void *, uint32_t, uint8_t *, size_t, size_t);
static struct {
  int (*activate)(int);
  int (*registerCallbacks)(Requested, Completed);
  int (*nextRecord)(uint8_t *, size_t, uint8_t **);
  int (*flush)(uint32_t);
  int (*flushPeriod)(uint32_t);
  int (*dropped)(void *, uint32_t, size_t *);
  int (*timestamp)(uint64_t *);
  int (*version)(uint32_t *);
} cupti;
static int isOn;

/*
 * The bytes of a buffer: some hundred records, which is what a process loses that is killed, as CUPTI hands back only what
 * is full before the end. And the most bytes of a record, which no version of CUPTI has reached.
 */
enum { BUFFER = 1 << 16, LONGEST = 1024 };
/* The milliseconds after which CUPTI looks for buffers that are full. */
enum { PERIOD = 200 };

static void requested(uint8_t **buffer, size_t *size, size_t *records) {
  void *memory = NULL;
  if (posix_memalign(&memory, 8, BUFFER) != 0) memory = NULL;
  *buffer = memory;
  *size = memory == NULL ? 0 : BUFFER;
  *records = 0;
}

static void put_record(const uint8_t *record, const uint8_t *end) {
  const size_t bytes = (size_t)(end - record);
  trace_activity(record, bytes < LONGEST ? bytes : LONGEST);
}

/* The length of a record is not in it: it ends where the next one begins. */
static void completed(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t used) {
  (void)context, (void)stream, (void)size;
  uint8_t *record = NULL, *next = NULL;
  while (used > 0 && cupti.nextRecord(buffer, used, &next) == 0) {
    if (record != NULL) put_record(record, next);
    record = next;
  }
  if (record != NULL) put_record(record, buffer + used);
  free(buffer);
}

const char *times_begin(void *library, int *why) {
  const struct {
    void *at;
    const char *name;
  } functions[] = {
      {&cupti.activate, "cuptiActivityEnable"},
      {&cupti.registerCallbacks, "cuptiActivityRegisterCallbacks"},
      {&cupti.nextRecord, "cuptiActivityGetNextRecord"},
      {&cupti.flush, "cuptiActivityFlushAll"},
      {&cupti.flushPeriod, "cuptiActivityFlushPeriod"},
      {&cupti.dropped, "cuptiActivityGetNumDroppedRecords"},
      {&cupti.timestamp, "cuptiGetTimestamp"},
      {&cupti.version, "cuptiGetVersion"},
  };
  for (size_t at = 0; at < sizeof functions / sizeof *functions; at++) {
    void *found = dlsym(library, functions[at].name);
    if (found == NULL) return functions[at].name;
    *(void **)functions[at].at = found;
  }
  *why = cupti.registerCallbacks(requested, completed);
  if (*why != 0) return "cuptiActivityRegisterCallbacks";
  for (size_t at = 0; at < sizeof KINDS / sizeof *KINDS; at++) {
    *why = cupti.activate(KINDS[at]);
    if (*why != 0) return "cuptiActivityEnable";
  }
  *why = cupti.flushPeriod(PERIOD);
  if (*why != 0) return "cuptiActivityFlushPeriod";
  isOn = 1;
  return NULL;
}

int times_are_on(void) { return isOn; }

uint64_t times_now(void) {
  uint64_t now = 0;
  return isOn && cupti.timestamp(&now) == 0 ? now : 0;
}

uint32_t times_version(void) {
  uint32_t version = 0;
  return cupti.version(&version) == 0 ? version : 0;
}

void times_flush(void) {
  if (!isOn) return;
  cupti.flush(FORCED);
  size_t dropped = 0;
  if (cupti.dropped(NULL, 0, &dropped) == 0 && dropped > 0)
    fprintf(stderr, "cuda-streams: there was no memory for the times of %zu operations\n", dropped);
}

/*
 * The watchdog: a thread that writes a warning when a thread of JavaScript has not looked for host functions for a while although a stream
 * waits for one. That thread is inside a call of another library, or a loop, and can report nothing itself.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "threads.h"

/** The number of checks in the time after which it warns. It makes one more, so that a thread that can warn itself comes first. */
enum { CHECKS = 5, MOST_MESSAGES = 256 };

typedef struct {
  int index;
  uint32_t waiting;
  bool of_graph;
} Waiting;

/** Nanoseconds between two checks. */
static int64_t between;
static char after[32];
/** The beat of each slot, and for how many checks it has not changed. */
static struct {
  int32_t beat;
  int checks;
} still[SLOTS];
static uint64_t said[MOST_MESSAGES];
static int messages;

/** Counts the streams that wait at semaphores of a slot, and returns the first. The driver frees that memory when the process ends, so the kernel
    reads it. */
static int count_waiting(const Slot *slot, Waiting *first) {
  static Semaphore semaphores[SEMAPHORES];
  int count = 0;
  for (int of_graph = 0; of_graph < 2; of_graph++) {
    uint64_t address = of_graph ? slot->graph_semaphores : slot->semaphores;
    size_t bytes = sizeof(Semaphore) * (size_t)slot->semaphore_count;
    if (address == 0 || bytes > sizeof(semaphores) || !read_memory(address, (Word)(uintptr_t)semaphores, bytes)) continue;
    for (int i = 0; i < slot->semaphore_count; i++) {
      if ((int32_t)((uint32_t)semaphores[i].waiting - (uint32_t)semaphores[i].signalled) <= 0) continue;
      if (count == 0) *first = (Waiting){i, (uint32_t)semaphores[i].waiting, of_graph};
      count++;
    }
  }
  return count;
}

/** Describes a stream as describeStream() of src/foundation/driver/blocked-by.ts does. */
static void describe_stream(char *into, size_t room, uint64_t stream) {
  if (stream >= 4096) snprintf(into, room, "the stream 0x%llx", (unsigned long long)stream);
  else
    snprintf(into, room, "the %s stream of device %d", (stream & 3) == 2 ? "per-thread default" : "null", (int)(stream >> 2));
}

static void describe_site(char *into, size_t room, const Label *label, Waiting waiting) {
  uint32_t length = label->length < LABEL_TEXT ? label->length : LABEL_TEXT;
  if (length == 0) *into = 0;
  else if (waiting.of_graph) snprintf(into, room, " (of a graph launched at %.*s)", (int)length, label->text);
  else
    snprintf(into, room, " (%squeued at %.*s)", label->sequence == waiting.waiting ? "" : "behind one ", (int)length, label->text);
}

/** Returns false for a message that was written before. */
static bool is_new(const char *message) {
  uint64_t hash = 14695981039346656037u;
  for (; *message != 0; message++) hash = (hash ^ (unsigned char)*message) * 1099511628211u;
  for (int i = 0; i < messages; i++)
    if (said[i] == hash) return false;
  if (messages < MOST_MESSAGES) said[messages++] = hash;
  return true;
}

static void warn(const Slot *slot, Waiting waiting, int count) {
  char thread[40], stream[48], site[256], others[40] = "", message[1024];
  Label label = {0};
  uint64_t labels = waiting.of_graph ? slot->graph_labels : slot->labels;
  if (labels != 0) read_memory(labels + sizeof(Label) * (uint64_t)waiting.index, (Word)(uintptr_t)&label, sizeof(Label));
  int owner = slot->owner - 1;
  if (owner <= 0) snprintf(thread, sizeof(thread), "The main thread");
  else snprintf(thread, sizeof(thread), "Worker thread %d", owner);
  describe_stream(stream, sizeof(stream), label.stream);
  describe_site(site, sizeof(site), &label, waiting);
  if (count > 1) snprintf(others, sizeof(others), "; %d more streams wait for one", count - 1);
  int length = snprintf(message, sizeof(message),
                        "(node:%d) [CUDA_STREAMS_BLOCKED_THREAD] CudaStreamsWarning: %s has been inside one call or loop for %s, while %s "
                        "waits for a host function%s, which only that thread can run and return from%s. If the call waits for the GPU, it "
                        "never ends. Call device.drainHostFunctions() before a blocking call of another library, and await finished() "
                        "instead of a loop\n",
                        process_number(), thread, after, stream, site, others);
  if (is_new(message)) write_error(message, (size_t)length);
}

static void check(int index) {
  Slot *slot = &process_registry()->slots[index];
  Waiting first = {0};
  int count = slot->pending > 0 ? count_waiting(slot, &first) : 0;
  int32_t beat = slot->beat;
  if (count == 0 || (beat & REPORTED) != 0) still[index].checks = 0;
  else if (still[index].checks == 0 || still[index].beat != beat) {
    still[index].beat = beat;
    still[index].checks = 1;
  } else if (still[index].checks <= CHECKS + 1 && ++still[index].checks == CHECKS + 2) warn(slot, first, count);
}

static void *check_all(void *unused) {
  (void)unused;
  for (;;) {
    sleep_for(between);
    for (int i = 0; i < process_registry()->slots_used; i++) check(i);
  }
  return NULL;
}

/** Starts the watchdog, unless the process has one. `description` is that of the time after which it warns. Returns 0, or an error of the
    system. */
static int watch(Word nanoseconds, Word description) {
  Thread thread;
  if (atomic_exchange(&process_registry()->watched, 1) != 0) return 0;
  between = (int64_t)(nanoseconds / CHECKS);
  snprintf(after, sizeof(after), "%s", (const char *)(uintptr_t)description);
  int error = spawn(&thread, check_all, NULL, 256 * 1024);
  if (error == 0) let_run(thread);
  return error;
}

static napi_value number(napi_env env, size_t value) {
  napi_value made = NULL;
  napi_create_double(env, (double)value, &made);
  return made;
}

napi_value registry_layout(napi_env env, napi_callback_info info) {
  (void)info;
#define WORD(name, struct, field) {name, offsetof(struct, field) / 4}
  static const struct {
    const char *name;
    size_t value;
  } ROWS[] = {
      WORD("EXCLUSIVE", Registry, exclusive),
      WORD("MOST_SLOTS_USED", Registry, slots_used),
      WORD("CAPTURING", Registry, capturing),
      WORD("MAKING_STREAMS", Registry, making_streams),
      WORD("SLOTS_AT", Registry, slots),
      WORD("COUNTS_AT", Registry, spare_counts),
      WORD("SPARE_AT", Registry, spare_streams),
      WORD("CAPTURES_AT", Registry, captures),
      {"REGISTRY_WORDS", sizeof(Registry) / 4},
      WORD("OWNER", Slot, owner),
      WORD("PENDING", Slot, pending),
      WORD("STREAMS", Slot, streams),
      WORD("SEMAPHORE_COUNT", Slot, semaphore_count),
      WORD("SEMAPHORES", Slot, semaphores),
      WORD("GRAPH_SEMAPHORES", Slot, graph_semaphores),
      WORD("ENTRIES", Slot, entries),
      WORD("VALUE_WAITS", Slot, value_waits),
      WORD("INNER_WAITS", Slot, inner_waits),
      WORD("BEAT", Slot, beat),
      WORD("LABELS", Slot, labels),
      WORD("GRAPH_LABELS", Slot, graph_labels),
      {"SLOT_WORDS", sizeof(Slot) / 4},
      {"SLOTS", SLOTS},
      {"LABEL_BYTES", sizeof(Label)},
  };
  napi_value layout = NULL;
  napi_create_object(env, &layout);
  for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) napi_set_named_property(env, layout, ROWS[i].name, number(env, ROWS[i].value));
  return layout;
}

const OwnFunction watchdog_functions[] = {{"watch", watch}, {NULL, NULL}};

/*
 * The watchdog: a thread that writes a warning when a thread of JavaScript has not looked for host functions for a while, though a stream
 * stands at one. That thread is inside a call of another library, or a loop, and can say nothing itself.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "threads.h"

/** How often it looks in the time after which it warns. One more, so that a thread that can warn itself comes first. */
enum { LOOKS = 5, MOST_MESSAGES = 256 };

typedef struct {
  int index;
  uint32_t arrived;
  bool of_graph;
} Standing;

static struct timespec between;
static char after[32];
/** Of each slot: the beat that it stands at, and for how many looks. */
static struct {
  int32_t beat;
  int looks;
} still[SLOTS];
static uint64_t said[MOST_MESSAGES];
static int messages;

/** How many streams stand at gates of a slot, and the first. The memory goes with the driver when the process ends, so the kernel reads it. */
static int standing_in(const Slot *slot, Standing *first) {
  static Gate gates[GATES];
  int count = 0;
  for (int of_graph = 0; of_graph < 2; of_graph++) {
    uint64_t address = of_graph ? slot->graph_gates : slot->gates;
    size_t bytes = sizeof(Gate) * (size_t)slot->gate_count;
    if (address == 0 || bytes > sizeof(gates) || !read_memory(address, (Word)(uintptr_t)gates, bytes)) continue;
    for (int i = 0; i < slot->gate_count; i++) {
      if ((int32_t)((uint32_t)gates[i].arrived - (uint32_t)gates[i].go) <= 0) continue;
      if (count == 0) *first = (Standing){i, (uint32_t)gates[i].arrived, of_graph};
      count++;
    }
  }
  return count;
}

/** As streamInWords() of src/driver/held-by.ts. */
static void stream_in_words(char *into, size_t room, uint64_t stream) {
  if (stream >= 4096) snprintf(into, room, "the stream 0x%llx", (unsigned long long)stream);
  else
    snprintf(into, room, "the %s stream of device %d", (stream & 3) == 2 ? "per-thread default" : "null", (int)(stream >> 2));
}

static void site_in_words(char *into, size_t room, const Label *label, Standing gate) {
  uint32_t length = label->length < LABEL_TEXT ? label->length : LABEL_TEXT;
  if (length == 0) *into = 0;
  else if (gate.of_graph) snprintf(into, room, " (of a graph launched at %.*s)", (int)length, label->text);
  else
    snprintf(into, room, " (%squeued at %.*s)", label->sequence == gate.arrived ? "" : "behind one ", (int)length, label->text);
}

/** False when it was said before. */
static bool is_new(const char *message) {
  uint64_t hash = 14695981039346656037u;
  for (; *message != 0; message++) hash = (hash ^ (unsigned char)*message) * 1099511628211u;
  for (int i = 0; i < messages; i++)
    if (said[i] == hash) return false;
  if (messages < MOST_MESSAGES) said[messages++] = hash;
  return true;
}

static void say(const Slot *slot, Standing gate, int count) {
  char thread[40], stream[48], site[256], others[40] = "", message[1024];
  Label label = {0};
  uint64_t labels = gate.of_graph ? slot->graph_labels : slot->labels;
  if (labels != 0) read_memory(labels + sizeof(Label) * (uint64_t)gate.index, (Word)(uintptr_t)&label, sizeof(Label));
  int owner = slot->owner - 1;
  if (owner <= 0) snprintf(thread, sizeof(thread), "The main thread");
  else snprintf(thread, sizeof(thread), "Worker thread %d", owner);
  stream_in_words(stream, sizeof(stream), label.stream);
  site_in_words(site, sizeof(site), &label, gate);
  if (count > 1) snprintf(others, sizeof(others), "; %d more stand so", count - 1);
  int length = snprintf(message, sizeof(message),
                        "(node:%d) [CUDA_STREAMS_BLOCKED_THREAD] CudaStreamsWarning: %s has been inside one call or loop for %s, while %s "
                        "stands at a host function%s, which only that thread can run and return from%s. If the call waits for the GPU, it "
                        "never ends. Call device.drainHostFunctions() before a blocking call of another library, and await finished() "
                        "instead of a loop\n",
                        getpid(), thread, after, stream, site, others);
  // Standard error may be closed, or full.
  if (is_new(message) && write(STDERR_FILENO, message, (size_t)length) < 0) return;
}

static void look_at(int index) {
  Slot *slot = &thread_table()->slots[index];
  Standing first = {0};
  int count = slot->pending > 0 ? standing_in(slot, &first) : 0;
  int32_t beat = slot->beat;
  if (count == 0 || (beat & SAID) != 0) still[index].looks = 0;
  else if (still[index].looks == 0 || still[index].beat != beat) {
    still[index].beat = beat;
    still[index].looks = 1;
  } else if (still[index].looks <= LOOKS + 1 && ++still[index].looks == LOOKS + 2) say(slot, first, count);
}

static void *look(void *unused) {
  (void)unused;
  for (;;) {
    nanosleep(&between, NULL);
    for (int i = 0; i < thread_table()->slots_used; i++) look_at(i);
  }
  return NULL;
}

/** Starts the watchdog, unless the process has one. `in_words` is the time after which it warns. Returns an errno. */
static int watch(Word nanoseconds, Word in_words) {
  pthread_t thread;
  Word pause = nanoseconds / LOOKS;
  if (atomic_exchange(&thread_table()->watched, 1) != 0) return 0;
  between = (struct timespec){(time_t)(pause / 1000000000), (long)(pause % 1000000000)};
  snprintf(after, sizeof(after), "%s", (const char *)(uintptr_t)in_words);
  int error = spawn(&thread, look, NULL, 256 * 1024);
  if (error == 0) pthread_detach(thread);
  return error;
}

static napi_value number(napi_env env, size_t value) {
  napi_value made = NULL;
  napi_create_double(env, (double)value, &made);
  return made;
}

napi_value table_layout(napi_env env, napi_callback_info info) {
  (void)info;
#define WORD(name, struct, field) {name, offsetof(struct, field) / 4}
  static const struct {
    const char *name;
    size_t value;
  } ROWS[] = {
      WORD("EXCLUSIVE", Table, exclusive),
      WORD("MOST_SLOTS_USED", Table, slots_used),
      WORD("CAPTURING", Table, capturing),
      WORD("MAKING_STREAMS", Table, making_streams),
      WORD("SLOTS_AT", Table, slots),
      WORD("COUNTS_AT", Table, kept_counts),
      WORD("KEPT_AT", Table, kept),
      WORD("CAPTURES_AT", Table, captures),
      {"TABLE_WORDS", sizeof(Table) / 4},
      WORD("OWNER", Slot, owner),
      WORD("PENDING", Slot, pending),
      WORD("STREAMS", Slot, streams),
      WORD("PAIRS", Slot, gate_count),
      WORD("GATES", Slot, gates),
      WORD("GRAPH_GATES", Slot, graph_gates),
      WORD("ENTRIES", Slot, entries),
      WORD("WAITING", Slot, waiting),
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

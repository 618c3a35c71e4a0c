/*
 * A thread that gives back what threads of JavaScript have left behind: worker threads end at any time, and run no JavaScript then. It waits until the
 * work of their streams has completed, by queries alone, and makes the calls that can wait for the whole device while the device is idle. So it holds
 * up no other thread, and nothing that is queued.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "kept.h"

/** CUresult, CUstreamCaptureMode, CUevent_flags, CUmemPool_attribute and CUstream. */
enum { NOT_READY = 600, RELAXED = 2, DISABLE_TIMING = 2, RESERVED_CURRENT = 5, USED_CURRENT = 7, LEGACY = 1, PER_THREAD = 2 };
static const int64_t MILLISECOND = 1000000, SHORTEST_NAP = 200000, LONGEST_NAP = 100 * MILLISECOND;
/**
 * The number of attempts after which the device may be waited for although it is not idle, if nothing there waits for JavaScript.
 */
enum { PATIENCE = 100 };
/** A pool that keeps memory after so many is destroyed as it is. */
enum { MOST_ATTEMPTS = 250 };

static Alarm alarm_of_thread;
/** Counts what was left, under the mutex of the alarm. */
static uint64_t left_behind;

/** The process ends: the driver is about to go. */
static _Atomic(bool) is_ending;
/** The thread has it while it calls the driver. */
static Mutex calling = MUTEX_INITIALIZER;

static void stop_calling(void) {
  is_ending = true;
  // A call can wait for the device; the end of the process does not.
  for (int i = 0; i < 500; i++) {
    if (try_lock(&calling)) return;
    sleep_for(2 * MILLISECOND);
  }
}

/** Is this the result of a call in a context that is lost? JavaScript has said which are. */
static int is_lost(Word result) { return result >= FIRST_LOST && result < FIRST_LOST + MOST_LOST && driver.is_lost[result - FIRST_LOST] != 0; }

/** Writes the first failure of each function, which no call of the program is near. */
static void report(const Owned *owned, int result) {
  static bool is_reported[64];
  char text[256];
  if (result == 0 || is_lost(result) || is_reported[owned->kind]) return;
  is_reported[owned->kind] = true;
  int length = snprintf(text, sizeof(text),
                        "(node:%d) [CUDA_STREAMS_CLEANUP] CudaStreamsWarning: %s(0x%llx) returned %d, for a handle of a thread that has ended\n",
                        process_number(), kind_of(owned).name, (unsigned long long)owned->handle, result);
  write_error(text, (size_t)length);
}

/* -- locks of the process registry, in which this thread has a slot of its own */

static Registry *registry;
static int32_t own_number;

static void take_slot(void) {
  registry = process_registry();
  own_number = slot_for(INT32_MAX);
}

static bool take_lock(_Atomic(int32_t) *word) {
  int32_t holder = 0;
  if (own_number == 0) return false;
  if (atomic_compare_exchange_strong(word, &holder, own_number)) return true;
  // A thread that was terminated has left its slot, and with it the lock.
  return registry->slots[holder - 1].owner == 0 && atomic_compare_exchange_strong(word, &holder, own_number);
}

/** Has a thread that runs a capture under way? Those of others are nobody's, and end with their streams. The caller has the lock for captures. */
static bool has_capture(void) {
  for (int i = 0; i < registry->captures.used; i++) {
    const int32_t given = registry->captures.threads[i], thread = abs(given);
    if (registry->captures.streams[i] != 0 && thread > 0 && thread <= SLOTS && registry->slots[thread - 1].owner != 0) return true;
  }
  return false;
}

/** The caller has the lock for captures. */
static void forget_capture(Word stream) {
  for (int i = 0; i < registry->captures.used; i++)
    if (registry->captures.streams[i] == (double)stream) registry->captures.streams[i] = 0;
}

/* -- queries */

static bool captures(Word stream) {
  int status = 0;
  const int result = driver.stream_is_capturing(stream, &status);
  // For the null stream, which cannot capture, an error says that a stream captures which it would wait for.
  return (result != 0 && !is_lost(result)) || status != 0;
}

static bool is_busy(Word stream) { return captures(stream) || driver.stream_query(stream) == NOT_READY; }

/** Calls the function for each stream of one owner, or of all, until it returns false. */
static bool each_stream(const Owner *only, bool (*function)(const Owned *, void *), void *data) {
  bool goes_on = true;
  lock(&owned_guard);
  for (const Owner *owner = only == NULL ? owners : only; owner != NULL && goes_on; owner = only == NULL ? owner->next : NULL) {
    for (const Owned *each = owner->first; each != NULL && goes_on; each = each->after) {
      if ((kind_of(each).traits & IS_STREAM) == 0) continue;
      owned_hold(each->handle);
      unlock(&owned_guard);
      goes_on = function(each, data);
      lock(&owned_guard);
    }
  }
  owned_hold(0);
  unlock(&owned_guard);
  return goes_on;
}

static bool is_idle_stream(const Owned *stream, void *unused) {
  (void)unused;
  return !is_busy(stream->handle);
}

/** A query of a stream invalidates its capture, and one of the null stream those of others: none begins meanwhile. */
static bool are_idle(void) {
  PrimaryContext contexts[MOST_CONTEXTS];
  const int count = primary_contexts(contexts);
  if (!take_lock(&registry->capturing)) return false;
  bool are_idle = !has_capture();
  for (int i = 0; i < count && are_idle; i++) {
    driver.set_context(contexts[i].context);
    are_idle = !is_busy(LEGACY);
  }
  are_idle = are_idle && each_stream(NULL, is_idle_stream, NULL);
  registry->capturing = 0;
  return are_idle;
}

/** Does a stream of any thread wait for JavaScript, or for a value that may come from it? */
static bool anything_stands(void) {
  for (int32_t slot = 0; slot < registry->slots_used; slot++)
    if (registry->slots[slot].owner != 0 && (registry->slots[slot].pending > 0 || registry->slots[slot].value_waits > 0)) return true;
  return false;
}

static bool is_anything_pending(void) {
  for (int32_t slot = 0; slot < registry->slots_used; slot++)
    if (registry->slots[slot].owner != 0 && registry->slots[slot].pending > 0) return true;
  return false;
}

/** Takes the lock for calls that wait for the device, where they would not wait now. */
static bool begin_waiting(int attempts) {
  if (!take_lock(&registry->exclusive)) return false;
  if (!is_anything_pending() && (are_idle() || (attempts > PATIENCE && !anything_stands()))) return true;
  registry->exclusive = 0;
  return false;
}

static void end_waiting(void) { registry->exclusive = 0; }

/* -- events of this thread's own */

static void add_sign(Owner *to, Word context, Word event) {
  Sign *signs = realloc(to->signs, sizeof(Sign) * (size_t)(to->sign_count + 1));
  if (signs == NULL) return;
  to->signs = signs;
  to->signs[to->sign_count++] = (Sign){event, context};
}

/** Records an event behind the work of a stream. If that is refused, there is nothing to wait for that could be seen. */
static void sign(Owner *to, Word context, Word stream) {
  Word event = 0;
  driver.set_context(context);
  if (driver.event_create(&event, DISABLE_TIMING) != 0) return;
  if (driver.event_record(event, stream) == 0) add_sign(to, context, event);
  else driver.event_destroy(event);
}

static bool sign_stream(const Owned *stream, void *to) {
  if (!captures(stream->handle)) sign(to, stream->context, stream->handle);
  return true;
}

static bool are_signs_done(Owner *owner) {
  while (owner->sign_count > 0) {
    const Sign *last = &owner->signs[owner->sign_count - 1];
    if (driver.event_query(last->event) == NOT_READY) return false;
    driver.event_destroy(last->event);
    owner->sign_count -= 1;
  }
  return true;
}

/**
 * Puts signs behind all work that is queued now, and returns whether that was possible. It is not known which work uses memory
 * that other threads have used, so all of it counts. Streams that others still use may have work of the thread that has ended.
 */
static bool has_begun(Owner *owner) {
  if (owner->has_begun) return true;
  if (!take_lock(&registry->capturing)) return false;
  owner->has_begun = !has_capture();
  if (owner->has_begun) each_stream(owner->is_leftover ? NULL : &ownerless, sign_stream, owner);
  registry->capturing = 0;
  return owner->has_begun;
}

/* -- destroying */

/** `stream` is for memory that is freed in its order. Others are given what is known of them, which few functions take. */
static void destroy(Owned *owned, Word stream) {
  const OwnedKind kind = kind_of(owned);
  if (owned->context != 0) driver.set_context(owned->context);
  for (; owned->count > 0; owned->count--) {
    const int result = kind.destroy(owned->handle, (kind.traits & IN_STREAM_ORDER) != 0 ? stream : owned->more);
    if ((kind.traits & NO_RESULT) == 0) report(owned, result);
  }
  lock(&owned_guard);
  owned_forget(owned);
  unlock(&owned_guard);
}

static struct { Word context, stream; } freeing[MOST_CONTEXTS];
static int freeing_count;

static Word spare_stream(Word context) {
  PrimaryContext contexts[MOST_CONTEXTS];
  const int count = primary_contexts(contexts);
  for (int i = 0; i < count; i++) {
    if (contexts[i].context != context || contexts[i].device >= SPARE_DEVICES) continue;
    _Atomic(uint64_t) *spares = &registry->spare_streams[contexts[i].device * SPARE_STREAMS];
    for (int place = 0; place < SPARE_STREAMS; place++) {
      const Word stream = atomic_exchange(&spares[place], 0);
      if (stream == 0) continue;
      registry->spare_counts[contexts[i].device] -= 1;
      return stream;
    }
  }
  return 0;
}

/** The stream on which this thread frees memory of a context: one that the thread which ended had made, or a spare one; 0 where there is none yet. */
static Word freeing_stream(const Owner *owner, Word context) {
  for (int i = 0; i < freeing_count; i++)
    if (freeing[i].context == context) return freeing[i].stream;
  if (freeing_count == MOST_CONTEXTS) return 0;
  Word stream = 0;
  lock(&owned_guard);
  for (Owned *each = owner->first; each != NULL && stream == 0; each = each->after) {
    // Of a stream of a green context, that is in the place of the flags, among which a blocking stream lacks one.
    if ((kind_of(each).traits & IS_STREAM) == 0 || each->context != context || each->more != 1 || each->share != NULL) continue;
    stream = each->handle;
    owned_move(each, &process_owner);
  }
  unlock(&owned_guard);
  if (stream == 0) stream = spare_stream(context);
  if (stream == 0) return 0;
  freeing[freeing_count].context = context;
  freeing[freeing_count++].stream = stream;
  return stream;
}

/** Returns false where it has to be tried again. */
static bool free_in_order(const Owner *owner, Owned *owned) {
  driver.set_context(owned->context);
  // Uses on the null stream are not tracked by events: the memory is freed behind them.
  const bool is_of_null = owned->more <= LEGACY;
  const Word stream = is_of_null ? 0 : freeing_stream(owner, owned->context);
  if (!is_of_null && stream == 0) return false;
  // Work on the null stream invalidates captures of blocking streams: none begins meanwhile.
  if (is_of_null && !take_lock(&registry->capturing)) return false;
  const bool may_free = !is_of_null || (!has_capture() && !captures(LEGACY));
  if (may_free) destroy(owned, stream);
  if (is_of_null) registry->capturing = 0;
  return may_free;
}

static bool destroy_pool(Owner *owner, Owned *pool) {
  uint64_t used = 0, reserved = 0;
  driver.set_context(pool->context);
  // The pool learns that memory was freed when the host waits for it, and from no query.
  for (int i = 0; i < freeing_count; i++) {
    if (freeing[i].context != pool->context) continue;
    if (driver.stream_query(freeing[i].stream) == NOT_READY) return false;
    driver.stream_synchronize(freeing[i].stream);
  }
  driver.trim_pool(pool->handle, 0);
  int result = driver.pool_attribute(pool->handle, USED_CURRENT, &used);
  if (result == 0) result = driver.pool_attribute(pool->handle, RESERVED_CURRENT, &reserved);
  if (result == 0 && (used > 0 || (reserved > 0 && owner->attempts < MOST_ATTEMPTS))) return false;
  destroy(pool, 0);
  return true;
}

/** What the streams of an ended thread still wait for: host functions of graphs, which nobody will run. */
static void serve_graphs(const Semaphores *of) {
  if (of->sequences != 0 || !are_there(of)) return;
  _Atomic(int32_t) *words = (_Atomic(int32_t) *)(uintptr_t)of->address;
  for (int i = 0; i < SEMAPHORES; i++) {
    if (words[2 * i] != 1) continue;
    words[2 * i] = 0;
    words[2 * i + 1] = 1;
  }
}

/** Has the work of an owner completed whose thread has ended? Nothing but this file changes what such an owner has. */
static bool is_quiet(Owner *owner) {
  bool is_quiet = true;
  for (Owned *each = owner->first, *next; each != NULL; each = next) {
    next = each->after;
    const int traits = kind_of(each).traits;
    if (each->semaphores != NULL) serve_graphs(each->semaphores);
    if (!is_quiet) continue;
    if ((traits & IS_EVENT) != 0) is_quiet = driver.event_query(each->handle) != NOT_READY;
    else if ((traits & IS_STREAM) != 0) {
      if (!captures(each->handle)) is_quiet = driver.stream_query(each->handle) != NOT_READY;
      else if (take_lock(&registry->capturing)) {
        // The capture is nobody's any more. Work of before goes on, which only an event behind all work of the context shows.
        const Word stream = each->handle, context = each->context;
        destroy(each, 0);
        forget_capture(stream);
        registry->capturing = 0;
        owner->is_blind = true;
        add_sign(owner, context, 0);
      } else is_quiet = false;
    }
  }
  return is_quiet;
}

/** Puts an event behind all work of each context in which a stream was destroyed that captured. */
static bool sees_all(Owner *owner) {
  if (!owner->is_blind) return true;
  if (!take_lock(&registry->capturing)) return false;
  if (!has_capture()) {
    owner->is_blind = false;
    for (int i = 0; i < owner->sign_count; i++) {
      Sign *each = &owner->signs[i];
      if (each->event != 0) continue;
      driver.set_context(each->context);
      driver.event_create(&each->event, DISABLE_TIMING);
      driver.record_context(each->context, each->event);
    }
  }
  registry->capturing = 0;
  return !owner->is_blind;
}

/** Destroys what is left, in the order of ranks. Returns whether anything was destroyed. */
static bool destroy_all(Owner *owner) {
  bool any = false, is_exclusive = false, may_wait = true;
  // Before the streams are destroyed, of which it may take one.
  for (const Owned *each = owner->first; each != NULL; each = each->after)
    if ((kind_of(each).traits & IN_STREAM_ORDER) != 0) freeing_stream(owner, each->context);
  for (int rank = 0; rank <= RANK; rank++) {
    for (Owned *each = owner->first, *next; each != NULL; each = next) {
      next = each->after;
      const int traits = kind_of(each).traits;
      if ((traits & RANK) != rank) continue;
      bool is_gone = true;
      if (each->semaphores != NULL) {
        keep_semaphores(each->semaphores);
        each->semaphores = NULL;
        lock(&owned_guard);
        owned_forget(each);
        unlock(&owned_guard);
      } else if ((traits & IS_PINNED) != 0 && keep_pinned(each->handle, each->more, each->context)) {
        lock(&owned_guard);
        owned_forget(each);
        unlock(&owned_guard);
      } else if ((traits & IN_STREAM_ORDER) != 0) is_gone = free_in_order(owner, each);
      else if ((traits & IS_POOL) != 0) is_gone = destroy_pool(owner, each);
      else if ((traits & WAITS) != 0) {
        if (!is_exclusive && may_wait) is_exclusive = begin_waiting(owner->attempts);
        may_wait = is_exclusive;
        if (is_exclusive) destroy(each, 0);
        else is_gone = false;
      } else destroy(each, 0);
      any = any || is_gone;
    }
  }
  if (is_exclusive) end_waiting();
  return any;
}

/** Returns whether anything has changed. */
static bool give_back(Owner *owner) {
  owner->attempts += 1;
  if (!has_begun(owner) || !is_quiet(owner) || !sees_all(owner) || !are_signs_done(owner)) return false;
  const bool any = destroy_all(owner);
  if (any) owner->attempts = 0;
  return any;
}

/** Owners are added at any time, and freed by this thread alone. */
static Owner *next_ended(const Owner *after) {
  lock(&owned_guard);
  Owner *found = after == NULL ? owners : after->next;
  while (found != NULL && !found->has_ended) found = found->next;
  unlock(&owned_guard);
  return found;
}

static bool has_nothing(const Owner *owner) { return owner->first == NULL && owner->sign_count == 0; }

static void free_empty(void) {
  lock(&owned_guard);
  for (Owner **each = &owners; *each != NULL;) {
    Owner *owner = *each;
    if (owner->has_ended && has_nothing(owner)) {
      *each = owner->next;
      owner_free(owner);
    } else each = &owner->next;
  }
  unlock(&owned_guard);
}

/* -- the thread */

/** Frees what was kept for long. Returns when more may have been: a moment of now(). */
static int64_t free_stale(void) {
  const int64_t until = kept_until();
  if (until > now()) return until;
  if (!begin_waiting(0)) return now() + LONGEST_NAP;
  for (Kept each = take_expired(); each.length != 0; each = take_expired()) {
    driver.set_context(each.context);
    free_kept(&each);
  }
  end_waiting();
  return now();
}

static void *give_back_all(void *unused) {
  (void)unused;
  int mode = RELAXED;
  uint64_t seen = 0;
  int64_t nap = SHORTEST_NAP;
  driver.exchange_mode(&mode);
  for (;;) {
    bool any = false, is_left = false;
    int64_t until = INT64_MAX;
    lock(&calling);
    if (is_ending) {
      unlock(&calling);
      return NULL;
    }
    if (own_number == 0) take_slot();
    for (Owner *owner = next_ended(NULL); owner != NULL; owner = next_ended(owner)) {
      any = give_back(owner) || any;
      is_left = is_left || !has_nothing(owner);
    }
    free_empty();
    if (!is_left) until = free_stale();
    unlock(&calling);
    nap = any ? SHORTEST_NAP : nap * 2 < LONGEST_NAP ? nap * 2 : LONGEST_NAP;
    if (is_left) until = now() + nap;
    lock(&alarm_of_thread.mutex);
    if (left_behind == seen) alarm_sleep(&alarm_of_thread, until);
    if (left_behind != seen) nap = SHORTEST_NAP;
    seen = left_behind;
    unlock(&alarm_of_thread.mutex);
  }
}

static bool has_thread;

static void start(void) {
  Thread thread;
  if (!alarm_make(&alarm_of_thread)) return;
  at_end(stop_calling);
  if (spawn(&thread, give_back_all, NULL, 256 * 1024) != 0) return;
  let_run(thread);
  has_thread = true;
}

/** Puts signs behind the work of the thread's own default stream, which only the thread itself can see. */
static void sign_per_thread(Owner *owner) {
  int mode = RELAXED;
  Word last = 0;
  driver.exchange_mode(&mode);
  for (const Owned *each = owner->first; each != NULL; each = each->after) {
    if ((kind_of(each).traits & IN_STREAM_ORDER) == 0 || each->more != PER_THREAD || each->context == last) continue;
    last = each->context;
    driver.set_context(last);
    if (!captures(PER_THREAD)) sign(owner, last, PER_THREAD);
  }
  driver.exchange_mode(&mode);
}

static bool has_memory_of_javascript(const Owner *owner) {
  for (const Owned *each = owner->first; each != NULL; each = each->after)
    if ((kind_of(each).traits & OF_JAVASCRIPT) != 0) return true;
  return false;
}

static bool is_busy_still(const Owner *owner) {
  for (const Owned *each = owner->first; each != NULL; each = each->after) {
    const int traits = kind_of(each).traits;
    if ((traits & IS_EVENT) != 0 && driver.event_query(each->handle) == NOT_READY) return true;
    if ((traits & IS_STREAM) != 0 && !captures(each->handle) && driver.stream_query(each->handle) == NOT_READY) return true;
  }
  return false;
}

/**
 * Lets the thread end later, since V8 frees its memory with it, to which the GPU may still write: not for ever, as its work may wait for what never
 * comes. Node-API has nothing by which the memory of an ArrayBuffer could outlive its thread. The thread has no lock meanwhile, and its queries
 * return at once, so only those wait who wait for its end.
 */
static void wait_for_work_with_memory(const Owner *owner) {
  const int64_t until = now() + (int64_t)owner->longest_wait * MILLISECOND;
  char text[320];
  int mode = RELAXED;
  if (!has_memory_of_javascript(owner)) return;
  driver.exchange_mode(&mode);
  bool is_busy = is_busy_still(owner);
  for (; is_busy && now() < until; is_busy = is_busy_still(owner)) sleep_for(SHORTEST_NAP);
  driver.exchange_mode(&mode);
  if (!is_busy) return;
  const int length = snprintf(text, sizeof(text),
                              "(node:%d) [CUDA_STREAMS_CLEANUP] CudaStreamsWarning: a thread ends whose registered arrays the GPU still uses after "
                              "%llu ms (CUDA_STREAMS_DEADLOCK_TIMEOUT): it may write to memory that is freed now. Wait for work with "
                              "registered memory before a worker ends, or use device.allocPinned()\n",
                              process_number(), (unsigned long long)owner->longest_wait);
  write_error(text, (size_t)length);
}

static int wait_at_end(Word owner, Word milliseconds) {
  ((Owner *)(uintptr_t)owner)->longest_wait = milliseconds;
  return 0;
}

/** Leaves the owner to the thread that gives back, which may destroy what is in there, and free the owner. */
static void has_left(Owner *owner) {
  lock(&owned_guard);
  owner->has_ended = true;
  unlock(&owned_guard);
}

/** The owner's thread has ended, or it is a leftover. */
static void owner_leaves(Owner *owner) {
  static Once starting = ONCE_INITIALIZER;
  if (is_ending) return;
  if (driver.set_context == NULL) {
    // On the simulator there are only files, and handles of libraries that compute on the processor.
    while (owner->first != NULL) destroy(owner->first, 0);
    has_left(owner);
    free_empty();
    return;
  }
  if (!owner->is_leftover) {
    wait_for_work_with_memory(owner);
    sign_per_thread(owner);
    has_left(owner);
  }
  once(&starting, start);
  if (!has_thread) return;
  lock(&alarm_of_thread.mutex);
  left_behind += 1;
  alarm_ring(&alarm_of_thread);
  unlock(&alarm_of_thread.mutex);
}

/** Runs at the end of the thread's JavaScript, however it ends. */
static void owner_ends(void *owner) {
  if (owned_end(owner)) owner_leaves(owner);
}

/** own(isMain): the owner of what this thread makes. What the main thread has is gone with the process. */
static napi_value own_handles(napi_env env, napi_callback_info info) {
  napi_value given = NULL, address = NULL;
  if (!arguments(env, info, 1, &given)) return NULL;
  Owner *owner = calloc(1, sizeof(Owner));
  if (owner == NULL) return fail(env, "Out of memory");
  lock(&owned_guard);
  owner->next = owners;
  owners = owner;
  unlock(&owned_guard);
  owner->is_main = word_of(env, given) != 0;
  if (napi_add_env_cleanup_hook(env, owner_ends, owner) != 0)
    return fail(env, "This run time has no hooks at the end of a thread");
  napi_create_double(env, (double)(uintptr_t)owner, &address);
  return address;
}

static int leave_shared(Word owner, Word registration) {
  Owner *leftover = owned_leave((Owner *)(uintptr_t)owner, registration);
  if (leftover != NULL) owner_leaves(leftover);
  return 0;
}

/** The number of handles that are left of threads that have ended; or with 1 of all that there are, whoever has them. For tests. */
static int count_owned(Word of_all) {
  if (of_all != 0) return owned_total() + kept_pinned();
  int count = 0;
  lock(&owned_guard);
  for (const Owner *owner = owners; owner != NULL; owner = owner->next)
    for (const Owned *each = owner->has_ended ? owner->first : NULL; each != NULL; each = each->after) count += 1;
  unlock(&owned_guard);
  return count;
}

const Method leaving_methods[] = {{"ownHandles", own_handles}, {NULL, NULL}};
const OwnFunction leaving_functions[] = {{"leaveShared", leave_shared}, {"countOwned", count_owned}, {"isLost", is_lost},
                                         {"waitAtEnd", wait_at_end},  {NULL, NULL}};

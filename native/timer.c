/*
 * Wakes the event loop after microseconds, or when an event of the GPU is done. The run times' own timers count in milliseconds, and a turn of
 * the event loop costs more than a query. So a thread waits for the moment, queries the events meanwhile, and calls the wake function: the
 * only way in which a thread of this layer calls JavaScript.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include "layer.h"

enum { MOST_EVENTS = 16 };
/** Nanoseconds: an environment, and the process, wait no longer than this at their end for a query that does not return. */
static const int64_t LONGEST_QUERY = 1000000000;

/**
 * The time between two queries: after this share of the time already waited, and every 300 us at least; in long waits, after a hundredth of what is
 * beyond 50 ms, and every 4 ms at least. On an H200 a query and the sleep before it take 6 us of a core, and the end of a wait is noticed as
 * late as by a thread in cuEventSynchronize of an event with CU_EVENT_BLOCKING_SYNC: 0.1 ms after 1 ms, 0.18 after 10, 0.35 after 100.
 */
enum { SHARE = 6, SHARE_OF_LONG_WAITS = 100 };
static const int64_t SHORTEST = 50000, USUAL = 300000, LONG_WAIT = 50000000, LONGEST = 4000000;
/**
 * Work mostly takes as long as the work before it, and is queried this often around that time: every 50 us, or a thousandth of that time. Before
 * then a query comes whenever the time waited has trebled, as this work may be shorter.
 */
enum { SHARE_WHEN_EXPECTED = 1000, GROWTH_BEFORE = 2 };

/** The events to query, as src/cuda/waiting/back-off-timer.ts writes them. */
typedef struct {
  /** cuEventQuery, and cuThreadExchangeStreamCaptureMode: a query in any other mode would invalidate captures of other threads. */
  int (*query)(Word event);
  int (*exchange_mode)(int *mode);
  /** The time already waited at the start. Once it has begun, the moment since when it is waited. */
  int64_t waited;
  /** The time after the start from which, and until which, an event is expected; 0 if none is. Once it has begun, moments. */
  int64_t expected_from, expected_until;
  Word count, events[MOST_EVENTS];
} Queries;

typedef struct {
  napi_threadsafe_function wake;
  Thread thread;
  /** The alarm whose mutex guards what the thread reads, and which rings when that has changed. */
  Alarm alarm;
  /** A moment of now(); 0 when nothing is to be waited for. */
  int64_t due;
  /** What is queried until then; its count is 0 if nothing is. */
  Queries queries;
  /** The moment at which the thread looks by itself: 0 while it is awake. Who starts a sleep rings only if that is too late, as ringing costs 10 us. */
  int64_t looks_at;
  /**
   * The number of the latest sleep, which only the thread of JavaScript changes, with the mutex: a wake-up of an earlier one that is still on
   * its way is nobody's, and so is the answer of a query that was made for one.
   */
  _Atomic(uintptr_t) sleep;
  /** The sleep whose events are queried at present; 0 when none are. Set with the mutex, and cleared without, as the query is made without. */
  _Atomic(uintptr_t) querying;
  /** A value that only this thread's JavaScript reads and writes. */
  bool keeps_alive;
  bool has_alarm;
  bool ended;
  /** The hook at the end of the thread, the threadsafe function, and the timer's own thread: the last that goes frees this. */
  _Atomic(int) owners;
} Timer;

/** The process ends: no call of the driver begins any more, and none is under way, since the driver is about to go. */
static _Atomic(bool) is_ending;
/** Calls of the driver by the timers' threads. No mutex, in which all threads would wait for one whose query does not return. */
static _Atomic(int) under_way;

static bool begin_call(void) {
  under_way++;
  // After the count: either stop_queries() sees this call, or this sees that the process ends.
  if (!is_ending) return true;
  under_way--;
  return false;
}

static void end_call(void) { under_way--; }

/** Passes time until a query has returned, which takes microseconds; `begun` is the moment since when it is waited for. */
static void wait_for_query(int64_t begun) {
  if (now() - begun < 100000) let_others();
  else sleep_for(50000);
}

static void stop_queries(void) {
  is_ending = true;
  for (const int64_t begun = now(); under_way > 0 && now() - begun < LONGEST_QUERY;) wait_for_query(begun);
}

/**
 * Registers what runs at the end of the process before what the driver does then, since it is registered after the driver was
 * loaded.
 */
static void register_end(void) { at_end(stop_queries); }

/**
 * Is one of the events done, or is there any other answer than that it is not? The caller finds out which. No event is queried of
 * a sleep that is over.
 */
static bool is_any_done(const Queries *q, const _Atomic(uintptr_t) *latest, uintptr_t sleep) {
  static _Thread_local bool is_relaxed = false;
  static const int RELAXED = 2, NOT_READY = 600;
  bool is_done = false;
  if (!is_relaxed && begin_call()) {
    int mode = RELAXED;
    is_relaxed = q->exchange_mode(&mode) == 0;
    end_call();
  }
  for (Word i = 0; i < q->count && !is_done && *latest == sleep && begin_call(); i++) {
    is_done = q->query(q->events[i]) != NOT_READY;
    end_call();
  }
  return is_done;
}

/**
 * Queries the events without the mutex: whoever starts or stops the timer waits for one query of its own events at most. The caller has the
 * mutex. False for an answer to a sleep that was over meanwhile.
 */
static bool query_events(Timer *t) {
  const Queries queries = t->queries;
  const uintptr_t sleep = t->sleep;
  if (queries.count == 0) return false;
  t->querying = sleep;
  unlock(&t->alarm.mutex);
  bool is_done = is_any_done(&queries, &t->sleep, sleep);
  t->querying = 0;
  lock(&t->alarm.mutex);
  return is_done && !t->ended && t->sleep == sleep;
}

static int64_t between(int64_t least, int64_t wanted, int64_t most) { return wanted < least ? least : wanted > most ? most : wanted; }

/** The moment of the next query. */
static int64_t next_query(const Queries *q, int64_t now) {
  if (q->count == 0) return INT64_MAX;
  const int64_t waited = now - q->waited;
  if (now < q->expected_from) {
    const int64_t next = now + between(SHORTEST, GROWTH_BEFORE * waited, INT64_MAX);
    return next < q->expected_from ? next : q->expected_from;
  }
  const int64_t usual = between(SHORTEST, waited / SHARE, USUAL);
  const int64_t period = between(usual, (waited - LONG_WAIT) / SHARE_OF_LONG_WAITS, LONGEST);
  if (now >= q->expected_until) return now + period;
  return now + between(SHORTEST, (q->expected_until - q->waited) / SHARE_WHEN_EXPECTED, period);
}

/** The last owner frees it. */
static void leave(Timer *t) {
  if (--t->owners > 0) return;
  if (t->has_alarm) alarm_free(&t->alarm);
  free(t);
}

static void sleep_until(Timer *t, int64_t moment) {
  t->looks_at = moment;
  alarm_sleep(&t->alarm, moment);
  t->looks_at = 0;
}

static int64_t next_look(const Timer *t, int64_t now) {
  const int64_t query = next_query(&t->queries, now);
  return query < t->due ? query : t->due;
}

static void *wait_and_wake(void *data) {
  // The next sleep mostly begins soon after a wake-up.
  enum { MOST_NAPS = 3 };
  Timer *t = data;
  sleep_precisely();
  lock(&t->alarm.mutex);
  for (int naps = MOST_NAPS; !t->ended;) {
    if (t->due == 0) sleep_until(t, naps++ < MOST_NAPS ? now() + SHORTEST : INT64_MAX);
    else if (t->due <= now() || query_events(t)) {
      t->due = 0;
      naps = 0;
      napi_call_threadsafe_function(t->wake, (void *)t->sleep, NAPI_TSFN_NONBLOCKING);
    } else if (!t->ended && t->due != 0) {
      // Another sleep may have begun during the query: its moment and its events count.
      sleep_until(t, next_look(t, now()));
    }
  }
  unlock(&t->alarm.mutex);
  leave(t);
  return NULL;
}

static void keep_alive(napi_env env, Timer *t, bool keeps) {
  if (t->keeps_alive == keeps) return;
  t->keeps_alive = keeps;
  if (keeps) napi_ref_threadsafe_function(env, t->wake);
  else napi_unref_threadsafe_function(env, t->wake);
}

/** Calls the function on the thread of JavaScript. Without an environment that thread is about to end. */
static void wake_up(napi_env env, napi_value function, void *context, void *sleep) {
  Timer *t = context;
  if (env == NULL || t->ended || t->sleep != (uintptr_t)sleep) return;
  keep_alive(env, t, false);
  napi_value self = NULL, error = NULL;
  bool has_thrown = false;
  napi_get_undefined(env, &self);
  if (napi_call_function(env, self, function, 0, NULL, NULL) == 0) return;
  // An uncaught exception must reach the program. Node 20 only warns of one that comes from here.
  if (napi_is_exception_pending(env, &has_thrown) == 0 && has_thrown && napi_get_and_clear_last_exception(env, &error) == 0)
    napi_fatal_exception(env, error);
}

/**
 * Ends the timer: from here on no thread calls the threadsafe function, and none queries an event. A query that does not return,
 * since the driver waits for the device in it, is left to its thread, which then ends by itself: the end of a worker must not
 * wait for a GPU.
 */
static void end(void *data) {
  Timer *t = data;
  if (!t->ended) {
    lock(&t->alarm.mutex);
    t->ended = true;
    t->sleep += 1;
    alarm_ring(&t->alarm);
    unlock(&t->alarm.mutex);
    for (const int64_t begun = now(); t->querying != 0 && now() - begun < LONGEST_QUERY;) wait_for_query(begun);
    if (t->querying == 0) join(t->thread);
    else let_run(t->thread);
  }
  leave(t);
}

static void gone(napi_env env, void *data, void *hint) {
  (void)env, (void)hint;
  end(data);
}

static Timer *timer_of(napi_env env, napi_callback_info info, size_t count, napi_value *arguments) {
  void *data = NULL;
  napi_get_cb_info(env, info, &count, arguments, NULL, &data);
  return data;
}

static void set(Timer *t, int64_t due, const Queries *queries) {
  lock(&t->alarm.mutex);
  t->due = due;
  if (queries != NULL) {
    int64_t start = now();
    t->queries = *queries;
    t->queries.waited = start - queries->waited;
    t->queries.expected_from += start;
    t->queries.expected_until += start;
  } else t->queries.count = 0;
  const uintptr_t sleep = t->sleep += 1;
  if (due != 0 && next_look(t, now()) < t->looks_at) alarm_ring(&t->alarm);
  unlock(&t->alarm.mutex);
  // The events of the sleep before may be destroyed now, so their query must have returned. One of the new events may be under way.
  const int64_t begun = now();
  for (uintptr_t before = t->querying; before != 0 && before != sleep; before = t->querying) wait_for_query(begun);
}

/**
 * start(nanoseconds, queries): calls the wake function once, that much later, or when a query finds that an event is done, unless it is started
 * again or stopped before. `queries` is the address of Queries, which are copied, or 0.
 */
static napi_value start(napi_env env, napi_callback_info info) {
  static Once registering = ONCE_INITIALIZER;
  napi_value given[2] = {NULL, NULL};
  Timer *t = timer_of(env, info, 2, given);
  const Queries *queries = (const Queries *)(uintptr_t)word_of(env, given[1]);
  if (queries != NULL) once(&registering, register_end);
  set(t, now() + (int64_t)word_of(env, given[0]), queries);
  keep_alive(env, t, true);
  return NULL;
}

static napi_value stop(napi_env env, napi_callback_info info) {
  Timer *t = timer_of(env, info, 0, NULL);
  set(t, 0, NULL);
  keep_alive(env, t, false);
  return NULL;
}

/** timer(wake): an object with start() and stop(). It keeps the process alive while it is started, and at no other time. */
static napi_value timer(napi_env env, napi_callback_info info) {
  napi_value wake = NULL, name = NULL, made = NULL, method = NULL;
  if (!arguments(env, info, 1, &wake)) return NULL;
  Timer *t = calloc(1, sizeof(Timer));
  if (t == NULL) return fail(env, "Out of memory");
  napi_create_string_utf8(env, "cuda-streams timer", NAPI_AUTO_LENGTH, &name);
  if (napi_create_threadsafe_function(env, wake, NULL, name, 0, 1, t, gone, t, wake_up, &t->wake) != 0) {
    free(t);
    return fail(env, "This run time has no functions that other threads may call");
  }
  // The threadsafe function, and the thread.
  t->owners = 2;
  t->keeps_alive = true;
  keep_alive(env, t, false);
  t->has_alarm = alarm_make(&t->alarm);
  if (!t->has_alarm || spawn(&t->thread, wait_and_wake, t, 64 * 1024) != 0) {
    t->ended = true;
    t->owners = 1;
    napi_release_threadsafe_function(t->wake, NAPI_TSFN_RELEASE);
    return fail(env, "No thread can be made for a timer");
  }
  // What is added last is run first: the thread ends before the threadsafe function does.
  if (napi_add_env_cleanup_hook(env, end, t) == 0) t->owners += 1;
  napi_create_object(env, &made);
  napi_create_function(env, "start", NAPI_AUTO_LENGTH, start, t, &method);
  napi_set_named_property(env, made, "start", method);
  napi_create_function(env, "stop", NAPI_AUTO_LENGTH, stop, t, &method);
  napi_set_named_property(env, made, "stop", method);
  return made;
}

const Method timer_methods[] = {{"timer", timer}, {NULL, NULL}};

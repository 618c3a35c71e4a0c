/*
 * Wakes the event loop after microseconds. The run times' own timers count in milliseconds, so a thread waits for the moment and calls the
 * wake function: the only way in which this layer calls JavaScript.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include "layer.h"

typedef struct {
  napi_threadsafe_function wake;
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  /** Nanoseconds of the monotonic clock; 0 when nothing is to be waited for. */
  int64_t due;
  /** The number of the latest sleep: a wake-up of an earlier one that is still on its way is nobody's. */
  uintptr_t sleep;
  /** Only this thread's JavaScript reads and writes it. */
  bool keeps_alive;
  bool ended;
  /** The hook at the end of the thread, and the threadsafe function: the last that goes frees this. */
  _Atomic(int) owners;
} Timer;

static const int64_t SECOND = 1000000000;

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * SECOND + time.tv_nsec;
}

static void *wait_and_wake(void *data) {
  Timer *t = data;
  // Otherwise the system may let a thread sleep 50 microseconds longer than it asked for.
  prctl(PR_SET_TIMERSLACK, 1);
  pthread_mutex_lock(&t->mutex);
  while (!t->ended) {
    if (t->due == 0) pthread_cond_wait(&t->changed, &t->mutex);
    else if (t->due <= now()) {
      t->due = 0;
      napi_call_threadsafe_function(t->wake, (void *)t->sleep, NAPI_TSFN_NONBLOCKING);
    } else {
      struct timespec until = {t->due / SECOND, t->due % SECOND};
      pthread_cond_timedwait(&t->changed, &t->mutex, &until);
    }
  }
  pthread_mutex_unlock(&t->mutex);
  return NULL;
}

static void keep_alive(napi_env env, Timer *t, bool keeps) {
  if (t->keeps_alive == keeps) return;
  t->keeps_alive = keeps;
  if (keeps) napi_ref_threadsafe_function(env, t->wake);
  else napi_unref_threadsafe_function(env, t->wake);
}

/** On the thread of JavaScript. Without an environment that thread is about to end. */
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

/** From here on no thread calls the threadsafe function. */
static void end(void *data) {
  Timer *t = data;
  if (!t->ended) {
    pthread_mutex_lock(&t->mutex);
    t->ended = true;
    pthread_cond_signal(&t->changed);
    pthread_mutex_unlock(&t->mutex);
    pthread_join(t->thread, NULL);
  }
  if (--t->owners == 0) free(t);
}

static void gone(napi_env env, void *data, void *hint) {
  (void)env, (void)hint;
  end(data);
}

static Timer *timer_of(napi_env env, napi_callback_info info, napi_value *argument) {
  void *data = NULL;
  size_t count = argument == NULL ? 0 : 1;
  napi_get_cb_info(env, info, &count, argument, NULL, &data);
  return data;
}

static void set(Timer *t, int64_t due) {
  pthread_mutex_lock(&t->mutex);
  t->due = due;
  t->sleep += 1;
  if (due != 0) pthread_cond_signal(&t->changed);
  pthread_mutex_unlock(&t->mutex);
}

/** start(nanoseconds): calls the wake function once, that much later, unless it is started again or stopped before. */
static napi_value start(napi_env env, napi_callback_info info) {
  napi_value nanoseconds = NULL;
  Timer *t = timer_of(env, info, &nanoseconds);
  set(t, now() + (int64_t)word_of(env, nanoseconds));
  keep_alive(env, t, true);
  return NULL;
}

static napi_value stop(napi_env env, napi_callback_info info) {
  Timer *t = timer_of(env, info, NULL);
  set(t, 0);
  keep_alive(env, t, false);
  return NULL;
}

static bool begin(Timer *t) {
  pthread_condattr_t monotonic;
  pthread_mutex_init(&t->mutex, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&t->changed, &monotonic);
  pthread_condattr_destroy(&monotonic);
  return spawn(&t->thread, wait_and_wake, t, 64 * 1024) == 0;
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
  t->owners = 1;
  t->keeps_alive = true;
  keep_alive(env, t, false);
  if (!begin(t)) {
    t->ended = true;
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

#include <pthread.h>

#define EXPORT __attribute__((visibility("default")))

typedef pthread_t Thread;

typedef pthread_mutex_t Mutex;
#define MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
static inline void lock(Mutex *mutex) { pthread_mutex_lock(mutex); }
static inline bool try_lock(Mutex *mutex) { return pthread_mutex_trylock(mutex) == 0; }
static inline void unlock(Mutex *mutex) { pthread_mutex_unlock(mutex); }

typedef pthread_cond_t Condition;
#define CONDITION_INITIALIZER PTHREAD_COND_INITIALIZER
static inline void await(Condition *condition, Mutex *mutex) { pthread_cond_wait(condition, mutex); }
static inline void wake_one(Condition *condition) { pthread_cond_signal(condition); }
static inline void wake_all(Condition *condition) { pthread_cond_broadcast(condition); }

typedef pthread_once_t Once;
#define ONCE_INITIALIZER PTHREAD_ONCE_INIT
static inline void once(Once *control, void (*function)(void)) { pthread_once(control, function); }

/**
 * An alarm at which one thread sleeps with the mutex of its maker, until a moment of now(), or until another thread rings it.
 * INT64_MAX: until then only.
 */
typedef struct {
  Mutex mutex;
  pthread_cond_t rung;
} Alarm;
bool alarm_make(Alarm *alarm);
void alarm_sleep(Alarm *alarm, int64_t until);
static inline void alarm_ring(Alarm *alarm) { pthread_cond_signal(&alarm->rung); }
static inline void alarm_free(Alarm *alarm) { (void)alarm; }

/* Words as Windows has them, so that <windows.h> need not be included. windows/system.c holds them against it. */
#define EXPORT __declspec(dllexport)

typedef void *Thread;

typedef struct {
  void *word;
} Mutex;
#define MUTEX_INITIALIZER {NULL}
void lock(Mutex *mutex);
bool try_lock(Mutex *mutex);
void unlock(Mutex *mutex);

typedef struct {
  void *word;
} Condition;
#define CONDITION_INITIALIZER {NULL}
void await(Condition *condition, Mutex *mutex);
void wake_one(Condition *condition);
void wake_all(Condition *condition);

typedef struct {
  void *word;
} Once;
#define ONCE_INITIALIZER {NULL}
void once(Once *control, void (*function)(void));

/**
 * An alarm at which one thread sleeps with its mutex, until a moment of now(), or until another thread rings it. INT64_MAX: until
 * then only.
 */
typedef struct {
  Mutex mutex;
  void *rung, *timer;
} Alarm;
bool alarm_make(Alarm *alarm);
void alarm_sleep(Alarm *alarm, int64_t until);
void alarm_ring(Alarm *alarm);
void alarm_free(Alarm *alarm);

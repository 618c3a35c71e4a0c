/* The system is Windows 10 or later. */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../system.h"

_Static_assert(sizeof(Mutex) == sizeof(SRWLOCK) && sizeof(Condition) == sizeof(CONDITION_VARIABLE) && sizeof(Once) == sizeof(INIT_ONCE),
               "types.h has these words without <windows.h>");

/** What the system counts times in. */
static const int64_t TICK = 100;

void lock(Mutex *mutex) { AcquireSRWLockExclusive((SRWLOCK *)mutex); }
bool try_lock(Mutex *mutex) { return TryAcquireSRWLockExclusive((SRWLOCK *)mutex); }
void unlock(Mutex *mutex) { ReleaseSRWLockExclusive((SRWLOCK *)mutex); }

void await(Condition *condition, Mutex *mutex) {
  SleepConditionVariableSRW((CONDITION_VARIABLE *)condition, (SRWLOCK *)mutex, INFINITE, 0);
}
void wake_one(Condition *condition) { WakeConditionVariable((CONDITION_VARIABLE *)condition); }
void wake_all(Condition *condition) { WakeAllConditionVariable((CONDITION_VARIABLE *)condition); }

static BOOL CALLBACK call_once(INIT_ONCE *control, void *function, void **unused) {
  (void)control, (void)unused;
  ((void (*)(void))function)();
  return TRUE;
}
void once(Once *control, void (*function)(void)) { InitOnceExecuteOnce((INIT_ONCE *)control, call_once, (void *)function, NULL); }

typedef struct {
  void *(*function)(void *);
  void *argument;
} Start;

static DWORD WINAPI run(void *data) {
  Start start = *(Start *)data;
  free(data);
  start.function(start.argument);
  return 0;
}

int spawn(Thread *thread, void *(*function)(void *), void *argument, size_t stack_bytes) {
  Start *start = malloc(sizeof(Start));
  if (start == NULL) return ERROR_NOT_ENOUGH_MEMORY;
  *start = (Start){function, argument};
  *thread = CreateThread(NULL, stack_bytes, run, start, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
  if (*thread != NULL) return 0;
  int error = (int)GetLastError();
  free(start);
  return error;
}

void join(Thread thread) {
  WaitForSingleObject(thread, INFINITE);
  CloseHandle(thread);
}

void let_run(Thread thread) { CloseHandle(thread); }

Word thread_number(void) { return GetCurrentThreadId(); }

int64_t now(void) {
  static int64_t frequency;
  LARGE_INTEGER ticks;
  if (frequency == 0) {
    QueryPerformanceFrequency(&ticks);
    frequency = ticks.QuadPart;
  }
  QueryPerformanceCounter(&ticks);
  const int64_t second = 1000000000;
  return ticks.QuadPart / frequency * second + ticks.QuadPart % frequency * second / frequency;
}

/**
 * A timer that ends within half a millisecond of its time (Windows 10 1803 and later); the others end with the system's tick, of
 * up to 16.
 */
static HANDLE precise_timer(void) {
  const DWORD high_resolution = 2;
  HANDLE timer = CreateWaitableTimerExW(NULL, NULL, high_resolution, TIMER_ALL_ACCESS);
  return timer != NULL ? timer : CreateWaitableTimerExW(NULL, NULL, 0, TIMER_ALL_ACCESS);
}

static void set_timer(HANDLE timer, int64_t nanoseconds) {
  // Less than nothing is a time from now on.
  LARGE_INTEGER after = {.QuadPart = -(nanoseconds < TICK ? 1 : nanoseconds / TICK)};
  SetWaitableTimer(timer, &after, 0, NULL, NULL, FALSE);
}

void sleep_for(int64_t nanoseconds) {
  HANDLE timer = precise_timer();
  if (timer == NULL) {
    Sleep((DWORD)(nanoseconds / 1000000));
    return;
  }
  set_timer(timer, nanoseconds);
  WaitForSingleObject(timer, INFINITE);
  CloseHandle(timer);
}

/** Does nothing, since the timers are made to end on time. */
void sleep_precisely(void) {}

void let_others(void) { SwitchToThread(); }

int cores(void) {
  DWORD_PTR own = 0, all = 0;
  return GetProcessAffinityMask(GetCurrentProcess(), &own, &all) ? __builtin_popcountll(own) : 1;
}

bool alarm_make(Alarm *alarm) {
  alarm->mutex = (Mutex)MUTEX_INITIALIZER;
  alarm->rung = CreateEventW(NULL, FALSE, FALSE, NULL);
  alarm->timer = precise_timer();
  if (alarm->rung != NULL && alarm->timer != NULL) return true;
  alarm_free(alarm);
  return false;
}

/** The event keeps a ring that comes before the wait begins. A condition variable would count in milliseconds. */
void alarm_sleep(Alarm *alarm, int64_t until) {
  HANDLE both[] = {alarm->rung, alarm->timer};
  if (until != INT64_MAX) set_timer(alarm->timer, until - now());
  unlock(&alarm->mutex);
  WaitForMultipleObjects(until == INT64_MAX ? 1 : 2, both, FALSE, INFINITE);
  lock(&alarm->mutex);
}

void alarm_ring(Alarm *alarm) { SetEvent(alarm->rung); }

void alarm_free(Alarm *alarm) {
  if (alarm->rung != NULL) CloseHandle(alarm->rung);
  if (alarm->timer != NULL) CloseHandle(alarm->timer);
}

/** The system ends all threads but one before it tells libraries that the process ends: nothing of the layer runs then. */
void at_end(void (*function)(void)) { (void)function; }

int process_number(void) { return (int)GetCurrentProcessId(); }

void write_error(const char *text, size_t length) {
  DWORD written = 0;
  WriteFile(GetStdHandle(STD_ERROR_HANDLE), text, (DWORD)length, &written, NULL);
}

/** Memory of this name, which has one word: no other process has the number of this one while it runs, and its end gives the memory back. */
void *first_of_process(const char *name, void *own) {
  char whole[128];
  snprintf(whole, sizeof(whole), "Local\\%s-%lu", name, (unsigned long)GetCurrentProcessId());
  HANDLE file = CreateFileMappingA(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, 0, sizeof(void *), whole);
  void *volatile *word = file == NULL ? NULL : MapViewOfFile(file, FILE_MAP_WRITE, 0, 0, sizeof(void *));
  if (word == NULL) return own;
  void *first = InterlockedCompareExchangePointer(word, own, NULL);
  // Neither is given back, or the next copy would find nothing.
  return first == NULL ? own : first;
}

int read_memory(Word from, Word to, Word length) {
  SIZE_T read = 0;
  const void *source = (const void *)(uintptr_t)from;
  return ReadProcessMemory(GetCurrentProcess(), source, (void *)(uintptr_t)to, length, &read) && read == length;
}

/** Large pages need a privilege that programs do not have. */
int large_pages(Word address, Word length) {
  (void)address, (void)length;
  return 0;
}

/** The file is a mapping object. */
Word map_file(Word file, Word length) {
  return (Word)(uintptr_t)MapViewOfFile((HANDLE)(uintptr_t)file, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, length);
}

int unmap(Word address, Word length) {
  (void)length;
  return UnmapViewOfFile((void *)(uintptr_t)address) ? 0 : -1;
}

enum { MOST_PATH = 4096 };

static bool wide_of(const char *text, wchar_t *into, int room) {
  return MultiByteToWideChar(CP_UTF8, 0, text, -1, into, room) != 0;
}

/** What the system says of its latest error, in UTF-8, behind its number. */
static const char *last_error(void) {
  static _Thread_local char text[1024];
  wchar_t wide[512] = L"";
  DWORD error = GetLastError();
  DWORD length = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, error, 0, wide, 512, NULL);
  while (length > 0 && wide[length - 1] <= L' ') wide[--length] = 0;
  int begun = snprintf(text, sizeof(text), "Windows error %lu: ", (unsigned long)error);
  WideCharToMultiByte(CP_UTF8, 0, wide, -1, text + begun, (int)sizeof(text) - begun, NULL, NULL);
  return text;
}

static void *keep(HMODULE library, const void *address) {
  const DWORD how = GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS;
  HMODULE kept = NULL;
  GetModuleHandleExW(how, (const wchar_t *)(address == NULL ? (const void *)library : address), &kept);
  return library;
}

/**
 * A name alone is that of a library which is loaded already, or is beside the program or in the system's folder: never one of the folder that
 * the program happens to be started in. A path may have libraries beside it that it needs itself.
 */
void *open_file(const char *path, const char **why) {
  wchar_t wide[MOST_PATH];
  if (!wide_of(path, wide, MOST_PATH)) {
    *why = "The path is too long";
    return NULL;
  }
  bool is_name = strpbrk(path, "\\/") == NULL;
  for (wchar_t *at = wide; *at != 0; at++)
    if (*at == L'/') *at = L'\\';
  HMODULE library = is_name ? GetModuleHandleW(wide) : NULL;
  if (library == NULL)
    library = LoadLibraryExW(wide, NULL, is_name ? LOAD_LIBRARY_SEARCH_DEFAULT_DIRS : LOAD_WITH_ALTERED_SEARCH_PATH);
  if (library != NULL) return keep(library, NULL);
  *why = last_error();
  return NULL;
}

void *find_symbol(void *library, const char *name) {
  void *found = (void *)GetProcAddress(library == NULL ? GetModuleHandleW(NULL) : (HMODULE)library, name);
  return found != NULL || library != NULL ? found : (void *)GetProcAddress(GetModuleHandleW(L"ucrtbase.dll"), name);
}

bool file_at(const void *address, char *path, size_t room) {
  const DWORD how = GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS;
  wchar_t wide[MOST_PATH];
  HMODULE library = NULL;
  // No address at all would be the program.
  if (address == NULL || !GetModuleHandleExW(how, (const wchar_t *)address, &library)) return false;
  DWORD length = GetModuleFileNameW(library, wide, MOST_PATH);
  return length > 0 && length < MOST_PATH && WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, (int)room, NULL, NULL) != 0;
}

/** Libraries name the library of each symbol here, so that one which is loaded is found. */
int lend_symbols(Word path) {
  wchar_t wide[MOST_PATH];
  return !wide_of((const char *)(uintptr_t)path, wide, MOST_PATH) || GetModuleHandleW(wide) == NULL;
}

/** Sets the variable for the libraries that ask the system, and for those that ask the C library of Windows. */
int set_variable(Word name, Word value) {
  const char *variable = (const char *)(uintptr_t)name, *text = (const char *)(uintptr_t)value;
  if (GetEnvironmentVariableA(variable, NULL, 0) != 0) return 0;
  SetEnvironmentVariableA(variable, text);
  return _putenv_s(variable, text);
}

/** What NVRTC does to handlers of signals was seen on Linux. */
int note_signals(void) { return 0; }
int restore_signals(void) { return 0; }

bool connect_node(void);

/** Threads and hooks may run in this library: it is never unloaded. Without the functions of Node-API it is not loaded at all. */
BOOL WINAPI DllMain(HINSTANCE self, DWORD reason, void *unused) {
  (void)unused;
  if (reason != DLL_PROCESS_ATTACH) return TRUE;
  keep(self, (const void *)self);
  return connect_node();
}

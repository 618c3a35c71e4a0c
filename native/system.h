/*
 * What the layer wants of the operating system. posix/ has it for Linux, and windows/ for Windows: no other file knows on which of them it
 * runs. The types differ: Mutex, Condition, Once, Alarm and Thread, with the functions that take them.
 */
#ifndef SYSTEM_H
#define SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#include "windows/types.h"
#else
#include "posix/types.h"
#endif

/** An argument of a C function: an integer, an enum, a handle or an address. Doubles and floats have calls of their own. */
typedef uint64_t Word;

/** Starts a thread that handles no signals: those are for the threads of the program. Returns 0, or an error of the system. */
int spawn(Thread *thread, void *(*function)(void *), void *argument, size_t stack_bytes);
/** Waits for the end of the thread. */
void join(Thread thread);
/** Lets a thread run that is never joined. */
void let_run(Thread thread);
/** The number that CUPTI has for this thread. */
Word thread_number(void);

/** Nanoseconds of a clock that is never set. */
int64_t now(void);
void sleep_for(int64_t nanoseconds);
/** Makes this thread's sleeps end on time, as far as the system can do that. */
void sleep_precisely(void);
/** Lets others have the core for a moment. */
void let_others(void);
/** How many cores this process may use. */
int cores(void);

/**
 * Registers a function that is called at the end of the process, before what libraries that are loaded by now do then, if other
 * threads run then.
 */
void at_end(void (*function)(void));
int process_number(void);
/** Standard error may be closed, or full. */
void write_error(const char *text, size_t length);

/**
 * The process has one address of this name, although it may have loaded several copies of this file: that of the copy which came first, of
 * which `own` is the exported symbol.
 */
void *first_of_process(const char *name, void *own);

/** Copies memory that may not be there. Returns 1, or 0 when it cannot be read: it never crashes. */
int read_memory(Word from, Word to, Word length);
/** Asks for pages of 2 MiB for the whole ones in this memory. The system need not follow. */
int large_pages(Word address, Word length);
/** Maps a file that processes share; 0 where the system refuses. */
Word map_file(Word file, Word length);
int unmap(Word address, Word length);

/** Loads a library for good, since its threads may run in it. NULL, with what the loader says. */
void *open_file(const char *path, const char **why);
/**
 * Finds a symbol of a library, or of the program itself and what it began with if that is NULL. NULL if there is none.
 */
void *find_symbol(void *library, const char *name);
/** Writes the path of the file that was loaded at this address. False where there is none. */
bool file_at(const void *address, char *path, size_t room);
/** Makes the symbols of a library that is loaded visible to those that are loaded later. Returns 0, or 1 if it is not loaded. */
int lend_symbols(Word path);
/** Sets a variable of the environment for C, which does not see the process.env of a worker. One that is set is kept. */
int set_variable(Word name, Word value);
/**
 * Notes how handlers of signals are set, before NVRTC is used; `restore_signals` sets them again after each compilation, which
 * resets them.
 */
int note_signals(void);
int restore_signals(void);

#endif

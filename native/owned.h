/* What each thread of JavaScript has made and not destroyed: the handles of the driver and of its libraries, by which they can be destroyed when
   the thread has ended. owned.c has the table, which calls nothing of leaving.c; that has the thread which destroys what is left. */
#ifndef OWNED_H
#define OWNED_H

#include "threads.h"

typedef struct Owner Owner;
typedef struct Owned Owned;
typedef struct Share Share;

/** What is true of a kind of handle, beside its rank in the lowest four bits: lower ranks are destroyed first. */
enum {
  RANK = 15,
  /** A stream, or an event: nothing of its thread is destroyed before its work has completed. */
  IS_STREAM = 16,
  IS_EVENT = 32,
  /** Memory that is freed in the order of a stream, which the function gets as its second argument. */
  IN_STREAM_ORDER = 64,
  /** A pool of memory, which must have none in use. */
  IS_POOL = 128,
  /** Page-locked memory, which is kept for the next request. */
  IS_PINNED = 256,
  /** Destroying the handle can wait for the whole device, and keep other threads out of the driver meanwhile. */
  WAITS = 512,
  /** The same handle can be had several times, and must be given back as often. */
  IS_COUNTED = 1024,
  /** Memory of JavaScript, which goes with the thread, though the GPU may still use it. */
  OF_JAVASCRIPT = 4096,
  /** An int of C, and no pointer. */
  IS_INT = 8192,
  /** The function that destroys it returns nothing. */
  NO_RESULT = 16384,
};

typedef struct {
  int (*destroy)(Word handle, Word more);
  int traits;
  /** The name of the function, for a warning. */
  const char *name;
} OwnedKind;

/** The semaphores of a thread, which the streams of other libraries may come to after its end. */
typedef struct Semaphores {
  struct Semaphores *next;
  Word address, sequences, labels;
} Semaphores;

/** What a search and the removal of a neighbour look at comes first, in one line of the processor's cache. */
struct Owned {
  Owned *in_bucket;
  Word handle;
  int kind, count;
  Owned *before, *after;
  Share *share;
  Semaphores *semaphores;
  /** The length of what was made, or the stream on which it was allocated. */
  Word more;
  Owner *owner;
  Word context;
};

/** A call of a driver function that makes or destroys something. */
typedef struct OwnedCall OwnedCall;

/** An event of leaving.c's own, which shows that work has completed. */
typedef struct {
  Word event, context;
} Sign;

/** A thread of JavaScript, while it runs and until what it left is destroyed. */
struct Owner {
  Owner *next;
  Owned *first;
  OwnedCall *calls;
  /** What the calls of the thread alone use. */
  struct OwnMemory *memory;
  bool is_main, has_ended;
  /** The milliseconds that the end of the thread waits at most for work with its memory of JavaScript. */
  Word longest_wait;
  /** The rest is for leaving.c alone. What must be done before anything is destroyed. */
  Sign *signs;
  int sign_count;
  /** Whether the owner got things that others shared: then all work that any stream has now must complete. */
  bool is_leftover;
  bool has_begun;
  /** A stream was destroyed while it captured, so that its work can only be seen with all others'. */
  bool is_blind;
  int attempts;
};

/** An object that the thread which made it has shared with others. */
struct Share {
  Share *next;
  /** Words in memory whose first is zero once it is gone. */
  Word registration;
  Owned *things[2];
  struct User {
    struct User *next;
    Owner *owner;
    int count;
  } *users;
  bool has_owner;
};

/** The results of the driver that may be those of a lost context, in whole words. */
enum { FIRST_LOST = 700, MOST_LOST = 104 };

/** The functions of the driver that the layer calls itself, in the order of CALLED_IN_C in src/cuda/libcuda/owned-handles.ts. */
typedef struct {
  int (*set_context)(Word context);
  int (*get_context)(Word *context);
  int (*exchange_mode)(int *mode);
  int (*stream_query)(Word stream);
  int (*stream_is_capturing)(Word stream, int *status);
  int (*stream_destroy)(Word stream);
  int (*stream_synchronize)(Word stream);
  int (*event_create)(Word *event, unsigned flags);
  int (*event_record)(Word event, Word stream);
  int (*event_query)(Word event);
  int (*event_destroy)(Word event);
  int (*record_context)(Word context, Word event);
  int (*pool_attribute)(Word pool, int attribute, uint64_t *value);
  int (*trim_pool)(Word pool, size_t bytes);
  /** The functions that in-order.c calls. */
  int (*set_pool_attribute)(Word pool, int attribute, const void *value);
  int (*allocate)(Word *pointer, size_t bytes, Word stream);
  int (*allocate_from_pool)(Word *pointer, size_t bytes, Word pool, Word stream);
  int (*free)(Word pointer, Word stream);
  int (*stream_wait)(Word stream, Word event, unsigned flags);
  /** Whether a result is that of a lost context, for each of these results. */
  uint8_t is_lost[MOST_LOST];
} GivingBack;

/** The driver's functions; zeros until JavaScript has called giveBackBy(). */
extern GivingBack driver;

/** Guards the table, and all that is reachable from it. The driver is never called with it. */
extern Mutex owned_guard;
/** The owners of all threads that have not gone, then what belongs to none of them. */
extern Owner *owners, process_owner, ownerless;

OwnedKind kind_of(const Owned *owned);
/** The thread has made it, in the context that is current. */
void owned_add(Owner *owner, int kind, Word handle, Word more);
/** The same, in a context that the caller knows to be current. */
void owned_add_in(Owner *owner, int kind, Word handle, Word more, Word context);
/** Returns the context that was current when it was made; 0 where the table does not have it. */
Word owned_take_out(int kind, Word handle);
/** Takes it out of the table. The caller has the guard. */
void owned_forget(Owned *owned);
void owned_move(Owned *owned, Owner *to);
/** Holds a handle, or none if it is 0. While a handle is held, no thread destroys it. The caller has the guard. */
void owned_hold(Word stream);
/** Calls the function that destroys handles of this kind. */
int destroy_of_kind(int kind, Word handle);
/** The JavaScript of the owner's thread ends: its semaphores are signalled. Returns false for the main thread, of which nothing is given back. */
bool owned_end(Owner *owner);
/** The thread uses what was shared no more. Returns the owner of what nobody has any more, which is to be given back; NULL where somebody has it. */
Owner *owned_leave(Owner *owner, Word registration);
/** The number of all handles that there are, and of the semaphores that are kept. For tests. */
int owned_total(void);
/** Frees an owner that has nothing left. */
void owner_free(Owner *owner);

/** A primary context, and the ordinal of its device. */
typedef struct {
  Word context;
  int device;
} PrimaryContext;
enum { MOST_CONTEXTS = 64 };
int primary_contexts(PrimaryContext *into);

/** Is their memory there? Another library that resets the device takes it away. */
bool are_there(const Semaphores *semaphores);
/** Keeps the semaphores of a thread that has ended for another. */
void keep_semaphores(Semaphores *semaphores);

#endif

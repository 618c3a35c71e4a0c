/* Page-locked memory that is kept for the next request: kept.c has it, and leaving.c frees what nobody has asked for. */
#ifndef KEPT_H
#define KEPT_H

#include "owned.h"

typedef struct Kept {
  struct Kept *next;
  Word pointer, length, context;
  int64_t since;
} Kept;

/** Keeps page-locked memory, unless there is enough. */
bool keep_pinned(Word pointer, Word length, Word context);
/** How many blocks are kept. */
int kept_pinned(void);
/** When a block may have been kept for long: a moment of now(), which may have passed. INT64_MAX while there is none. */
int64_t kept_until(void);
/** A block that was kept for long, which the caller frees; one of no bytes where there is none. */
Kept take_expired(void);
int free_kept(const Kept *taken);

#endif

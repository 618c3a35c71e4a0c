/* Page-locked memory that is kept for the next request, since to allocate it takes long. */
#include <stdlib.h>
#include "kept.h"

static int64_t in_nanoseconds(Word milliseconds) { return (int64_t)milliseconds * 1000000; }

static Mutex kept_guard = MUTEX_INITIALIZER;
static Kept *kept;
static Word kept_bytes;
/** The memory that is kept is allocated in multiples of this number of bytes. */
static const Word GRANULE = 65536;
/** JavaScript says how much is kept, and for how long, before it keeps any. What nobody has asked for in that time is freed. */
static Word most_kept;
static int64_t longest_kept;
static int free_host_kind = -1;

bool keep_pinned(Word pointer, Word length, Word context) {
  bool is_kept = false;
  if (length == 0 || length % GRANULE != 0) return false;
  lock(&kept_guard);
  Kept *made = kept_bytes + length > most_kept ? NULL : malloc(sizeof(Kept));
  if (made != NULL) {
    *made = (Kept){kept, pointer, length, context, now()};
    kept = made;
    kept_bytes += length;
    is_kept = true;
  }
  unlock(&kept_guard);
  return is_kept;
}

static Kept take(Kept **at) {
  Kept *gone = *at, taken = *gone;
  *at = gone->next;
  kept_bytes -= gone->length;
  free(gone);
  return taken;
}

/** Returns 0 where enough is kept: then the thread still has it. */
static int keep(Word owner, Word kind, Word pointer, Word length) {
  const Word context = owned_take_out((int)kind, pointer);
  if (keep_pinned(pointer, length, context)) return 1;
  owned_add((Owner *)(uintptr_t)owner, (int)kind, pointer, length);
  return 0;
}

/** Writes the pointer of what the thread has now, and returns its length. */
static Word taken_by(Word owner, Word kind, const Kept *taken, Word *pointer) {
  if (taken->length != 0) owned_add((Owner *)(uintptr_t)owner, (int)kind, taken->pointer, taken->length);
  *pointer = taken->pointer;
  return taken->length;
}

/** The smallest block that is large enough, and not so large that much is wasted; 0 where there is none. */
static Word take_kept(Word owner, Word kind, Word wanted, Word *pointer) {
  Kept **best = NULL, taken = {0};
  lock(&kept_guard);
  for (Kept **each = &kept; *each != NULL; each = &(*each)->next)
    if ((*each)->length >= wanted && (*each)->length <= 2 * wanted && (best == NULL || (*each)->length < (*best)->length)) best = each;
  if (best != NULL) taken = take(best);
  unlock(&kept_guard);
  return taken_by(owner, kind, &taken, pointer);
}

static Kept take_before(int64_t moment) {
  Kept taken = {0};
  lock(&kept_guard);
  for (Kept **each = &kept; *each != NULL; each = &(*each)->next) {
    if ((*each)->since > moment) continue;
    taken = take(each);
    break;
  }
  unlock(&kept_guard);
  return taken;
}

/** A block that was kept for so many milliseconds; 0 where there is none. */
static Word take_stale(Word owner, Word kind, Word milliseconds, Word *pointer) {
  const Kept taken = take_before(now() - in_nanoseconds(milliseconds));
  return taken_by(owner, kind, &taken, pointer);
}

int kept_pinned(void) {
  int count = 0;
  lock(&kept_guard);
  for (const Kept *each = kept; each != NULL; each = each->next) count += 1;
  unlock(&kept_guard);
  return count;
}

static Word bytes_kept(void) {
  lock(&kept_guard);
  const Word bytes = kept_bytes;
  unlock(&kept_guard);
  return bytes;
}

static int note_pinned(Word kind, Word most, Word milliseconds) {
  lock(&kept_guard);
  free_host_kind = (int)kind;
  most_kept = most;
  longest_kept = in_nanoseconds(milliseconds);
  unlock(&kept_guard);
  return 0;
}

int64_t kept_until(void) {
  int64_t oldest = INT64_MAX;
  lock(&kept_guard);
  for (const Kept *each = kept; each != NULL; each = each->next)
    if (each->since < oldest) oldest = each->since;
  unlock(&kept_guard);
  return oldest == INT64_MAX ? INT64_MAX : oldest + longest_kept;
}

Kept take_expired(void) { return free_host_kind < 0 ? (Kept){0} : take_before(now() - longest_kept); }

int free_kept(const Kept *taken) { return destroy_of_kind(free_host_kind, taken->pointer); }

const OwnFunction kept_functions[] = {{"keepPinned", keep},      {"takeKeptPinned", take_kept}, {"takeStalePinned", take_stale},
                                      {"bytesKept", bytes_kept}, {"notePinned", note_pinned},   {NULL, NULL}};

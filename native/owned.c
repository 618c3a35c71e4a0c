/* The table of what each thread of JavaScript has made and not destroyed. Calls that make or destroy something write it themselves, so that a thread
   that is terminated in between leaves nothing unknown. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "frame.h"
#include "owned.h"

enum { MOST_KINDS = 64, FIRST_BUCKETS = 1024, AT_ONCE = 256 };

GivingBack driver;
Mutex owned_guard = MUTEX_INITIALIZER;
Owner process_owner, ownerless, *owners = &ownerless;

static OwnedKind kinds[MOST_KINDS];
static int kind_count;
static Owned **buckets, *unused;
static size_t bucket_count, owned_count;
static Word held;
static Share *shares;
static Semaphores *kept_semaphores;
static PrimaryContext contexts[MOST_CONTEXTS];
static int context_count;

OwnedKind kind_of(const Owned *owned) { return kinds[owned->kind]; }

int destroy_of_kind(int kind, Word handle) { return kinds[kind].destroy(handle, 0); }

/** Handles that are neighbours have buckets that are, since they are destroyed one after the other too: the processor has these at hand. */
static Owned **bucket_of(int kind, Word handle) {
  const Word folded = (handle >> 4) ^ (handle >> 9) ^ (handle >> 21) ^ (handle >> 35);
  return &buckets[(folded ^ ((Word)kind * 0x9e3779b9u >> 16)) & (bucket_count - 1)];
}

static Owned *find(int kind, Word handle) {
  if (buckets == NULL) return NULL;
  for (Owned *each = *bucket_of(kind, handle); each != NULL; each = each->in_bucket)
    if (each->handle == handle && each->kind == kind) return each;
  return NULL;
}

/** Returns false when there is no memory for it: then the table stays as it is, and is searched for longer. */
static bool grow(void) {
  const size_t before = bucket_count;
  Owned **old = buckets, **made = calloc(before == 0 ? FIRST_BUCKETS : 2 * before, sizeof(Owned *));
  if (made == NULL) return before > 0;
  buckets = made;
  bucket_count = before == 0 ? FIRST_BUCKETS : 2 * before;
  for (size_t i = 0; i < before; i++) {
    for (Owned *each = old[i], *next; each != NULL; each = next) {
      next = each->in_bucket;
      Owned **bucket = bucket_of(each->kind, each->handle);
      each->in_bucket = *bucket;
      *bucket = each;
    }
  }
  free(old);
  return true;
}

/** Takes an unused Owned. Many are made at once, so that those which are used one after the other are neighbours. */
static Owned *take_unused(void) {
  if (unused == NULL) {
    Owned *made = malloc(AT_ONCE * sizeof(Owned));
    if (made == NULL) return NULL;
    for (int i = 0; i < AT_ONCE; i++) made[i].in_bucket = i + 1 < AT_ONCE ? &made[i + 1] : NULL;
    unused = made;
  }
  Owned *taken = unused;
  unused = taken->in_bucket;
  return taken;
}

static void unlink_from_owner(Owned *owned) {
  if (owned->before != NULL) owned->before->after = owned->after;
  else owned->owner->first = owned->after;
  if (owned->after != NULL) owned->after->before = owned->before;
}

static void link_to_owner(Owned *owned, Owner *owner) {
  owned->owner = owner;
  owned->before = NULL;
  owned->after = owner->first;
  if (owner->first != NULL) owner->first->before = owned;
  owner->first = owned;
}

void owned_move(Owned *owned, Owner *to) {
  unlink_from_owner(owned);
  link_to_owner(owned, to);
}

void owned_hold(Word stream) { held = stream; }

static void forget_share(Share *share) {
  for (Share **each = &shares; *each != NULL; each = &(*each)->next) {
    if (*each != share) continue;
    *each = share->next;
    break;
  }
  for (int i = 0; i < 2; i++)
    if (share->things[i] != NULL) share->things[i]->share = NULL;
  for (struct User *user = share->users, *next; user != NULL; user = next) {
    next = user->next;
    free(user);
  }
  free(share);
}

void owned_forget(Owned *owned) {
  for (Owned **each = bucket_of(owned->kind, owned->handle); *each != NULL; each = &(*each)->in_bucket) {
    if (*each != owned) continue;
    *each = owned->in_bucket;
    break;
  }
  unlink_from_owner(owned);
  if (owned->share != NULL) forget_share(owned->share);
  free(owned->semaphores);
  owned->in_bucket = unused;
  unused = owned;
  owned_count -= 1;
}

void owned_add(Owner *owner, int kind, Word handle, Word more) {
  Word context = 0;
  if (driver.get_context != NULL) driver.get_context(&context);
  owned_add_in(owner, kind, handle, more, context);
}

void owned_add_in(Owner *owner, int kind, Word handle, Word more, Word context) {
  if (handle == 0) return;
  lock(&owned_guard);
  Owned *owned = find(kind, handle);
  if (owned != NULL) {
    // What had this handle before was destroyed unseen, unless handles of the kind are counted.
    owned->count = (kinds[kind].traits & IS_COUNTED) != 0 ? owned->count + 1 : 1;
    if (owned->share != NULL) forget_share(owned->share);
    owned_move(owned, owner);
  } else if (owned_count < bucket_count || grow()) {
    owned = take_unused();
    if (owned != NULL) {
      Owned **bucket = bucket_of(kind, handle);
      *owned = (Owned){.in_bucket = *bucket, .handle = handle, .kind = kind, .count = 1};
      *bucket = owned;
      link_to_owner(owned, owner);
      owned_count += 1;
    }
  }
  if (owned != NULL) {
    owned->context = context;
    owned->more = more;
  }
  unlock(&owned_guard);
}

/** What is needed to put a handle back that could not be destroyed. */
typedef struct {
  Owner *owner;
  Word context, more;
} Removed;

/**
 * Takes a handle out of the table before it is destroyed: another thread may make something that has the same handle as soon as
 * it is.
 */
static Removed take_out(int kind, Word handle) {
  Removed removed = {NULL, 0, 0};
  lock(&owned_guard);
  while (held == handle && held != 0) {
    unlock(&owned_guard);
    let_others();
    lock(&owned_guard);
  }
  Owned *owned = find(kind, handle);
  if (owned != NULL) {
    removed = (Removed){owned->owner, owned->context, owned->more};
    if (owned->count > 1) owned->count -= 1;
    else owned_forget(owned);
  }
  unlock(&owned_guard);
  return removed;
}

struct OwnedCall {
  OwnedCall *next;
  Frame *frame;
  Owner *owner;
  int kind, argument, more;
  enum { MAKES, MAKES_GIVEN, DESTROYS } role;
};

#define A(n) ((Word)(int64_t)s[n])

static napi_value call_owning(napi_env env, napi_callback_info info) {
  OwnedCall *call = NULL;
  napi_get_cb_info(env, info, NULL, NULL, NULL, (void **)&call);
  double *s = call->frame->slots;
  const Word given = A(call->argument), more = A(call->more);
  const Removed removed = call->role == DESTROYS ? take_out(call->kind, given) : (Removed){NULL, 0, 0};
  int (*function)(Word, Word, Word, Word, Word, Word, Word, Word) =
      (int (*)(Word, Word, Word, Word, Word, Word, Word, Word))call->frame->function;
  const int result = function(A(0), A(1), A(2), A(3), A(4), A(5), A(6), A(7));
  s[0] = result;
  if (call->role == DESTROYS) {
    if (result != 0 && removed.owner != NULL) owned_add(call->owner, call->kind, given, removed.more);
  } else if (result == 0) {
    Word made = call->role == MAKES ? *(const Word *)(uintptr_t)given : given;
    if ((kinds[call->kind].traits & IS_INT) != 0) made &= UINT32_MAX;
    owned_add(call->owner, call->kind, made, more);
  }
  return NULL;
}

static Owner *owner_of(Word address) { return (Owner *)(uintptr_t)address; }

/**
 * bindOwning(buffer, offset, owner, kind, role, argument, more): as bind() of a call of eight words that makes or destroys something. `argument` is the
 * position of the handle, or of where it is written, and `more` that of the length or of the stream.
 */
static napi_value bind_owning(napi_env env, napi_callback_info info) {
  napi_value given[7], bound = NULL;
  void *data = NULL;
  size_t length = 0;
  if (!arguments(env, info, 7, given)) return NULL;
  const Word offset = word_of(env, given[1]), kind = word_of(env, given[3]);
  if (napi_get_arraybuffer_info(env, given[0], &data, &length) != 0 || offset + sizeof(Frame) + 8 * sizeof(double) > length)
    return fail(env, "No frame lies there");
  if (kind >= (Word)kind_count) return fail(env, "There is no such kind of handle");
  OwnedCall *call = malloc(sizeof(OwnedCall));
  if (call == NULL) return fail(env, "Out of memory");
  Owner *owner = owner_of(word_of(env, given[2]));
  *call = (OwnedCall){owner->calls, (Frame *)((char *)data + offset), owner, (int)kind, (int)word_of(env, given[5]), (int)word_of(env, given[6]), (int)word_of(env, given[4])};
  owner->calls = call;
  napi_create_function(env, NULL, 0, call_owning, call, &bound);
  return bound;
}

void owner_free(Owner *owner) {
  for (OwnedCall *call = owner->calls, *next; call != NULL; call = next) {
    next = call->next;
    free(call);
  }
  free(owner->signs);
  free(owner);
}

/** The caller has the guard. */
static void leave(Share *share, Owner *user) {
  for (struct User **each = &share->users; *each != NULL; each = &(*each)->next) {
    if ((*each)->owner != user) continue;
    struct User *gone = *each;
    *each = gone->next;
    free(gone);
    break;
  }
}

/** What nobody has any more goes to an owner of its own, which gives it back. NULL where somebody has it. */
static Owner *leftover_of(Share *share) {
  if (share->has_owner || share->users != NULL) return NULL;
  Owner *leftover = calloc(1, sizeof(Owner));
  if (leftover == NULL) return NULL;
  leftover->is_leftover = leftover->has_ended = true;
  leftover->next = owners;
  owners = leftover;
  *(_Atomic(uint64_t) *)(uintptr_t)share->registration = 0;
  for (int i = 0; i < 2; i++)
    if (share->things[i] != NULL) owned_move(share->things[i], leftover);
  forget_share(share);
  return leftover;
}

bool are_there(const Semaphores *of) {
  int32_t word;
  const Word into = (Word)(uintptr_t)&word, last = of->address + sizeof(Semaphore) * SEMAPHORES + sizeof(word) * (SEMAPHORES - 1);
  return read_memory(of->address, into, sizeof(word)) && read_memory(last, into, sizeof(word));
}

/**
 * Signals all semaphores of a thread that has ended: nobody runs the host functions that streams wait for. Streams wait again at
 * those of graphs at each launch, so leaving.c signals these again.
 */
static void signal_all(const Semaphores *of) {
  // At least any sequence that a semaphore reaches in two thousand million calls.
  static const int32_t ALL = 0x7f7f7f7f;
  if (!are_there(of)) return;
  _Atomic(int32_t) *words = (_Atomic(int32_t) *)(uintptr_t)of->address;
  for (int i = 0; i < SEMAPHORES; i++) words[2 * i + 1] = of->sequences == 0 ? 1 : ALL;
}

/** A block of memory of one thread, with the zeros that JavaScript has behind it. */
struct OwnMemory {
  struct OwnMemory *before, *after;
};

/** Allocates zeros that the thread itself frees, or its end. */
static Word allocate_of_thread(Word address, Word length) {
  Owner *owner = owner_of(address);
  struct OwnMemory *made = allocate_block(sizeof(struct OwnMemory) + length);
  if (made == NULL) return 0;
  made->after = owner->memory;
  if (made->after != NULL) made->after->before = made;
  owner->memory = made;
  return (Word)(uintptr_t)(made + 1);
}

static int release_of_thread(Word address, Word memory) {
  struct OwnMemory *gone = (struct OwnMemory *)(uintptr_t)memory - 1;
  if (gone->before != NULL) gone->before->after = gone->after;
  else owner_of(address)->memory = gone->after;
  if (gone->after != NULL) gone->after->before = gone->before;
  release_block(gone);
  return 0;
}

static void free_memory(Owner *owner) {
  for (struct OwnMemory *each = owner->memory, *next; each != NULL; each = next) {
    next = each->after;
    release_block(each);
  }
  owner->memory = NULL;
}

bool owned_end(Owner *owner) {
  lock(&owned_guard);
  for (const Owned *each = owner->first; each != NULL; each = each->after)
    if (each->semaphores != NULL) signal_all(each->semaphores);
  if (owner->is_main) {
    unlock(&owned_guard);
    return false;
  }
  // No call of the thread is under way: C code that it was inside has returned before this.
  free_memory(owner);
  for (Share *share = shares, *next; share != NULL; share = next) {
    next = share->next;
    leave(share, owner);
    const Owned *thing = share->things[0] != NULL ? share->things[0] : share->things[1];
    if (thing != NULL && thing->owner == owner) {
      share->has_owner = false;
      if (share->users != NULL) {
        for (int i = 0; i < 2; i++)
          if (share->things[i] != NULL) owned_move(share->things[i], &ownerless);
        continue;
      }
      *(_Atomic(uint64_t) *)(uintptr_t)share->registration = 0;
      forget_share(share);
    } else leftover_of(share);
  }
  unlock(&owned_guard);
  return true;
}

/** Threads that come and go ask for the same kinds, each with a text of its own. */
static const char *copy_of(const char *text) {
  const size_t length = strlen(text) + 1;
  char *copy = malloc(length);
  return copy == NULL ? "" : memcpy(copy, text, length);
}

/** The number of the kind of handles that this function destroys. Two threads that ask for the same get the same. -1 where there are too many. */
static int add_kind(Word destroy, Word traits, Word name) {
  int kind = 0;
  lock(&owned_guard);
  while (kind < kind_count && (kinds[kind].destroy != (int (*)(Word, Word))destroy || kinds[kind].traits != (int)traits)) kind++;
  if (kind == kind_count && kind_count < MOST_KINDS) kinds[kind_count++] = (OwnedKind){(int (*)(Word, Word))destroy, (int)traits, copy_of((const char *)(uintptr_t)name)};
  unlock(&owned_guard);
  return kind < kind_count ? kind : -1;
}

static int add_owned(Word owner, Word kind, Word handle, Word more) {
  owned_add(owner_of(owner), (int)kind, handle, more);
  return 0;
}

Word owned_take_out(int kind, Word handle) { return take_out(kind, handle).context; }

static int remove_owned(Word kind, Word handle) { return take_out((int)kind, handle).owner != NULL; }

/** Makes a handle belong to all threads, until one of them destroys it. */
static int give_to_process(Word kind, Word handle) {
  lock(&owned_guard);
  Owned *owned = find((int)kind, handle);
  if (owned != NULL) owned_move(owned, &process_owner);
  unlock(&owned_guard);
  return owned != NULL;
}

static int give_back_by(const GivingBack *functions) {
  lock(&owned_guard);
  driver = *functions;
  unlock(&owned_guard);
  return 0;
}

static int note_context(Word context, Word device) {
  lock(&owned_guard);
  int known = 0;
  while (known < context_count && contexts[known].context != context) known++;
  if (known == context_count && context_count < MOST_CONTEXTS) contexts[context_count++] = (PrimaryContext){context, (int)device};
  unlock(&owned_guard);
  return 0;
}

int primary_contexts(PrimaryContext *into) {
  lock(&owned_guard);
  const int count = context_count;
  memcpy(into, contexts, sizeof(PrimaryContext) * (size_t)count);
  unlock(&owned_guard);
  return count;
}

static Share *share_at(Word registration) {
  Share *share = shares;
  while (share != NULL && share->registration != registration) share = share->next;
  return share;
}

/** The thread has shared what it owns: one thing or two, of which each lives until no thread uses it. */
static int share_owned(Word registration, Word kind, Word handle, Word second_kind, Word second) {
  lock(&owned_guard);
  Owned *things[2] = {find((int)kind, handle), second == 0 ? NULL : find((int)second_kind, second)};
  Share *share = things[0] == NULL && things[1] == NULL ? NULL : calloc(1, sizeof(Share));
  if (share != NULL) {
    *share = (Share){.next = shares, .registration = registration, .has_owner = true};
    shares = share;
    for (int i = 0; i < 2; i++) {
      if (things[i] == NULL || things[i]->share != NULL) continue;
      share->things[i] = things[i];
      things[i]->share = share;
    }
  }
  unlock(&owned_guard);
  return share != NULL;
}

/** Called when the owner of the shared object has closed it. */
static int unshare_owned(Word registration) {
  lock(&owned_guard);
  Share *share = share_at(registration);
  if (share != NULL && share->has_owner) forget_share(share);
  unlock(&owned_guard);
  return 0;
}

static int use_shared(Word owner, Word registration) {
  lock(&owned_guard);
  Share *share = share_at(registration);
  struct User *user = share == NULL ? NULL : share->users;
  while (user != NULL && user->owner != owner_of(owner)) user = user->next;
  if (user != NULL) user->count += 1;
  else if (share != NULL && (user = malloc(sizeof(struct User))) != NULL) {
    *user = (struct User){share->users, owner_of(owner), 1};
    share->users = user;
  }
  unlock(&owned_guard);
  return 0;
}

Owner *owned_leave(Owner *owner, Word registration) {
  Owner *leftover = NULL;
  lock(&owned_guard);
  Share *share = share_at(registration);
  struct User *user = share == NULL ? NULL : share->users;
  while (user != NULL && user->owner != owner) user = user->next;
  if (user != NULL && --user->count == 0) {
    leave(share, owner);
    leftover = leftover_of(share);
  }
  unlock(&owned_guard);
  return leftover;
}

/** The thread's page-locked memory at this address has its semaphores, at which streams of other libraries may wait after its end. */
static int note_semaphores(Word kind, Word address, Word sequences, Word labels) {
  Semaphores *made = malloc(sizeof(Semaphores));
  if (made == NULL) return 0;
  *made = (Semaphores){NULL, address, sequences, labels};
  lock(&owned_guard);
  Owned *owned = find((int)kind, address);
  if (owned != NULL) owned->semaphores = made;
  else free(made);
  unlock(&owned_guard);
  return 0;
}

void keep_semaphores(Semaphores *semaphores) {
  lock(&owned_guard);
  semaphores->next = kept_semaphores;
  kept_semaphores = semaphores;
  unlock(&owned_guard);
}

/** Has each stream come to the latest call that was queued? Then none writes "waiting", or "held", any more. */
static bool are_reached(const Semaphores *of) {
  if (!are_there(of)) return false;
  const _Atomic(int32_t) *words = (const _Atomic(int32_t) *)(uintptr_t)of->address;
  const int32_t *sequences = (const int32_t *)(uintptr_t)of->sequences;
  for (int i = 0; sequences != NULL && i < SEMAPHORES; i++)
    if (sequences[i] != 0 && words[2 * i] != sequences[i] && words[2 * SEMAPHORES + i] != sequences[i]) return false;
  return true;
}

/**
 * Semaphores of a thread that has ended, for another one: writes their address, that of the latest sequence of each, and that of their labels. Without
 * sequences they are those of graphs. Returns 1, or 0 where there are none.
 */
static int take_semaphores(Word owner, Word kind, Word *into, Word are_of_graphs) {
  Semaphores *found = NULL;
  lock(&owned_guard);
  for (Semaphores **each = &kept_semaphores; *each != NULL; each = &(*each)->next) {
    if (((*each)->sequences == 0) != (are_of_graphs != 0) || !are_reached(*each)) continue;
    found = *each;
    *each = found->next;
    break;
  }
  unlock(&owned_guard);
  if (found == NULL) return 0;
  owned_add(owner_of(owner), (int)kind, found->address, 0);
  into[0] = found->address, into[1] = found->sequences, into[2] = found->labels;
  lock(&owned_guard);
  Owned *owned = find((int)kind, found->address);
  if (owned != NULL) owned->semaphores = found;
  unlock(&owned_guard);
  return 1;
}

int owned_total(void) {
  lock(&owned_guard);
  int count = (int)owned_count;
  for (const Semaphores *each = kept_semaphores; each != NULL; each = each->next) count += 1;
  unlock(&owned_guard);
  return count;
}

const Method owned_methods[] = {{"bindOwning", bind_owning}, {NULL, NULL}};
const OwnFunction owned_functions[] = {{"addKind", add_kind},
                                       {"addOwned", add_owned},
                                       {"removeOwned", remove_owned},
                                       {"giveToProcess", give_to_process},
                                       {"giveBackBy", give_back_by},
                                       {"noteContext", note_context},
                                       {"shareOwned", share_owned},
                                       {"unshareOwned", unshare_owned},
                                       {"useShared", use_shared},
                                       {"noteSemaphores", note_semaphores},
                                       {"takeSemaphores", take_semaphores},
                                       {"allocateOfThread", allocate_of_thread},
                                       {"releaseOfThread", release_of_thread},
                                       {NULL, NULL}};

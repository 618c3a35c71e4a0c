/*
 * Calls of the system that touch memory for the program, such as read(2). The kernel gives no signal where a page has no permission, but an error.
 * So before such a call its bytes are looked at, and their pages given back. These functions take the place of the C library's if this library is preloaded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "trace.h"

#define EXPORT __attribute__((visibility("default")))

static void usedAll(const struct iovec *all, int count, int isWrite) {
  for (int at = 0; at < count; at++) host_used(all[at].iov_base, all[at].iov_len, isWrite);
}

/* The C library's own function. */
#define NEXT(name)                                                                                                    \
  static __typeof__(name) *next;                                                                                       \
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, #name)
#define WRAP(result, name, parameters, looks, ...)                                                                     \
  EXPORT result (name) parameters {                                                                                    \
    NEXT(name);                                                                                                        \
    looks;                                                                                                             \
    return next(__VA_ARGS__);                                                                                          \
  }

extern ssize_t __read_chk(int, void *, size_t, size_t);
extern ssize_t __pread_chk(int, void *, size_t, off_t, size_t);
extern ssize_t __pread64_chk(int, void *, size_t, off_t, size_t);
extern ssize_t __recv_chk(int, void *, size_t, size_t, int);
extern ssize_t __recvfrom_chk(int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *);
extern size_t __fread_chk(void *, size_t, size_t, size_t, FILE *);

WRAP(ssize_t, read, (int file, void *to, size_t bytes), host_used(to, bytes, 1), file, to, bytes)
WRAP(ssize_t, pread, (int file, void *to, size_t bytes, off_t at), host_used(to, bytes, 1), file, to, bytes, at)
WRAP(ssize_t, readv, (int file, const struct iovec *to, int count), usedAll(to, count, 1), file, to, count)
WRAP(ssize_t, preadv, (int file, const struct iovec *to, int count, off_t at), usedAll(to, count, 1), file, to, count, at)
WRAP(ssize_t, recv, (int socket, void *to, size_t bytes, int flags), host_used(to, bytes, 1), socket, to, bytes, flags)
WRAP(ssize_t, recvmsg, (int socket, struct msghdr *message, int flags), usedAll(message->msg_iov, (int)message->msg_iovlen, 1), socket, message, flags)
WRAP(size_t, fread, (void *to, size_t size, size_t count, FILE *file), host_used(to, size * count, 1), to, size, count, file)
WRAP(size_t, fread_unlocked, (void *to, size_t size, size_t count, FILE *file), host_used(to, size * count, 1), to, size, count, file)
WRAP(ssize_t, write, (int file, const void *from, size_t bytes), host_used(from, bytes, 0), file, from, bytes)
WRAP(ssize_t, pwrite, (int file, const void *from, size_t bytes, off_t at), host_used(from, bytes, 0), file, from, bytes, at)
WRAP(ssize_t, writev, (int file, const struct iovec *from, int count), usedAll(from, count, 0), file, from, count)
WRAP(ssize_t, pwritev, (int file, const struct iovec *from, int count, off_t at), usedAll(from, count, 0), file, from, count, at)
WRAP(ssize_t, send, (int socket, const void *from, size_t bytes, int flags), host_used(from, bytes, 0), socket, from, bytes, flags)
WRAP(ssize_t, sendmsg, (int socket, const struct msghdr *message, int flags), usedAll(message->msg_iov, (int)message->msg_iovlen, 0), socket, message, flags)
WRAP(size_t, fwrite, (const void *from, size_t size, size_t count, FILE *file), host_used(from, size * count, 0), from, size, count, file)
WRAP(size_t, fwrite_unlocked, (const void *from, size_t size, size_t count, FILE *file), host_used(from, size * count, 0), from, size, count, file)
#ifdef __GLIBC__
WRAP(ssize_t, pread64, (int file, void *to, size_t bytes, off_t at), host_used(to, bytes, 1), file, to, bytes, at)
WRAP(ssize_t, preadv64, (int file, const struct iovec *to, int count, off_t at), usedAll(to, count, 1), file, to, count, at)
WRAP(ssize_t, pwrite64, (int file, const void *from, size_t bytes, off_t at), host_used(from, bytes, 0), file, from, bytes, at)
WRAP(ssize_t, pwritev64, (int file, const struct iovec *from, int count, off_t at), usedAll(from, count, 0), file, from, count, at)
WRAP(ssize_t, recvfrom, (int socket, void *to, size_t bytes, int flags, struct sockaddr *address, socklen_t *length), host_used(to, bytes, 1), socket, to, bytes, flags, address, length)
WRAP(ssize_t, sendto, (int socket, const void *from, size_t bytes, int flags, const struct sockaddr *address, socklen_t length), host_used(from, bytes, 0), socket, from, bytes, flags, address, length)
WRAP(ssize_t, __read_chk, (int file, void *to, size_t bytes, size_t room), host_used(to, bytes, 1), file, to, bytes, room)
WRAP(ssize_t, __pread_chk, (int file, void *to, size_t bytes, off_t at, size_t room), host_used(to, bytes, 1), file, to, bytes, at, room)
WRAP(ssize_t, __pread64_chk, (int file, void *to, size_t bytes, off_t at, size_t room), host_used(to, bytes, 1), file, to, bytes, at, room)
WRAP(ssize_t, __recv_chk, (int socket, void *to, size_t bytes, size_t room, int flags), host_used(to, bytes, 1), socket, to, bytes, room, flags)
WRAP(ssize_t, __recvfrom_chk, (int socket, void *to, size_t bytes, size_t room, int flags, struct sockaddr *address, socklen_t *length), host_used(to, bytes, 1), socket, to, bytes, room, flags, address, length)
WRAP(size_t, __fread_chk, (void *to, size_t room, size_t size, size_t count, FILE *file), host_used(to, size * count, 1), to, room, size, count, file)
#endif

int host_is_preloaded(void) {
  Dl_info own, first;
  /* A name alone would be whatever comes first in the process. */
  return dladdr((const void *)(uintptr_t)host_is_preloaded, &own) != 0 && dladdr(dlsym(RTLD_DEFAULT, "read"), &first) != 0 && own.dli_fbase == first.dli_fbase;
}

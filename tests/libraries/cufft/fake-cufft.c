/* Pretends to be cuFFT: writes down what it is asked. */
#include <stddef.h>
#include <stdint.h>

void fake_count(int more);

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern int next_status;

/* How many bytes the next plans work in. */
static size_t work_bytes = 4096;
void fake_work_bytes(size_t bytes) { work_bytes = bytes; }

static int answer(void) {
  int status = next_status;
  next_status = 0;
  return status;
}

int cufftCreate(int *plan) {
  fake_count(1);
  static int plans;
  *plan = plans += 1;
  say("create plan\n");
  return 0;
}
int cufftDestroy(int plan) {
  fake_count(-1);
  (void)plan;
  say("destroy plan\n");
  return 0;
}
int cufftGetProperty(int part, int *value) {
  *value = part + 12;
  return 0;
}
int cufftSetAutoAllocation(int plan, int automatic) {
  (void)plan;
  say("auto allocation %d\n", automatic);
  return 0;
}
int cufftMakePlanMany64(int plan, int rank, long long *n, long long *inembed, long long istride, long long idist,
                        long long *onembed, long long ostride, long long odist, int type, long long batch,
                        size_t *bytes) {
  (void)plan;
  say("plan %x of", type);
  for (int i = 0; i < rank; i += 1) say(" %lld", n[i]);
  say(" x%lld, plain %d\n", batch,
      inembed == NULL && istride == 1 && idist == 0 && onembed == NULL && ostride == 1 && odist == 0);
  *bytes = work_bytes;
  return answer();
}
int cufftSetStream(int plan, void *stream) {
  (void)plan;
  say("stream %lx\n", (unsigned long)(uintptr_t)stream);
  return 0;
}
int cufftSetWorkArea(int plan, void *area) {
  (void)plan;
  say("area %lx\n", (unsigned long)(uintptr_t)area);
  return 0;
}

#define X(pointer) ((unsigned long)(uintptr_t)(pointer))
#define COMPLEX(name)                                                  \
  int cufftExec##name(int plan, void *from, void *to, int direction) { \
    (void)plan;                                                        \
    say(#name " %lx %lx %d\n", X(from), X(to), direction);             \
    return answer();                                                   \
  }
#define REAL(name)                                      \
  int cufftExec##name(int plan, void *from, void *to) { \
    (void)plan;                                         \
    say(#name " %lx %lx\n", X(from), X(to));            \
    return answer();                                    \
  }
COMPLEX(C2C)
COMPLEX(Z2Z)
REAL(R2C)
REAL(C2R)
REAL(D2Z)
REAL(Z2D)

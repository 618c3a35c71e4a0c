/* Pretends to be cuRAND: writes down what it is asked. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

void fake_count(int more);

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern int next_status;

static int answer(void) {
  int status = next_status;
  next_status = 0;
  return status;
}
#define X(pointer) ((unsigned long)(uintptr_t)(pointer))

int curandCreateGenerator(void **generator, int type) {
  fake_count(1);
  *generator = malloc(1);
  say("create generator %d\n", type);
  return 0;
}
int curandDestroyGenerator(void *generator) {
  fake_count(-1);
  free(generator);
  say("destroy generator\n");
  return 0;
}
int curandGetProperty(int part, int *value) {
  *value = part + 10;
  return 0;
}
int curandSetStream(void *generator, void *stream) {
  (void)generator;
  say("stream %lx\n", X(stream));
  return 0;
}
int curandSetPseudoRandomGeneratorSeed(void *generator, unsigned long long seed) {
  (void)generator;
  say("seed %llu\n", seed);
  return answer();
}
int curandSetGeneratorOffset(void *generator, unsigned long long offset) {
  (void)generator;
  say("offset %llu\n", offset);
  return 0;
}
int curandSetGeneratorOrdering(void *generator, int order) {
  (void)generator;
  say("order %d\n", order);
  return 0;
}

#define PLAIN(name, type)                                    \
  int curandGenerate##name(void *generator, type *to, size_t count) { \
    (void)generator;                                         \
    say("generate" #name " %lx %zu\n", X(to), count);        \
    return answer();                                         \
  }
#define NORMAL(name, type)                                                                      \
  int curandGenerate##name(void *generator, type *to, size_t count, type mean, type deviation) { \
    (void)generator;                                                                            \
    say("generate" #name " %lx %zu %.9g %.9g\n", X(to), count, mean, deviation);                \
    return answer();                                                                            \
  }
PLAIN(, unsigned)
PLAIN(Uniform, float)
PLAIN(UniformDouble, double)
NORMAL(Normal, float)
NORMAL(NormalDouble, double)
NORMAL(LogNormal, float)
NORMAL(LogNormalDouble, double)

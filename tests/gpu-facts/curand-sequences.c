/*
 * Does cuRAND's generator on a GPU give the numbers of its generator on the host, which tests/libraries/curand/sequences.ts has recorded, and
 * which the simulator gives? And what becomes of a generator in a capture? It needs no header, and finds libcurand and libcuda.so.1
 * itself:
 *
 *   gcc -O1 -Wall tests/gpu-facts/curand-sequences.c -o /tmp/curand-sequences -ldl -lm
 *   /tmp/curand-sequences [--all] [path of libcurand, such as .../site-packages/nvidia/cu13/lib/libcurand.so.10]
 *
 * It prints a line for each sequence of calls: b(its), u(niform), U(niform of f64), n(ormal), N(ormal of f64), l(og-normal), each with how
 * many; the offset; the hash of all words that the host gives, as sequences.ts has it; and "same", or the first word that is another. Normal
 * numbers are "within" the largest difference. With --all it prints the first 4096 of b, u and n, of the GPU where there is one.
 * Exit status 0: all bits and uniform numbers are the same. 1: some are not. 2: no GPU, so that only the host was run.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *Generator;
typedef unsigned long long U64;
enum { PHILOX = 161, DEFAULT = 101, LEGACY = 103, SEED = 1234, MOST = 1 << 20 };

static int (*create)(Generator *, int), (*create_host)(Generator *, int), (*destroy)(Generator);
static int (*set_seed)(Generator, U64), (*set_offset)(Generator, U64), (*set_order)(Generator, int), (*set_stream)(Generator, void *);
static int (*bits)(Generator, void *, size_t), (*uniform)(Generator, void *, size_t), (*uniform64)(Generator, void *, size_t);
static int (*normal)(Generator, void *, size_t, float, float), (*log_normal)(Generator, void *, size_t, float, float);
static int (*normal64)(Generator, void *, size_t, double, double);
static int (*get_version)(int *);

static int (*init)(unsigned), (*device_get)(int *, int), (*retain)(void **, int), (*current)(void *), (*synchronize)(void);
static int (*alloc)(U64 *, size_t), (*download)(void *, U64, size_t), (*stream_create)(void **, unsigned);
static int (*begin)(void *, int), (*end)(void *, void **), (*nodes)(void *, void **, size_t *), (*instantiate)(void **, void *, U64);
static int (*launch)(void *, void *);

static void *symbol(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (found == NULL) {
    printf("there is no %s\n", name);
    exit(1);
  }
  return found;
}
#define FROM(library, variable, name) *(void **)&variable = symbol(library, name)

static void must(int status, const char *what) {
  if (status == 0) return;
  printf("%s: %d\n", what, status);
  exit(1);
}

/** Makes the calls, with the result in `to`, which is memory of the host. Returns the bytes, or minus the first status that is not success. */
static long play(int on_device, int order, U64 offset, const char *calls, unsigned char *to, U64 memory) {
  Generator generator;
  must((on_device ? create : create_host)(&generator, PHILOX), "create");
  must(set_order(generator, order), "order");
  must(set_seed(generator, SEED), "seed");
  must(set_offset(generator, offset), "offset");
  long length = 0;
  int status = 0;
  for (const char *at = calls; *at != 0 && status == 0;) {
    char kind = *at;
    char *after;
    size_t count = strtoull(at + 1, &after, 10);
    at = *after == ' ' ? after + 1 : after;
    /* On the GPU all calls write to the same place, which is aligned for all of them. */
    void *place = on_device ? (void *)(uintptr_t)memory : to + length;
    if (kind == 'b') status = bits(generator, place, count);
    if (kind == 'u') status = uniform(generator, place, count);
    if (kind == 'U') status = uniform64(generator, place, count);
    if (kind == 'n') status = normal(generator, place, count, 0, 1);
    if (kind == 'l') status = log_normal(generator, place, count, 0, 1);
    if (kind == 'N') status = normal64(generator, place, count, 0, 1);
    long bytes = (long)count * (kind == 'U' || kind == 'N' ? 8 : 4);
    if (on_device && status == 0) {
      must(synchronize(), "synchronize");
      must(download(to + length, memory, bytes), "download");
    }
    length += bytes;
  }
  destroy(generator);
  return status == 0 ? length : -status;
}

static uint32_t hash_of(const unsigned char *bytes, long length) {
  uint32_t hash = 0;
  for (long at = 0; at < length; at += 4) {
    uint32_t word;
    memcpy(&word, bytes + at, 4);
    hash = hash * 31 + word;
  }
  return hash;
}

static int differ(const char *calls, const unsigned char *host, const unsigned char *device, long length) {
  if (strpbrk(calls, "nNl") == NULL) {
    for (long at = 0; at < length; at += 4) {
      if (memcmp(host + at, device + at, 4) == 0) continue;
      printf(" word %ld is another\n", at / 4);
      return 1;
    }
    printf(" same\n");
    return 0;
  }
  int wide = strchr(calls, 'N') != NULL;
  double most = 0;
  for (long at = 0; at < length; at += wide ? 8 : 4) {
    double difference = wide ? *(const double *)(host + at) - *(const double *)(device + at)
                             : (double)*(const float *)(host + at) - *(const float *)(device + at);
    if (fabs(difference) > most) most = fabs(difference);
  }
  printf(" within %g\n", most);
  return 0;
}

/** Is a call captured, and what do two launches of the graph give? */
static void capture(U64 memory) {
  Generator generator;
  void *stream, *graph = NULL, *exec;
  size_t count = 0;
  uint32_t first[4], second[4], third[4];
  must(stream_create(&stream, 1), "stream");
  must(create(&generator, PHILOX), "create");
  must(set_stream(generator, stream), "set stream");
  set_seed(generator, SEED);
  must(bits(generator, (void *)(uintptr_t)memory, 4), "bits");
  must(synchronize(), "synchronize");
  must(begin(stream, 2), "begin of the capture");
  int status = bits(generator, (void *)(uintptr_t)memory, 4);
  int ended = end(stream, &graph);
  if (ended == 0) nodes(graph, NULL, &count);
  printf("capture: curandGenerate %d, the end %d, %zu nodes\n", status, ended, count);
  if (status != 0 || ended != 0 || instantiate(&exec, graph, 0) != 0) return;
  uint32_t *results[] = {first, second};
  for (int i = 0; i < 2; i += 1) {
    must(launch(exec, stream), "launch");
    must(synchronize(), "synchronize");
    must(download(results[i], memory, 16), "download");
  }
  must(bits(generator, (void *)(uintptr_t)memory, 4), "bits");
  must(synchronize(), "synchronize");
  must(download(third, memory, 16), "download");
  printf("launches give %08x and %08x, the next call %08x (b4 b4 gives %08x, then %08x)\n", first[0], second[0], third[0],
         0x2090b348, 0xd115a128);
}

static const struct {
  U64 offset;
  const char *calls;
} CASES[] = {
    {0, "b1"}, {0, "b7"}, {0, "b1000"}, {0, "b65539"}, {0, "b300000"}, {1, "b7"}, {5, "b1000"}, {262143, "b9"},
    {1ULL << 40, "b1000"}, {0, "b1 b7 b3 b5"}, {0, "u1"}, {0, "u7"}, {0, "u1000"}, {0, "u65539"}, {3, "u300000"},
    {0, "U1"}, {0, "U1000"}, {0, "U300000"}, {1, "U7"}, {262140, "U12"}, {0, "U262144 U8"},
    {0, "b1 U3 b262140 b4"}, {0, "U3 b1 b262140 b4"}, {0, "b262145 U3 U4"}, {0, "n1"}, {0, "n7"}, {0, "n1000"},
    {0, "n65540"}, {1, "n8"}, {0, "b1 n8"}, {0, "N8"}, {0, "N300000"}, {1, "N8"}, {0, "l1000"}, {0, "n8 b4"}, {0, "N8 b4"},
};

int main(int given, char **arguments) {
  int all = given > 1 && strcmp(arguments[1], "--all") == 0;
  const char *path = given > 1 + all ? arguments[1 + all] : "libcurand.so.10";
  void *curand = dlopen(path, RTLD_NOW);
  if (curand == NULL) {
    puts(dlerror());
    return 1;
  }
  FROM(curand, create, "curandCreateGenerator");
  FROM(curand, create_host, "curandCreateGeneratorHost");
  FROM(curand, destroy, "curandDestroyGenerator");
  FROM(curand, set_seed, "curandSetPseudoRandomGeneratorSeed");
  FROM(curand, set_offset, "curandSetGeneratorOffset");
  FROM(curand, set_order, "curandSetGeneratorOrdering");
  FROM(curand, set_stream, "curandSetStream");
  FROM(curand, bits, "curandGenerate");
  FROM(curand, uniform, "curandGenerateUniform");
  FROM(curand, uniform64, "curandGenerateUniformDouble");
  FROM(curand, normal, "curandGenerateNormal");
  FROM(curand, log_normal, "curandGenerateLogNormal");
  FROM(curand, normal64, "curandGenerateNormalDouble");
  FROM(curand, get_version, "curandGetVersion");
  int version = 0;
  get_version(&version);

  U64 memory = 0;
  int device = 0;
  void *context, *cuda = dlopen("libcuda.so.1", RTLD_NOW);
  int has_gpu = 0;
  if (cuda != NULL) {
    FROM(cuda, init, "cuInit");
    FROM(cuda, device_get, "cuDeviceGet");
    FROM(cuda, retain, "cuDevicePrimaryCtxRetain");
    FROM(cuda, current, "cuCtxSetCurrent");
    FROM(cuda, synchronize, "cuCtxSynchronize");
    FROM(cuda, alloc, "cuMemAlloc_v2");
    FROM(cuda, download, "cuMemcpyDtoH_v2");
    FROM(cuda, stream_create, "cuStreamCreate");
    FROM(cuda, begin, "cuStreamBeginCapture_v2");
    FROM(cuda, end, "cuStreamEndCapture");
    FROM(cuda, nodes, "cuGraphGetNodes");
    FROM(cuda, instantiate, "cuGraphInstantiateWithFlags");
    FROM(cuda, launch, "cuGraphLaunch");
    has_gpu = init(0) == 0 && device_get(&device, 0) == 0 && retain(&context, device) == 0 && current(context) == 0 &&
              alloc(&memory, 8 * MOST) == 0;
  }
  printf("cuRAND %d, %s\n", version, has_gpu ? "on a GPU and on the host" : "no GPU: on the host alone");

  unsigned char *host = malloc(8 * MOST), *there = malloc(8 * MOST);
  int wrong = 0;
  for (size_t index = 0; index < sizeof CASES / sizeof CASES[0]; index += 1) {
    U64 offset = CASES[index].offset;
    const char *calls = CASES[index].calls;
    long length = play(0, LEGACY, offset, calls, host, 0);
    printf("%llu %s: host", offset, calls);
    if (length < 0) printf(" refuses with %ld", -length);
    else printf(" %08x", hash_of(host, length));
    if (!has_gpu) {
      puts("");
      continue;
    }
    long same = play(1, LEGACY, offset, calls, there, memory);
    printf("; GPU");
    if (same < 0) printf(" refuses with %ld\n", -same);
    else wrong += differ(calls, host, there, length);
    long other = play(1, DEFAULT, offset, calls, host, memory);
    if (same > 0 && (other != same || memcmp(host, there, same) != 0)) printf("  the default order is another\n");
  }
  if (has_gpu) capture(memory);
  if (all) {
    const char *kinds[] = {"b4096", "u4096", "n4096"};
    for (int kind = 0; kind < 3; kind += 1) {
      play(has_gpu, LEGACY, 0, kinds[kind], there, memory);
      printf("%s\n", kinds[kind]);
      for (int i = 0; i < 4096; i += 1) {
        if (kind == 0) printf("%08x%c", ((uint32_t *)there)[i], i % 8 == 7 ? '\n' : ' ');
        else printf("%.9g%c", ((float *)there)[i], i % 8 == 7 ? '\n' : ' ');
      }
    }
  }
  return !has_gpu ? 2 : wrong != 0;
}

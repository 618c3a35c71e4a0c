/* A management library of two GPUs: the first tells all, the second neither its power nor its processes. */
#include <stdlib.h>
#include <string.h>
#define API __attribute__((visibility("default")))
typedef struct { unsigned pid; unsigned long long used; unsigned instance, part; } Process;
typedef struct { unsigned gpu, memory; } Rates;
typedef struct { unsigned long long total, free, used; } Memory;
static int begun, first, second;
enum { OK = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, IS_LOST = 15 };
static unsigned processes(void) { const char *count = getenv("FAKE_NVML_PROCESSES"); return count ? (unsigned)atoi(count) : 2; }

/* It may be asked before it is initialized. */
API int nvmlSystemGetNVMLVersion(char *version, unsigned length) { if (length < 11) return INSUFFICIENT_SIZE; strcpy(version, "13.580.159"); return OK; }
API int nvmlInit_v2(void) { begun = 1; return OK; }
API int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
  if (!begun) return UNINITIALIZED;
  if (!strcmp(id, "0000:01:00.0")) *device = &first;
  else if (!strcmp(id, "0000:02:00.0")) *device = &second;
  else return NOT_FOUND;
  return OK;
}
API int nvmlDeviceGetUtilizationRates(void *device, Rates *rates) {
  if (device == &second) return NOT_SUPPORTED;
  rates->gpu = 37; rates->memory = 12;
  return OK;
}
API int nvmlDeviceGetMemoryInfo(void *device, Memory *memory) {
  if (getenv("FAKE_NVML_LOST")) return IS_LOST;
  memory->total = 150ull << 30; memory->used = device == &first ? 5ull << 30 : 0; memory->free = memory->total - memory->used;
  return OK;
}
API int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, Process *infos) {
  if (device == &second) return NOT_SUPPORTED;
  unsigned room = *count;
  *count = processes();
  if (room < *count) return INSUFFICIENT_SIZE;
  for (unsigned i = 0; i < *count; i++) infos[i] = (Process){100 + i, i == 1 ? ~0ull : (i + 1) * 1000ull, 0, 0};
  return OK;
}
API int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees) { (void)device; if (sensor) return 2; *degrees = 61; return OK; }
API int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { if (device == &second) return NOT_SUPPORTED; *milliwatts = 123456; return OK; }
API int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *milliwatts) { if (device == &second) return NOT_SUPPORTED; *milliwatts = 700000; return OK; }
API int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *megahertz) { (void)device; if (clock != 1) return 2; *megahertz = 1980; return OK; }

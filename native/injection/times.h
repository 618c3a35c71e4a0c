/* times.c: when the GPU did what it did, by CUPTI's records of activities, and the clock that these have. */
#pragma once
#include <stdint.h>

/* Called before CUPTI tells of the first call. `library`: CUPTI. NULL, or what cannot be, with CUPTI's number for the reason in `why`. */
const char *times_begin(void *library, int *why);
/* Whether times are written. */
int times_are_on(void);
/* The time by CUPTI's clock, in nanoseconds; 0 where no times are written. Not to be called under the trace's lock, for which CUPTI may wait. */
uint64_t times_now(void);
/* The version of CUPTI, by which its records are read. */
uint32_t times_version(void);
/* Writes what CUPTI still has. Called at the end of the process. */
void times_flush(void);

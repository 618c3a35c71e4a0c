/* What CUPTI tells of a call: CUpti_CallbackData. */
#pragma once
#include <stdint.h>

typedef struct {
  int site;
  const char *functionName;
  const void *functionParams;
  void *functionReturnValue;
  const char *symbolName;
  void *context;
  uint32_t contextUid;
  uint64_t *correlationData;
  uint32_t correlationId;
} CallbackData;

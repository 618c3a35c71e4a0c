/*
 * What does CUDA do with conditional nodes of graphs (if, while, switch)? It prints one line for each fact; docs/internals/cuda-facts.md has what was
 * printed. Each group of facts runs in a process of its own, so that one that crashes or never ends does not end the others.
 *
 *   gcc -O1 -I/usr/local/cuda/include tests/gpu-facts/conditional.c -o /tmp/conditional -L/usr/local/cuda/lib64 -lcuda -lnvrtc
 *   /tmp/conditional [path of libcudadevrt.a] [names of groups]
 */
#include <cuda.h>
#include <nvrtc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *runtime = "/usr/local/cuda/lib64/libcudadevrt.a";
static const char *group = "";

static void say(const char *format, ...) {
  va_list list;
  va_start(list, format);
  printf("%-14s ", group);
  vprintf(format, list);
  printf("\n");
  fflush(stdout);
  va_end(list);
}
#define MUST(call) \
  do { \
    int result_ = (int)(call); \
    if (result_ != 0) { \
      say("STOPPED: %s gave %d", #call, result_); \
      exit(0); \
    } \
  } while (0)

static const char CODE[] =
    ".version 7.8\n.target sm_70\n.address_size 64\n"
    ".extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);\n"
    /* Sets a condition. */
    ".visible .entry set(.param .u64 handle, .param .u32 value)\n{\n .reg .u64 %a;\n .reg .u32 %r;\n"
    " ld.param.u64 %a, [handle];\n ld.param.u32 %r, [value];\n"
    " {\n .param .b64 p0;\n .param .b32 p1;\n st.param.b64 [p0], %a;\n st.param.b32 [p1], %r;\n"
    " call.uni cudaGraphSetConditional, (p0, p1);\n }\n ret;\n}\n"
    /* Takes one from a number, and sets the condition to what is left. */
    ".visible .entry down(.param .u64 handle, .param .u64 at)\n{\n .reg .u64 %a<2>;\n .reg .u32 %r;\n"
    " ld.param.u64 %a0, [handle];\n ld.param.u64 %a1, [at];\n ld.u32 %r, [%a1];\n sub.u32 %r, %r, 1;\n st.u32 [%a1], %r;\n"
    " {\n .param .b64 p0;\n .param .b32 p1;\n st.param.b64 [p0], %a0;\n st.param.b32 [p1], %r;\n"
    " call.uni cudaGraphSetConditional, (p0, p1);\n }\n ret;\n}\n"
    /* Appends a value to a list that begins with its length. */
    ".visible .entry note(.param .u64 list, .param .u32 value)\n{\n .reg .u64 %a<3>;\n .reg .u32 %r<2>;\n"
    " ld.param.u64 %a0, [list];\n ld.param.u32 %r0, [value];\n ld.u32 %r1, [%a0];\n add.u32 %r1, %r1, 1;\n st.u32 [%a0], %r1;\n"
    " mul.wide.u32 %a1, %r1, 4;\n add.u64 %a2, %a0, %a1;\n st.u32 [%a2], %r0;\n ret;\n}\n"
    /* Reads an address that is not there. */
    ".visible .entry fault()\n{\n .reg .u64 %a;\n .reg .u32 %r;\n mov.u64 %a, 64;\n st.u32 [%a], %r;\n ret;\n}\n";

static CUdevice device;
static CUcontext context, green;
static CUstream plain, other, inGreen;
static CUmodule module;
static CUfunction set, down, note, fault;
static void *cubin;
static size_t cubinSize;
static uint32_t *list;   /* pinned */
static uint32_t *number; /* pinned */
static CUdeviceptr memory, more;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}
static CUdeviceptr at(void *p) { return (CUdeviceptr)(uintptr_t)p; }
static void reset(void) { memset(list, 0, 4096); *number = 0; }
static const char *listed(void) {
  static char text[2000];
  size_t length = 0;
  text[0] = 0;
  for (uint32_t i = 1; i <= list[0] && i < 60; i += 1) length += (size_t)sprintf(text + length, "%s%u", i > 1 ? "," : "", list[i]);
  if (list[0] == 0) strcpy(text, "nothing");
  return text;
}

static int linked(int withRuntime, char *log, size_t logSize) {
  CUlinkState state;
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)logSize};
  int result = (int)cuLinkCreate(2, options, values, &state);
  if (result == 0) result = (int)cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)CODE, sizeof CODE, "code", 0, 0, 0);
  if (result == 0 && withRuntime) result = (int)cuLinkAddFile(state, CU_JIT_INPUT_LIBRARY, runtime, 0, 0, 0);
  void *made;
  if (result == 0) result = (int)cuLinkComplete(state, &made, &cubinSize);
  if (result == 0) {
    cubin = malloc(cubinSize);
    memcpy(cubin, made, cubinSize);
  }
  cuLinkDestroy(state);
  return result;
}

static void begin(void) {
  static char log[4096];
  MUST(cuInit(0));
  MUST(cuDeviceGet(&device, 0));
  MUST(cuDevicePrimaryCtxRetain(&context, device));
  MUST(cuCtxSetCurrent(context));
  MUST(cuStreamCreateWithPriority(&plain, CU_STREAM_NON_BLOCKING, 0));
  MUST(cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0));
  MUST(linked(1, log, sizeof log));
  MUST(cuModuleLoadData(&module, cubin));
  MUST(cuModuleGetFunction(&set, module, "set"));
  MUST(cuModuleGetFunction(&down, module, "down"));
  MUST(cuModuleGetFunction(&note, module, "note"));
  MUST(cuModuleGetFunction(&fault, module, "fault"));
  MUST(cuMemHostAlloc((void **)&list, 4096, 0));
  MUST(cuMemHostAlloc((void **)&number, 4096, 0));
  MUST(cuMemAlloc(&memory, 4096));
  MUST(cuMemAlloc(&more, 4096));
  reset();
}

static CUgraph newGraph(void) {
  CUgraph graph;
  MUST(cuGraphCreate(&graph, 0));
  return graph;
}
static CUgraphConditionalHandle newHandle(CUgraph graph, unsigned value, unsigned flags) {
  CUgraphConditionalHandle handle;
  MUST(cuGraphConditionalHandleCreate(&handle, graph, context, value, flags));
  return handle;
}
static int tryConditional(CUgraphNode *node, CUgraph graph, CUgraphNode after, CUgraphConditionalHandle handle, int type, unsigned size,
                          CUcontext where, CUgraph *bodies) {
  CUgraphNodeParams params;
  memset(&params, 0, sizeof params);
  params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  params.conditional.handle = handle;
  params.conditional.type = (CUgraphConditionalNodeType)type;
  params.conditional.size = size;
  params.conditional.ctx = where;
  int result = (int)cuGraphAddNode(node, graph, after ? &after : NULL, NULL, after ? 1 : 0, &params);
  if (result == 0 && bodies)
    for (unsigned i = 0; i < size; i += 1) bodies[i] = params.conditional.phGraph_out[i];
  return result;
}
enum { IF, WHILE, SWITCH };
static CUgraphNode conditional(CUgraph graph, CUgraphNode after, CUgraphConditionalHandle handle, int type, unsigned size, CUgraph *bodies) {
  CUgraphNode node;
  MUST(tryConditional(&node, graph, after, handle, type, size, context, bodies));
  return node;
}
static int tryKernel(CUgraphNode *node, CUgraph graph, CUgraphNode after, CUfunction func, uint64_t first, uint64_t second) {
  void *params[] = {&first, &second};
  CUDA_KERNEL_NODE_PARAMS p;
  memset(&p, 0, sizeof p);
  p.func = func;
  p.gridDimX = p.gridDimY = p.gridDimZ = p.blockDimX = p.blockDimY = p.blockDimZ = 1;
  p.kernelParams = params;
  return (int)cuGraphAddKernelNode(node, graph, after ? &after : NULL, after ? 1 : 0, &p);
}
static CUgraphNode kernel(CUgraph graph, CUgraphNode after, CUfunction func, uint64_t first, uint64_t second) {
  CUgraphNode node;
  MUST(tryKernel(&node, graph, after, func, first, second));
  return node;
}
static CUgraphNode noted(CUgraph graph, CUgraphNode after, uint32_t value) { return kernel(graph, after, note, at(list), value); }
static int launchKernel(CUstream stream, CUfunction func, uint64_t first, uint64_t second) {
  void *params[] = {&first, &second};
  return (int)cuLaunchKernel(func, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}
/* The result, and how CUDA explains it. */
static int instantiate(CUgraphExec *exec, CUgraph graph, int *why) {
  CUDA_GRAPH_INSTANTIATE_PARAMS params;
  memset(&params, 0, sizeof params);
  int result = (int)cuGraphInstantiateWithParams(exec, graph, &params);
  *why = (int)params.result_out;
  return result;
}
static CUgraphExec made(CUgraph graph) {
  CUgraphExec exec;
  MUST(cuGraphInstantiateWithFlags(&exec, graph, 0));
  return exec;
}
static const char *played(CUgraphExec exec) {
  static char text[2100];
  int launch = (int)cuGraphLaunch(exec, plain);
  int sync = (int)cuStreamSynchronize(plain);
  if (launch || sync) sprintf(text, "launch %d, end %d", launch, sync);
  else strcpy(text, listed());
  reset();
  return text;
}
/* A graph with one conditional whose bodies note 1, 2, ... */
static CUgraph simple(int type, unsigned size, unsigned value, CUgraphConditionalHandle *handle_out) {
  CUgraph graph = newGraph(), bodies[100];
  CUgraphConditionalHandle handle = newHandle(graph, value, 1);
  CUgraphNode node = conditional(graph, NULL, handle, type, size, bodies);
  for (unsigned i = 0; i < size; i += 1) {
    CUgraphNode last = noted(bodies[i], NULL, i + 1);
    if (type == WHILE) kernel(bodies[i], last, set, handle, 0);
  }
  noted(graph, node, 99);
  if (handle_out) *handle_out = handle;
  return graph;
}

/* ------------------------------------------------------------------------------------------------------------------------------------ */

static void versions(void) {
  int version;
  char name[100];
  cuDriverGetVersion(&version);
  cuDeviceGetName(name, sizeof name, device);
  say("driver for CUDA %d on %s; header %d; sizeof CUgraphNodeParams %zu", version, name, CUDA_VERSION, sizeof(CUgraphNodeParams));
}

static void linking(void) {
  char log[4096] = "";
  CUmodule loaded;
  say("PTX alone, cuModuleLoadData: %d", (int)cuModuleLoadData(&loaded, CODE));
  say("PTX alone, cuLink: %d, %s", linked(0, log, sizeof log), log);
  double start = now();
  say("PTX with libcudadevrt.a, cuLink: %d", linked(1, log, sizeof log));
  say("  %.1f ms, cubin of %zu bytes", now() - start, cubinSize);
  FILE *file = fopen(runtime, "rb");
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  char *bytes = malloc((size_t)size);
  if (fread(bytes, 1, (size_t)size, file) != (size_t)size) return;
  CUlinkState state;
  MUST(cuLinkCreate(0, 0, 0, &state));
  say("PTX first: cuLinkAddData %d", (int)cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)CODE, sizeof CODE, "code", 0, 0, 0));
  say("libcudadevrt.a as data: cuLinkAddData LIBRARY %d", (int)cuLinkAddData(state, CU_JIT_INPUT_LIBRARY, bytes, (size_t)size, "devrt", 0, 0, 0));
  void *out;
  size_t outSize;
  say("  cuLinkComplete %d", (int)cuLinkComplete(state, &out, &outSize));
  MUST(cuLinkCreate(0, 0, 0, &state));
  say("libcudadevrt.a first: %d", (int)cuLinkAddFile(state, CU_JIT_INPUT_LIBRARY, runtime, 0, 0, 0));
  say("  then PTX: %d", (int)cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)CODE, sizeof CODE, "code", 0, 0, 0));
  say("  cuLinkComplete %d", (int)cuLinkComplete(state, &out, &outSize));
  say("missing library file: cuLinkAddFile %d", (int)cuLinkAddFile(state, CU_JIT_INPUT_LIBRARY, "/nowhere.a", 0, 0, 0));
  for (int rdc = 0; rdc < 2; rdc += 1)
    for (int form = 0; form < 3; form += 1) {
      static const char *sources[] = {
          "extern \"C\" __device__ void cudaGraphSetConditional(unsigned long long, unsigned);\n"
          "extern \"C\" __global__ void f(unsigned long long h, unsigned v) { cudaGraphSetConditional(h, v); }",
          "extern \"C\" __global__ void f(cudaGraphConditionalHandle h, unsigned v) { cudaGraphSetConditional(h, v); }",
          "#include <cuda_device_runtime_api.h>\n"
          "extern \"C\" __global__ void f(cudaGraphConditionalHandle h, unsigned v) { cudaGraphSetConditional(h, v); }"};
      nvrtcProgram program;
      nvrtcCreateProgram(&program, sources[form], "f.cu", 0, 0, 0);
      const char *options[] = {"-arch=compute_80", "-I/usr/local/cuda/include", "-rdc=true"};
      int result = (int)nvrtcCompileProgram(program, 2 + rdc, options);
      say("NVRTC %s, %s: %d", form == 0 ? "declared by hand" : form == 1 ? "no header" : "with the header", rdc ? "-rdc=true" : "-rdc=false", result);
      size_t length;
      if (result) {
        nvrtcGetProgramLogSize(program, &length);
        char *text = malloc(length);
        nvrtcGetProgramLog(program, text);
        text[300 < length ? 300 : length - 1] = 0;
        say("  %s", text);
        continue;
      }
      nvrtcGetPTXSize(program, &length);
      char *ptx = malloc(length);
      nvrtcGetPTX(program, ptx);
      char *found = strstr(ptx, ".extern");
      if (found) say("  PTX: %.90s", found);
      say("  its PTX alone, cuModuleLoadData: %d", (int)cuModuleLoadData(&loaded, ptx));
      MUST(cuLinkCreate(0, 0, 0, &state));
      int add = (int)cuLinkAddData(state, CU_JIT_INPUT_PTX, ptx, length, "code", 0, 0, 0);
      int library = (int)cuLinkAddFile(state, CU_JIT_INPUT_LIBRARY, runtime, 0, 0, 0);
      say("  linked: %d %d %d", add, library, (int)cuLinkComplete(state, &out, &outSize));
    }
  const char *options[] = {"-arch=sm_90", "-rdc=true"};
  nvrtcProgram program;
  nvrtcCreateProgram(&program,
                     "extern \"C\" __device__ void cudaGraphSetConditional(unsigned long long, unsigned);\n"
                     "extern \"C\" __global__ void f(unsigned long long h, unsigned v) { cudaGraphSetConditional(h, v); }",
                     "f.cu", 0, 0, 0);
  say("NVRTC to a cubin, -rdc=true: %d", (int)nvrtcCompileProgram(program, 2, options));
  size_t length = 0;
  say("  cubin %d", (int)nvrtcGetCUBINSize(program, &length));
  char *code = malloc(length + 1);
  nvrtcGetCUBIN(program, code);
  say("  alone, cuModuleLoadData: %d", (int)cuModuleLoadData(&loaded, code));
  MUST(cuLinkCreate(0, 0, 0, &state));
  int add = (int)cuLinkAddData(state, CU_JIT_INPUT_CUBIN, code, length, "code", 0, 0, 0);
  int library = (int)cuLinkAddFile(state, CU_JIT_INPUT_LIBRARY, runtime, 0, 0, 0);
  int complete = (int)cuLinkComplete(state, &out, &outSize);
  say("  linked: %d %d %d, loaded %d", add, library, complete, complete ? -1 : (int)cuModuleLoadData(&loaded, out));
}

static void handles(void) {
  CUgraph graph = newGraph();
  CUgraphConditionalHandle handle = 0, second = 0;
  say("create: %d", (int)cuGraphConditionalHandleCreate(&handle, graph, context, 1, 1));
  MUST(cuGraphConditionalHandleCreate(&second, graph, context, 1, 1));
  say("two handles of one graph: %llx %llx", (unsigned long long)handle, (unsigned long long)second);
  CUgraph another = newGraph();
  MUST(cuGraphConditionalHandleCreate(&second, another, context, 1, 1));
  say("the first of another graph: %llx", (unsigned long long)second);
  say("flags 2: %d", (int)cuGraphConditionalHandleCreate(&second, another, context, 1, 2));
  say("flags 0: %d", (int)cuGraphConditionalHandleCreate(&second, another, context, 1, 0));
  say("default -1: %d", (int)cuGraphConditionalHandleCreate(&second, another, context, 0xffffffffu, 1));
  say("no context: %d", (int)cuGraphConditionalHandleCreate(&second, another, NULL, 1, 1));
  graph = simple(IF, 1, 1, NULL);
  made(graph);
  say("a handle of a graph that has an instance: %d", (int)cuGraphConditionalHandleCreate(&second, graph, context, 1, 1));
  int why;
  CUgraphExec exec;
  graph = newGraph();
  newHandle(graph, 1, 1);
  noted(graph, NULL, 1);
  int result = instantiate(&exec, graph, &why);
  say("instance of a graph with a handle that no node has: %d, reason %d", result, why);
  if (result == 0) say("  plays %s", played(exec));
  result = (int)cuGraphInstantiateWithFlags(&exec, graph, 0);
  say("  cuGraphInstantiateWithFlags: %d", result);
}

static void nullGraph(void) {
  CUgraphConditionalHandle handle = 0;
  say("create for no graph: %d", (int)cuGraphConditionalHandleCreate(&handle, NULL, context, 1, 1));
}

static void handleUses(void) {
  CUgraph graph = newGraph(), body[2];
  CUgraphConditionalHandle handle = newHandle(graph, 1, 1);
  CUgraphNode node, next;
  int why;
  CUgraphExec exec;
  conditional(graph, NULL, handle, IF, 1, body);
  noted(body[0], NULL, 1);
  int result = tryConditional(&next, graph, NULL, handle, IF, 1, context, body + 1);
  say("one handle, two nodes of a graph: add %d", result);
  if (result == 0) {
    noted(body[1], NULL, 2);
    result = instantiate(&exec, graph, &why);
    say("  instance %d, reason %d", result, why);
    if (result == 0) say("  plays %s", played(exec));
  }
  graph = newGraph();
  CUgraph stranger = newGraph();
  handle = newHandle(stranger, 1, 1);
  result = tryConditional(&node, graph, NULL, handle, IF, 1, context, body);
  say("a handle of another graph: add %d", result);
  if (result == 0) {
    noted(body[0], NULL, 1);
    result = instantiate(&exec, graph, &why);
    say("  instance %d, reason %d", result, why);
    if (result == 0) say("  plays %s", played(exec));
  }
  say("the handle 0: add %d", tryConditional(&node, newGraph(), NULL, 0, IF, 1, context, body));
  graph = newGraph();
  handle = newHandle(graph, 1, 1);
  CUgraphConditionalHandle inner = newHandle(graph, 1, 1), ofBody;
  conditional(graph, NULL, handle, IF, 1, body);
  result = tryConditional(&node, body[0], NULL, inner, IF, 1, context, body + 1);
  say("nested, with a handle of the outer graph: add %d", result);
  if (result == 0) {
    noted(body[1], NULL, 7);
    result = instantiate(&exec, graph, &why);
    say("  instance %d, reason %d", result, why);
    if (result == 0) say("  plays %s", played(exec));
  }
  graph = newGraph();
  handle = newHandle(graph, 1, 1);
  conditional(graph, NULL, handle, IF, 1, body);
  result = (int)cuGraphConditionalHandleCreate(&ofBody, body[0], context, 1, 1);
  say("a handle made for a body: %d", result);
  if (result == 0) {
    result = tryConditional(&node, body[0], NULL, ofBody, IF, 1, context, body + 1);
    say("nested, with a handle of the body: add %d", result);
    if (result == 0) {
      noted(body[1], NULL, 8);
      result = instantiate(&exec, graph, &why);
      say("  instance %d, reason %d", result, why);
      if (result == 0) say("  plays %s", played(exec));
    }
  }
  graph = newGraph();
  handle = newHandle(graph, 1, 1);
  conditional(graph, NULL, handle, IF, 1, body);
  result = tryConditional(&node, body[0], NULL, handle, IF, 1, context, body + 1);
  say("nested, with the handle of the outer node: add %d", result);
}

static void sizes(void) {
  static const struct { int type; unsigned size; } tries[] = {{IF, 0}, {IF, 1}, {IF, 2}, {IF, 3}, {WHILE, 0}, {WHILE, 1}, {WHILE, 2},
                                                                {SWITCH, 0}, {SWITCH, 1}, {SWITCH, 3}, {SWITCH, 64}, {SWITCH, 1000}, {3, 1}};
  for (unsigned i = 0; i < sizeof tries / sizeof *tries; i += 1) {
    CUgraph graph = newGraph();
    CUgraphNode node;
    say("type %d of size %u: %d", tries[i].type, tries[i].size,
        tryConditional(&node, graph, NULL, newHandle(graph, 1, 1), tries[i].type, tries[i].size, context, NULL));
  }
  CUgraph graph = newGraph();
  CUgraphNode node;
  say("no context: %d", tryConditional(&node, graph, NULL, newHandle(graph, 1, 1), IF, 1, NULL, NULL));
}

static void playing(void) {
  say("if, 1: %s", played(made(simple(IF, 1, 1, NULL))));
  say("if, 0: %s", played(made(simple(IF, 1, 0, NULL))));
  say("if, -1: %s", played(made(simple(IF, 1, 0xffffffffu, NULL))));
  say("while, 1: %s", played(made(simple(WHILE, 1, 1, NULL))));
  say("while, 0: %s", played(made(simple(WHILE, 1, 0, NULL))));
  CUgraph graph = newGraph(), body[3];
  CUgraphConditionalHandle handle = newHandle(graph, 1, 1);
  CUgraphNode first = noted(graph, NULL, 10);
  CUgraphNode loop = conditional(graph, first, handle, WHILE, 1, body);
  CUgraphNode a = noted(body[0], NULL, 20), b = noted(body[0], a, 21);
  kernel(body[0], b, down, handle, at(number));
  noted(graph, loop, 30);
  CUgraphExec exec = made(graph);
  *number = 3;
  say("10; while 3 times (20; 21); 30: %s", played(exec));
  *number = 2;
  say("again, twice: %s", played(exec));
  *number = 1;
  CUgraphNode last;
  say("a node is added to the body after the instance: %d", tryKernel(&last, body[0], b, note, at(list), 22));
  say("  the instance plays: %s", played(exec));
}

static void elseAndSwitch(void) {
  say("if-else, 1: %s", played(made(simple(IF, 2, 1, NULL))));
  say("if-else, 0: %s", played(made(simple(IF, 2, 0, NULL))));
  for (unsigned value = 0; value < 4; value += 1) say("switch of 3, %u: %s", value, played(made(simple(SWITCH, 3, value, NULL))));
  say("switch of 3, -1: %s", played(made(simple(SWITCH, 3, 0xffffffffu, NULL))));
  say("switch of 100, 99: %s", played(made(simple(SWITCH, 100, 99, NULL))));
}

static void defaults(void) {
  CUgraph graph = newGraph(), body[1];
  CUgraphConditionalHandle handle = newHandle(graph, 1, 0);
  CUgraphNode node = conditional(graph, NULL, handle, IF, 1, body);
  noted(body[0], NULL, 1);
  kernel(graph, node, set, handle, 1);
  CUgraphExec exec = made(graph);
  say("without flags, default 1: %s", played(exec));
  say("  second launch, after a kernel set 1 behind the node: %s", played(exec));
  say("  third: %s", played(exec));
  graph = newGraph();
  handle = newHandle(graph, 0, 1);
  node = conditional(graph, NULL, handle, IF, 1, body);
  noted(body[0], NULL, 1);
  kernel(graph, node, set, handle, 1);
  exec = made(graph);
  say("default 0, a kernel sets 1 behind the node: %s", played(exec));
  say("  second launch: %s", played(exec));
  graph = newGraph();
  handle = newHandle(graph, 0, 1);
  CUgraphNode one = kernel(graph, NULL, set, handle, 1);
  CUgraphNode zero = kernel(graph, one, set, handle, 0);
  CUgraphNode two = kernel(graph, zero, set, handle, 2);
  conditional(graph, two, handle, IF, 1, body);
  noted(body[0], NULL, 5);
  say("three kernels set 1, 0, 2 before an if: %s", played(made(graph)));
  graph = newGraph();
  handle = newHandle(graph, 0, 1);
  CUgraphConditionalHandle second = newHandle(graph, 0, 1);
  one = kernel(graph, NULL, set, second, 1);
  CUgraph bodies[2];
  node = conditional(graph, one, handle, IF, 1, bodies);
  noted(bodies[0], NULL, 1);
  conditional(graph, node, second, IF, 1, bodies + 1);
  noted(bodies[1], NULL, 2);
  say("two ifs, the second's is set: %s", played(made(graph)));
}

static void nesting(void) {
  CUgraph graph = newGraph(), outer[1], inner[2], deep[1];
  CUgraphConditionalHandle loop = newHandle(graph, 1, 1), branch = newHandle(graph, 0, 1), third = newHandle(graph, 1, 1);
  conditional(graph, NULL, loop, WHILE, 1, outer);
  CUgraphNode counted = kernel(outer[0], NULL, down, loop, at(number));
  CUgraphNode choice = conditional(outer[0], counted, branch, IF, 1, inner);
  noted(inner[0], NULL, 5);
  CUgraphNode after = noted(outer[0], choice, 6);
  kernel(outer[0], after, set, branch, 1);
  conditional(inner[0], NULL, third, IF, 1, deep);
  noted(deep[0], NULL, 7);
  CUgraphExec exec = made(graph);
  *number = 3;
  say("while 3 (if (default 0): 5, if (default 1): 7; 6; set the if to 1): %s", played(exec));
  *number = 2;
  say("again, twice: %s", played(exec));
  for (int depth = 1; depth <= 8; depth += 1) {
    CUgraph top = newGraph(), within = top, body[1];
    int result = 0;
    for (int i = 0; i < depth && result == 0; i += 1) {
      CUgraphNode node;
      result = tryConditional(&node, within, NULL, newHandle(top, 1, 1), IF, 1, context, body);
      within = body[0];
    }
    if (result == 0) noted(within, NULL, 3);
    int why;
    int instance = result ? -1 : instantiate(&exec, top, &why);
    say("%d nested ifs: add %d, instance %d, %s", depth, result, instance, instance ? "" : played(exec));
  }
}

/* What a body may hold. */
static CUgraph holder(CUgraph *body, CUgraphConditionalHandle *handle) {
  CUgraph graph = newGraph();
  *handle = newHandle(graph, 1, 1);
  conditional(graph, NULL, *handle, IF, 1, body);
  return graph;
}
static void CUDA_CB ignore(void *data) { (void)data; }
static void holds(const char *what, int added, CUgraph graph) {
  if (added) {
    say("a body holds %s: add %d", what, added);
    return;
  }
  CUgraphExec exec;
  int why;
  int result = instantiate(&exec, graph, &why);
  say("a body holds %s: add 0, instance %d, reason %d%s%s", what, result, why, result ? "" : ", plays: ", result ? "" : played(exec));
}
static int addCopy(CUgraphNode *node, CUgraph graph, CUdeviceptr to, CUdeviceptr from) {
  CUDA_MEMCPY3D copy;
  memset(&copy, 0, sizeof copy);
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.srcDevice = from;
  copy.dstDevice = to;
  copy.WidthInBytes = 64;
  copy.Height = copy.Depth = 1;
  return (int)cuGraphAddMemcpyNode(node, graph, NULL, 0, &copy, context);
}
static int addHost(CUgraphNode *node, CUgraph graph) {
  CUDA_HOST_NODE_PARAMS host;
  memset(&host, 0, sizeof host);
  host.fn = ignore;
  return (int)cuGraphAddHostNode(node, graph, NULL, 0, &host);
}
static int addOperation(CUgraphNode *node, CUgraph graph) {
  CUstreamBatchMemOpParams operation;
  memset(&operation, 0, sizeof operation);
  operation.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = memory;
  operation.writeValue.value = 1;
  CUDA_BATCH_MEM_OP_NODE_PARAMS batch;
  memset(&batch, 0, sizeof batch);
  batch.ctx = context;
  batch.count = 1;
  batch.paramArray = &operation;
  return (int)cuGraphAddBatchMemOpNode(node, graph, NULL, 0, &batch);
}
static void bodies(void) {
  CUgraph body[1], graph, child;
  CUgraphConditionalHandle handle;
  CUgraphNode node;
  CUevent event;
  MUST(cuEventCreate(&event, 0));
  graph = holder(body, &handle);
  holds("nothing", 0, graph);
  graph = holder(body, &handle);
  holds("an empty node", (int)cuGraphAddEmptyNode(&node, body[0], NULL, 0), graph);
  graph = holder(body, &handle);
  holds("a copy within the device", addCopy(&node, body[0], memory, more), graph);
  graph = holder(body, &handle);
  holds("a copy from pinned memory", addCopy(&node, body[0], memory, at(number)), graph);
  graph = holder(body, &handle);
  holds("a copy to pinned memory", addCopy(&node, body[0], at(number), memory), graph);
  graph = holder(body, &handle);
  holds("a copy between pinned memory", addCopy(&node, body[0], at(number), at(number + 100)), graph);
  static uint32_t pageable[32];
  graph = holder(body, &handle);
  holds("a copy from pageable memory", addCopy(&node, body[0], memory, at(pageable)), graph);
  CUdeviceptr pooled;
  MUST(cuMemAllocAsync(&pooled, 4096, plain));
  graph = holder(body, &handle);
  holds("a copy from memory of a pool", addCopy(&node, body[0], memory, pooled), graph);
  CUDA_MEMSET_NODE_PARAMS fill;
  memset(&fill, 0, sizeof fill);
  fill.dst = memory;
  fill.elementSize = 1;
  fill.width = 64;
  fill.height = 1;
  graph = holder(body, &handle);
  holds("a fill", (int)cuGraphAddMemsetNode(&node, body[0], NULL, 0, &fill, context), graph);
  fill.dst = at(number);
  graph = holder(body, &handle);
  holds("a fill of pinned memory", (int)cuGraphAddMemsetNode(&node, body[0], NULL, 0, &fill, context), graph);
  fill.dst = memory;
  fill.height = 2;
  fill.pitch = 256;
  graph = holder(body, &handle);
  holds("a fill of two rows", (int)cuGraphAddMemsetNode(&node, body[0], NULL, 0, &fill, context), graph);
  graph = holder(body, &handle);
  holds("a host function", addHost(&node, body[0]), graph);
  graph = holder(body, &handle);
  holds("a memory operation", addOperation(&node, body[0]), graph);
  graph = holder(body, &handle);
  holds("an event record", (int)cuGraphAddEventRecordNode(&node, body[0], NULL, 0, event), graph);
  graph = holder(body, &handle);
  holds("an event wait", (int)cuGraphAddEventWaitNode(&node, body[0], NULL, 0, event), graph);
  CUDA_MEM_ALLOC_NODE_PARAMS alloc;
  memset(&alloc, 0, sizeof alloc);
  alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  alloc.bytesize = 4096;
  graph = holder(body, &handle);
  holds("an allocation", (int)cuGraphAddMemAllocNode(&node, body[0], NULL, 0, &alloc), graph);
  graph = holder(body, &handle);
  child = newGraph();
  noted(child, NULL, 4);
  holds("a child graph with a kernel", (int)cuGraphAddChildGraphNode(&node, body[0], NULL, 0, child), graph);
  graph = holder(body, &handle);
  child = newGraph();
  holds("an empty child graph", (int)cuGraphAddChildGraphNode(&node, body[0], NULL, 0, child), graph);
  graph = holder(body, &handle);
  child = newGraph();
  addHost(&node, child);
  holds("a child graph with a host function", (int)cuGraphAddChildGraphNode(&node, body[0], NULL, 0, child), graph);
  graph = holder(body, &handle);
  child = newGraph();
  addOperation(&node, child);
  holds("a child graph with a memory operation", (int)cuGraphAddChildGraphNode(&node, body[0], NULL, 0, child), graph);
  graph = holder(body, &handle);
  child = newGraph();
  CUgraph grandchild = newGraph();
  noted(grandchild, NULL, 6);
  MUST(cuGraphAddChildGraphNode(&node, child, NULL, 0, grandchild));
  holds("a child graph with a child graph with a kernel", (int)cuGraphAddChildGraphNode(&node, body[0], NULL, 0, child), graph);
  graph = holder(body, &handle);
  holds("a child graph with a conditional", (int)cuGraphAddChildGraphNode(&node, body[0], NULL, 0, simple(IF, 1, 1, NULL)), graph);
  graph = holder(body, &handle);
  child = newGraph();
  CUgraphNode added = NULL;
  MUST(tryKernel(&added, child, NULL, set, handle, 0));
  holds("a child graph with a kernel that sets the condition", (int)cuGraphAddChildGraphNode(&node, body[0], NULL, 0, child), graph);
  /* Beside a conditional. */
  graph = simple(IF, 1, 1, NULL);
  addHost(&node, graph);
  holds("a kernel; the graph around it a host function", 0, graph);
  graph = simple(IF, 1, 1, NULL);
  addOperation(&node, graph);
  holds("a kernel; the graph around it a memory operation", 0, graph);
  graph = simple(IF, 1, 1, NULL);
  MUST(cuGraphAddEventRecordNode(&node, graph, NULL, 0, event));
  holds("a kernel; the graph around it an event record", 0, graph);
  graph = simple(IF, 1, 1, NULL);
  child = newGraph();
  noted(child, NULL, 77);
  MUST(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
  holds("a kernel; the graph around it a child graph", 0, graph);
  graph = simple(IF, 1, 1, NULL);
  holds("a kernel; the graph around it an allocation", (int)cuGraphAddMemAllocNode(&node, graph, NULL, 0, &alloc), graph);
}

static void copies(void) {
  CUgraph clone, body[1], graph = simple(IF, 1, 1, NULL);
  CUgraphConditionalHandle handle;
  CUgraphNode node;
  CUgraphExec exec;
  int why;
  say("cuGraphClone: %d", (int)cuGraphClone(&clone, graph));
  CUgraph around = newGraph();
  int result = (int)cuGraphAddChildGraphNode(&node, around, NULL, 0, graph);
  say("as a child graph: add %d", result);
  if (result == 0) say("  instance %d", instantiate(&exec, around, &why));
  graph = holder(body, &handle);
  noted(body[0], NULL, 3);
  say("cuGraphClone of a body: %d", (int)cuGraphClone(&clone, body[0]));
  around = newGraph();
  say("a body as a child graph elsewhere: add %d", (int)cuGraphAddChildGraphNode(&node, around, NULL, 0, body[0]));
  result = instantiate(&exec, body[0], &why);
  say("an instance of a body: %d, reason %d", result, why);
  if (result == 0) say("  plays %s", played(exec));
  size_t count = 0;
  CUgraphNodeType type;
  cuGraphGetNodes(graph, NULL, &count);
  say("nodes of the graph around: %zu", count);
  CUgraphNode nodes[4];
  cuGraphGetNodes(graph, nodes, &count);
  cuGraphNodeGetType(nodes[0], &type);
  say("  its type %d", (int)type);
  cuGraphGetNodes(body[0], NULL, &count);
  say("nodes of the body: %zu", count);
  say("cuGraphDestroyNode of the conditional: %d", (int)cuGraphDestroyNode(nodes[0]));
  cuGraphGetNodes(graph, NULL, &count);
  say("  nodes left %zu", count);
}

static void destroyBody(void) {
  CUgraph body[1];
  CUgraphConditionalHandle handle;
  CUgraph graph = holder(body, &handle);
  noted(body[0], NULL, 3);
  say("cuGraphDestroy of a body: %d", (int)cuGraphDestroy(body[0]));
  CUgraphExec exec;
  int why;
  say("  then an instance: %d", instantiate(&exec, graph, &why));
}

static void destroyOuter(void) {
  CUgraph body[1];
  CUgraphConditionalHandle handle;
  CUgraph graph = holder(body, &handle);
  noted(body[0], NULL, 3);
  CUgraphExec exec = made(graph);
  MUST(cuGraphDestroy(graph));
  say("graph destroyed, its instance plays %s", played(exec));
  size_t count;
  say("  cuGraphGetNodes of the body: %d", (int)cuGraphGetNodes(body[0], NULL, &count));
}

static void capturing(void) {
  static const char *modes[] = {"global", "thread local", "relaxed"};
  for (int mode = 0; mode < 3; mode += 1) {
    CUstreamCaptureStatus status;
    cuuint64_t id;
    CUgraph graph, body[2], ended;
    const CUgraphNode *after;
    const CUgraphEdgeData *edges;
    size_t count;
    CUgraphNode node;
    CUgraphConditionalHandle handle = 0;
    MUST(cuStreamBeginCapture(plain, (CUstreamCaptureMode)mode));
    MUST(launchKernel(plain, note, at(list), 1));
    MUST(cuStreamGetCaptureInfo(plain, &status, &id, &graph, &after, &edges, &count));
    say("%s: handle for the graph of a capture %d", modes[mode], (int)cuGraphConditionalHandleCreate(&handle, graph, context, 1, 1));
    CUgraphNode last = after[0];
    say("%s: add %d", modes[mode], tryConditional(&node, graph, last, handle, WHILE, 1, context, body));
    say("%s: dependencies %d", modes[mode], (int)cuStreamUpdateCaptureDependencies(plain, &node, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    say("%s: capture into the body on another stream %d", modes[mode], (int)cuStreamBeginCaptureToGraph(other, body[0], NULL, NULL, 0, (CUstreamCaptureMode)mode));
    MUST(launchKernel(other, note, at(list), 2));
    MUST(launchKernel(other, down, handle, at(number)));
    say("%s: end of the body %d, same handle %d", modes[mode], (int)cuStreamEndCapture(other, &ended), ended == body[0]);
    say("%s: capture into it on the stream that captures %d", modes[mode], (int)cuStreamBeginCaptureToGraph(plain, body[0], NULL, NULL, 0, (CUstreamCaptureMode)mode));
    say("%s: another capture into the body %d", modes[mode], (int)cuStreamBeginCaptureToGraph(other, body[0], NULL, NULL, 0, (CUstreamCaptureMode)mode));
    MUST(launchKernel(other, note, at(list), 3));
    MUST(cuStreamEndCapture(other, &ended));
    MUST(launchKernel(plain, note, at(list), 4));
    say("%s: end %d", modes[mode], (int)cuStreamEndCapture(plain, &ended));
    *number = 2;
    say("%s: plays %s", modes[mode], played(made(ended)));
  }
}

static void captureMore(void) {
  CUgraph body[2], ended, graph;
  CUgraphConditionalHandle handle;
  CUgraphExec exec;
  CUevent event;
  CUstream third;
  int why;
  MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  MUST(cuStreamCreateWithPriority(&third, CU_STREAM_NON_BLOCKING, 0));
  graph = holder(body, &handle);
  MUST(cuStreamBeginCaptureToGraph(other, body[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(launchKernel(other, note, at(list), 1));
  MUST(cuEventRecord(event, other));
  MUST(cuStreamWaitEvent(third, event, 0));
  MUST(launchKernel(third, note, at(list), 2));
  MUST(cuEventRecord(event, third));
  MUST(cuStreamWaitEvent(other, event, 0));
  MUST(launchKernel(other, note, at(list), 3));
  say("a fork and a join in a body: end %d", (int)cuStreamEndCapture(other, &ended));
  say("  plays %s", played(made(graph)));
  graph = holder(body, &handle);
  MUST(cuStreamBeginCaptureToGraph(other, body[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(launchKernel(other, note, at(list), 1));
  int early = instantiate(&exec, graph, &why);
  say("an instance of the graph while its body is captured: %d, reason %d", early, why);
  say("  end of the body %d", (int)cuStreamEndCapture(other, &ended));
  graph = holder(body, &handle);
  MUST(cuStreamBeginCaptureToGraph(other, body[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(launchKernel(other, note, at(list), 1));
  CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
  MUST(cuThreadExchangeStreamCaptureMode(&relaxed));
  early = instantiate(&exec, graph, &why);
  MUST(cuThreadExchangeStreamCaptureMode(&relaxed));
  say("  relaxed: %d, reason %d, end %d", early, why, (int)cuStreamEndCapture(other, &ended));
  if (early == 0) say("  plays %s", played(exec));
  graph = holder(body, &handle);
  MUST(cuStreamBeginCaptureToGraph(other, body[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(cuEventRecord(event, other));
  MUST(cuStreamWaitEvent(third, event, 0));
  MUST(launchKernel(third, note, at(list), 2));
  ended = NULL;
  int result = (int)cuStreamEndCapture(other, &ended);
  say("a body with work that was not joined: end %d, graph %s", result, ended == body[0] ? "the body" : ended ? "another" : "none");
  size_t count;
  say("  the body then: cuGraphGetNodes %d", (int)cuGraphGetNodes(body[0], NULL, &count));
  say("  an instance of the graph around it: %d", instantiate(&exec, graph, &why));
}

static void captureIntoBody(void) {
  CUgraph body[2], ended, graph;
  CUgraphConditionalHandle handle;
  CUgraphExec exec;
  CUevent event;
  int why;
  MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  for (int what = 0; what < 10; what += 1) {
    static const char *names[] = {"a host function", "a value", "a wait for a value", "an allocation", "a record outside", "a wait outside",
                                  "a copy between pinned memory", "a copy to pinned memory", "a fill", "a copy from pageable memory"};
    graph = holder(body, &handle);
    MUST(cuStreamBeginCaptureToGraph(other, body[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    int result = 0;
    CUdeviceptr pointer;
    static uint32_t pageable[32];
    if (what == 0) result = (int)cuLaunchHostFunc(other, ignore, NULL);
    if (what == 1) result = (int)cuStreamWriteValue32(other, memory, 1, 0);
    if (what == 2) result = (int)cuStreamWaitValue32(other, memory, 0, 0);
    if (what == 3) result = (int)cuMemAllocAsync(&pointer, 4096, other);
    if (what == 4) result = (int)cuEventRecordWithFlags(event, other, CU_EVENT_RECORD_EXTERNAL);
    if (what == 5) result = (int)cuStreamWaitEvent(other, event, CU_EVENT_WAIT_EXTERNAL);
    if (what == 6) result = (int)cuMemcpyAsync(at(number), at(number + 64), 64, other);
    if (what == 7) result = (int)cuMemcpyAsync(at(number), memory, 64, other);
    if (what == 8) result = (int)cuMemsetD8Async(memory, 1, 64, other);
    if (what == 9) result = (int)cuMemcpyAsync(memory, at(pageable), 64, other);
    CUstreamCaptureStatus status = 9;
    int info = (int)cuStreamIsCapturing(other, &status);
    int end = (int)cuStreamEndCapture(other, &ended);
    int instance = end ? -1 : instantiate(&exec, graph, &why);
    say("captured into a body, %s: call %d, status %d (%d), end %d, instance %d", names[what], result, (int)status, info, end, instance);
    size_t count = 0;
    int nodes = (int)cuGraphGetNodes(body[0], NULL, &count);
    if (result || end) say("  the body then: cuGraphGetNodes %d, %zu nodes; instance of the graph around: %d", nodes, count, nodes ? -1 : instantiate(&exec, graph, &why));
  }
  /* An event of the capture around the body, and the other way. */
  CUstreamCaptureStatus status;
  cuuint64_t id;
  const CUgraphNode *after;
  const CUgraphEdgeData *edges;
  size_t count;
  for (int way = 0; way < 2; way += 1) {
    CUgraphNode node;
    MUST(cuStreamBeginCapture(plain, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    MUST(launchKernel(plain, note, at(list), 1));
    MUST(cuStreamGetCaptureInfo(plain, &status, &id, &graph, &after, &edges, &count));
    handle = newHandle(graph, 1, 1);
    MUST(tryConditional(&node, graph, after[0], handle, IF, 1, context, body));
    MUST(cuStreamBeginCaptureToGraph(other, body[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    MUST(launchKernel(other, note, at(list), 2));
    MUST(cuEventRecord(event, way ? other : plain));
    say("%s waits for an event of %s: %d", way ? "the graph" : "the body", way ? "its body" : "the graph", (int)cuStreamWaitEvent(way ? plain : other, event, 0));
    int inner = (int)cuStreamEndCapture(other, &ended);
    say("  ends: body %d, graph %d", inner, (int)cuStreamEndCapture(plain, &ended));
  }
  /* The graph around ends first; is invalidated first. */
  CUgraphNode node;
  MUST(cuStreamBeginCapture(plain, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(launchKernel(plain, note, at(list), 1));
  MUST(cuStreamGetCaptureInfo(plain, &status, &id, &graph, &after, &edges, &count));
  handle = newHandle(graph, 1, 1);
  MUST(tryConditional(&node, graph, after[0], handle, IF, 1, context, body));
  MUST(cuStreamUpdateCaptureDependencies(plain, &node, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  MUST(cuStreamBeginCaptureToGraph(other, body[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(launchKernel(other, note, at(list), 2));
  say("the graph's capture ends before that of the body: %d", (int)cuStreamEndCapture(plain, &ended));
  say("  then the body's: %d", (int)cuStreamEndCapture(other, &ended));
  say("  plays %s", played(made(graph)));
}

static void failedOuter(void) {
  CUgraph body[2], ended, graph;
  CUgraphConditionalHandle handle;
  CUstreamCaptureStatus status;
  cuuint64_t id;
  const CUgraphNode *after;
  const CUgraphEdgeData *edges;
  size_t count;
  CUgraphNode node;
  MUST(cuStreamBeginCapture(plain, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(cuStreamGetCaptureInfo(plain, &status, &id, &graph, &after, &edges, &count));
  handle = newHandle(graph, 1, 1);
  MUST(tryConditional(&node, graph, NULL, handle, IF, 1, context, body));
  MUST(cuStreamBeginCaptureToGraph(other, body[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(launchKernel(other, note, at(list), 2));
  say("a wait invalidates the graph's capture: %d", (int)cuStreamSynchronize(plain));
  say("  the body's capture then: launch %d", launchKernel(other, note, at(list), 2));
  say("  end of the graph %d", (int)cuStreamEndCapture(plain, &ended));
  say("  end of the body, whose graph is gone: %d", (int)cuStreamEndCapture(other, &ended));
}

static void instances(void) {
  CUgraph graph = simple(WHILE, 1, 1, NULL);
  CUgraphExec first, second;
  int why;
  MUST(instantiate(&first, graph, &why));
  int result = instantiate(&second, graph, &why);
  say("a second instance beside the first: %d, reason %d", result, why);
  if (result == 0) say("  plays %s, the first %s", played(second), played(first));
  MUST(cuGraphExecDestroy(first));
  result = instantiate(&second, graph, &why);
  say("a second instance after the first was destroyed: %d, reason %d", result, why);
  if (result == 0) say("  plays %s", played(second));
  graph = simple(IF, 1, 1, NULL);
  MUST(instantiate(&first, graph, &why));
  say("upload: %d", (int)cuGraphUpload(first, plain));
  say("  upload beside: %d", (int)cuGraphUpload(first, other));
  say("  plays %s", played(first));
  MUST(cuGraphLaunch(first, plain));
  MUST(cuGraphLaunch(first, other));
  MUST(cuGraphLaunch(first, plain));
  MUST(cuCtxSynchronize());
  say("three launches on two streams: %s", listed());
  reset();
  /* Destroyed while a launch stands. */
  MUST(cuStreamWaitValue32(plain, at(number), 1, CU_STREAM_WAIT_VALUE_EQ));
  MUST(cuGraphLaunch(first, plain));
  say("an instance destroyed while a launch stands: %d", (int)cuGraphExecDestroy(first));
  result = instantiate(&second, graph, &why);
  say("  a second instance while the launch stands: %d, reason %d", result, why);
  *number = 1;
  result = (int)cuStreamSynchronize(plain);
  say("  the launch ends: %d, %s", result, listed());
}

static CUgraph looped(unsigned value, int type, unsigned size, uint32_t what, int extra, CUgraphNode *inner, CUgraphNode *node_out) {
  CUgraph graph = newGraph(), body[4];
  CUgraphConditionalHandle handle = newHandle(graph, value, 1);
  CUgraphNode node = conditional(graph, NULL, handle, type, size, body);
  CUgraphNode last = noted(body[0], NULL, what);
  if (inner) *inner = last;
  for (int i = 0; i < extra; i += 1) last = noted(body[0], last, what + 1 + (uint32_t)i);
  kernel(body[0], last, set, handle, 0);
  if (node_out) *node_out = node;
  return graph;
}
static void updates(void) {
  CUgraphNode inner, node;
  CUgraphExec exec = made(looped(1, WHILE, 1, 5, 0, &inner, &node));
  CUgraphExecUpdateResultInfo info;
  say("plays %s", played(exec));
  int result = (int)cuGraphExecUpdate(exec, looped(1, WHILE, 1, 6, 0, NULL, NULL), &info);
  say("update by the same, another argument in the body, handle of the new graph: %d, reason %d", result, (int)info.result);
  alarm(5);
  say("  plays %s", played(exec));
  alarm(20);
  say("update of the default: %d, reason %d", (int)cuGraphExecUpdate(exec, looped(0, WHILE, 1, 6, 0, NULL, NULL), &info), (int)info.result);
  say("  plays %s", played(exec));
  say("update by a body with a node more: %d, reason %d", (int)cuGraphExecUpdate(exec, looped(1, WHILE, 1, 6, 1, NULL, NULL), &info), (int)info.result);
  say("  plays %s", played(exec));
  say("update by another type: %d, reason %d", (int)cuGraphExecUpdate(exec, looped(1, IF, 1, 6, 0, NULL, NULL), &info), (int)info.result);
  exec = made(looped(1, SWITCH, 2, 5, 0, NULL, NULL));
  say("update by another size: %d, reason %d", (int)cuGraphExecUpdate(exec, looped(1, SWITCH, 3, 5, 0, NULL, NULL), &info), (int)info.result);
  CUgraph again = looped(1, WHILE, 1, 7, 0, &inner, &node);
  exec = made(again);
  say("update by the graph it is of: %d, reason %d", (int)cuGraphExecUpdate(exec, again, &info), (int)info.result);
  MUST(cuStreamWaitValue32(plain, at(number), 1, CU_STREAM_WAIT_VALUE_EQ));
  MUST(cuGraphLaunch(exec, plain));
  double start = now();
  result = (int)cuGraphExecUpdate(exec, looped(1, WHILE, 1, 8, 0, NULL, NULL), &info);
  say("update while a launch stands: %d, reason %d, %.2f ms", result, (int)info.result, now() - start);
  *number = 1;
  result = (int)cuStreamSynchronize(plain);
  say("  the launch ends: %d, %s", result, listed());
  reset();
  say("  then plays %s", played(exec));
}

static void updateTwice(void) {
  CUgraph first = looped(1, WHILE, 1, 5, 0, NULL, NULL), second = looped(1, WHILE, 1, 6, 0, NULL, NULL);
  CUgraphExec a = made(first), b = made(second);
  CUgraphExecUpdateResultInfo info;
  say("update by a graph that has an instance itself: %d", (int)cuGraphExecUpdate(a, second, &info));
  say("  reason %d, plays %s", (int)info.result, played(a));
  say("  the other plays %s", played(b));
  MUST(cuGraphDestroy(second));
  say("  updated, and that graph destroyed: plays %s", played(a));
}

static void nodeUpdates(void) {
  CUgraphNode inner, node;
  CUgraph graph = looped(1, WHILE, 1, 5, 0, &inner, &node);
  CUgraphExec exec = made(graph);
  uint64_t first = at(list), second = 15;
  void *params[] = {&first, &second};
  CUgraphNodeParams p;
  memset(&p, 0, sizeof p);
  p.type = CU_GRAPH_NODE_TYPE_KERNEL;
  p.kernel.func = note;
  p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
  p.kernel.kernelParams = params;
  say("cuGraphExecNodeSetParams of a kernel in the body: %d", (int)cuGraphExecNodeSetParams(exec, inner, &p));
  say("  plays %s", played(exec));
  unsigned enabled = 9;
  say("cuGraphNodeGetEnabled of a kernel in the body: %d", (int)cuGraphNodeGetEnabled(exec, inner, &enabled));
  say("cuGraphNodeSetEnabled of a kernel in the body: %d", (int)cuGraphNodeSetEnabled(exec, inner, 0));
  say("  plays %s", played(exec));
  say("cuGraphNodeSetEnabled of the conditional: %d", (int)cuGraphNodeSetEnabled(exec, node, 0));
  memset(&p, 0, sizeof p);
  p.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
  p.conditional.handle = newHandle(graph, 0, 1);
  p.conditional.type = CU_GRAPH_COND_TYPE_WHILE;
  p.conditional.size = 1;
  p.conditional.ctx = context;
  say("cuGraphExecNodeSetParams of the conditional: %d", (int)cuGraphExecNodeSetParams(exec, node, &p));
  say("cuGraphNodeSetParams of the conditional: %d", (int)cuGraphNodeSetParams(node, &p));
  CUgraph text = simple(IF, 2, 1, NULL);
  say("cuGraphDebugDotPrint: %d", (int)cuGraphDebugDotPrint(text, "/tmp/conditional.dot", 0));
  FILE *file = fopen("/tmp/conditional.dot", "r");
  char line[500];
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    say("  | %s", line);
  }
}

static void outsideSet(void) {
  CUgraphConditionalHandle handle;
  CUgraph graph = simple(IF, 1, 0, &handle);
  CUgraphExec exec = made(graph);
  say("a kernel outside of any graph sets it: launch %d", launchKernel(plain, set, handle, 1));
  say("  end %d", (int)cuStreamSynchronize(plain));
  say("  the graph (default 0) plays %s", played(exec));
}
static void outsideSetEarly(void) {
  CUgraphConditionalHandle handle;
  simple(IF, 1, 0, &handle);
  launchKernel(plain, set, handle, 1);
  say("a kernel sets the condition of a graph without an instance: end %d", (int)cuStreamSynchronize(plain));
}
static void zeroSet(void) {
  launchKernel(plain, set, 0, 1);
  say("a kernel sets the handle 0: end %d", (int)cuStreamSynchronize(plain));
}
static void wrongSet(void) {
  launchKernel(plain, set, 0x123456789abcull, 1);
  say("a kernel sets a handle that is none: end %d", (int)cuStreamSynchronize(plain));
}
static void otherGraphSet(void) {
  CUgraphConditionalHandle handle, mine;
  CUgraphExec theirs = made(simple(IF, 1, 0, &handle));
  CUgraph graph = simple(IF, 1, 1, &mine);
  kernel(graph, NULL, set, handle, 1);
  CUgraphExec exec = made(graph);
  say("a graph sets the condition of another graph: %s", played(exec));
  say("  the other plays %s", played(theirs));
}
static void goneSet(void) {
  CUgraphConditionalHandle handle;
  CUgraph graph = simple(IF, 1, 0, &handle);
  CUgraphExec exec = made(graph);
  played(exec);
  cuGraphExecDestroy(exec);
  cuGraphDestroy(graph);
  launchKernel(plain, set, handle, 1);
  say("a kernel sets the condition of a graph that is gone: end %d", (int)cuStreamSynchronize(plain));
}

static void faults(void) {
  CUgraph graph = newGraph(), body[1];
  CUgraphConditionalHandle handle = newHandle(graph, 1, 1);
  conditional(graph, NULL, handle, IF, 1, body);
  kernel(body[0], NULL, fault, 0, 0);
  say("a kernel in a body faults: %s", played(made(graph)));
}

static void greens(void) {
  CUdevResource all, part;
  CUdevResourceDesc description;
  CUgreenCtx made_;
  unsigned count = 1;
  MUST(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
  MUST(cuDevSmResourceSplitByCount(&part, &count, &all, NULL, 0, 16));
  MUST(cuDevResourceGenerateDesc(&description, &part, 1));
  MUST(cuGreenCtxCreate(&made_, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
  MUST(cuCtxFromGreenCtx(&green, made_));
  MUST(cuGreenCtxStreamCreate(&inGreen, made_, CU_STREAM_NON_BLOCKING, 0));
  CUgraph graph = newGraph(), body[1];
  CUgraphConditionalHandle handle = newHandle(graph, 1, 1);
  CUgraphNode node;
  CUgraphExec exec;
  int why;
  say("handle of the primary context, node of the green one: %d", tryConditional(&node, graph, NULL, handle, IF, 1, green, body));
  int result = (int)cuGraphConditionalHandleCreate(&handle, graph, green, 1, 1);
  say("handle of a green context: %d", result);
  if (result == 0) {
    result = tryConditional(&node, graph, NULL, handle, IF, 1, green, body);
    say("  node of the green context: %d", result);
    if (result == 0) {
      CUgraph ended;
      result = (int)cuStreamBeginCaptureToGraph(inGreen, body[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED);
      say("  capture of a green stream into it: %d", result);
      say("    kernel %d", launchKernel(inGreen, note, at(list), 1));
      say("    end %d", (int)cuStreamEndCapture(inGreen, &ended));
      result = instantiate(&exec, graph, &why);
      say("  instance (a handle of the graph has no node) %d, reason %d", result, why);
    }
  }
  graph = newGraph();
  result = (int)cuGraphConditionalHandleCreate(&handle, graph, green, 1, 1);
  if (result == 0 && tryConditional(&node, graph, NULL, handle, IF, 1, green, body) == 0) {
    CUgraph ended;
    MUST(cuStreamBeginCaptureToGraph(inGreen, body[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(launchKernel(inGreen, note, at(list), 1));
    MUST(cuStreamEndCapture(inGreen, &ended));
    result = instantiate(&exec, graph, &why);
    say("all of it in the green context: instance %d, reason %d", result, why);
    if (result == 0) say("  plays %s", played(exec));
  }
  graph = newGraph();
  handle = newHandle(graph, 1, 1);
  MUST(tryConditional(&node, graph, NULL, handle, IF, 1, context, body));
  CUgraph ended;
  result = (int)cuStreamBeginCaptureToGraph(inGreen, body[0], NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_RELAXED);
  say("capture of a green stream into a body of the primary context: %d", result);
  say("  kernel %d", launchKernel(inGreen, note, at(list), 1));
  say("  end %d", (int)cuStreamEndCapture(inGreen, &ended));
  result = instantiate(&exec, graph, &why);
  say("  instance %d, reason %d", result, why);
  if (result == 0) say("  plays %s", played(exec));
}

static void timing(void) {
  CUgraph graph = newGraph(), body[1];
  CUgraphConditionalHandle handle = newHandle(graph, 1, 1);
  conditional(graph, NULL, handle, WHILE, 1, body);
  kernel(body[0], NULL, down, handle, memory);
  CUgraphExec exec = made(graph);
  for (int round = 0; round < 4; round += 1) {
    uint32_t n = round < 2 ? 1 : 1001;
    MUST(cuMemcpyHtoD(memory, &n, 4));
    double start = now();
    MUST(cuGraphLaunch(exec, plain));
    double launched = now();
    MUST(cuStreamSynchronize(plain));
    say("while of one kernel, %u times: launch %.1f us, all %.1f us", n, 1e3 * (launched - start), 1e3 * (now() - start));
  }
  exec = made(simple(IF, 1, 1, NULL));
  for (int round = 0; round < 3; round += 1) {
    double start = now();
    MUST(cuGraphLaunch(exec, plain));
    MUST(cuStreamSynchronize(plain));
    say("if of one kernel, then one: %.1f us", 1e3 * (now() - start));
    reset();
  }
  double start = now();
  exec = made(simple(WHILE, 1, 1, NULL));
  say("making an instance: %.2f ms", now() - start);
}

/* Which calls wait for a stream that stands at a value, and for how long? The alarm of the group ends a wait. */
static void blockingOne(const char *what, int which) {
  CUgraph graph = simple(WHILE, 1, 1, NULL);
  CUgraphExec exec = which >= 2 ? made(graph) : NULL;
  CUgraphExec twice = which >= 2 ? made(simple(IF, 1, 1, NULL)) : NULL;
  if (which == 5) {
    MUST(cuGraphLaunch(exec, plain));
    MUST(cuStreamSynchronize(plain));
  }
  MUST(cuStreamWaitValue32(other, at(number), 1, CU_STREAM_WAIT_VALUE_EQ));
  if (which == 6) MUST(cuStreamWaitValue32(plain, at(number), 1, CU_STREAM_WAIT_VALUE_EQ));
  say("%s, while another stream stands ...", what);
  double start = now();
  int result = 0;
  CUmodule loaded;
  CUgraphConditionalHandle handle;
  CUgraphNode node;
  if (which == 0) result = (int)cuModuleLoadData(&loaded, cubin);
  if (which == 1) result = (int)cuGraphInstantiateWithFlags(&exec, graph, 0);
  if (which == 2) result = (int)cuGraphUpload(exec, plain);
  if (which == 3) result = (int)cuGraphLaunch(exec, plain);
  if (which == 4) result = (int)cuGraphExecDestroy(exec);
  if (which == 5) result = (int)cuGraphLaunch(exec, plain);
  if (which == 6)
    for (int i = 0; i < 300 && result == 0; i += 1) result = (int)cuGraphLaunch(i % 2 ? exec : twice, plain);
  if (which == 7) result = (int)launchKernel(plain, set, 0, 0) * 0;
  if (which == 8) {
    CUgraph fresh = newGraph();
    result = (int)cuGraphConditionalHandleCreate(&handle, fresh, context, 1, 1);
    if (result == 0) result = tryConditional(&node, fresh, NULL, handle, IF, 1, context, NULL);
  }
  if (which == 9) {
    CUgraphExecUpdateResultInfo info;
    result = (int)cuGraphExecUpdate(exec, simple(WHILE, 1, 1, NULL), &info);
  }
  say("  returned %d after %.2f ms", result, now() - start);
  if (which == 3 || which == 5) {
    double end = now() + 2000;
    while (cuStreamQuery(plain) == CUDA_ERROR_NOT_READY && now() < end) usleep(1000);
    say("  the stream's query then: %d", (int)cuStreamQuery(plain));
  }
  *number = 1;
  say("  the end: %d", (int)cuCtxSynchronize());
}
static void blockLoad(void) { blockingOne("cuModuleLoadData of linked code", 0); }
static void blockMake(void) { blockingOne("cuGraphInstantiate", 1); }
static void blockUpload(void) { blockingOne("cuGraphUpload", 2); }
static void blockLaunch(void) { blockingOne("the first cuGraphLaunch", 3); }
static void blockDestroy(void) { blockingOne("cuGraphExecDestroy", 4); }
static void blockSecond(void) { blockingOne("the second cuGraphLaunch", 5); }
static void blockMany(void) { blockingOne("300 cuGraphLaunch, their own stream standing, too", 6); }
static void blockNode(void) { blockingOne("a handle and a node", 8); }
static void blockUpdate(void) { blockingOne("cuGraphExecUpdate", 9); }

static void order(void) {
  /* Is the null stream's order kept: a launch on a blocking stream behind work of the null stream? */
  CUstream blocking;
  MUST(cuStreamCreateWithPriority(&blocking, 0, 0));
  CUgraphExec exec = made(simple(IF, 1, 1, NULL));
  MUST(cuStreamWaitValue32(NULL, at(number), 1, CU_STREAM_WAIT_VALUE_EQ));
  MUST(cuGraphLaunch(exec, blocking));
  usleep(50000);
  say("a launch on a blocking stream while the null stream stands: query %d, %s", (int)cuStreamQuery(blocking), listed());
  *number = 1;
  MUST(cuCtxSynchronize());
  say("  then %s", listed());
  reset();
  /* Of an if that is not taken and has nothing before and behind it: is a launch ordered? */
  CUgraph graph = newGraph(), body[1];
  CUgraphConditionalHandle handle = newHandle(graph, 0, 1);
  conditional(graph, NULL, handle, IF, 1, body);
  noted(body[0], NULL, 1);
  exec = made(graph);
  MUST(cuStreamWaitValue32(plain, at(number), 1, CU_STREAM_WAIT_VALUE_EQ));
  MUST(cuGraphLaunch(exec, plain));
  MUST(cuGraphLaunch(exec, other));
  usleep(50000);
  say("an if that is not taken, launched on a stream that stands, then on another: query of the other %d", (int)cuStreamQuery(other));
  *number = 1;
  MUST(cuCtxSynchronize());
  reset();
  /* Two instances of two graphs side by side. */
  CUgraph loop = newGraph();
  handle = newHandle(loop, 1, 1);
  conditional(loop, NULL, handle, WHILE, 1, body);
  kernel(body[0], NULL, down, handle, at(number));
  CUgraphExec a = made(loop), b = made(simple(IF, 1, 1, NULL));
  *number = 100000;
  MUST(cuGraphLaunch(a, plain));
  MUST(cuGraphLaunch(b, other));
  MUST(cuStreamSynchronize(other));
  say("a long loop, and an if on another stream: the if ends while the loop has %u to go", *(volatile uint32_t *)number);
  MUST(cuCtxSynchronize());
}

static void endless(void) {
  CUgraph body[1];
  CUgraph safe = newGraph();
  CUgraphConditionalHandle handle = newHandle(safe, 1, 1);
  conditional(safe, NULL, handle, WHILE, 1, body);
  kernel(body[0], NULL, down, handle, at(number));
  CUgraphExec exec = made(safe);
  *number = 3000000;
  MUST(cuGraphLaunch(exec, plain));
  usleep(300000);
  say("a loop of 3000000 turns after 0.3 s: query %d, %u to go", (int)cuStreamQuery(plain), *(volatile uint32_t *)number);
  say("cuGraphExecDestroy of it: %d", (int)cuGraphExecDestroy(exec));
  *(volatile uint32_t *)number = 5;
  say("the host ends it by writing: %d", (int)cuStreamSynchronize(plain));
}


/* Code that is not linked with libcudadevrt.a: does the driver have what it lacks? */
static void playWith(const char *what, CUmodule loaded, const char *name) {
  CUfunction own = NULL;
  int found = (int)cuModuleGetFunction(&own, loaded, name);
  if (found) {
    say("%s: cuModuleGetFunction %d", what, found);
    return;
  }
  CUgraph graph = newGraph(), body[1];
  CUgraphConditionalHandle handle = newHandle(graph, 0, 1);
  CUgraphNode first;
  int added = tryKernel(&first, graph, NULL, own, handle, 1);
  if (added) {
    say("%s: add %d", what, added);
    return;
  }
  conditional(graph, first, handle, IF, 1, body);
  noted(body[0], NULL, 1);
  CUgraphExec exec;
  int why, result = instantiate(&exec, graph, &why);
  say("%s: function 0, instance %d, reason %d, plays %s", what, result, why, result ? "" : played(exec));
}
static void alone(void) {
  CUmodule loaded;
  int result = (int)cuModuleLoadData(&loaded, CODE);
  say("PTX alone: load %d", result);
  if (result == 0) playWith("PTX alone", loaded, "set");
}
static void compileAlone(int rdc, const char *what) {
  const char *options[] = {"-arch=sm_90", "-rdc=true"};
  nvrtcProgram program;
  nvrtcCreateProgram(&program,
                     "extern \"C\" __device__ void cudaGraphSetConditional(unsigned long long, unsigned);\n"
                     "extern \"C\" __global__ void f(unsigned long long h, unsigned v) { cudaGraphSetConditional(h, v); }",
                     "f.cu", 0, 0, 0);
  int compiled = (int)nvrtcCompileProgram(program, 1 + rdc, options);
  size_t length = 0;
  int size = (int)nvrtcGetCUBINSize(program, &length);
  say("%s: compile %d, size %d, %zu bytes", what, compiled, size, length);
  if (compiled || size || length == 0) return;
  char *code = malloc(length);
  nvrtcGetCUBIN(program, code);
  CUmodule loaded;
  int result = (int)cuModuleLoadData(&loaded, code);
  say("%s: ELF type %d, load %d", what, code[16], result);
  if (result == 0) playWith(what, loaded, "f");
}
static void aloneCubin(void) { compileAlone(0, "cubin of NVRTC alone, without -rdc"); }
static void aloneRelocatable(void) { compileAlone(1, "cubin of NVRTC alone, -rdc=true"); }

static void setInGraph(uint64_t wrong) {
  CUgraphConditionalHandle handle;
  CUgraph graph = simple(IF, 1, 1, &handle);
  kernel(graph, NULL, set, wrong, 0);
  say("a kernel of a graph sets the handle %llx: %s", (unsigned long long)wrong, played(made(graph)));
}
static void setZero(void) { setInGraph(0); }
static void setUnknown(void) { setInGraph(5); }
static void setWild(void) { setInGraph(0x123456789abcull); }

static void pending(int type, const char *name, int nodeOnly) {
  CUgraphNode inner;
  CUgraphExec exec = made(looped(1, type, 1, 5, 0, &inner, NULL));
  CUgraphExecUpdateResultInfo info;
  MUST(cuStreamWaitValue32(plain, at(number), 1, CU_STREAM_WAIT_VALUE_EQ));
  MUST(cuGraphLaunch(exec, plain));
  int result;
  if (nodeOnly) {
    uint64_t first = at(list), second = 8;
    void *params[] = {&first, &second};
    CUgraphNodeParams p;
    memset(&p, 0, sizeof p);
    p.type = CU_GRAPH_NODE_TYPE_KERNEL;
    p.kernel.func = note;
    p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
    p.kernel.kernelParams = params;
    result = (int)cuGraphExecNodeSetParams(exec, inner, &p);
  } else result = (int)cuGraphExecUpdate(exec, looped(1, type, 1, 8, 0, NULL, NULL), &info);
  *number = 1;
  int end = (int)cuStreamSynchronize(plain);
  say("%s: %s while a launch that notes 5 stands: %d; the launch ends %d, plays %s", name, nodeOnly ? "its node is set to 8" : "updated to note 8", result, end, listed());
  reset();
  say("  then plays %s", played(exec));
}
static void pendingWhile(void) { pending(WHILE, "while", 0); }
static void pendingIf(void) { pending(IF, "if", 0); }
static void pendingNode(void) { pending(WHILE, "while", 1); }
static void pendingTwo(void) {
  CUgraphExec exec = made(simple(IF, 1, 1, NULL));
  MUST(cuStreamWaitValue32(plain, at(number), 1, CU_STREAM_WAIT_VALUE_EQ));
  MUST(cuGraphLaunch(exec, plain));
  MUST(cuGraphLaunch(exec, plain));
  *number = 1;
  int end = (int)cuStreamSynchronize(plain);
  say("two launches behind one that stands, no update: end %d, %s", end, listed());
}

/* Bodies that are made of graphs which were captured apart. */
static CUgraph capturedNotes(uint32_t first, uint32_t second) {
  CUgraph graph;
  MUST(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
  MUST(launchKernel(other, note, at(list), first));
  if (second) MUST(launchKernel(other, note, at(list), second));
  MUST(cuStreamEndCapture(other, &graph));
  return graph;
}
static CUgraph segmented(uint32_t first, CUgraphNode *inClone) {
  CUgraph graph = newGraph(), body[1], inner[1], child, embedded;
  CUgraphConditionalHandle handle = newHandle(graph, 1, 1), nested = newHandle(graph, 1, 1);
  CUgraphNode a, b, c, nodes[4];
  size_t count = 4;
  conditional(graph, NULL, handle, IF, 1, body);
  child = capturedNotes(first, first + 1);
  MUST(cuGraphGetNodes(child, nodes, &count));
  MUST(cuGraphAddChildGraphNode(&a, body[0], NULL, 0, child));
  MUST(cuGraphChildGraphNodeGetGraph(a, &embedded));
  int found = (int)cuGraphNodeFindInClone(inClone, nodes[0], embedded);
  if (found) say("cuGraphNodeFindInClone in a child graph of a body: %d", found);
  MUST(cuGraphDestroy(child));
  b = conditional(body[0], a, nested, IF, 1, inner);
  child = capturedNotes(first + 2, 0);
  MUST(cuGraphAddChildGraphNode(&c, inner[0], NULL, 0, child));
  MUST(cuGraphDestroy(child));
  child = capturedNotes(first + 3, 0);
  MUST(cuGraphAddChildGraphNode(&c, body[0], &b, 1, child));
  MUST(cuGraphDestroy(child));
  return graph;
}
static void segments(void) {
  CUgraphNode node;
  CUgraph graph = segmented(10, &node);
  CUgraphExec exec = made(graph);
  say("if (graph 10, 11; if (graph 12); graph 13): %s", played(exec));
  CUgraphNode ignored;
  CUgraphExecUpdateResultInfo info;
  say("updated by the same with other numbers: %d", (int)cuGraphExecUpdate(exec, segmented(20, &ignored), &info));
  say("  plays %s", played(exec));
  uint64_t first = at(list), second = 99;
  void *params[] = {&first, &second};
  CUgraphNodeParams p;
  memset(&p, 0, sizeof p);
  p.type = CU_GRAPH_NODE_TYPE_KERNEL;
  p.kernel.func = note;
  p.kernel.gridDimX = p.kernel.gridDimY = p.kernel.gridDimZ = p.kernel.blockDimX = p.kernel.blockDimY = p.kernel.blockDimZ = 1;
  p.kernel.kernelParams = params;
  say("a kernel in a graph in a body set alone: %d", (int)cuGraphExecNodeSetParams(exec, node, &p));
  say("  plays %s", played(exec));
  say("  switched off: %d", (int)cuGraphNodeSetEnabled(exec, node, 0));
  say("  plays %s", played(exec));
}

/* Captures that fail while a body is captured apart. */
static void failing(int how) {
  CUgraph body[1], ended, graph, child;
  CUgraphConditionalHandle handle;
  CUstreamCaptureStatus status;
  cuuint64_t id;
  const CUgraphNode *after;
  const CUgraphEdgeData *edges;
  size_t count;
  CUgraphNode node;
  MUST(cuStreamBeginCapture(plain, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  MUST(launchKernel(plain, note, at(list), 1));
  MUST(cuStreamGetCaptureInfo(plain, &status, &id, &graph, &after, &edges, &count));
  handle = newHandle(graph, 1, 1);
  MUST(tryConditional(&node, graph, after[0], handle, IF, 1, context, body));
  MUST(cuStreamUpdateCaptureDependencies(plain, &node, NULL, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  MUST(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
  MUST(launchKernel(other, note, at(list), 2));
  const char *names[] = {"nothing fails", "the device is waited for", "the body's stream is waited for", "the graph's stream is waited for"};
  int failed = how == 1 ? (int)cuCtxSynchronize() : how == 2 ? (int)cuStreamSynchronize(other) : how == 3 ? (int)cuStreamSynchronize(plain) : 0;
  ended = NULL;
  int inner = (int)cuStreamEndCapture(other, &ended);
  int added = -1;
  if (inner == 0) added = (int)cuGraphAddChildGraphNode(&node, body[0], NULL, 0, ended);
  child = ended;
  ended = NULL;
  say("%s: %d; end of the body %d, added %d", names[how], failed, inner, added);
  int outer = (int)cuStreamEndCapture(plain, &ended);
  say("  end of the graph %d", outer);
  if (outer == 0) say("  plays %s", played(made(ended)));
  if (outer == 0) say("  destroyed %d", (int)cuGraphDestroy(ended));
  (void)child;
}
static void failing0(void) { failing(0); }
static void failing1(void) { failing(1); }
static void failing2(void) { failing(2); }
static void failing3(void) { failing(3); }

static void destroying(void) {
  CUgraphExec exec = made(simple(WHILE, 1, 1, NULL));
  double start = now();
  say("cuGraphExecDestroy of an instance never launched, the device idle: %d", (int)cuGraphExecDestroy(exec));
  say("  %.2f ms", now() - start);
  CUgraph graph = simple(WHILE, 1, 1, NULL);
  exec = made(graph);
  played(exec);
  start = now();
  say("cuGraphExecDestroy of an instance whose launch is over: %d", (int)cuGraphExecDestroy(exec));
  say("  %.2f ms", now() - start);
  say("cuGraphDestroy: %d", (int)cuGraphDestroy(graph));
  /* Is the destruction of a graph without conditional nodes, in the same context, still free of waits? */
  CUgraph simpleGraph = newGraph();
  noted(simpleGraph, NULL, 1);
  exec = made(simpleGraph);
  MUST(cuStreamWaitValue32(other, at(number), 1, CU_STREAM_WAIT_VALUE_EQ));
  start = now();
  say("cuGraphExecDestroy of a graph without conditional nodes while a stream stands: %d", (int)cuGraphExecDestroy(exec));
  say("  %.2f ms", now() - start);
  graph = simple(WHILE, 1, 1, NULL);
  start = now();
  say("cuGraphDestroy of a graph with a conditional node while a stream stands: %d", (int)cuGraphDestroy(graph));
  say("  %.2f ms", now() - start);
  *number = 1;
}


static void selfUpdate(int type, const char *name) {
  CUgraph own = looped(1, type, 1, 5, 0, NULL, NULL), second = looped(1, type, 1, 6, 0, NULL, NULL), third = looped(1, type, 1, 7, 0, NULL, NULL);
  CUgraphExec exec = made(own);
  CUgraphExecUpdateResultInfo info;
  int result = (int)cuGraphExecUpdate(exec, own, &info);
  say("%s: updated by its own graph, never launched: %d, plays %s", name, result, played(exec));
  say("  and again: plays %s", played(exec));
  result = (int)cuGraphExecUpdate(exec, own, &info);
  say("  updated by its own graph once more: %d, plays %s", result, played(exec));
  result = (int)cuGraphExecUpdate(exec, second, &info);
  say("  by a second graph: %d, plays %s", result, played(exec));
  result = (int)cuGraphExecUpdate(exec, own, &info);
  say("  by its own again: %d, plays %s", result, played(exec));
  result = (int)cuGraphExecUpdate(exec, third, &info);
  say("  by a third: %d, plays %s", result, played(exec));
  result = (int)cuGraphExecUpdate(exec, third, &info);
  say("  by the third again: %d, plays %s", result, played(exec));
  result = (int)cuGraphExecUpdate(exec, second, &info);
  say("  by the second again: %d, plays %s", result, played(exec));
  MUST(cuGraphDestroy(own));
  result = (int)cuGraphExecUpdate(exec, third, &info);
  say("  by the third, its own destroyed: %d, plays %s", result, played(exec));
}
static void selfWhile(void) { selfUpdate(WHILE, "while"); }
static void selfIf(void) { selfUpdate(IF, "if"); }
static void selfUpdateSame(void) {
  CUgraph own = looped(1, WHILE, 1, 5, 0, NULL, NULL);
  CUgraphExec exec = made(own);
  CUgraphExecUpdateResultInfo info;
  say("launched: plays %s", played(exec));
  int result = (int)cuGraphExecUpdate(exec, own, &info);
  say("launched once, then updated by its own graph: %d, plays %s", result, played(exec));
}
static void failedUpdate(void) {
  CUgraphExec exec = made(looped(1, WHILE, 1, 5, 0, NULL, NULL));
  CUgraphExecUpdateResultInfo info;
  int result = (int)cuGraphExecUpdate(exec, looped(1, WHILE, 1, 6, 1, NULL, NULL), &info);
  say("after an update that is refused (%d): plays %s", result, played(exec));
  result = (int)cuGraphExecUpdate(exec, looped(0, WHILE, 1, 6, 1, NULL, NULL), &info);
  say("the same with another default (%d): plays %s", result, played(exec));
}
static void setZeroAlone(void) {
  /* What does a kernel with a handle that its graph has not write to? The second condition, or nothing. */
  CUgraph graph = newGraph(), body[2];
  CUgraphConditionalHandle a = newHandle(graph, 0, 1), b = newHandle(graph, 0, 1);
  CUgraphNode first = kernel(graph, NULL, set, 3, 1);
  first = kernel(graph, first, set, 0, 1);
  CUgraphNode node = conditional(graph, first, a, IF, 1, body);
  noted(body[0], NULL, 1);
  conditional(graph, node, b, IF, 1, body + 1);
  noted(body[1], NULL, 2);
  say("a kernel sets handles 3 and 0 of a graph with conditions 1 and 2: %s", played(made(graph)));
}

/* ------------------------------------------------------------------------------------------------------------------------------------ */

static const struct { const char *name; void (*run)(void); } groups[] = {
    {"versions", versions}, {"linking", linking}, {"handles", handles}, {"nullGraph", nullGraph}, {"handleUses", handleUses},
    {"sizes", sizes}, {"playing", playing}, {"elseAndSwitch", elseAndSwitch}, {"defaults", defaults}, {"nesting", nesting},
    {"bodies", bodies}, {"copies", copies}, {"destroyBody", destroyBody}, {"destroyOuter", destroyOuter}, {"capturing", capturing},
    {"captureMore", captureMore}, {"intoBody", captureIntoBody}, {"failedOuter", failedOuter}, {"instances", instances},
    {"updates", updates}, {"updateTwice", updateTwice}, {"nodeUpdates", nodeUpdates}, {"outsideSet", outsideSet},
    {"outsideEarly", outsideSetEarly}, {"zeroSet", zeroSet}, {"wrongSet", wrongSet}, {"otherGraphSet", otherGraphSet}, {"goneSet", goneSet},
    {"faults", faults}, {"greens", greens}, {"timing", timing}, {"blockLoad", blockLoad}, {"blockMake", blockMake},
    {"blockUpload", blockUpload}, {"blockLaunch", blockLaunch}, {"blockDestroy", blockDestroy}, {"blockSecond", blockSecond},
    {"blockMany", blockMany}, {"blockNode", blockNode}, {"blockUpdate", blockUpdate}, {"order", order}, {"endless", endless}, {"alone", alone}, {"aloneCubin", aloneCubin}, {"aloneRelocatable", aloneRelocatable}, {"setZero", setZero}, {"setUnknown", setUnknown}, {"setWild", setWild}, {"pendingWhile", pendingWhile}, {"pendingIf", pendingIf}, {"pendingNode", pendingNode}, {"pendingTwo", pendingTwo}, {"segments", segments}, {"failing0", failing0}, {"failing1", failing1}, {"failing2", failing2}, {"failing3", failing3}, {"destroying", destroying}, {"selfWhile", selfWhile}, {"selfIf", selfIf}, {"selfUpdateSame", selfUpdateSame}, {"failedUpdate", failedUpdate}, {"setZeroAlone", setZeroAlone}};

int main(int count, char **arguments) {
  if (count > 1) runtime = arguments[1];
  for (unsigned i = 0; i < sizeof groups / sizeof *groups; i += 1) {
    group = groups[i].name;
    int wanted = count <= 2;
    for (int each = 2; each < count; each += 1) wanted |= strcmp(group, arguments[each]) == 0;
    if (!wanted) continue;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
      alarm(20);
      begin();
      groups[i].run();
      fflush(stdout);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) say(WTERMSIG(status) == SIGALRM ? "HANGS" : "CRASHES with signal %d", WTERMSIG(status));
  }
  return 0;
}

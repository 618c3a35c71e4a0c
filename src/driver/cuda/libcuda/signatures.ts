/**
 * The ledger: every driver function in use, its signature as cuda.h writes it, and its declaration for koffi beside it.
 * Handles, pointers and size_t go as numbers (`uintptr_t`): they have 47 bits, and numbers are what koffi passes fastest.
 * A test compares each row with cuda.h wherever a CUDA toolkit is installed.
 */

/** koffi's names for the C types in use; the last two are structs of 64 bytes passed by value. */
export type ArgumentType = 'int' | 'uint' | 'uint64' | 'uintptr_t' | 'CUipcEventHandle' | 'CUipcMemHandle'

export interface Signature {
  /** As in cuda.h, with the name that libcuda exports: a `_v2` is the version that the header's plain name stands for. */
  readonly c: string
  readonly args: readonly ArgumentType[]
  /** The version of CUDA that brought it, where the driver may be older: it may be missing then. */
  readonly since?: string
}

const P = 'uintptr_t'

export const SIGNATURES = {
  cuInit: { c: 'CUresult cuInit(unsigned int Flags)', args: ['uint'] },
  cuDriverGetVersion: { c: 'CUresult cuDriverGetVersion(int *driverVersion)', args: [P] },
  cuDeviceGetCount: { c: 'CUresult cuDeviceGetCount(int *count)', args: [P] },
  cuDeviceGet: { c: 'CUresult cuDeviceGet(CUdevice *device, int ordinal)', args: [P, 'int'] },
  cuDeviceGetName: { c: 'CUresult cuDeviceGetName(char *name, int len, CUdevice dev)', args: [P, 'int', 'int'] },
  cuDeviceGetUuid_v2: { c: 'CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)', args: [P, 'int'] },
  cuDeviceGetAttribute: {
    c: 'CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)',
    args: [P, 'int', 'int'],
  },
  cuDeviceCanAccessPeer: {
    c: 'CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)',
    args: [P, 'int', 'int'],
  },
  cuCtxEnablePeerAccess: {
    c: 'CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)',
    args: [P, 'uint'],
  },
  cuMemPoolSetAccess: {
    c: 'CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)',
    args: [P, P, P],
  },
  cuDevicePrimaryCtxRetain: {
    c: 'CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)',
    args: [P, 'int'],
  },
  cuCtxGetCurrent: { c: 'CUresult cuCtxGetCurrent(CUcontext *pctx)', args: [P] },
  cuCtxSetCurrent: { c: 'CUresult cuCtxSetCurrent(CUcontext ctx)', args: [P] },
  cuCtxGetDevice: { c: 'CUresult cuCtxGetDevice(CUdevice *device)', args: [P] },
  cuCtxSynchronize: { c: 'CUresult cuCtxSynchronize(void)', args: [] },
  cuCtxRecordEvent: { c: 'CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)', args: [P, P] },
  cuCtxGetLimit: { c: 'CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)', args: [P, 'int'] },
  cuCtxSetLimit: { c: 'CUresult cuCtxSetLimit(CUlimit limit, size_t value)', args: ['int', P] },
  cuCtxGetStreamPriorityRange: {
    c: 'CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)',
    args: [P, P],
  },
  cuStreamCreateWithPriority: {
    c: 'CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)',
    args: [P, 'uint', 'int'],
  },
  cuStreamDestroy_v2: { c: 'CUresult cuStreamDestroy_v2(CUstream hStream)', args: [P] },
  cuStreamGetCtx: { c: 'CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)', args: [P, P] },
  cuStreamGetId: { c: 'CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)', args: [P, P] },
  cuStreamGetFlags: { c: 'CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)', args: [P, P] },
  cuStreamGetPriority: { c: 'CUresult cuStreamGetPriority(CUstream hStream, int *priority)', args: [P, P] },
  cuStreamIsCapturing: {
    c: 'CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)',
    args: [P, P],
  },
  cuStreamQuery: { c: 'CUresult cuStreamQuery(CUstream hStream)', args: [P] },
  cuStreamSynchronize: { c: 'CUresult cuStreamSynchronize(CUstream hStream)', args: [P] },
  cuStreamWaitEvent: {
    c: 'CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)',
    args: [P, P, 'uint'],
  },
  cuStreamBatchMemOp_v2: {
    c: 'CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray, unsigned int flags)',
    args: [P, 'uint', P, 'uint'],
  },
  cuStreamBeginCapture_v2: {
    c: 'CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)',
    args: [P, 'int'],
  },
  cuStreamEndCapture: { c: 'CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)', args: [P, P] },
  cuStreamGetCaptureInfo_v3: {
    c: 'CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out)',
    args: [P, P, P, P, P, P, P],
  },
  cuGraphGetNodes: {
    c: 'CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)',
    args: [P, P, P],
  },
  cuGraphDebugDotPrint: {
    c: 'CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)',
    args: [P, P, 'uint'],
  },
  cuGraphDestroy: { c: 'CUresult cuGraphDestroy(CUgraph hGraph)', args: [P] },
  cuGraphInstantiateWithFlags: {
    c: 'CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)',
    args: [P, P, 'uint64'],
  },
  cuGraphBatchMemOpNodeSetParams: {
    c: 'CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)',
    args: [P, P],
  },
  cuGraphExecUpdate_v2: {
    c: 'CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo)',
    args: [P, P, P],
  },
  cuGraphUpload: { c: 'CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)', args: [P, P] },
  cuGraphLaunch: { c: 'CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)', args: [P, P] },
  cuGraphExecDestroy: { c: 'CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)', args: [P] },
  cuThreadExchangeStreamCaptureMode: {
    c: 'CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)',
    args: [P],
  },
  cuEventCreate: { c: 'CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)', args: [P, 'uint'] },
  cuEventDestroy_v2: { c: 'CUresult cuEventDestroy_v2(CUevent hEvent)', args: [P] },
  cuEventRecord: { c: 'CUresult cuEventRecord(CUevent hEvent, CUstream hStream)', args: [P, P] },
  cuEventRecordWithFlags: {
    c: 'CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)',
    args: [P, P, 'uint'],
  },
  cuEventQuery: { c: 'CUresult cuEventQuery(CUevent hEvent)', args: [P] },
  cuEventSynchronize: { c: 'CUresult cuEventSynchronize(CUevent hEvent)', args: [P] },
  cuEventElapsedTime: {
    c: 'CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)',
    args: [P, P, P],
  },
  cuIpcGetEventHandle: {
    c: 'CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)',
    args: [P, P],
  },
  cuIpcOpenEventHandle: {
    c: 'CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)',
    args: [P, 'CUipcEventHandle'],
  },
  cuIpcGetMemHandle: { c: 'CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)', args: [P, P] },
  cuIpcOpenMemHandle_v2: {
    c: 'CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)',
    args: [P, 'CUipcMemHandle', 'uint'],
  },
  cuIpcCloseMemHandle: { c: 'CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)', args: [P] },
  cuModuleLoadData: { c: 'CUresult cuModuleLoadData(CUmodule *module, const void *image)', args: [P, P] },
  cuModuleUnload: { c: 'CUresult cuModuleUnload(CUmodule hmod)', args: [P] },
  cuModuleGetFunction: {
    c: 'CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)',
    args: [P, P, P],
  },
  cuFuncGetParamInfo: {
    c: 'CUresult cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)',
    args: [P, P, P, P],
  },
  cuFuncGetAttribute: {
    c: 'CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)',
    args: [P, 'int', P],
  },
  cuFuncSetAttribute: {
    c: 'CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)',
    args: [P, 'int', 'int'],
  },
  cuLaunchKernelEx: {
    c: 'CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra)',
    args: [P, P, P, P],
  },
  cuOccupancyMaxActiveBlocksPerMultiprocessor: {
    c: 'CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize)',
    args: [P, P, 'int', P],
  },
  cuMemHostAlloc: {
    c: 'CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)',
    args: [P, P, 'uint'],
  },
  cuMemFreeHost: { c: 'CUresult cuMemFreeHost(void *p)', args: [P] },
  cuMemAlloc_v2: { c: 'CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)', args: [P, P] },
  cuMemFree_v2: { c: 'CUresult cuMemFree_v2(CUdeviceptr dptr)', args: [P] },
  cuMemGetAddressRange_v2: {
    c: 'CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)',
    args: [P, P, P],
  },
  cuMemAllocAsync: {
    c: 'CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)',
    args: [P, P, P],
  },
  cuMemFreeAsync: { c: 'CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)', args: [P, P] },
  cuMemcpyAsync: {
    c: 'CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)',
    args: [P, P, P, P],
  },
  cuMemcpyPeerAsync: {
    c: 'CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream)',
    args: [P, P, P, P, P, P],
  },
  cuMemcpyBatchAsync: {
    c: 'CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx, CUstream hStream)',
    args: [P, P, P, P, P, P, P, P, P],
    since: '12.8',
  },
  cuMemsetD8Async: {
    c: 'CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)',
    args: [P, 'uint', P, P],
  },
  cuMemsetD16Async: {
    c: 'CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)',
    args: [P, 'uint', P, P],
  },
  cuMemsetD32Async: {
    c: 'CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)',
    args: [P, 'uint', P, P],
  },
  cuPointerGetAttribute: {
    c: 'CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)',
    args: [P, 'int', P],
  },
} as const satisfies Record<string, Signature>

export type DriverFunction = keyof typeof SIGNATURES
type Newer = {
  [N in DriverFunction]: (typeof SIGNATURES)[N] extends { readonly since: string } ? N : never
}[DriverFunction]
/** Those that an older driver lacks. */
export type NewerFunction = Newer

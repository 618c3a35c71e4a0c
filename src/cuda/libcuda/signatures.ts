/**
 * Every driver function that the library calls, with its parameters as cuda.h writes them. Each returns a CUresult. The names are those that
 * libcuda exports: a `_v2` is the version that the header defines the plain name as. A test compares each row with cuda.h when a CUDA toolkit
 * is installed.
 *
 * docs/internals/cuda-facts.md has what each may wait for, measured. The comment above a row says what the library does about that, or that
 * the function was not measured; without one the library just makes the call. _Makes room first_: while host functions are pending, the
 * library waits, and runs them, until the stream's hardware queue has an entry left. _Captures relaxed_: `cuThreadExchangeStreamCaptureMode`
 * is called before and after, so that no capture of the process is invalidated. _Exclusive_: the call is made while no thread of the process
 * has a host function pending, and none is queued before it returns.
 */
export const SIGNATURES = {
  // Called once, before anything is queued.
  cuInit: 'unsigned int Flags',
  cuDriverGetVersion: 'int *driverVersion',
  cuDeviceGetCount: 'int *count',
  cuDeviceGet: 'CUdevice *device, int ordinal',
  cuDeviceGetName: 'char *name, int len, CUdevice dev',
  cuDeviceGetUuid_v2: 'CUuuid *uuid, CUdevice dev',
  cuDeviceGetPCIBusId: 'char *pciBusId, int len, CUdevice dev',
  cuDeviceGetAttribute: 'int *pi, CUdevice_attribute attrib, CUdevice dev',
  // Called once for two devices.
  cuDeviceCanAccessPeer: 'int *canAccessPeer, CUdevice dev, CUdevice peerDev',
  // Called once for two devices, when a stream of one first uses memory of the other; captures relaxed.
  cuCtxEnablePeerAccess: 'CUcontext peerContext, unsigned int Flags',
  // Called once for a pool and a device, when a stream of the device first uses memory of the pool; captures relaxed.
  cuMemPoolSetAccess: 'CUmemoryPool pool, const CUmemAccessDesc *map, size_t count',
  cuDeviceGetDefaultMemPool: 'CUmemoryPool *pool_out, CUdevice dev',
  cuDeviceGetMemPool: 'CUmemoryPool *pool, CUdevice dev',
  // Captures relaxed.
  cuMemPoolCreate: 'CUmemoryPool *pool, const CUmemPoolProps *poolProps',
  // Called when no memory of the pool is in use; captures relaxed.
  cuMemPoolDestroy: 'CUmemoryPool pool',
  // Captures relaxed.
  cuMemPoolGetAttribute: 'CUmemoryPool pool, CUmemPool_attribute attr, void *value',
  // Captures relaxed.
  cuMemPoolSetAttribute: 'CUmemoryPool pool, CUmemPool_attribute attr, void *value',
  // Captures relaxed.
  cuMemPoolTrimTo: 'CUmemoryPool pool, size_t minBytesToKeep',
  // Called once for a device.
  cuDevicePrimaryCtxRetain: 'CUcontext *pctx, CUdevice dev',
  cuCtxGetCurrent: 'CUcontext *pctx',
  cuCtxSetCurrent: 'CUcontext ctx',
  // Called once for a context.
  cuCtxGetDevice: 'CUdevice *device',
  // Called only while no thread has a host function pending; otherwise an event is queried, and host functions run meanwhile.
  cuCtxSynchronize: 'void',
  cuProfilerStart: 'void',
  cuProfilerStop: 'void',
  // Not called while a stream of the context captures, or another thread, as far as the library knows.
  cuCtxRecordEvent: 'CUcontext hCtx, CUevent hEvent',
  cuCtxGetLimit: 'size_t *pvalue, CUlimit limit',
  // Called by module.kernel(), for a kernel that needs more local memory than any before; the pending host functions run first; exclusive;
  // captures relaxed.
  cuCtxSetLimit: 'CUlimit limit, size_t value',
  cuCtxGetStreamPriorityRange: 'int *leastPriority, int *greatestPriority',
  cuDeviceGetDevResource: 'CUdevice device, CUdevResource *resource, CUdevResourceType type',
  cuDevSmResourceSplitByCount:
    'CUdevResource *result, unsigned int *nbGroups, const CUdevResource *input, CUdevResource *remainder, unsigned int flags, unsigned int minCount',
  cuDevResourceGenerateDesc: 'CUdevResourceDesc *phDesc, CUdevResource *resources, unsigned int nbResources',
  // The pending host functions run first; exclusive; no other thread makes a stream meanwhile.
  cuGreenCtxCreate: 'CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags',
  // Only called where a split fails half way: contexts that are not used any more are given out again.
  cuGreenCtxDestroy: 'CUgreenCtx hCtx',
  cuGreenCtxGetDevResource: 'CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type',
  // Exclusive; while a host function is pending, one of 16 spare streams of the context makes place instead, and no other thread makes a
  // stream meanwhile.
  cuGreenCtxStreamCreate: 'CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority',
  cuCtxFromGreenCtx: 'CUcontext *pContext, CUgreenCtx hCtx',
  // Exclusive; while a host function is pending, one of 256 kept streams of each device makes place instead, and no other thread makes a
  // stream meanwhile.
  cuStreamCreateWithPriority: 'CUstream *phStream, unsigned int flags, int priority',
  cuStreamDestroy_v2: 'CUstream hStream',
  // The handle is checked first.
  cuStreamGetCtx_v2: 'CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx',
  // Refused while the stream captures; other captures relaxed.
  cuStreamGetId: 'CUstream hStream, unsigned long long *streamId',
  // Refused while the stream captures; other captures relaxed.
  cuStreamGetFlags: 'CUstream hStream, unsigned int *flags',
  cuStreamGetPriority: 'CUstream hStream, int *priority',
  // Only called on a stream that was just made; other captures relaxed.
  cuStreamSetAttribute: 'CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value',
  cuStreamCopyAttributes: 'CUstream dst, CUstream src',
  cuStreamIsCapturing: 'CUstream hStream, CUstreamCaptureStatus *captureStatus',
  // Captures relaxed, where the library asks by itself.
  cuStreamQuery: 'CUstream hStream',
  // Called only while no thread has a host function pending; otherwise the stream is queried, and host functions run meanwhile.
  cuStreamSynchronize: 'CUstream hStream',
  cuStreamWaitEvent: 'CUstream hStream, CUevent hEvent, unsigned int Flags',
  // Makes room first.
  cuStreamBatchMemOp_v2:
    'CUstream stream, unsigned int count, CUstreamBatchMemOpParams *paramArray, unsigned int flags',
  cuStreamBeginCapture_v2: 'CUstream hStream, CUstreamCaptureMode mode',
  cuStreamBeginCaptureToGraph:
    'CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode',
  cuStreamUpdateCaptureDependencies_v2:
    'CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, unsigned int flags',
  cuStreamEndCapture: 'CUstream hStream, CUgraph *phGraph',
  cuStreamGetCaptureInfo_v3:
    'CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out, CUgraph *graph_out, const CUgraphNode **dependencies_out, const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out',
  cuGraphGetNodes: 'CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes',
  cuGraphAddNode_v2:
    'CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams',
  cuGraphConditionalHandleCreate:
    'CUgraphConditionalHandle *pHandle_out, CUgraph hGraph, CUcontext ctx, unsigned int defaultLaunchValue, unsigned int flags',
  cuGraphNodeSetParams: 'CUgraphNode hNode, CUgraphNodeParams *nodeParams',
  cuGraphNodeGetParams: 'CUgraphNode hNode, CUgraphNodeParams *nodeParams',
  cuGraphChildGraphNodeGetGraph: 'CUgraphNode hNode, CUgraph *phGraph',
  cuGraphNodeFindInClone: 'CUgraphNode *phNode, CUgraphNode hOriginalNode, CUgraph hClonedGraph',
  cuGraphNodeGetType: 'CUgraphNode hNode, CUgraphNodeType *type',
  cuGraphGetEdges_v2: 'CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *edgeData, size_t *numEdges',
  cuGraphKernelNodeGetParams_v2: 'CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams',
  cuFuncGetName: 'const char **name, CUfunction hfunc',
  cuFuncGetModule: 'CUmodule *hmod, CUfunction hfunc',
  // Not measured: it loads what cuLibraryLoadData has left for later.
  cuKernelGetFunction: 'CUfunction *pFunc, CUkernel kernel',
  cuGraphMemcpyNodeGetParams: 'CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams',
  cuGraphMemsetNodeGetParams: 'CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams',
  cuGraphExecNodeSetParams: 'CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams',
  cuGraphNodeSetEnabled: 'CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled',
  cuGraphNodeGetEnabled: 'CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled',
  cuGraphDebugDotPrint: 'CUgraph hGraph, const char *path, unsigned int flags',
  // Captures relaxed.
  cuGraphDestroy: 'CUgraph hGraph',
  // CUDA makes a stream for each branch, which find place as other streams do; captures relaxed.
  cuGraphInstantiateWithFlags: 'CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags',
  cuGraphExecUpdate_v2: 'CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo',
  // Makes room first.
  cuGraphUpload: 'CUgraphExec hGraphExec, CUstream hStream',
  // Makes room first, for one entry.
  cuGraphLaunch: 'CUgraphExec hGraphExec, CUstream hStream',
  // Made later while a host function is pending or a stream stands at a value; captures relaxed.
  cuGraphExecDestroy: 'CUgraphExec hGraphExec',
  cuThreadExchangeStreamCaptureMode: 'CUstreamCaptureMode *mode',
  // Events that programs do not see are kept and reused.
  cuEventCreate: 'CUevent *phEvent, unsigned int Flags',
  // Events that programs do not see are kept and reused.
  cuEventDestroy_v2: 'CUevent hEvent',
  // Makes room first, for an event with timing or for other processes.
  cuEventRecord: 'CUevent hEvent, CUstream hStream',
  // Called only for a stream that captures.
  cuEventRecordWithFlags: 'CUevent hEvent, CUstream hStream, unsigned int flags',
  // Captures relaxed, where the library asks by itself.
  cuEventQuery: 'CUevent hEvent',
  // Called only while no thread has a host function pending; otherwise the event is queried, and host functions run meanwhile.
  cuEventSynchronize: 'CUevent hEvent',
  // Captures relaxed.
  cuEventElapsedTime: 'float *pMilliseconds, CUevent hStart, CUevent hEnd',
  cuIpcGetEventHandle: 'CUipcEventHandle *pHandle, CUevent event',
  cuIpcOpenEventHandle: 'CUevent *phEvent, CUipcEventHandle handle',
  // Captures relaxed.
  cuIpcGetMemHandle: 'CUipcMemHandle *pHandle, CUdeviceptr dptr',
  // Captures relaxed.
  cuIpcOpenMemHandle_v2: 'CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags',
  // Put off until the devices are idle; exclusive; captures relaxed.
  cuIpcCloseMemHandle: 'CUdeviceptr dptr',
  // The pending host functions run first; exclusive; captures relaxed.
  cuModuleLoadData: 'CUmodule *module, const void *image',
  // Put off until the devices are idle; exclusive; captures relaxed.
  cuModuleUnload: 'CUmodule hmod',
  cuModuleGetFunction: 'CUfunction *hfunc, CUmodule hmod, const char *name',
  // Called only for the error of a name that the module does not have; captures relaxed.
  cuModuleEnumerateFunctions: 'CUfunction *functions, unsigned int numFunctions, CUmodule mod',
  cuModuleGetGlobal_v2: 'CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name',
  cuFuncGetParamInfo: 'CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize',
  cuFuncGetAttribute: 'int *pi, CUfunction_attribute attrib, CUfunction hfunc',
  // Called before a launch that needs more shared memory than any before.
  cuFuncSetAttribute: 'CUfunction hfunc, CUfunction_attribute attrib, int value',
  // Makes room first; module.kernel() has made the local memory.
  cuLaunchKernelEx: 'const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra',
  cuOccupancyMaxActiveBlocksPerMultiprocessor: 'int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize',
  // Not measured: it computes bytes, and asks no device.
  cuTensorMapEncodeTiled:
    'CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, const cuuint32_t *boxDim, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill',
  // Not measured: it computes bytes, and asks no device.
  cuTensorMapEncodeIm2col:
    'CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank, void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides, const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner, cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion, CUtensorMapFloatOOBfill oobFill',
  // Pinned memory is kept and reused; captures relaxed.
  cuMemHostAlloc: 'void **pp, size_t bytesize, unsigned int Flags',
  // Called for kept memory beyond 256 MiB; put off until the devices are idle; exclusive; captures relaxed.
  cuMemFreeHost: 'void *p',
  // Captures relaxed.
  cuMemHostRegister_v2: 'void *p, size_t bytesize, unsigned int Flags',
  // Put off until the devices are idle; exclusive; captures relaxed.
  cuMemHostUnregister: 'void *p',
  // Called only for memory that processes share, which is kept and reused; captures relaxed.
  cuMemAlloc_v2: 'CUdeviceptr *dptr, size_t bytesize',
  // Called for memory that processes share, where more than 256 MiB are kept; put off until the devices are idle; exclusive; captures
  // relaxed.
  cuMemFree_v2: 'CUdeviceptr dptr',
  // Not measured beside all that others do: it does not wait for a host function (H200). Captures relaxed.
  cuArray3DCreate_v2: 'CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray',
  // Not measured beside all that others do: it waits for a host function (H200). Put off until the devices are idle; exclusive; captures relaxed.
  cuArrayDestroy: 'CUarray hArray',
  // Not measured beside all that others do: it does not wait for a host function (H200). Captures relaxed.
  cuTexObjectCreate:
    'CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc, const CUDA_TEXTURE_DESC *pTexDesc, const CUDA_RESOURCE_VIEW_DESC *pResViewDesc',
  // Not measured beside all that others do: it does not wait for a host function (H200). Put off until the devices are idle; captures relaxed.
  cuTexObjectDestroy: 'CUtexObject texObject',
  // Not measured beside all that others do: it does not wait for a host function (H200). Captures relaxed.
  cuSurfObjectCreate: 'CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc',
  // Not measured beside all that others do: it does not wait for a host function (H200). Put off until the devices are idle; captures relaxed.
  cuSurfObjectDestroy: 'CUsurfObject surfObject',
  // Captures relaxed.
  cuMemGetAddressRange_v2: 'CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr',
  // Captures relaxed.
  cuMemAllocAsync: 'CUdeviceptr *dptr, size_t bytesize, CUstream hStream',
  // Captures relaxed.
  cuMemAllocFromPoolAsync: 'CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream',
  // Captures relaxed.
  cuMemFreeAsync: 'CUdeviceptr dptr, CUstream hStream',
  // Captures relaxed.
  cuMemGetInfo_v2: 'size_t *free, size_t *total',
  // Makes room first; never called with pageable memory, nor within the host.
  cuMemcpyAsync: 'CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream',
  // Makes room first; called only between devices that cannot reach each other's memory.
  cuMemcpyPeerAsync:
    'CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream',
  // Makes room first; never called within the host, where a host function copies instead.
  cuMemcpy3DAsync_v2: 'const CUDA_MEMCPY3D *pCopy, CUstream hStream',
  // Makes room first; called for copies within the host, and for several copies at once; for the null stream on a stream beside it; in a
  // capture a host function copies instead.
  cuMemcpyBatchAsync:
    'CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx, CUstream hStream',
  // Makes room first.
  cuMemsetD8Async: 'CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream',
  // Makes room first.
  cuMemsetD16Async: 'CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream',
  // Makes room first.
  cuMemsetD32Async: 'CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream',
  // Makes room first.
  cuMemsetD2D8Async:
    'CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, CUstream hStream',
  // Makes room first.
  cuMemsetD2D16Async:
    'CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, CUstream hStream',
  // Makes room first.
  cuMemsetD2D32Async:
    'CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, CUstream hStream',
  cuPointerGetAttribute: 'void *data, CUpointer_attribute attribute, CUdeviceptr ptr',
  // Called once.
  cuLogsCurrent: 'CUlogIterator *iterator_out, unsigned int flags',
  // Called when a call has failed.
  cuLogsDumpToMemory: 'CUlogIterator *iterator, char *buffer, size_t *size, unsigned int flags',
} as const

export type DriverFunction = keyof typeof SIGNATURES

/** The functions that an older driver lacks, with the version of CUDA that introduced each. */
export const NEWER_FUNCTIONS = {
  cuMemcpyBatchAsync: '12.8',
  cuLogsCurrent: '12.9',
  cuLogsDumpToMemory: '12.9',
  cuGraphNodeGetParams: '13.2',
} as const

/** The functions that a driver may lack if it has the function that replaced them. */
export const REPLACED_FUNCTIONS = {
  cuGraphChildGraphNodeGetGraph: 'cuGraphNodeGetParams',
  cuGraphKernelNodeGetParams_v2: 'cuGraphNodeGetParams',
  cuGraphMemcpyNodeGetParams: 'cuGraphNodeGetParams',
  cuGraphMemsetNodeGetParams: 'cuGraphNodeGetParams',
} as const
/** The functions that not every supported driver has. */
export type OptionalFunction = keyof typeof NEWER_FUNCTIONS | keyof typeof REPLACED_FUNCTIONS

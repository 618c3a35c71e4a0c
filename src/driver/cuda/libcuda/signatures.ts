/**
 * Every driver function that the library calls, with its parameters as cuda.h writes them. Each returns a CUresult. The names are those that
 * libcuda exports: a `_v2` is the version that the header defines the plain name as. A test compares each row with cuda.h when a CUDA toolkit
 * is installed.
 */
export const SIGNATURES = {
  cuInit: 'unsigned int Flags',
  cuDriverGetVersion: 'int *driverVersion',
  cuDeviceGetCount: 'int *count',
  cuDeviceGet: 'CUdevice *device, int ordinal',
  cuDeviceGetName: 'char *name, int len, CUdevice dev',
  cuDeviceGetUuid_v2: 'CUuuid *uuid, CUdevice dev',
  cuDeviceGetPCIBusId: 'char *pciBusId, int len, CUdevice dev',
  cuDeviceGetAttribute: 'int *pi, CUdevice_attribute attrib, CUdevice dev',
  cuDeviceCanAccessPeer: 'int *canAccessPeer, CUdevice dev, CUdevice peerDev',
  cuCtxEnablePeerAccess: 'CUcontext peerContext, unsigned int Flags',
  cuMemPoolSetAccess: 'CUmemoryPool pool, const CUmemAccessDesc *map, size_t count',
  cuDeviceGetDefaultMemPool: 'CUmemoryPool *pool_out, CUdevice dev',
  cuDeviceGetMemPool: 'CUmemoryPool *pool, CUdevice dev',
  cuMemPoolCreate: 'CUmemoryPool *pool, const CUmemPoolProps *poolProps',
  cuMemPoolDestroy: 'CUmemoryPool pool',
  cuMemPoolGetAttribute: 'CUmemoryPool pool, CUmemPool_attribute attr, void *value',
  cuMemPoolSetAttribute: 'CUmemoryPool pool, CUmemPool_attribute attr, void *value',
  cuMemPoolTrimTo: 'CUmemoryPool pool, size_t minBytesToKeep',
  cuDevicePrimaryCtxRetain: 'CUcontext *pctx, CUdevice dev',
  cuCtxGetCurrent: 'CUcontext *pctx',
  cuCtxSetCurrent: 'CUcontext ctx',
  cuCtxGetDevice: 'CUdevice *device',
  cuCtxSynchronize: 'void',
  cuCtxRecordEvent: 'CUcontext hCtx, CUevent hEvent',
  cuCtxGetLimit: 'size_t *pvalue, CUlimit limit',
  cuCtxSetLimit: 'CUlimit limit, size_t value',
  cuCtxGetStreamPriorityRange: 'int *leastPriority, int *greatestPriority',
  cuDeviceGetDevResource: 'CUdevice device, CUdevResource *resource, CUdevResourceType type',
  cuDevSmResourceSplitByCount:
    'CUdevResource *result, unsigned int *nbGroups, const CUdevResource *input, CUdevResource *remainder, unsigned int flags, unsigned int minCount',
  cuDevResourceGenerateDesc: 'CUdevResourceDesc *phDesc, CUdevResource *resources, unsigned int nbResources',
  cuGreenCtxCreate: 'CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags',
  cuGreenCtxDestroy: 'CUgreenCtx hCtx',
  cuGreenCtxGetDevResource: 'CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type',
  cuGreenCtxStreamCreate: 'CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags, int priority',
  cuCtxFromGreenCtx: 'CUcontext *pContext, CUgreenCtx hCtx',
  cuStreamCreateWithPriority: 'CUstream *phStream, unsigned int flags, int priority',
  cuStreamDestroy_v2: 'CUstream hStream',
  cuStreamGetCtx_v2: 'CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx',
  cuStreamGetId: 'CUstream hStream, unsigned long long *streamId',
  cuStreamGetFlags: 'CUstream hStream, unsigned int *flags',
  cuStreamGetPriority: 'CUstream hStream, int *priority',
  cuStreamSetAttribute: 'CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value',
  cuStreamIsCapturing: 'CUstream hStream, CUstreamCaptureStatus *captureStatus',
  cuStreamQuery: 'CUstream hStream',
  cuStreamSynchronize: 'CUstream hStream',
  cuStreamWaitEvent: 'CUstream hStream, CUevent hEvent, unsigned int Flags',
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
  cuGraphMemcpyNodeGetParams: 'CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams',
  cuGraphMemsetNodeGetParams: 'CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams',
  cuGraphExecNodeSetParams: 'CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeParams *nodeParams',
  cuGraphNodeSetEnabled: 'CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled',
  cuGraphDebugDotPrint: 'CUgraph hGraph, const char *path, unsigned int flags',
  cuGraphDestroy: 'CUgraph hGraph',
  cuGraphInstantiateWithFlags: 'CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags',
  cuGraphExecUpdate_v2: 'CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo *resultInfo',
  cuGraphUpload: 'CUgraphExec hGraphExec, CUstream hStream',
  cuGraphLaunch: 'CUgraphExec hGraphExec, CUstream hStream',
  cuGraphExecDestroy: 'CUgraphExec hGraphExec',
  cuThreadExchangeStreamCaptureMode: 'CUstreamCaptureMode *mode',
  cuEventCreate: 'CUevent *phEvent, unsigned int Flags',
  cuEventDestroy_v2: 'CUevent hEvent',
  cuEventRecord: 'CUevent hEvent, CUstream hStream',
  cuEventRecordWithFlags: 'CUevent hEvent, CUstream hStream, unsigned int flags',
  cuEventQuery: 'CUevent hEvent',
  cuEventSynchronize: 'CUevent hEvent',
  cuEventElapsedTime: 'float *pMilliseconds, CUevent hStart, CUevent hEnd',
  cuIpcGetEventHandle: 'CUipcEventHandle *pHandle, CUevent event',
  cuIpcOpenEventHandle: 'CUevent *phEvent, CUipcEventHandle handle',
  cuIpcGetMemHandle: 'CUipcMemHandle *pHandle, CUdeviceptr dptr',
  cuIpcOpenMemHandle_v2: 'CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags',
  cuIpcCloseMemHandle: 'CUdeviceptr dptr',
  cuModuleLoadData: 'CUmodule *module, const void *image',
  cuModuleUnload: 'CUmodule hmod',
  cuModuleGetFunction: 'CUfunction *hfunc, CUmodule hmod, const char *name',
  cuModuleGetGlobal_v2: 'CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name',
  cuFuncGetParamInfo: 'CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize',
  cuFuncGetAttribute: 'int *pi, CUfunction_attribute attrib, CUfunction hfunc',
  cuFuncSetAttribute: 'CUfunction hfunc, CUfunction_attribute attrib, int value',
  cuLaunchKernelEx: 'const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra',
  cuOccupancyMaxActiveBlocksPerMultiprocessor: 'int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize',
  cuMemHostAlloc: 'void **pp, size_t bytesize, unsigned int Flags',
  cuMemFreeHost: 'void *p',
  cuMemHostRegister_v2: 'void *p, size_t bytesize, unsigned int Flags',
  cuMemHostUnregister: 'void *p',
  cuMemAlloc_v2: 'CUdeviceptr *dptr, size_t bytesize',
  cuMemFree_v2: 'CUdeviceptr dptr',
  cuMemGetAddressRange_v2: 'CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr',
  cuMemAllocAsync: 'CUdeviceptr *dptr, size_t bytesize, CUstream hStream',
  cuMemAllocFromPoolAsync: 'CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream',
  cuMemFreeAsync: 'CUdeviceptr dptr, CUstream hStream',
  cuMemGetInfo_v2: 'size_t *free, size_t *total',
  cuMemcpyAsync: 'CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream',
  cuMemcpyPeerAsync:
    'CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext, size_t ByteCount, CUstream hStream',
  cuMemcpy3DAsync_v2: 'const CUDA_MEMCPY3D *pCopy, CUstream hStream',
  cuMemcpyBatchAsync:
    'CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attrsIdxs, size_t numAttrs, size_t *failIdx, CUstream hStream',
  cuMemsetD8Async: 'CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream',
  cuMemsetD16Async: 'CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream',
  cuMemsetD32Async: 'CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream',
  cuMemsetD2D8Async:
    'CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height, CUstream hStream',
  cuMemsetD2D16Async:
    'CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height, CUstream hStream',
  cuMemsetD2D32Async:
    'CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height, CUstream hStream',
  cuPointerGetAttribute: 'void *data, CUpointer_attribute attribute, CUdeviceptr ptr',
  cuLogsCurrent: 'CUlogIterator *iterator_out, unsigned int flags',
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

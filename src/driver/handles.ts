/** Handles as the wall passes them: CUDA's own, told apart by type. */

declare const kind: unique symbol

/** A CUstream, or a token for a default stream: pointers have 47 bits, so a number holds either exactly. */
export type StreamHandle = number & { readonly [kind]: 'CUstream' }
/** A CUevent. */
export type EventHandle = number & { readonly [kind]: 'CUevent' }
/** A CUcontext. */
export type ContextHandle = number & { readonly [kind]: 'CUcontext' }
/** A CUgraph. */
export type GraphHandle = number & { readonly [kind]: 'CUgraph' }
/** A CUgraphExec. */
export type GraphExecHandle = number & { readonly [kind]: 'CUgraphExec' }
/** A CUmodule. */
export type ModuleHandle = number & { readonly [kind]: 'CUmodule' }
/** A CUfunction. */
export type KernelHandle = number & { readonly [kind]: 'kernel' }
/** A CUdeviceptr. Addresses are unified: pinned memory has the same one for JavaScript and for every GPU. */
export type Pointer = number & { readonly [kind]: 'CUdeviceptr' }

/** The handles of CUDA's objects, as numbers. */

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

/** A CUgraphNode. */
export type NodeHandle = number & { readonly [kind]: 'CUgraphNode' }

/** A CUmodule. */
export type ModuleHandle = number & { readonly [kind]: 'CUmodule' }

/** A CUfunction. */
export type KernelHandle = number & { readonly [kind]: 'kernel' }

/** A CUmemoryPool. */
export type PoolHandle = number & { readonly [kind]: 'CUmemoryPool' }

/** A CUdeviceptr. Addresses are unified: pinned memory has the same one for JavaScript and for every GPU. */
export type Pointer = number & { readonly [kind]: 'CUdeviceptr' }

/**
 * CUDA distinguishes default streams by the current context: 0 is the null stream of the current context, 1 is
 * another name for it, and 2 is the per-thread default stream. A handle must not depend on the current context, so
 * that of a default stream contains its device.
 */
export function defaultStream(device: number, which: 0 | 1 | 2): StreamHandle {
  return (device * 4 + which) as StreamHandle
}

/** The bound below which a StreamHandle is a default stream's token; no allocator returns such addresses. */
export const DEFAULT_STREAM_LIMIT = 4096

export const isDefaultStream = (stream: StreamHandle): boolean => stream < DEFAULT_STREAM_LIMIT

export const deviceOfDefaultStream = (stream: StreamHandle): number => stream >>> 2

/** CUDA's own handle of this stream: 0, 1 or 2 for a default stream, else its address. */
export const cudaHandleOf = (stream: StreamHandle): number => (isDefaultStream(stream) ? stream & 3 : stream)

/** Returns one handle for both names of the null stream of a device. */
export const canonicalStream = (stream: StreamHandle): StreamHandle =>
  isDefaultStream(stream) && (stream & 3) === 1 ? ((stream - 1) as StreamHandle) : stream

export const isNullStream = (stream: StreamHandle): boolean => isDefaultStream(stream) && (stream & 3) !== 2

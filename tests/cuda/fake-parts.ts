/** Parts of the CUDA driver for tests of its other parts. */
import { StreamRecord, StreamRecords } from '../../src/cuda/handles/stream-records.js'
import { type ProcessRegistry, singleThread } from '../../src/cuda/host-functions/process-registry.js'
import { type CheckedLibrary, checked, type Library } from '../../src/cuda/libcuda/libcuda.js'
import { StreamFlag } from '../../src/foundation/driver/driver-constants.js'
import { type ContextHandle, isDefaultStream, type StreamHandle } from '../../src/foundation/driver/handle-types.js'

/** The context of a device is its ordinal and one. */
const contexts = {
  primary: (device: number) => (device + 1) as ContextHandle,
  deviceOf: (context: ContextHandle) => context - 1,
}

/** Records of streams. A handle that is not known yet is a non-blocking stream of the library. */
export class AnyStreams extends StreamRecords {
  constructor(private readonly contextOf: (stream: StreamHandle) => ContextHandle = () => contexts.primary(0)) {
    super(contexts)
  }

  override get(stream: StreamHandle): StreamRecord | undefined {
    const known = super.get(stream)
    if (known !== undefined || isDefaultStream(stream)) return known
    return this.created(stream, this.contextOf(stream), StreamFlag.NON_BLOCKING)
  }
}

/** Any stream, not blocking. */
export function anyStream(handle = 0x1000): StreamRecord {
  return new StreamRecord(handle as StreamHandle, contexts.primary(0), 0, 'library')
}

/** A registry of one thread, in which these members are replaced. */
export function registryWith(members: { readonly [name in keyof ProcessRegistry]?: unknown } = {}): ProcessRegistry {
  return Object.defineProperties(singleThread(), Object.getOwnPropertyDescriptors(members))
}

/** The functions of a fake library, which throw their results. A function may be replaced later. */
export const mustOf = (library: object): CheckedLibrary => checked(library as Library)

/** Kinds of handles that no thread has to give back. */
export const NO_KINDS = new Proxy({}, { get: () => ({ number: 0, add() {}, remove() {}, giveToProcess() {} }) })

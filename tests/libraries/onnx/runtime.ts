/** ONNX Runtime for tests: that of `scripts/onnxruntime.mjs`, unless the user names one. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { DeviceBuffer, Stream } from 'cuda-streams'
import { Session } from 'cuda-streams/onnx'
import { messageOf } from '../../../src/foundation/base/errors.js'
import { NativeMemory } from '../../../src/foundation/native/native-memory.js'
import { openOrt } from '../../../src/libraries/onnx/onnx-library.js'
import { OrtSession } from '../../../src/libraries/onnx/ort-session.js'
import { root } from '../../helpers/root.js'
import { identity } from './models.js'
import { writeModel } from './onnx-model.js'

const CACHED = join(root, '.cache', 'onnxruntime', 'onnxruntime', 'capi')

/** Lets the library find the cached ONNX Runtime. */
export function preferCachedOnnxRuntime(): void {
  if (existsSync(CACHED)) process.env['CUDA_STREAMS_ONNXRUNTIME'] ??= CACHED
}

/** Why models cannot be run here; false where they can. */
export function lacksOnnxRuntime(): string | false {
  preferCachedOnnxRuntime()
  try {
    openOrt()
    return false
  } catch (error) {
    return messageOf(error)
  }
}

export const IDENTITY = writeModel(identity)

/** A session of the simulator that copies bytes, made at once: what `Session.load()` makes on another thread. */
export function sessionNow(stream: Stream): Session {
  const library = openOrt()
  const model = NativeMemory.ofText(IDENTITY)
  const options = library.made('CreateSessionOptions')
  // As the library does on the simulator: a session without has threads, which take longer to begin and end than the run.
  library.call('SetIntraOpNumThreads', options, 1)
  const address = library.made('CreateSessionFromArray', library.env, model.address, IDENTITY.byteLength, options)
  library.release('ReleaseSessionOptions', options)
  model.free()
  const size = { nodes: 1, byteLength: IDENTITY.byteLength }
  const made = new OrtSession(library, stream.device, address, undefined, size, { tensorrt: false, graphs: false })
  return Reflect.construct(Session, [made, stream]) as Session
}

/** Queues a copy by the model. */
export function copyBy(session: Session, stream: Stream, to: DeviceBuffer, from: DeviceBuffer): Session {
  const shape = [Math.min(to.byteLength, from.byteLength)]
  return session.run(stream, { from: { buffer: from, shape } }, { to })
}

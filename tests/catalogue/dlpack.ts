/** cuda-streams/dlpack. */
import { type DeviceBuffer, PinnedBuffer } from 'cuda-streams'
import { fromCudaArrayInterface, fromDLPack, toCudaArrayInterface, toDLPack } from 'cuda-streams/dlpack'
import { type Call, withOptions } from './call.js'
import type { Scene } from './scene.js'

const lent = { name: 'buffer', takes: 'of the device' as const }

const WORD_ELEMENTS = { dtype: 'u32', shape: [1] } as const

const TENSOR = {
  dtype: () => 'u32' as const,
  shape: () => [1],
  strides: () => [1],
  readOnly: () => false,
  stream: ({ stream }: Scene) => stream,
}

/** Of memory of the host; and pinned memory is exported by its real address, which the simulator does not know. */
const OF_HOST = ['ERR_INVALID_ARG_VALUE', 'ERR_INVALID_ARG_TYPE', 'ERR_UNSUPPORTED']

const dlpack = { act: 'is not captured', memory: [lent] } as const

/** Handed out as memory of the host, without a stream: tests/libraries/dlpack. */
const isOfHost = (buffer: DeviceBuffer | PinnedBuffer): buffer is PinnedBuffer => buffer instanceof PinnedBuffer

const ofHost = (buffer: PinnedBuffer) => toCudaArrayInterface(buffer as never, WORD_ELEMENTS)

export const dlpackCalls: readonly Call[] = [
  withOptions({
    ...dlpack,
    name: 'toDLPack() and release()',
    members: ['toDLPack', 'DLPackTensor#release', 'DLPackTensor#released'],
    options: { values: { ...TENSOR, maxVersion: () => undefined }, closedCodes: OF_HOST },
    prepare: (scene) => (options) => {
      const buffer = scene.buffer(0)
      if (options === undefined && isOfHost(buffer)) return ofHost(buffer)
      const tensor = toDLPack(buffer, options ?? { ...WORD_ELEMENTS, stream: scene.stream })
      tensor.release()
      return tensor.released
    },
  }),
  {
    ...dlpack,
    name: 'fromDLPack()',
    members: ['fromDLPack'],
    prepare: (scene) => () => {
      const buffer = scene.buffer(0)
      if (isOfHost(buffer)) return ofHost(buffer)
      const tensor = toDLPack(buffer, { ...WORD_ELEMENTS, stream: null })
      try {
        fromDLPack(tensor, { stream: scene.stream }).buffer.close()
      } finally {
        tensor.release()
      }
      return undefined
    },
  },
  withOptions({
    ...dlpack,
    name: 'fromDLPack() of a tensor that was there before',
    members: ['fromDLPack'],
    apart: 'it has a row with a tensor of its own',
    options: { values: { stream: ({ stream }) => stream }, closedCodes: [...OF_HOST] },
    prepare: (scene) => {
      const tensor = toDLPack(scene.buffer(0), { ...WORD_ELEMENTS, strides: [1], stream: null })
      scene.lends()
      scene.keep({ close: () => tensor.release() })
      return (options) => fromDLPack(tensor, options).buffer.close()
    },
  }),
  withOptions({
    ...dlpack,
    name: 'toCudaArrayInterface()',
    members: ['toCudaArrayInterface'],
    options: { values: TENSOR, closedCodes: OF_HOST },
    prepare: (scene) => (options) => {
      const buffer = scene.buffer(0)
      if (options === undefined && isOfHost(buffer)) return ofHost(buffer)
      return toCudaArrayInterface(buffer as DeviceBuffer, options ?? { ...WORD_ELEMENTS, stream: scene.stream })
    },
  }),
  withOptions({
    ...dlpack,
    name: 'fromCudaArrayInterface()',
    members: ['fromCudaArrayInterface'],
    options: {
      values: { stream: ({ stream }) => stream, owner: () => ({}) },
      closedCodes: [...OF_HOST, 'ERR_INVALID_HANDLE'],
    },
    prepare: (scene) => (options) => {
      const buffer = scene.buffer(0)
      if (options === undefined && isOfHost(buffer)) return ofHost(buffer)
      const dict = toCudaArrayInterface(buffer as DeviceBuffer, { ...WORD_ELEMENTS, stream: null })
      fromCudaArrayInterface(dict, options ?? { stream: scene.stream, owner: buffer }).buffer.close()
      return undefined
    },
  }),
]

/** Every call that takes memory of JavaScript x what may have become of it, and where it begins: a code of ours, or the bytes. */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { type DeviceBuffer, PinnedBuffer, type Stream } from 'cuda-streams'
import { type DType, toDLPack } from 'cuda-streams/dlpack'
import { refused, rejected } from '../../conformance/expect.js'
import { onEveryBackend } from '../../helpers/suite.js'

const LENGTH = 64
const WIDTHS = [
  [1, Uint8Array],
  [2, Uint16Array],
  [4, Uint32Array],
] as const

function lose(buffer: ArrayBuffer): void {
  structuredClone(buffer, { transfer: [buffer] })
}

/** An ArrayBuffer that becomes too short for what the function makes of it. */
function shortened<T>(make: (buffer: ArrayBuffer) => T): T {
  const buffer = Reflect.construct(ArrayBuffer, [LENGTH, { maxByteLength: LENGTH }]) as ArrayBuffer
  const array = make(buffer)
  ;(Reflect.get(buffer, 'resize') as (length: number) => void).call(buffer, LENGTH / 2)
  return array
}

function lost<T>(make: (buffer: ArrayBuffer) => T): T {
  const buffer = new ArrayBuffer(LENGTH)
  const array = make(buffer)
  lose(buffer)
  return array
}

type Arrays = ArrayBufferView | ArrayBuffer

const KINDS: Readonly<Record<string, (buffer: ArrayBuffer) => Arrays>> = {
  ArrayBuffer: (buffer) => buffer,
  Uint8Array: (buffer) => new Uint8Array(buffer, 0, LENGTH),
  Float64Array: (buffer) => new Float64Array(buffer, 0, LENGTH / 8),
  DataView: (buffer) => new DataView(buffer, 0, LENGTH),
  Buffer: (buffer) => Buffer.from(buffer, 0, LENGTH),
}
const STATES: Readonly<Record<string, (make: (buffer: ArrayBuffer) => Arrays) => Arrays>> = { lost, shortened }

const CALLS: Readonly<Record<string, (stream: Stream, buffer: DeviceBuffer, array: Arrays) => unknown>> = {
  'upload()': (stream, buffer, array) => stream.upload(buffer, array),
  'download()': (stream, buffer, array) => stream.download(buffer, array),
  'a chunk of uploader()': async (stream, buffer, array) => {
    const writer = stream.uploader(buffer).getWriter()
    writer.closed.catch(() => {})
    await writer.write(array)
  },
  'PinnedBuffer.from()': (_, { device }, array) => PinnedBuffer.from(array, { device }),
}

onEveryBackend('memory of JavaScript', (bench) => {
  const { device } = bench
  const stream = bench.stream()
  const buffer = device.alloc(LENGTH, { stream })
  after(() => {
    buffer.close()
    stream.close()
  })

  for (const [call, queue] of Object.entries(CALLS)) {
    for (const [state, become] of Object.entries(STATES)) {
      it(`T3 ${call} of what was ${state} is refused, by one code and in words`, async () => {
        for (const [kind, make] of Object.entries(KINDS)) {
          // An ArrayBuffer that is shorter has other bytes, and no fewer than it says.
          if (kind === 'ArrayBuffer' && state === 'shortened') continue
          const array = become(make)
          const act = async (): Promise<unknown> => await queue(stream, buffer, array)
          await rejected(act, 'ERR_INVALID_ARG_VALUE', /detached or shortened/)
        }
      })
    }
  }

  it('registered memory has the alignment that it has in its ArrayBuffer, for each call that asks for one', async () => {
    for (let byteOffset = 0; byteOffset < 16; byteOffset += 1) {
      const array = new Uint8Array(new ArrayBuffer(LENGTH + 16), byteOffset, LENGTH)
      using pinned = PinnedBuffer.from(array, { device })
      for (const [width, View] of WIDTHS) {
        const calls: Readonly<Record<string, () => unknown>> = {
          fill: () => stream.fill(pinned, 7, { width }),
          view: () => pinned.view<ArrayBufferView>(View),
          toDLPack: () => toDLPack(pinned, { dtype: `u${8 * width}` as DType, shape: [LENGTH / width] }).release(),
          ...(width === 4 ? { writeValue: () => stream.writeValue(pinned, 7) } : {}),
        }
        for (const [call, act] of Object.entries(calls)) {
          if (byteOffset % width === 0) assert.doesNotThrow(act, `${call} of ${width} bytes at byte ${byteOffset}`)
          else refused(act, 'ERR_INVALID_ARG_VALUE')
        }
      }
      await stream.fill(pinned, byteOffset + 1).finished()
      assert.deepEqual([...new Set(array)], [byteOffset + 1])
      assert.equal(new Uint8Array(array.buffer)[byteOffset + LENGTH], 0)
    }
  })

  it('addresses of registered memory are used again, at whatever byte it begins', async () => {
    for (let round = 0; round < 64; round += 1) {
      const array = new Uint8Array(new ArrayBuffer(2048), (round * 7) % 1024, 1 + ((round * 13) % 600))
      const pinned = PinnedBuffer.from(array, { device })
      using whole = device.alloc(array.length, { stream })
      stream.fill(whole, round + 1).copy(pinned, whole)
      pinned.close()
      await stream.finished()
      const bytes = new Uint8Array(array.buffer)
      assert.equal(bytes.filter((byte) => byte === round + 1).length, array.length)
      assert.deepEqual([...new Set(array)], [round + 1])
    }
  })
})

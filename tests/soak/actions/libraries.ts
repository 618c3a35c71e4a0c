/** Products of cuBLAS, transforms of cuFFT, and collectives of NCCL: work of a stream as any other, on memory that is closed at once. */
import type { DeviceBuffer, Stream } from 'cuda-streams'
import { group } from 'cuda-streams/nccl'
import type { Action, Client } from '../client.js'
import { PRODUCT, TRANSFORM } from '../machine.js'

/** Small whole numbers: their products and sums are exact, in whatever order they are added up. */
const SIZE = PRODUCT.m
const LARGEST = 16

function smallNumbers(client: Client, count: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: count }, () => client.random.below(LARGEST))
}

function uploaded(stream: Stream, numbers: Float32Array): DeviceBuffer {
  const buffer = stream.device.alloc(numbers.byteLength, { stream })
  void stream.upload(buffer, numbers)
  return buffer
}

function product(client: Client): void {
  const { cublas, device } = client.machine
  if (cublas === undefined) return
  const track = client.track(device)
  const { stream } = track
  const [a, b, c] = [0, 1, 2].map(() => smallNumbers(client, SIZE * SIZE)) as [Float32Array, Float32Array, Float32Array]
  const [left, right, result] = [uploaded(stream, a), uploaded(stream, b), uploaded(stream, c)]
  stream.run(() => cublas.gemm(stream, left, right, result, PRODUCT))
  const seen = stream.download(result)
  track.worked()
  for (const each of [left, right, result]) each.close()
  const wanted = c.map((start, at) => {
    const [row, column] = [Math.floor(at / SIZE), at % SIZE]
    let sum = start
    for (let k = 0; k < SIZE; k += 1) sum += (a[row * SIZE + k] ?? 0) * (b[k * SIZE + column] ?? 0)
    return sum
  })
  client.follow('a product', seen, (bytes) =>
    client.tracker.sameBytes('a product', bytes, new Uint8Array(wanted.buffer)),
  )
}

/** One plan on all streams, whose memory to work in is that of each stream. */
function transform(client: Client): void {
  const { fft, device } = client.machine
  if (fft === undefined) return
  const track = client.track(device)
  const { stream } = track
  const numbers = smallNumbers(client, 4 * TRANSFORM.batch)
  const buffer = uploaded(stream, numbers)
  stream.run(() => fft.forward(stream, buffer))
  const seen = stream.download(buffer)
  track.worked()
  buffer.close()
  const wanted = numbers.map((value, at) =>
    at % 4 < 2 ? value + (numbers[at + 2] ?? 0) : (numbers[at - 2] ?? 0) - value,
  )
  client.follow('a transform', seen, (bytes) =>
    client.tracker.sameBytes('a transform', bytes, new Uint8Array(wanted.buffer)),
  )
}

/** All ranks of the simulated machine are in this thread. */
function allReduce(client: Client): void {
  const { ranks } = client.machine
  const parts = ranks.map((rank) => {
    const track = client.track(rank.device, ({ origin }) => origin !== 'perThread')
    const numbers = smallNumbers(client, SIZE)
    return { rank, track, numbers, buffer: uploaded(track.stream, numbers) }
  })
  group(() => {
    for (const { rank, track, buffer } of parts) rank.allReduce(track.stream, buffer, buffer, { type: 'f32' })
  })
  const sums = Float32Array.from({ length: SIZE }, (_, at) =>
    parts.reduce((sum, { numbers }) => sum + (numbers[at] ?? 0), 0),
  )
  for (const { track, buffer } of parts) {
    client.follow('a sum of all ranks', track.stream.download(buffer), (bytes) => {
      client.tracker.sameBytes('a sum of all ranks', bytes, new Uint8Array(sums.buffer))
    })
    track.worked()
    buffer.close()
  }
  if (client.random.chance(0.3)) for (const { rank } of parts) client.follow('finished() of a rank', rank.finished())
}

export const libraryActions: readonly Action[] = [
  { name: 'product', weight: 0.5, play: product },
  { name: 'transform', weight: 0.3, play: transform },
  {
    name: 'sum of all ranks',
    weight: 0.3,
    play: (client) => (client.machine.ranks.length > 0 ? allReduce(client) : undefined),
  },
]

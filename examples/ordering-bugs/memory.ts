/** Memory that is written, read or freed while another stream still has to do with it. */
import { DeviceBuffer, Stream } from 'cuda-streams'
import { add, BYTES, bug, type OrderingBug, read, scale, set } from './scene.js'

const FRAMES = 4

export const memory: readonly OrderingBug[] = [
  bug(
    {
      name: 'two writers',
      story: 'Two streams write one buffer, and the later call is taken for the later write.',
      missing: 'second.wait(first) before the second fill',
    },
    async ({ stream, zeros }, fixed) => {
      const [first, second] = [stream(), stream()]
      const data = zeros()
      set(first, data, 1)
      if (fixed) second.wait(first)
      set(second, data, 2)
      first.wait(second)
      return read(first, data)
    },
  ),

  bug(
    {
      name: 'refilled while it is read',
      story: 'The producer fills the buffer again while the consumer still reads what was in it.',
      missing: 'producer.wait(consumer) before the second fill',
    },
    async ({ stream, zeros }, fixed) => {
      const [producer, consumer] = [stream(), stream()]
      const [data, result] = [zeros(), zeros()]
      set(producer, data, 1)
      consumer.wait(producer)
      scale(consumer, result, data, 10)
      if (fixed) producer.wait(consumer)
      set(producer, data, 2)
      return read(consumer, result)
    },
  ),

  bug(
    {
      name: 'ping-pong, off by one',
      story: 'Two buffers take turns; the producer waits for the frame before the one that last used its buffer.',
      missing: 'producer.wait(consumed[frame - 2]) before a buffer is filled again, not consumed[frame - 3]',
    },
    async ({ stream, zeros }, fixed) => {
      const [producer, consumer] = [stream(), stream()]
      const buffers = [zeros(), zeros()]
      const sum = zeros()
      const consumed = []
      for (let frame = 0; frame < FRAMES; frame += 1) {
        const buffer = buffers[frame % 2] as DeviceBuffer
        const before = consumed[frame - (fixed ? 2 : 3)]
        if (before !== undefined) producer.wait(before)
        set(producer, buffer, 10 ** frame)
        consumer.wait(producer)
        add(consumer, sum, buffer)
        consumed.push(consumer.record())
      }
      return read(consumer, sum)
    },
  ),

  bug(
    {
      name: 'freed before it is used',
      story: 'A stream reads a buffer by its bare address, which the library cannot know of, and the buffer is freed.',
      missing: 'owner.wait(reader) before buffer.close()',
    },
    async ({ device, stream, zeros }, fixed) => {
      const [owner, reader] = [stream(), stream()]
      const result = zeros()
      const buffer = device.alloc(BYTES, { stream: owner })
      set(owner, buffer, 3)
      const bare = DeviceBuffer.from(buffer.pointer, BYTES, { device })
      reader.wait(owner)
      scale(reader, result, bare, 5)
      if (fixed) owner.wait(reader)
      buffer.close()
      return read(reader, result)
    },
  ),

  bug(
    {
      name: 'copy across devices',
      story: 'A stream of the second device copies from the first, and does not wait for what is computed there.',
      missing: 'there.wait(here) before the copy',
    },
    async ({ otherDevice, stream, zeros }, fixed) => {
      const here = stream()
      const there = new Stream({ device: otherDevice })
      const data = zeros()
      const copied = otherDevice.alloc(BYTES)
      set(here, data, 12)
      if (fixed) there.wait(here)
      there.copy(copied, data)
      return read(there, copied)
    },
  ),

  bug(
    {
      name: 'download on the wrong stream',
      story: 'The result is downloaded on the stream of the uploads, not on that of the kernel.',
      missing: 'uploads.wait(compute) before the download, or compute.download(result)',
    },
    async ({ stream, zeros }, fixed) => {
      const [uploads, compute] = [stream(), stream()]
      const [data, result] = [zeros(), zeros()]
      uploads.upload(data, Uint32Array.of(1, 2, 3, 4))
      compute.wait(uploads)
      scale(compute, result, data, 100)
      return read(fixed ? compute : uploads, result)
    },
  ),
]

/** JavaScript that looks at, or writes, what the GPU is not done with. */
import { BYTES, bug, type OrderingBug, read, set, wordsOf } from './scene.js'

export const host: readonly OrderingBug[] = [
  bug(
    {
      name: 'pinned memory written too early',
      story: 'Pinned memory is filled with the next bytes while the copy of the last ones is still queued.',
      missing: 'stream.synchronize() before the pinned bytes are written again',
    },
    async ({ device, stream, zeros }, fixed) => {
      const uploads = stream()
      const [first, second] = [zeros(), zeros()]
      const pinned = device.allocPinned(BYTES)
      pinned.bytes.fill(1)
      uploads.copy(first, pinned)
      if (fixed) uploads.synchronize()
      pinned.bytes.fill(2)
      uploads.copy(second, pinned)
      return [await read(uploads, first), await read(uploads, second)]
    },
  ),

  bug(
    {
      name: 'pinned memory read too early',
      story: 'The program waits for the stream of the kernel, and reads what another stream copies.',
      missing: 'await downloads.finished() before the pinned bytes are read',
    },
    async ({ device, stream, zeros }, fixed) => {
      const [compute, downloads] = [stream(), stream()]
      const data = zeros()
      const pinned = device.allocPinned(BYTES)
      pinned.bytes.fill(0)
      set(compute, data, 13)
      downloads.wait(compute)
      downloads.copy(pinned, data)
      await (fixed ? downloads : compute).finished()
      return wordsOf(pinned.bytes)
    },
  ),

  bug(
    {
      name: 'host function too early',
      story: 'A host function reads pinned memory on a stream that does not wait for the copy.',
      missing: 'reports.wait(downloads) before the host function',
    },
    async ({ device, stream, zeros }, fixed) => {
      const [downloads, reports] = [stream(), stream()]
      const data = zeros()
      const pinned = device.allocPinned(BYTES)
      pinned.bytes.fill(0)
      let seen: number[] = []
      set(downloads, data, 14)
      downloads.copy(pinned, data)
      if (fixed) reports.wait(downloads)
      reports.launchHostFunc(() => {
        seen = wordsOf(pinned.bytes)
      })
      await reports.finished()
      return seen
    },
  ),

  bug(
    {
      name: 'query of the wrong stream',
      story: 'The program polls one stream until it is done, and reads what another one copies.',
      missing: 'downloads.query() instead of compute.query()',
    },
    async ({ device, stream, zeros }, fixed) => {
      const [compute, downloads] = [stream(), stream()]
      const data = zeros()
      const pinned = device.allocPinned(BYTES)
      pinned.bytes.fill(0)
      set(compute, data, 15)
      downloads.wait(compute)
      downloads.copy(pinned, data)
      const polled = fixed ? downloads : compute
      if (!polled.query()) await polled.finished()
      return wordsOf(pinned.bytes)
    },
  ),

  bug(
    {
      name: 'event of the frame before',
      story: 'The program waits for an event that the second frame has not recorded yet, and so for the first frame.',
      missing: 'downloads.record(done) before the program waits for it',
    },
    async ({ device, stream, zeros }, fixed) => {
      const downloads = stream()
      const data = zeros()
      const pinned = device.allocPinned(BYTES)
      const done = device.createEvent()
      set(downloads, data, 16)
      downloads.copy(pinned, data)
      downloads.record(done)
      await done.finished()
      set(downloads, data, 17)
      downloads.copy(pinned, data)
      if (fixed) downloads.record(done)
      done.synchronize()
      return wordsOf(pinned.bytes)
    },
  ),

  bug(
    {
      name: 'two host functions, one variable',
      story: 'Host functions of two streams work on one variable, and the order of the calls is taken for theirs.',
      missing: 'second.wait(first) before the second host function',
    },
    async ({ device, stream }, fixed) => {
      const [first, second] = [stream(), stream()]
      let balance = 100
      first.launchHostFunc(() => {
        balance += 10
      })
      if (fixed) second.wait(first)
      second.launchHostFunc(() => {
        balance *= 2
      })
      await device.finished()
      return balance
    },
  ),

  bug(
    {
      name: 'fill queued by a host function',
      story:
        'A host function queues work on a second stream, and a third one waits for the second before that is there.',
      missing: 'first.synchronize() before third.wait(second)',
    },
    async ({ device, stream, zeros }, fixed) => {
      const [first, second, third] = [stream(), stream(), stream()]
      const data = zeros()
      let queued = false
      first.launchHostFunc(() => {
        set(second, data, 1)
        queued = true
      })
      if (fixed) first.synchronize()
      third.wait(second)
      set(third, data, 2)
      await device.finished()
      return [queued, await read(third, data)]
    },
  ),
]

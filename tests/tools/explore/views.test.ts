/** JavaScript that uses memory without asking: through a view that it has kept, or an array of its own that is registered. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Device, type DeviceBuffer, PinnedBuffer, Stream } from 'cuda-streams'
import { type ExploredProgram, explore, latch } from 'cuda-streams/sim'

const BYTES = 4

interface Scene {
  readonly device: Device
  readonly stream: Stream
  readonly other: Stream
  readonly data: DeviceBuffer
  /** What JavaScript has of the memory, and what streams have. */
  readonly array: Uint8Array
  readonly pinned: PinnedBuffer
  /** A word that streams wait for. */
  readonly flag: PinnedBuffer
}

const origins: Readonly<Record<string, (device: Device) => readonly [Uint8Array, PinnedBuffer]>> = {
  'a view that was kept': (device) => {
    const pinned = device.allocPinned(BYTES)
    return [pinned.bytes, pinned]
  },
  'an array that is registered': (device) => {
    const array = new Uint8Array(2 * BYTES).subarray(BYTES)
    return [array, PinnedBuffer.from(array, { device })]
  },
}

/** The array is read in `use`: where `right` is true, only once that cannot come too early. */
const reads: Readonly<Record<string, (scene: Scene, right: boolean) => unknown>> = {
  'while a copy writes there': async ({ stream, pinned, data, array }, right) => {
    stream.copy(pinned, data)
    if (right) await stream.finished()
    return array[0]
  },
  'while a copy writes there, queued before other work': async ({ stream, other, pinned, data, array }, right) => {
    const rest = stream.device.alloc(BYTES)
    stream.copy(pinned, data)
    if (right) stream.synchronize()
    other.fill(rest, 1)
    return array[0]
  },
}

/** The array is written, and a copy from there is queued: it has one value where `right` is true. */
const writes: Readonly<Record<string, (scene: Scene, right: boolean) => unknown>> = {
  'behind the copy': async ({ stream, array, pinned, data }, right) => {
    stream.copy(data, pinned)
    if (right) await stream.finished()
    array.fill(2)
  },
  'behind a latch that was opened': ({ stream, array, pinned, data }, right) => {
    const held = latch(stream)
    stream.copy(data, pinned)
    if (right) array.fill(2)
    held.open()
    if (!right) array.fill(2)
  },
  'behind a value that was written': ({ stream, other, flag, array, pinned, data }, right) => {
    stream.waitValue(flag, 1).copy(data, pinned)
    if (right) array.fill(2)
    other.writeValue(flag, 1)
    if (!right) array.fill(2)
  },
  'behind a value that a copy has written': ({ stream, other, flag, array, pinned, data }, right) => {
    stream.waitValue(flag, 0x01010101).copy(data, pinned)
    if (right) array.fill(2)
    other.fill(flag, 1)
    if (!right) array.fill(2)
  },
  'behind a promise that has settled': async ({ stream, array, pinned, data }, right) => {
    const { promise, resolve } = withResolvers()
    stream.wait(promise).copy(data, pinned)
    if (right) array.fill(2)
    resolve()
    for (let turn = 0; turn < 9; turn += 1) await undefined
    if (!right) array.fill(2)
  },
  'in a host function of another stream': ({ stream, other, array, pinned, data }, right) => {
    if (right) stream.wait(other)
    const host = right ? stream : other
    host.launchHostFunc(() => void array.fill(2))
    stream.copy(data, pinned)
  },
}

function withResolvers(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => {}
  const promise = new Promise<void>((settle) => {
    resolve = settle
  })
  return { promise, resolve }
}

const program =
  (origin: string, use: (scene: Scene) => unknown): ExploredProgram =>
  async ({ devices: [device] }) => {
    assert.ok(device)
    const [stream, other] = [new Stream({ device }), new Stream({ device })]
    const [array, pinned] = (origins[origin] as (device: Device) => readonly [Uint8Array, PinnedBuffer])(device)
    array.fill(1)
    const flag = device.allocPinned(8)
    flag.bytes.fill(0)
    const data = device.alloc(BYTES)
    device.defaultStream.fill(data, 5)
    device.synchronize()
    const seen = await use({ device, stream, other, data, array, pinned, flag })
    await device.finished()
    return [seen, await stream.download(data)]
  }

for (const origin of Object.keys(origins)) {
  describe(origin, () => {
    for (const [what, cases] of Object.entries({ read: reads, written: writes })) {
      for (const [title, use] of Object.entries(cases)) {
        it(`that is ${what} ${title}`, async () => {
          const wrong = await explore(program(origin, (scene) => use(scene, false)))
          assert.equal(wrong.verdict, 'disagree')
          const right = await explore(program(origin, (scene) => use(scene, true)))
          assert.deepEqual([right.verdict, right.complete], ['agree', true], right.message)
        })
      }
    }

    it('that is written behind a value which JavaScript has written: not every order can be chosen', async () => {
      const { verdict, complete, incomplete } = await explore(
        program(origin, ({ stream, flag, pinned, data, array }) => {
          const words = flag.view(Uint32Array)
          stream.waitValue(flag, 1).copy(data, pinned)
          words[0] = 1
          array.fill(2)
        }),
      )
      assert.deepEqual([verdict, complete], ['agree', false])
      assert.match(incomplete ?? '', /^JavaScript writes a value that lets work go on/)
    })
  })
}

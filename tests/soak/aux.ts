/**
 * What the host functions of an client play with: they run inside any call that waits, so they leave alone what the client's
 * actions are busy with.
 */
import { type DeviceBuffer, type PinnedBuffer, Stream } from 'cuda-streams'
import type { Client } from './client.js'
import { affine, affineModel } from './kernels.js'
import { codeOf, told } from './tracker.js'
import { Track } from './tracks.js'

const LENGTH = 256
const MOST = 6

/** A stream and memory that one host function at a time has. */
export interface Kit {
  readonly track: Track
  readonly buffer: DeviceBuffer
  readonly pinned: PinnedBuffer
  readonly model: Uint8Array<ArrayBuffer>
}

type Body = (kit: Kit, own: Track) => unknown

export class Aux {
  /** For calls that have to be refused. */
  readonly scratch: DeviceBuffer
  readonly #client: Client
  readonly #free: Kit[] = []
  #made = 0
  /** What a host function will close. */
  readonly #condemned: (() => void)[] = []

  constructor(client: Client) {
    this.#client = client
    this.scratch = client.machine.device.alloc(LENGTH)
  }

  /** A host function with something to do, for this stream. */
  body(own: Track): (() => unknown) | undefined {
    const { random } = this.#client
    if (random.chance(0.4)) return undefined
    const body = random.one(this.#bodies)
    return () => this.#withKit((kit) => body(kit, own))
  }

  /** Has a host function close something, at a moment of its own. */
  condemn(close: () => void): void {
    this.#condemned.push(close)
  }

  /** Closes what no host function has closed. */
  execute(): void {
    for (const close of this.#condemned.splice(0)) close()
  }

  /** Checks and closes what the host functions had, when none is to come. */
  async end(): Promise<void> {
    this.execute()
    this.scratch.close()
    for (const { track, buffer, pinned, model } of this.#free) {
      const bytes = await track.stream.download(buffer)
      this.#client.tracker.sameBytes('what host functions left', bytes, model)
      buffer.close()
      pinned.close()
      track.stream.close()
    }
  }

  #withKit(body: (kit: Kit) => unknown): unknown {
    const kit = this.#free.pop() ?? this.#make()
    if (kit === undefined) return undefined
    try {
      return body(kit)
    } catch (error) {
      // Where other threads have much queued there may be no room for more.
      if (codeOf(error) !== 'ERR_DEADLOCK' || this.#client.machine.isAlone) throw error
      this.#client.tracker.counts.deadlocks += 1
      return undefined
    } finally {
      this.#free.push(kit)
    }
  }

  #make(): Kit | undefined {
    if (this.#made === MOST) return undefined
    this.#made += 1
    const { machine } = this.#client
    const { device } = machine
    const track = new Track(new Stream({ device }), 'own', machine.legacyOf(device))
    const buffer = device.alloc(LENGTH, { stream: track.stream })
    track.stream.fill(buffer, 0)
    return { track, buffer, pinned: device.allocPinned(LENGTH), model: new Uint8Array(LENGTH) }
  }

  /** Waits inside a host function. On a GPU the streams may share a hardware queue, and then it is refused. */
  #waitsInside(wait: () => void): boolean {
    try {
      wait()
      return true
    } catch (error) {
      if (codeOf(error) !== 'ERR_DEADLOCK' || this.#client.machine.isSimulated) throw error
      this.#client.tracker.counts.deadlocks += 1
      return false
    }
  }

  readonly #bodies: readonly Body[] = [
    ({ track, buffer, model }) => {
      const value = this.#client.random.below(256)
      track.stream.fill(buffer, value)
      model.fill(value)
    },
    ({ track, buffer, model }) => {
      const bytes = this.#client.random.bytes(LENGTH)
      this.#client.follow('upload() in a host function', track.stream.upload(buffer, bytes))
      model.set(bytes)
      bytes.fill(0xaa)
    },
    ({ track, buffer, model }) => {
      const wanted = model.slice()
      this.#client.follow('download() in a host function', track.stream.download(buffer), (bytes) => {
        this.#client.tracker.sameBytes('a download in a host function', bytes, wanted)
      })
    },
    ({ track, buffer, model }) => {
      const more = this.#client.random.below(256)
      track.stream.launch(affine, { grid: 1, block: LENGTH }, buffer, LENGTH, more)
      affineModel(model, more)
    },
    ({ track, buffer, pinned, model }) => {
      track.stream.copy(pinned, buffer)
      if (!this.#waitsInside(() => track.stream.synchronize())) return
      this.#client.tracker.sameBytes('pinned bytes in a host function', pinned.bytes, model)
    },
    ({ track }) => {
      using event = track.stream.record()
      this.#waitsInside(() => event.synchronize())
    },
    (_, own) => {
      if (!own.usable) return
      const { stream } = own
      const client = this.#client
      client.refused('synchronize() of its own stream', 'ERR_DEADLOCK', () => stream.synchronize())
      client.refused('drainHostFunctions() in a host function', 'ERR_DEADLOCK', () => own.device.drainHostFunctions())
      using behind = stream.record()
      client.refused('synchronize() of an event behind', 'ERR_DEADLOCK', () => behind.synchronize())
      client.machine.fixture.waitForDevice(() => {
        client.refused('synchronize() of its device', 'ERR_DEADLOCK', () => own.device.synchronize())
      })
    },
    (_, own) => {
      if (!own.usable) return
      using follower = new Stream({ device: own.device })
      follower.wait(own.stream)
      this.#client.refused('synchronize() of a follower', 'ERR_DEADLOCK', () => follower.synchronize())
    },
    () => {
      throw this.#client.tracker.deliberate('thrown by a host function')
    },
    () => Promise.reject(this.#client.tracker.deliberate('the promise of a host function rejects')),
    async ({ track }) => {
      await track.stream.finished()
    },
    (_, own) => {
      if (own.usable && !own.crowded) this.#client.machine.host(own, undefined)
    },
    ({ track }) => this.#client.machine.host(track, () => void track.stream.query()),
    () => this.#condemned.pop()?.(),
    () => this.#condemned.pop()?.(),
    ({ track }) => {
      using scratch = track.device.alloc(1000, { stream: track.stream })
      using pinned = track.device.allocPinned(1000)
      track.stream.fill(scratch, 1).copy(pinned, scratch)
    },
    () => {
      const { device } = this.#client.machine
      const fresh = new Stream({ device })
      using event = device.createEvent()
      fresh.record(event)
      event.query()
      fresh.close()
    },
    ({ track, buffer, model }) => {
      const { fixture, tracker } = this.#client.machine
      if (!fixture.captureBegins()) return
      try {
        using graph = track.stream.capture(() => void track.stream.fill(buffer, 7), { mode: 'relaxed' })
        using exec = graph.instantiate()
        track.stream.launch(exec)
        model.fill(7)
        tracker.counts.graphs += 1
      } finally {
        fixture.captureEnds()
      }
    },
    ({ track }) => {
      const { tracker } = this.#client
      const controller = new AbortController()
      const reason = new Error('given up')
      const waits = track.stream.finished({ signal: controller.signal }).then(
        () => 'was fulfilled',
        (error: unknown) => (error === reason ? undefined : told(error)),
      )
      controller.abort(reason)
      this.#client.follow('an aborted wait', waits, (wrong) => {
        if (wrong !== undefined) tracker.fail(`a wait that was aborted in a host function: ${wrong}`)
        tracker.counts.aborted += 1
      })
    },
  ]
}

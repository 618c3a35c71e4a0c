/**
 * What the host functions of an actor play with: they run inside any call that waits, so they leave alone what the actor's
 * actions are busy with.
 */
import { type DeviceBuffer, type PinnedBuffer, Stream } from 'cuda-streams'
import type { Actor } from './actor.js'
import { codeOf, told } from './books.js'
import { affine, affineModel } from './kernels.js'
import { Lane } from './lanes.js'

const LENGTH = 256
const MOST = 6

/** A stream and memory that one host function at a time has. */
export interface Kit {
  readonly lane: Lane
  readonly buffer: DeviceBuffer
  readonly pinned: PinnedBuffer
  readonly model: Uint8Array<ArrayBuffer>
}

type Body = (kit: Kit, own: Lane) => unknown

export class Aux {
  /** For calls that have to be refused. */
  readonly scratch: DeviceBuffer
  readonly #actor: Actor
  readonly #free: Kit[] = []
  #made = 0
  /** What a host function will close. */
  readonly #condemned: (() => void)[] = []

  constructor(actor: Actor) {
    this.#actor = actor
    this.scratch = actor.machine.device.alloc(LENGTH)
  }

  /** A host function with something to do, for this stream. */
  body(own: Lane): (() => unknown) | undefined {
    const { random } = this.#actor
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
    for (const { lane, buffer, pinned, model } of this.#free) {
      const bytes = await lane.stream.download(buffer)
      this.#actor.books.sameBytes('what host functions left', bytes, model)
      buffer.close()
      pinned.close()
      lane.stream.close()
    }
  }

  #withKit(body: (kit: Kit) => unknown): unknown {
    const kit = this.#free.pop() ?? this.#make()
    if (kit === undefined) return undefined
    try {
      return body(kit)
    } catch (error) {
      // Where other threads have much queued there may be no room for more.
      if (codeOf(error) !== 'ERR_DEADLOCK' || this.#actor.machine.isAlone) throw error
      this.#actor.books.counts.deadlocks += 1
      return undefined
    } finally {
      this.#free.push(kit)
    }
  }

  #make(): Kit | undefined {
    if (this.#made === MOST) return undefined
    this.#made += 1
    const { machine } = this.#actor
    const { device } = machine
    const lane = new Lane(new Stream({ device }), 'own', machine.legacyOf(device))
    const buffer = device.alloc(LENGTH, { stream: lane.stream })
    lane.stream.fill(buffer, 0)
    return { lane, buffer, pinned: device.allocPinned(LENGTH), model: new Uint8Array(LENGTH) }
  }

  /** Waits inside a host function. On a GPU the streams may share a hardware queue, and then it is refused. */
  #waitsInside(wait: () => void): boolean {
    try {
      wait()
      return true
    } catch (error) {
      if (codeOf(error) !== 'ERR_DEADLOCK' || this.#actor.machine.isSimulated) throw error
      this.#actor.books.counts.deadlocks += 1
      return false
    }
  }

  readonly #bodies: readonly Body[] = [
    ({ lane, buffer, model }) => {
      const value = this.#actor.random.below(256)
      lane.stream.fill(buffer, value)
      model.fill(value)
    },
    ({ lane, buffer, model }) => {
      const bytes = this.#actor.random.bytes(LENGTH)
      this.#actor.follow('upload() in a host function', lane.stream.upload(buffer, bytes))
      model.set(bytes)
      bytes.fill(0xaa)
    },
    ({ lane, buffer, model }) => {
      const wanted = model.slice()
      this.#actor.follow('download() in a host function', lane.stream.download(buffer), (bytes) => {
        this.#actor.books.sameBytes('a download in a host function', bytes, wanted)
      })
    },
    ({ lane, buffer, model }) => {
      const more = this.#actor.random.below(256)
      lane.stream.launch(affine, { grid: 1, block: LENGTH }, buffer, LENGTH, more)
      affineModel(model, more)
    },
    ({ lane, buffer, pinned, model }) => {
      lane.stream.copy(pinned, buffer)
      if (!this.#waitsInside(() => lane.stream.synchronize())) return
      this.#actor.books.sameBytes('pinned bytes in a host function', pinned.bytes, model)
    },
    ({ lane }) => {
      using event = lane.stream.record()
      this.#waitsInside(() => event.synchronize())
    },
    (_, own) => {
      if (!own.usable) return
      const { stream } = own
      const actor = this.#actor
      actor.refused('synchronize() of its own stream', 'ERR_DEADLOCK', () => stream.synchronize())
      actor.refused('drainHostFunctions() in a host function', 'ERR_DEADLOCK', () => own.device.drainHostFunctions())
      using behind = stream.record()
      actor.refused('synchronize() of an event behind', 'ERR_DEADLOCK', () => behind.synchronize())
      actor.machine.ground.waitForDevice(() => {
        actor.refused('synchronize() of its device', 'ERR_DEADLOCK', () => own.device.synchronize())
      })
    },
    (_, own) => {
      if (!own.usable) return
      using follower = new Stream({ device: own.device })
      follower.wait(own.stream)
      this.#actor.refused('synchronize() of a follower', 'ERR_DEADLOCK', () => follower.synchronize())
    },
    () => {
      throw this.#actor.books.deliberate('thrown by a host function')
    },
    () => Promise.reject(this.#actor.books.deliberate('the promise of a host function rejects')),
    async ({ lane }) => {
      await lane.stream.finished()
    },
    (_, own) => {
      if (own.usable && !own.crowded) this.#actor.machine.host(own, undefined)
    },
    ({ lane }) => this.#actor.machine.host(lane, () => void lane.stream.query()),
    () => this.#condemned.pop()?.(),
    () => this.#condemned.pop()?.(),
    ({ lane }) => {
      using scratch = lane.device.alloc(1000, { stream: lane.stream })
      using pinned = lane.device.allocPinned(1000)
      lane.stream.fill(scratch, 1).copy(pinned, scratch)
    },
    () => {
      const { device } = this.#actor.machine
      const fresh = new Stream({ device })
      using event = device.createEvent()
      fresh.record(event)
      event.query()
      fresh.close()
    },
    ({ lane, buffer, model }) => {
      const { ground, books } = this.#actor.machine
      if (!ground.captureBegins()) return
      try {
        using graph = lane.stream.capture(() => void lane.stream.fill(buffer, 7), { mode: 'relaxed' })
        using exec = graph.instantiate()
        lane.stream.launch(exec)
        model.fill(7)
        books.counts.graphs += 1
      } finally {
        ground.captureEnds()
      }
    },
    ({ lane }) => {
      const { books } = this.#actor
      const controller = new AbortController()
      const reason = new Error('given up')
      const waits = lane.stream.finished({ signal: controller.signal }).then(
        () => 'was fulfilled',
        (error: unknown) => (error === reason ? undefined : told(error)),
      )
      controller.abort(reason)
      this.#actor.follow('an aborted wait', waits, (wrong) => {
        if (wrong !== undefined) books.fail(`a wait that was aborted in a host function: ${wrong}`)
        books.counts.aborted += 1
      })
    },
  ]
}

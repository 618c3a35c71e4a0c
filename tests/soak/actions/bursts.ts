/** Hardware queues are filled behind a host function; what a call that waits for room goes on to use is closed meanwhile. */
import { Stream } from 'cuda-streams'
import type { Action, Client } from '../client.js'
import { affine } from '../kernels.js'

/** A hardware queue holds some thousand operations. */
const MOST = 1500
const FEW = 150

function burst(client: Client): void {
  const { random, machine } = client
  const [track, piece] = [
    client.track(),
    client.piece(
      ({ length }) => length <= 70_000,
      () => client.newPiece('device', 64),
    ),
  ]
  const count = machine.mayFillQueues ? random.between(300, MOST) : random.between(20, FEW)
  const first = random.below(256)
  track.beforeWork()
  for (const use of piece.uses) client.order(track, use)
  track.crowdedUpTo = track.at + 2
  machine.host(track, client.aux.body(track))
  const { stream } = track
  for (let index = 0; index < count; index += 1) stream.fill(piece.buffer, (first + index) & 255)
  piece.writtenBy(track.worked())
  piece.model.fill((first + count - 1) & 255)
  if (random.chance(0.5)) client.synchronize(track)
}

function manyHostFunctions(client: Client): void {
  const track = client.track()
  track.crowdedUpTo = track.at + 100
  for (let left = client.random.between(20, 100); left > 0; left -= 1) {
    client.machine.host(track, client.random.chance(0.05) ? client.aux.body(track) : undefined)
  }
}

/**
 * A call that has to wait for room runs a host function, which closes what the call was about to use: it is refused then,
 * and has queued nothing; so is each one after it.
 */
function closeUnderfoot(client: Client): void {
  const { machine, random, tracker } = client
  if (!machine.mayFillQueues) return
  const { device } = machine
  const [stream, allocationStream] = [new Stream({ device }), new Stream({ device })]
  const buffer = device.alloc(64, { stream: allocationStream })
  const pinned = device.allocPinned(64)
  const event = device.createEvent({ timing: true })
  allocationStream.fill(buffer, 0)
  stream.wait(allocationStream).copy(pinned, buffer)
  const [what, call, victim] = random.one<readonly [string, () => unknown, Disposable]>([
    ['fill()', () => stream.fill(buffer, 1), buffer],
    ['fill()', () => stream.fill(buffer, 1), stream],
    ['copy()', () => stream.copy(buffer, pinned), buffer],
    ['copy()', () => stream.copy(buffer, pinned), pinned],
    ['copy()', () => stream.copy(pinned, buffer), stream],
    ['launch()', () => stream.launch(affine, { grid: 1, block: 64 }, buffer, 64, 1), buffer],
    ['launch()', () => stream.launch(affine, { grid: 1, block: 64 }, buffer, 64, 1), stream],
    ['upload()', () => void stream.upload(buffer, new Uint8Array(64)), buffer],
    ['upload()', () => void stream.upload(buffer, new Uint8Array(64)), stream],
    ['launchHostFunc()', () => stream.launchHostFunc(() => {}), stream],
    ['record()', () => stream.record(event), stream],
    ['record()', () => stream.record(event), event],
  ])
  let isClosed = false
  stream.launchHostFunc(() => {
    victim[Symbol.dispose]()
    isClosed = true
  })
  for (let left = MOST; left > 0 && !isClosed; left -= 1) {
    try {
      call()
      // Nothing was waited for: what is closed inside of a call is refused by that call.
      if (isClosed) client.fail(`${what} went on with what a host function inside of it has closed`)
    } catch (error) {
      if (!isClosed) throw error
      tracker.counts.mistakes += 1
      const code: unknown = Reflect.get(Object(error), 'code')
      if (code !== 'ERR_CLOSED') client.fail(`${what} with what a host function has closed is refused with ${error}`)
    }
  }
  if (isClosed) client.refused(`${what} afterwards`, 'ERR_CLOSED', call)
  else if (!stream.closed) stream.synchronize()
  for (const each of [buffer, pinned, event, stream, allocationStream]) each.close()
}

export const burstActions: readonly Action[] = [
  { name: 'burst', weight: 0.25, play: burst },
  { name: 'many host functions', weight: 0.3, play: manyHostFunctions },
  { name: 'close underfoot', weight: 0.1, play: closeUnderfoot },
]

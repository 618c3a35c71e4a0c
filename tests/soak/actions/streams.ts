/** Streams are made, wrapped, made current, asked, waited for, and closed at every moment. */
import { cudaStream, Device, Event, ExternalStream, Stream } from 'cuda-streams'
import type { Action, Actor } from '../actor.js'
import { turn } from '../actor.js'
import { told } from '../books.js'

async function renew(actor: Actor): Promise<void> {
  const { random } = actor
  actor.lanes.push(actor.newLane())
  const old = random.one(actor.lanes.filter(({ held, capturing }) => held === 0 && !capturing))
  if (random.chance(0.5)) actor.machine.host(old, actor.aux.body(old))
  if (random.chance(0.3)) actor.follow('finished() of a stream that is closed', old.stream.finished())
  await actor.retire(old, old.origin === 'own' && random.chance(0.2))
}

async function disposeAsync(actor: Actor): Promise<void> {
  const lane = actor.newLane('own')
  let ran = false
  actor.machine.host(lane, () => {
    ran = true
  })
  const { stream } = lane
  {
    await using same = stream
    actor.follow('finished() before an asynchronous dispose', same.finished())
  }
  lane.letGo()
  actor.books.same('whether a host function ran before an asynchronous dispose ended', ran, true)
  actor.books.same('closed after an asynchronous dispose', stream.closed, true)
}

/** Made current in every way; what is current is another's in another async context. */
async function current(actor: Actor): Promise<void> {
  const { random, books } = actor
  const [lane, other] = [actor.lane(), actor.lane()]
  const { device, stream } = lane
  const before = Stream.current(device)
  stream.run(() => {
    books.same('Stream.current() in run()', Stream.current(device), stream)
    device.run(() => books.same('Stream.null in run() of a device', Stream.null, device.defaultStream))
  })
  {
    using _ = stream.enter()
    books.same('Stream.current() after enter()', Stream.current(device), stream)
    if (other.device === device) other.stream.use()
    else books.same('another device is left alone', Stream.current(device), stream)
  }
  books.same('Stream.current() after enter() is over', Stream.current(device), before)
  lane.held += 1
  const seen = await stream.run(async () => {
    await turn()
    if (random.chance(0.5)) await turn()
    return Stream.current(device)
  })
  lane.held -= 1
  books.same('Stream.current() after an await in run()', seen, stream)
  books.same('Stream.current() outside of it', Stream.current(device), before)
  device.run(() => books.same('Device.current', Device.current, device))
  {
    using _ = device.enter()
    books.same('Device.get() after enter()', Device.current, device)
  }
}

function ask(actor: Actor): void {
  const { books } = actor
  const { stream, origin, device } = actor.lane()
  const { least, greatest } = device.priorityRange
  const isBlocking = origin !== 'own' && origin !== 'foreign'
  books.same('nonBlocking', stream.nonBlocking, !isBlocking)
  books.same('isCapturing', stream.isCapturing, false)
  if (stream.priority > least || stream.priority < greatest) actor.fail(`a priority of ${stream.priority}`)
  const [version, handle] = stream[cudaStream]()
  books.same('the version of the protocol', version, 0)
  books.same('the handle of the protocol', handle, stream.handle)
  using wrapped = new ExternalStream(stream.handle, { device })
  books.same('the id of a wrapper', wrapped.id, stream.id)
  books.same('compare() of a wrapper', Stream.compare(wrapped, stream), 0)
  books.same('equals() of a text', stream.equals('stream'), false)
  books.same('the context of a stream', stream.context.device, device)
  if (!`${stream}`.includes(stream.handle.toString(16))) actor.fail(`a stream is printed as ${stream}`)
}

async function wait(actor: Actor): Promise<void> {
  const { random } = actor
  const lane = actor.lane()
  lane.held += 1
  await actor.known(lane.worked())
  lane.held -= 1
  if (random.chance(0.3) && lane.usable && lane.pending.length === 0) {
    lane.stream.synchronize()
    if (!lane.stream.query() && lane.origin === 'own') actor.fail('a stream is not done after synchronize()')
  }
}

function synchronize(actor: Actor): void {
  const lane = actor.lane()
  actor.machine.host(lane, undefined)
  actor.synchronize(lane)
}

/** A promise for what is queued now. */
function finished(actor: Actor): void {
  const lane = actor.lane()
  actor.machine.host(lane, actor.aux.body(lane))
  const clock = lane.clock()
  actor.follow('finished()', lane.stream.finished(), () => actor.machine.reached(clock, 'finished()'))
}

/** The wait is given up: before it begins, at once, later, or too late. */
function abort(actor: Actor): void {
  const { random, books } = actor
  const lane = actor.lane()
  const controller = new AbortController()
  const { signal } = controller
  const reason = new Error('given up')
  const isEarly = random.chance(0.3)
  if (isEarly) controller.abort(reason)
  else actor.machine.host(lane, undefined)
  const event = lane.stream.record()
  const waits = [lane.stream.finished({ signal }), event.finished({ signal }), lane.stream.finished({ signal })]
  event.close()
  if (random.chance(0.5)) controller.abort(reason)
  else setImmediate(() => controller.abort(reason))
  for (const each of waits) {
    const outcome = each.then(
      () => (isEarly ? 'was fulfilled' : undefined),
      (error: unknown) => {
        books.counts.aborted += 1
        return error === reason ? undefined : `was rejected: ${told(error)}`
      },
    )
    actor.follow('a wait that is given up', outcome, (wrong) => {
      if (wrong !== undefined) actor.fail(`a wait that is given up ${wrong}`)
    })
  }
}

/** The time between two records, and what may not be asked for. */
function elapsed(actor: Actor): void {
  const lane = actor.lane()
  const { device, stream } = lane
  const start = stream.record({ timing: true })
  actor.machine.host(lane, undefined)
  const end = stream.record(new Event({ device, timing: true }))
  actor.follow('finished() of an event', end.finished(), () => {
    const milliseconds = end.elapsedSince(start)
    if (!(milliseconds >= 0)) actor.fail(`${milliseconds} ms passed between two records of one stream`)
    if (!(start.elapsedSince(end) <= 0)) actor.fail('time runs forwards backwards')
    start.close()
    end.close()
  })
}

/** A stream that stands still: nothing behind it is done, and all of it is when it goes on. */
function hold(actor: Actor): void {
  const { books, machine } = actor
  // Where a stream stands at what only the program ends, CUDA may wait for it when the next stream is made.
  if (!machine.isSimulated) return
  const lane = actor.newLane('own')
  actor.lanes.push(lane)
  const { stream, device } = lane
  const latch = machine.bench.latch(stream)
  lane.worked()
  const event = stream.record({ timing: true })
  const follower = new Stream({ device })
  follower.wait(event)
  let isOpen = false
  machine.host(lane, () => {
    if (!isOpen) actor.fail('a host function ran before the latch was open')
  })
  const settled = stream.finished().then(() => {
    if (!isOpen) actor.fail('finished() was fulfilled before the latch was open')
  })
  books.same('query() of a stream that stands', stream.query(), false)
  books.same('query() of an event behind it', event.query(), false)
  books.same('query() of a stream that waits for it', follower.query(), false)
  actor.refused('the time since an event that is not done', 'CUDA_ERROR_NOT_READY', () => event.elapsedSince(event))
  isOpen = true
  latch.open()
  actor.follow('finished() of a stream that stood', settled)
  actor.follow('finished() of a stream that waited', follower.finished())
  follower.close()
  event.close()
}

/** A blocking wait while a latch stands, which a host function opens. */
function openInside(actor: Actor): void {
  const { machine } = actor
  // On a GPU the two may share a hardware queue, and the host function would stand behind the latch.
  if (!machine.isSimulated) return
  const [held, opener] = [actor.newLane('own'), actor.newLane('own')]
  actor.lanes.push(held, opener)
  const latch = machine.bench.latch(held.stream)
  held.worked()
  machine.host(opener, () => latch.open())
  actor.synchronize(held)
}

function callback(actor: Actor): void {
  const lane = actor.lane()
  actor.machine.host(lane, actor.aux.body(lane), 'callback')
}

function host(actor: Actor): void {
  const lane = actor.lane()
  for (let left = actor.random.between(1, 3); left > 0; left -= 1) actor.machine.host(lane, actor.aux.body(lane))
}

function renewMark(actor: Actor): void {
  const { random } = actor
  const old = random.one(actor.marks)
  actor.marks = actor.marks.filter((mark) => mark !== old)
  actor.marks.push(actor.newMark())
  if (random.chance(0.3)) {
    actor.dropped.push(new WeakRef(old.event))
    return
  }
  if (random.chance(0.3)) actor.aux.condemn(() => old.event.close())
  else old.event.close()
}

function drain(actor: Actor): void {
  const { device } = actor.machine
  if (actor.random.chance(0.5)) device.drainHostFunctions()
  else actor.machine.ground.waitForDevice(() => device.synchronize())
}

export const streamActions: readonly Action[] = [
  { name: 'renew a stream', weight: 1.5, play: renew },
  { name: 'dispose asynchronously', weight: 0.4, play: disposeAsync },
  { name: 'current', weight: 1, play: current },
  { name: 'ask', weight: 1, play: ask },
  { name: 'wait', weight: 2.5, play: wait },
  { name: 'synchronize', weight: 1.5, play: synchronize },
  { name: 'finished', weight: 2.5, play: finished },
  { name: 'abort', weight: 1, play: abort },
  { name: 'elapsed', weight: 1, play: elapsed },
  { name: 'hold', weight: 0.7, play: hold },
  { name: 'open inside', weight: 0.3, play: openInside },
  { name: 'callback', weight: 2, play: callback },
  { name: 'host functions', weight: 4, play: host },
  { name: 'renew an event', weight: 1, play: renewMark },
  { name: 'drain', weight: 0.3, play: drain },
  { name: 'turn', weight: 5, play: turn },
]

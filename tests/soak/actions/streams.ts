/** Streams are made, wrapped, made current, asked, waited for, and closed at every moment. */
import { cudaStream, Device, Event, ExternalStream, Stream } from 'cuda-streams'
import type { Action, Client } from '../client.js'
import { turn } from '../client.js'
import { told } from '../tracker.js'

async function renew(client: Client): Promise<void> {
  const { random } = client
  client.tracks.push(client.newTrack())
  const old = random.one(client.tracks.filter(({ held, capturing }) => held === 0 && !capturing))
  if (random.chance(0.5)) client.machine.host(old, client.aux.body(old))
  if (random.chance(0.3)) client.follow('finished() of a stream that is closed', old.stream.finished())
  await client.retire(old, old.origin === 'own' && random.chance(0.2))
}

async function disposeAsync(client: Client): Promise<void> {
  const track = client.newTrack('own')
  let ran = false
  client.machine.host(track, () => {
    ran = true
  })
  const { stream } = track
  {
    await using same = stream
    client.follow('finished() before an asynchronous dispose', same.finished())
  }
  track.letGo()
  client.tracker.same('whether a host function ran before an asynchronous dispose ended', ran, true)
  client.tracker.same('closed after an asynchronous dispose', stream.closed, true)
}

/** Made current in every way; what is current is another's in another async context. */
async function current(client: Client): Promise<void> {
  const { random, tracker } = client
  const [track, other] = [client.track(), client.track()]
  const { device, stream } = track
  const before = Stream.current(device)
  stream.run(() => {
    tracker.same('Stream.current() in run()', Stream.current(device), stream)
    device.run(() => tracker.same('Stream.null in run() of a device', Stream.null, device.defaultStream))
  })
  {
    using _ = stream.enter()
    tracker.same('Stream.current() after enter()', Stream.current(device), stream)
    if (other.device === device) other.stream.use()
    else tracker.same('another device is left alone', Stream.current(device), stream)
  }
  tracker.same('Stream.current() after enter() is over', Stream.current(device), before)
  track.held += 1
  const seen = await stream.run(async () => {
    await turn()
    if (random.chance(0.5)) await turn()
    return Stream.current(device)
  })
  track.held -= 1
  tracker.same('Stream.current() after an await in run()', seen, stream)
  tracker.same('Stream.current() outside of it', Stream.current(device), before)
  device.run(() => tracker.same('Device.current()', Device.current(), device))
  {
    using _ = device.enter()
    tracker.same('Device.get() after enter()', Device.current(), device)
  }
}

function ask(client: Client): void {
  const { tracker } = client
  const { stream, origin, device } = client.track()
  const { least, greatest } = device.priorityRange
  const isBlocking = origin !== 'own' && origin !== 'foreign'
  tracker.same('nonBlocking', stream.nonBlocking, !isBlocking)
  tracker.same('isCapturing', stream.isCapturing, false)
  if (stream.priority > least || stream.priority < greatest) client.fail(`a priority of ${stream.priority}`)
  const [version, handle] = stream[cudaStream]()
  tracker.same('the version of the protocol', version, 0)
  tracker.same('the handle of the protocol', handle, stream.handle)
  using wrapped = new ExternalStream(stream.handle, { device })
  tracker.same('the id of a wrapper', wrapped.id, stream.id)
  tracker.same('compare() of a wrapper', Stream.compare(wrapped, stream), 0)
  tracker.same('equals() of a text', stream.equals('stream'), false)
  tracker.same('the context of a stream', stream.context.device, device)
  if (!`${stream}`.includes(stream.handle.toString(16))) client.fail(`a stream is printed as ${stream}`)
}

async function wait(client: Client): Promise<void> {
  const { random } = client
  const track = client.track()
  track.held += 1
  await client.known(track.worked())
  track.held -= 1
  if (random.chance(0.3) && track.usable && track.pending.length === 0) {
    track.stream.synchronize()
    if (!track.stream.query() && track.origin === 'own') client.fail('a stream is not done after synchronize()')
  }
}

function synchronize(client: Client): void {
  const track = client.track()
  client.machine.host(track, undefined)
  client.synchronize(track)
}

/** A promise for what is queued now. */
function finished(client: Client): void {
  const track = client.track()
  client.machine.host(track, client.aux.body(track))
  const clock = track.clock()
  client.follow('finished()', track.stream.finished(), () => client.machine.reached(clock, 'finished()'))
}

/** The wait is given up: before it begins, at once, later, or too late. */
function abort(client: Client): void {
  const { random, tracker } = client
  const track = client.track()
  const controller = new AbortController()
  const { signal } = controller
  const reason = new Error('given up')
  const isEarly = random.chance(0.3)
  if (isEarly) controller.abort(reason)
  else client.machine.host(track, undefined)
  const event = track.stream.record()
  const waits = [track.stream.finished({ signal }), event.finished({ signal }), track.stream.finished({ signal })]
  event.close()
  if (random.chance(0.5)) controller.abort(reason)
  else setImmediate(() => controller.abort(reason))
  for (const each of waits) {
    const outcome = each.then(
      () => (isEarly ? 'was fulfilled' : undefined),
      (error: unknown) => {
        tracker.counts.aborted += 1
        return error === reason ? undefined : `was rejected: ${told(error)}`
      },
    )
    client.follow('a wait that is given up', outcome, (wrong) => {
      if (wrong !== undefined) client.fail(`a wait that is given up ${wrong}`)
    })
  }
}

/** The time between two records, and what may not be asked for. */
function elapsed(client: Client): void {
  const track = client.track()
  const { device, stream } = track
  const start = stream.record({ timing: true })
  client.machine.host(track, undefined)
  const end = stream.record(new Event({ device, timing: true }))
  client.follow('finished() of an event', end.finished(), () => {
    const milliseconds = end.elapsedSince(start)
    if (!(milliseconds >= 0)) client.fail(`${milliseconds} ms passed between two records of one stream`)
    if (!(start.elapsedSince(end) <= 0)) client.fail('time runs forwards backwards')
    start.close()
    end.close()
  })
}

/** A stream that stands still: nothing behind it is done, and all of it is when it goes on. */
function hold(client: Client): void {
  const { tracker, machine } = client
  // Where a stream stands at what only the program ends, CUDA may wait for it when the next stream is made.
  if (!machine.isSimulated) return
  const track = client.newTrack('own')
  client.tracks.push(track)
  const { stream, device } = track
  const latch = machine.bench.latch(stream)
  track.worked()
  const event = stream.record({ timing: true })
  const follower = new Stream({ device })
  follower.wait(event)
  let isOpen = false
  machine.host(track, () => {
    if (!isOpen) client.fail('a host function ran before the latch was open')
  })
  const settled = stream.finished().then(() => {
    if (!isOpen) client.fail('finished() was fulfilled before the latch was open')
  })
  tracker.same('query() of a stream that stands', stream.query(), false)
  tracker.same('query() of an event behind it', event.query(), false)
  tracker.same('query() of a stream that waits for it', follower.query(), false)
  client.refused('the time since an event that is not done', 'CUDA_ERROR_NOT_READY', () => event.elapsedSince(event))
  isOpen = true
  latch.open()
  client.follow('finished() of a stream that stood', settled)
  client.follow('finished() of a stream that waited', follower.finished())
  follower.close()
  event.close()
}

/** A blocking wait while a latch stands, which a host function opens. */
function openInside(client: Client): void {
  const { machine } = client
  // On a GPU the two may share a hardware queue, and the host function would stand behind the latch.
  if (!machine.isSimulated) return
  const [held, opener] = [client.newTrack('own'), client.newTrack('own')]
  client.tracks.push(held, opener)
  const latch = machine.bench.latch(held.stream)
  held.worked()
  machine.host(opener, () => latch.open())
  client.synchronize(held)
}

function callback(client: Client): void {
  const track = client.track()
  client.machine.host(track, client.aux.body(track), 'callback')
}

function host(client: Client): void {
  const track = client.track()
  for (let left = client.random.between(1, 3); left > 0; left -= 1) client.machine.host(track, client.aux.body(track))
}

function renewMark(client: Client): void {
  const { random } = client
  const old = random.one(client.marks)
  client.marks = client.marks.filter((mark) => mark !== old)
  client.marks.push(client.newMark())
  if (random.chance(0.3)) {
    client.dropped.push(new WeakRef(old.event))
    return
  }
  if (random.chance(0.3)) client.aux.condemn(() => old.event.close())
  else old.event.close()
}

function drain(client: Client): void {
  const { device } = client.machine
  if (client.random.chance(0.5)) device.drainHostFunctions()
  else client.machine.fixture.waitForDevice(() => device.synchronize())
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

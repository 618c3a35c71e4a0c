/** Captures, and what is done with graphs and their instances, in any order. */
import type { CaptureModeName, Event, Graph, GraphExec, Stream } from 'cuda-streams'
import { type Action, type Client, turn } from '../client.js'
import { add, addModel, affine, affineModel } from '../kernels.js'
import type { Piece } from '../pieces.js'
import type { Clock, Track } from '../tracks.js'

const MOST = 4

/** One thing that a graph does: how it is queued, and what it makes of the models. */
interface Step {
  readonly queue: (stream: Stream) => void
  readonly apply: () => void
}

/** The host functions of one graph. */
interface Runs {
  wanted: number
  ran: number
}

interface Captured {
  readonly graph: Graph
  readonly steps: readonly Step[]
  readonly runs: Runs
}

/** What is captured again and again with other numbers: the shape stays, so an instance can be updated. */
class Plan {
  readonly client: Client
  readonly pieces: readonly Piece[]
  /** What each step is, and which of the pieces it is for; some are captured on a second stream. */
  readonly shape: readonly { readonly what: number; readonly piece: number; readonly beside: boolean }[]
  readonly waitsForGate: boolean
  /** Does a second stream join the capture? */
  readonly hasSide: boolean

  constructor(client: Client, pieces: readonly Piece[]) {
    const { random } = client
    this.client = client
    this.pieces = pieces
    // What is beside the others touches a piece of its own: the last.
    this.shape = Array.from({ length: random.between(1, 6) }, () => {
      const beside = random.chance(0.3)
      return { what: random.below(5), piece: beside ? pieces.length - 1 : random.below(pieces.length - 1), beside }
    })
    this.waitsForGate = random.chance(0.3)
    this.hasSide = random.chance(0.6)
  }

  /** Queues the steps, with new numbers, on a stream that captures and on one that joins it. */
  queue(graphs: Graphs, { stream }: Track, side: Track | undefined): Omit<Captured, 'graph'> {
    const runs: Runs = { wanted: 0, ran: 0 }
    const steps = this.shape.map(({ what, piece }) => this.#step(what, this.#piece(piece), runs))
    if (this.waitsForGate) stream.wait(graphs.gate, { external: true })
    side?.stream.wait(stream)
    for (const [index, step] of steps.entries()) {
      const beside = this.shape[index]?.beside === true ? side : undefined
      step.queue(beside?.stream ?? stream)
    }
    if (side !== undefined) stream.wait(side.stream.record())
    stream.record(graphs.reached, { external: true })
    return { steps, runs }
  }

  #piece(index: number): Piece {
    const piece = this.pieces[index]
    if (piece === undefined) throw new RangeError(`a plan has no piece ${index}`)
    return piece
  }

  #step(what: number, piece: Piece, runs: Runs): Step {
    const { random } = this.client
    const [value, length] = [random.below(256), random.between(2, piece.length)]
    const target = piece.buffer.subarray(piece.length - length, piece.length)
    const model = piece.model.subarray(piece.length - length)
    switch (what) {
      case 0:
        return { queue: (stream) => void stream.fill(target, value), apply: () => void model.fill(value) }
      case 1: {
        const half = length >> 1
        return {
          queue: (stream) => void stream.copy(target.subarray(0, half), target.subarray(length - half, length)),
          apply: () => model.copyWithin(0, length - half, length),
        }
      }
      case 2:
        return {
          queue: (stream) =>
            void stream.launch(affine, { grid: Math.ceil(length / 128), block: 128 }, target, length, value),
          apply: () => affineModel(model, value),
        }
      case 3:
        return {
          queue: (stream) => void stream.launch(add, { grid: 1, block: 64 }, target, target, BigInt(length)),
          apply: () => addModel(model, model.slice()),
        }
      default:
        return {
          queue: (stream) =>
            void stream.launchHostFunc(() => {
              runs.ran += 1
              this.client.tracker.counts.hostFunctions += 1
            }),
          apply: () => {
            runs.wanted += 1
          },
        }
    }
  }
}

/** An instance, and what a launch of it does. */
interface Instance {
  readonly exec: GraphExec
  readonly plan: Plan
  captured: Captured
  readonly all: Runs[]
}

export class Graphs {
  readonly instances: Instance[] = []
  /** Each launch waits for its latest record, and records the other one: CUDA keeps both as long as the process lives. */
  readonly gate: Event
  readonly reached: Event
  gateClock: Clock = new Map()
  reachedClock: Clock = new Map()

  constructor(client: Client) {
    this.gate = client.machine.device.createEvent()
    this.reached = client.machine.device.createEvent()
  }
}

const graphsOf = (client: Client): Graphs => {
  client.graphs ??= new Graphs(client)
  return client.graphs
}

/** The modes in which nothing that happens meanwhile, in this thread or another, invalidates the capture. */
function modeFor(client: Client): CaptureModeName | undefined {
  return client.random.one<CaptureModeName | undefined>([
    'relaxed',
    'threadLocal',
    undefined,
    ...(client.machine.isAlone ? ['global' as const] : []),
  ])
}

/** Captures in one turn of the event loop, or over several while other clients go on. */
async function captureWith(client: Client, plan: Plan): Promise<Captured | undefined> {
  const { machine, random } = client
  const { fixture } = machine
  const isAtOnce = random.chance(0.6)
  const wanted = (track: Track): boolean => {
    // What other clients use too must not capture while they go on.
    return machine.mayCapture(track) && track.held === 0 && (isAtOnce || track.origin !== 'perThread')
  }
  const track = client.track(machine.device, wanted)
  const side = plan.hasSide ? client.track(machine.device, (other) => wanted(other) && other !== track) : undefined
  if (!fixture.captureBegins()) return undefined
  try {
    return isAtOnce ? captureAtOnce(client, plan, track, side) : await captureOverTurns(client, plan, track, side)
  } finally {
    fixture.captureEnds()
  }
}

function captureAtOnce(client: Client, plan: Plan, track: Track, side: Track | undefined): Captured {
  const mode = modeFor(client)
  let queued: Omit<Captured, 'graph'> | undefined
  const graph = track.stream.capture(
    () => {
      queued = plan.queue(graphsOf(client), track, side)
      besideCapture(client, track, side)
    },
    mode === undefined ? {} : { mode },
  )
  if (queued === undefined) throw new Error('a captured function was not called')
  return { graph, ...queued }
}

async function captureOverTurns(client: Client, plan: Plan, track: Track, side: Track | undefined): Promise<Captured> {
  const both = side === undefined ? [track] : [track, side]
  const { stream } = track
  for (const each of both) {
    client.keepTail(each)
    each.capturing = true
  }
  try {
    stream.beginCapture('relaxed')
    await turn()
    client.tracker.same('isCapturing', stream.isCapturing, true)
    client.rejected('finished() of a stream that captures', 'CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED', stream.finished())
    const queued = plan.queue(graphsOf(client), track, side)
    await turn()
    return { graph: stream.endCapture(), ...queued }
  } finally {
    for (const each of both) {
      each.capturing = false
      each.tail = undefined
    }
  }
}

/** What every mode of a capture allows meanwhile. */
function besideCapture(client: Client, captures: Track, side: Track | undefined): void {
  const { random, machine } = client
  const isBeside = (track: Track): boolean => track.usable && track !== captures && track !== side
  const other = client.tracks.find((track) => isBeside(track) && track.device === machine.device)
  if (other === undefined) return
  const { stream, device } = other
  random.one([
    () => client.follow('finished() beside a capture', stream.finished()),
    () => device.alloc(100, { stream }).close(),
    () => device.allocPinned(100).close(),
    () => machine.host(other, undefined),
    () => stream.record().close(),
    () => {
      client.refused('upload() that is captured', 'ERR_UNSUPPORTED', () =>
        captures.stream.upload(client.aux.scratch, new Uint8Array(client.aux.scratch.byteLength)),
      )
    },
    () => device.alloc(1, { stream: captures.stream }).close(),
    () => {},
  ])()
}

async function capture(client: Client): Promise<void> {
  const { random, tracker } = client
  const graphs = graphsOf(client)
  if (graphs.instances.length >= MOST) return
  const pieces: Piece[] = []
  for (let left = random.between(2, 4); left > 0; left -= 1) {
    const isNew = (each: Piece): boolean => !pieces.includes(each) && each.length > 1
    const piece = client.piece(isNew, () => client.newPiece('device', 300))
    pieces.push(piece)
  }
  for (const piece of pieces) piece.held += 1
  const plan = new Plan(client, pieces)
  const captured = await captureWith(client, plan)
  if (captured === undefined) {
    for (const piece of pieces) piece.held -= 1
    return
  }
  for (const piece of pieces) piece.untracked = true
  tracker.counts.graphs += 1
  const { graph, runs } = captured
  if (graph.nodeCount < plan.shape.length) client.fail(`${plan.shape.length} steps gave ${graph.nodeCount} nodes`)
  const exec = graph.instantiate()
  graphs.instances.push({ exec, plan, captured, all: [runs] })
  if (random.chance(0.5)) graph.close()
  else if (random.chance(0.2)) client.dropped.push(new WeakRef(graph))
}

function launch(client: Client): void {
  const graphs = graphsOf(client)
  const { random } = client
  if (graphs.instances.length === 0) return
  const { exec, plan, captured } = random.one(graphs.instances)
  const track = client.track(client.machine.device)
  if (random.chance(0.3)) {
    if (random.chance(0.5)) exec.upload(track.stream)
    else track.stream.run(() => exec.upload())
  }
  for (let left = random.between(1, 3); left > 0; left -= 1) {
    if (plan.waitsForGate) {
      recordGate(client, graphs, plan)
      // All that the graph does comes after the gate, so the stream need not wait for what it stands for.
      track.learn(graphs.gateClock)
    }
    client.use(track, { writes: plan.pieces }, (stream) => {
      random.one([
        () => void stream.launch(exec),
        () => void exec.launch(stream),
        () => void stream.run(() => exec.launch()),
      ])()
    })
    graphs.reachedClock = track.clock()
    for (const { apply } of captured.steps) apply()
    client.tracker.counts.launches += 1
  }
  if (random.chance(0.4)) {
    const other = client.track()
    other.stream.wait(graphs.reached)
    other.waited(graphs.reachedClock)
  }
}

/** The gate is recorded on another stream: what that one holds comes before what the graph does. */
function recordGate(client: Client, graphs: Graphs, { pieces }: Plan): void {
  const track = client.track(client.machine.device)
  const [piece] = pieces
  if (piece !== undefined) {
    const value = client.random.below(256)
    client.use(track, { writes: [piece] }, (stream) => void stream.fill(piece.buffer, value))
    piece.model.fill(value)
  }
  track.stream.record(graphs.gate)
  graphs.gateClock = track.clock()
}

/** The same shape with other numbers, also while launches are queued. */
async function update(client: Client): Promise<void> {
  const graphs = graphsOf(client)
  const { random } = client
  if (graphs.instances.length === 0) return
  const instance = random.one(graphs.instances)
  const captured = await captureWith(client, instance.plan)
  if (captured === undefined) return
  instance.exec.update(captured.graph)
  captured.graph.close()
  instance.captured = captured
  instance.all.push(captured.runs)
}

/** Another shape is refused, and the instance stays as it is. */
function updateWrongly(client: Client): void {
  const graphs = graphsOf(client)
  const { machine, random } = client
  if (graphs.instances.length === 0 || !machine.fixture.captureBegins()) return
  try {
    const track = client.track(machine.device, (each) => machine.mayCapture(each) && each.held === 0)
    using graph = track.stream.capture(() => {}, { mode: 'relaxed' })
    const { exec } = random.one(graphs.instances)
    client.refused('another shape', 'CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE', () => exec.update(graph))
  } finally {
    machine.fixture.captureEnds()
  }
}

/** An instance is closed with launches queued, inside of a host function, or not at all. */
async function end(client: Client, isLast = false): Promise<void> {
  const graphs = graphsOf(client)
  const { random } = client
  if (graphs.instances.length === 0) return
  const instance = isLast ? graphs.instances[0] : random.one(graphs.instances)
  if (instance === undefined) return
  graphs.instances.splice(graphs.instances.indexOf(instance), 1)
  const { exec, plan, all } = instance
  random.one([
    () => exec.close(),
    () => exec[Symbol.dispose](),
    () => client.aux.condemn(() => exec.close()),
    () => void client.dropped.push(new WeakRef(exec)),
  ])()
  for (const piece of plan.pieces) {
    for (const use of piece.uses) await client.known(use)
    piece.held -= 1
  }
  for (const { ran, wanted } of all) client.tracker.same('how often a host function of a graph ran', ran, wanted)
}

/** Ends all graphs of an client. */
export async function endGraphs(client: Client): Promise<void> {
  while (client.graphs !== undefined && client.graphs.instances.length > 0) await end(client, true)
}

/** A capture that fails leaves the stream as it was. */
function captureWrongly(client: Client): void {
  const { machine } = client
  if (!machine.fixture.captureBegins()) return
  try {
    const track = client.track(machine.device, (each) => machine.mayCapture(each) && each.held === 0)
    const { stream } = track
    const outside = stream.record()
    client.refused('endCapture() of what does not capture', 'CUDA_ERROR_ILLEGAL_STATE', () => stream.endCapture())
    client.refused('a promise from a captured function', 'ERR_INVALID_ARG_VALUE', () =>
      // @ts-expect-error the types refuse it, too
      stream.capture(async () => {}, { mode: 'relaxed' }),
    )
    client.refused('a wait for what is outside of the capture', 'CUDA_ERROR_STREAM_CAPTURE_ISOLATION', () =>
      stream.capture(() => void stream.wait(outside), { mode: 'relaxed' }),
    )
    client.tracker.same('isCapturing after a capture that failed', stream.isCapturing, false)
    outside.close()
  } finally {
    machine.fixture.captureEnds()
  }
}

export const graphActions: readonly Action[] = [
  { name: 'capture', weight: 0.8, play: capture },
  { name: 'launch', weight: 3, play: launch },
  { name: 'update', weight: 0.5, play: update },
  { name: 'update wrongly', weight: 0.2, play: updateWrongly },
  { name: 'end a graph', weight: 0.5, play: (client) => end(client) },
  { name: 'capture wrongly', weight: 0.3, play: captureWrongly },
]

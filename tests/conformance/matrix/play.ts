/** Plays one cell of the matrix. */
import assert from 'node:assert/strict'
import { Graph } from 'cuda-streams'
import { type Hold, isPinned, type MemoryKind, type Situation } from '../../catalogue/axes.js'
import { type Call, queues } from '../../catalogue/call.js'
import type { Lab } from '../../catalogue/lab.js'
import {
  type Answer,
  answerOf,
  answerToNever,
  RETURNS,
  type Runs,
  refused,
  runsDuring,
  whatItDoes,
} from '../../catalogue/rules.js'
import { type Outcome, outcomeOf, outcomeWithin, Scene } from '../../catalogue/scene.js'

/** Milliseconds that a call takes at most, also one that waits. */
const RETURNS_WITHIN = 1000

/** Milliseconds after which the processor time is read again: that takes as long as a call. */
const FRESH = 100

/** In milliseconds. The simulator does not sleep: what it takes by this clock does not depend on what else the machine does. */
const processorTime = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
let lastRead = { at: Number.NEGATIVE_INFINITY, time: 0 }

/** Begins to measure how long a call takes, on the simulator in processor time. */
function stopwatch(isSimulated: boolean): () => number {
  const begun = performance.now()
  if (begun - lastRead.at > FRESH) lastRead = { at: begun, time: processorTime() }
  const { time } = lastRead
  return () => {
    const took = performance.now() - begun
    return isSimulated && took >= RETURNS_WITHIN ? processorTime() - time : took
  }
}

export interface Cell {
  readonly situation: Situation
  readonly hold: Hold
  readonly memory: readonly MemoryKind[]
}

/** What stands while a call is made, or what it is made in. */
export interface Standing {
  /** Makes the call there. */
  within<R>(act: () => R): R
  /** A wait for all work of the device could never end there. */
  readonly isForever: boolean
  end(): void
}

const NOTHING: Standing = { within: (act) => act(), isForever: false, end: () => {} }

/** `stand` lets another stream stand while the call is made. */
export async function play(
  lab: Lab,
  call: Call,
  { situation, hold, memory }: Cell,
  stand: () => Standing = () => NOTHING,
): Promise<void> {
  const scene = new Scene(lab, call, situation, hold, memory)
  try {
    await playIn(scene, call, stand)
  } finally {
    scene.dispose()
  }
}

async function playIn(scene: Scene, call: Call, stand: () => Standing): Promise<void> {
  const { lab, hold, situation } = scene
  const where = placeOf(call, situation)
  const waits = typeof call.waits === 'function' ? call.waits(scene) : call.waits
  const invoke = await call.prepare(scene)
  scene.recordBefore()
  lab.settle()
  scene.holdUp()
  const { within, isForever, end } = stand()
  const answer = isForever ? answerToNever(waits, wanted(scene, call, where)) : wanted(scene, call, where)
  scene.beginCapture()

  const elapsed = stopwatch(lab.bench.name === 'sim')
  const first = within(() => outcomeOf(invoke))
  const took = elapsed()
  end()
  assert.ok(took < RETURNS_WITHIN, `the call took ${Math.round(took)} ms`)
  // A promise tells later.
  const pending = first.value instanceof Promise ? [first.value] : []
  if (pending.length === 0) checkOutcome(call, answer, first)
  checkRan(scene.ran, runsDuring(waits, hold, where, first.outcome !== RETURNS))
  const graph = finishCapture(scene, call, answer, first)
  if (graph !== undefined && !call.consumes) launch(scene, graph)

  const last = await outcomeWithin(first)
  checkOutcome(call, answer, last)
  await scene.settled(...pending)
  assert.equal(scene.ran, hold === 'nothing' ? 0 : 1, 'so often the host function that stood has run')

  const isDone = last.outcome === RETURNS
  // What was captured in a capture that gave no graph is not done.
  const isTaken = isDone && (situation.capture?.of !== 'the stream' || graph !== undefined || !queues(call))
  scene.checkMemory(isTaken ? 1 : 0)
  if (isDone) await call.answers?.(scene, last.value)
  if (isTaken && scene.log.includes('call') && scene.isBehind) assert.deepEqual(scene.log, ['hold', 'call'])
}

/** The situation as the call meets it. */
function placeOf({ on }: Call, situation: Situation): Situation {
  const { capture } = situation
  if (on === undefined) return situation
  if (capture?.of !== 'the stream') return { ...situation, stream: on }
  return { stream: on, capture: { ...capture, of: 'a non-blocking stream' } }
}

function wanted(scene: Scene, call: Call, where: Situation): Answer {
  const codes = [...(call.refuses?.(scene) ?? []), ...wrongMemory(call, scene)]
  return codes.length > 0 ? refused(...codes) : answerOf(call.act, where)
}

function wrongMemory({ memory = [] }: Call, { pieces }: Scene): readonly string[] {
  return memory.flatMap(({ takes }, index) => {
    const kind = pieces[index]?.kind
    if (takes === undefined || kind === undefined) return []
    if (isPinned(kind)) return ['ERR_INVALID_ARG_TYPE']
    return kind === 'second device' ? ['ERR_DEVICE_MISMATCH'] : []
  })
}

/** Ends what is captured, as the answer says that it must end. Returns the graph of the call's own stream. */
function finishCapture(scene: Scene, call: Call, { invalidates }: Answer, first: Outcome): Graph | undefined {
  const { capture } = scene.situation
  const isOwn = capture?.of === 'the stream'
  if (isOwn && call.act === 'ends a capture') return first.value instanceof Graph ? scene.keep(first.value) : undefined
  const end = scene.endCapture()
  if (capture === undefined || (isOwn && scene.stream.closed)) return undefined
  const ends = end instanceof Graph ? 'a graph' : String(end)
  const allowed =
    capture.invalidated || invalidates === 'yes' ? ['901'] : invalidates === 'may' ? ['a graph', '901'] : ['a graph']
  if (call.mayLeaveUnjoined) allowed.push('904')
  if (call.hasThreads && capture.mode === 'global' && scene.bench.name === 'cuda') allowed.push('901')
  assert.ok(allowed.includes(ends), `the capture ends in ${ends}, not in ${allowed.join(' or ')}`)
  if (!(end instanceof Graph)) return undefined
  const nodes = isOwn && first.outcome === RETURNS ? nodesOf(call, scene) : 0
  if (nodes !== undefined) assert.equal(end.nodeCount, nodes, 'the nodes that the capture has')
  return isOwn ? end : undefined
}

function nodesOf(call: Call, scene: Scene): number | undefined {
  if (call.nodes !== undefined) return call.nodes(scene)
  return queues(call) ? 1 : 0
}

/** What was captured runs now, on the stream that it was captured on; to launch it is no wait. */
function launch(scene: Scene, graph: Graph): void {
  if (scene.stream.closed) return
  const { ran } = scene
  const exec = scene.keep(graph.instantiate())
  scene.stream.launch(exec)
  assert.equal(scene.ran, ran, 'to launch what was captured has run the host function')
}

function checkOutcome({ act }: Call, { outcomes }: Answer, { outcome, error }: Outcome): void {
  const why = error instanceof Error ? `: ${error.message}` : ''
  const wanted = outcomes.join(' or ')
  assert.ok(outcomes.includes(outcome), `${outcome} for a call that ${whatItDoes(act)}, not ${wanted}${why}`)
}

function checkRan(ran: number, runs: Runs): void {
  if (runs === 'no') assert.equal(ran, 0, 'the call has run the host function that stood')
  if (runs === 'must') assert.equal(ran, 1, 'the call is back, and has not run the host function that it waits for')
}

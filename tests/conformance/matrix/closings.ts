/**
 * What the host function closes that runs inside a call. A call that finds the hardware queue full waits for room, as others
 * wait by their names, and that runs the host function which the stream stands at; here that closes something which the call
 * uses. The call then is ERR_CLOSED, or it does what it says; the next one is ERR_CLOSED. Memory that was given back belongs
 * to others: what they write there must stay.
 */
import assert from 'node:assert/strict'
import { isPinned, MEMORY_KINDS, type MemoryKind } from '../../catalogue/axes.js'
import type { Call } from '../../catalogue/call.js'
import type { Lab } from '../../catalogue/lab.js'
import { RETURNS } from '../../catalogue/rules.js'
import { type Outcome, outcomeOf, outcomeWithin, Scene } from '../../catalogue/scene.js'
import { isFakeDriver } from '../../fake-driver/fake-cuda.js'
import { chosen, combinations } from './combinations.js'
import type { PlayableCell, Row } from './table.js'
import { Victims } from './victims.js'
import { describePlace, type Place, Watch } from './watch.js'

const PLACES: readonly Place[] = [
  { stream: 'non-blocking' },
  { stream: 'blocking' },
  { stream: 'external' },
  { stream: 'non-blocking', isWatched: true },
]
const CLOSED = 'ERR_CLOSED'
/** These run the host function for sure. */
const WAITING: readonly Call['waits'][] = ['stream', 'event', 'everything']

export function closingRows(calls: readonly Call[]): readonly Row[] {
  return calls.filter(({ takesRoom, waits }) => takesRoom !== undefined || WAITING.includes(waits)).map(rowOf)
}

function rowOf(call: Call, turn: number): Row {
  return {
    name: call.name,
    lacks: (lab) => {
      if (call.takesRoom === 'on cuda' && lab.bench.name === 'sim') return 'the simulator needs no room for it'
      return call.lacks?.({ lab, bench: lab.bench })
    },
    *cells(lab) {
      const places = isFakeDriver() ? PLACES.slice(0, 1) : PLACES
      const kinds = (call.memory ?? []).map(kindsFor)
      // A graph keeps no memory open: the program must, as long as it launches the graph.
      const memory = call.act === 'launches a graph' ? [] : (call.memory ?? []).map(({ name }) => `the ${name}`)
      const targets = ['the stream', ...memory, ...(call.uses ?? [])]
      for (const [first = 0, second = 0, ...rest] of combinations([places, targets, ...kinds], turn)) {
        const [place, target] = [places[first], targets[second]]
        if (place !== undefined && target !== undefined) yield cellFor(lab, call, place, chosen(kinds, rest), target)
      }
    },
  }
}

/** The kinds of memory that an operand can have, the plain one first. */
const kindsFor = ({ takes }: NonNullable<Call['memory']>[number]): readonly MemoryKind[] => [
  'device',
  ...MEMORY_KINDS.filter((kind) => kind !== 'device' && (takes === undefined || isOfDevice(kind))),
]

const isOfDevice = (kind: MemoryKind): boolean => !isPinned(kind) && kind !== 'second device'

function cellFor(lab: Lab, call: Call, place: Place, kinds: readonly MemoryKind[], target: string): PlayableCell {
  const kindsToSay = kinds.length === 0 ? '' : `, with memory: ${kinds.join(', ')}`
  return {
    name: `${target} is closed, ${describePlace(place)}${kindsToSay}`,
    lacks: kinds.map((kind) => lab.lacks(kind)).find((lack) => lack !== undefined),
    play: () => play(lab, call, place, kinds, target),
  }
}

async function play(lab: Lab, call: Call, place: Place, kinds: readonly MemoryKind[], target: string): Promise<void> {
  const { room } = lab
  using watch = new Watch(lab, place)
  const scene = new Scene(lab, call, place, 'own', kinds, true)
  const victims = new Victims(lab)
  try {
    const invoke = await call.prepare(scene)
    const filler = scene.keep(scene.device.alloc(4, { stream: scene.stream }))
    lab.settle()
    scene.closeInside(target)
    scene.holdUp()
    // A call that waits by its name needs no full queue.
    const entries = call.takesRoom === undefined ? 0 : room
    for (let filled = 0; filled < entries; filled += 1) scene.stream.fill(filler, 1)
    scene.beginCapture()
    assert.equal(scene.ran, 0, 'the queue has room for so many')

    const first = outcomeOf(invoke)
    assert.equal(scene.ran, 1, 'the call had to wait, and has not run the host function')
    victims.arrive()
    const refusals = [...(call.closedCodes ?? []), ...(call.refuses?.(scene) ?? [])]
    const last = await closedOrDone(first, ...refusals)
    await scene.settled()
    scene.checkMemory(last.outcome === RETURNS ? 1 : 0)
    if (last.outcome === RETURNS) await call.answers?.(scene, last.value)
    await victims.check()
    watch.check()

    const again = await outcomeWithin(outcomeOf(invoke))
    const isUsed = target !== 'the stream' || call.withoutStream !== true
    const allowed = isUsed ? [CLOSED, ...refusals] : [RETURNS, CLOSED, ...refusals]
    assert.ok(allowed.includes(again.outcome), `the next call is ${again.outcome}, not ${allowed.join(' or ')}`)
  } finally {
    victims.dispose()
    scene.dispose()
  }
}

/** What became of a call whose things were closed inside. */
export async function closedOrDone(first: Outcome, ...others: readonly string[]): Promise<Outcome> {
  const allowed = [RETURNS, CLOSED, ...others]
  const check = ({ outcome, error }: Outcome): void => {
    const why = error instanceof Error ? `: ${error.message}` : ''
    assert.ok(allowed.includes(outcome), `${outcome}, not ${allowed.join(' or ')}${why}`)
  }
  check(first)
  const last = await outcomeWithin(first)
  check(last)
  return last
}

/**
 * Code of the program that runs inside a call: getters of its options, and what tests/catalogue/hooks.ts has. Here it closes what the
 * call uses. The call then is ERR_CLOSED, or does what it says.
 */
import assert from 'node:assert/strict'
import { type Hold, isPinned, type MemoryKind } from '../../catalogue/axes.js'
import type { Call } from '../../catalogue/call.js'
import { calls } from '../../catalogue/catalogue.js'
import { gettersOf, type Hook, hooks } from '../../catalogue/hooks.js'
import type { Lab } from '../../catalogue/lab.js'
import { RETURNS } from '../../catalogue/rules.js'
import { outcomeOf, Scene } from '../../catalogue/scene.js'
import { isFakeDriver } from '../../fake-driver/fake-cuda.js'
import { closedOrDone } from './closings.js'
import { combinations } from './combinations.js'
import type { Row } from './table.js'
import { Victims } from './victims.js'
import { describePlace, type Place, Watch } from './watch.js'

const all: readonly Hook[] = [...hooks, ...calls.flatMap(gettersOf)]

const HELD: readonly Hold[] = ['nothing', 'own']
const PLACES: readonly Place[] = [
  { stream: 'non-blocking' },
  { stream: 'blocking' },
  { stream: 'non-blocking', isWatched: true },
]
const KINDS: readonly MemoryKind[] = [
  ...(['own', 'device', 'slice', 'pinned', 'foreign', 'interprocess', 'shared'] as const),
  ...(['registered shared', 'pool', 'dlpack'] as const),
]

export const userCodeRows: readonly Row[] = all.map((code, turn) => ({
  name: code.name,
  lacks: (lab) => code.lacks?.({ lab, bench: lab.bench }),
  *cells(lab) {
    const places = isFakeDriver() ? PLACES.slice(0, 1) : PLACES
    const operands = (code.memory ?? []).map(({ name }) => `the ${name}`)
    const targets = ['the stream', ...operands, ...(code.uses ?? [])]
    const kinds = code.memory === undefined ? [undefined] : KINDS
    for (const [first = 0, second = 0, third = 0, fourth = 0] of combinations([places, HELD, kinds, targets], turn)) {
      const [place, hold, kind, target] = [places[first], HELD[second], kinds[third], targets[fourth]]
      if (place === undefined || hold === undefined || target === undefined) continue
      const stands = hold === 'nothing' ? '' : ' at which a host function stands'
      yield {
        name: `${target} is closed, ${describePlace(place)}${stands}${kind === undefined ? '' : `, memory: ${kind}`}`,
        play: () => play(lab, code, place, hold, kind, target),
      }
    }
  },
}))

async function play(
  lab: Lab,
  code: Hook,
  place: Place,
  hold: Hold,
  kind: MemoryKind | undefined,
  target: string,
): Promise<void> {
  const kinds = (code.memory ?? []).map(() => kind ?? 'device')
  // Pinned memory is none of the device.
  const wrongMemory = code.memory?.some(({ takes }) => takes !== undefined) === true ? ['ERR_INVALID_ARG_TYPE'] : []
  using watch = new Watch(lab, place)
  const asCall: Call = { ...code, members: [], act: 'makes', prepare: () => () => {} }
  const scene = new Scene(lab, asCall, place, hold, kinds, true)
  const victims = new Victims(lab)
  try {
    let acted = false
    // Once only: what a getter does at the first look must not be undone at the next.
    const act = (): void => {
      if (acted) return
      acted = true
      scene.closer(target)()
    }
    const invoke = await code.prepare(scene, act)
    scene.recordBefore()
    lab.settle()
    scene.holdUp()
    scene.beginCapture()
    const first = outcomeOf(invoke)
    const waits = typeof code.waits === 'function' ? code.waits(scene) : code.waits
    if (waits === undefined) assert.equal(scene.ran, 0, 'the call has run the host function that stood')
    victims.arrive()
    const last = await closedOrDone(first, ...(code.closedCodes ?? []), ...wrongMemory)
    await scene.settled()
    const isPinnedKind = kind !== undefined && isPinned(kind)
    assert.ok(acted || code.isLate || first.outcome !== RETURNS || isPinnedKind, 'no code of the program was run')
    scene.checkMemory(last.outcome === RETURNS ? 1 : 0)
    await victims.check()
    watch.check()
  } finally {
    victims.dispose()
    scene.dispose()
  }
}

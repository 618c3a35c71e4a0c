/**
 * Calls that are made while another stream stands at something that is no host function: at a value that this thread writes, or
 * at another library's work that this thread ends. No call that does not wait by its name may wait for that. And calls that
 * are made inside a host function, or while a stream waits for a promise: those for which CUDA waits for the device are ERR_DEADLOCK.
 */
import assert from 'node:assert/strict'
import { describeSituation, type MemoryKind, SITUATIONS } from '../../catalogue/axes.js'
import type { Call } from '../../catalogue/call.js'
import type { Lab } from '../../catalogue/lab.js'
import { isFakeDriver } from '../../fake-driver/fake-cuda.js'
import { chosen, combinations, metElsewhere } from './combinations.js'
import { play, type Standing } from './play.js'
import type { Row } from './table.js'

/** Lets a stream stand, and returns what ends that. */
type Stand = (lab: Lab) => () => void

const standingStream = (lab: Lab) => lab.once('a stream that stands', () => lab.bench.stream())
/** All of it is cleared: what memory of before has in the other bytes of the word would make another value of it. */
const clearedFlags = (lab: Lab) => {
  const flags = lab.once('a value', () => lab.device.allocPinned(64))
  flags.bytes.fill(0)
  return flags
}

const THEIRS = 'a wait of another library'
/** CUDA waits for the device where a stream finds no place; on a fake GPU none does. The library knows nothing of what stands there. */
const NEEDS_PLACE = 'new Stream({ context })'

const STANDS: Readonly<Record<string, Stand>> = {
  'a wait for a value': (lab) => {
    const flags = clearedFlags(lab)
    standingStream(lab).waitValue(flags, 1)
    return () => flags.bytes.fill(1, 0, 1)
  },
  'a launch that waits for a value': (lab) => {
    const flags = clearedFlags(lab)
    const stream = standingStream(lab)
    const exec = lab.once('a graph that stands', () => stream.capture(() => stream.waitValue(flags, 1)).instantiate())
    stream.launch(exec)
    return () => flags.bytes.fill(1, 0, 1)
  },
  [THEIRS]: (lab) => {
    const latch = lab.bench.latch(standingStream(lab))
    return () => latch.open()
  },
}
const FOREVER: Readonly<Record<string, (lab: Lab) => Standing>> = {
  'another stream waits for a promise': (lab) => {
    let end = (): void => {}
    standingStream(lab).wait(
      new Promise<void>((resolve) => {
        end = resolve
      }),
    )
    return { within: (act) => act(), isForever: true, end: () => end() }
  },
  'in a host function of another stream': (lab) => {
    const within: Standing['within'] = (act) => {
      let result: { readonly value: ReturnType<typeof act> } | undefined
      standingStream(lab).launchHostFunc(() => {
        result = { value: act() }
      })
      standingStream(lab).synchronize()
      assert.ok(result !== undefined, 'the host function has run')
      return result.value
    }
    return { within, isForever: true, end: () => {} }
  },
}
/** Every kind of stream, and one capture. */
const FEW_SITUATIONS = 7
/** A non-blocking stream: with every kind of memory. */
const FULL_SITUATION = 1

export function standingRows(
  calls: readonly Call[],
  memoryAxes: (call: Call) => readonly (readonly MemoryKind[])[],
): readonly Row[] {
  // By their names these wait for their own stream or event.
  return calls
    .filter(({ waits }) => waits !== 'stream' && waits !== 'event')
    .map((call, turn) => rowOf(call, memoryAxes(call), turn))
}

function rowOf(call: Call, kinds: readonly (readonly MemoryKind[])[], turn: number): Row {
  return {
    name: call.name,
    lacks: (lab) => call.lacks?.({ lab, bench: lab.bench }),
    *cells(lab) {
      const situations = SITUATIONS.slice(0, FEW_SITUATIONS).filter((_, at) => !isFakeDriver() || at === FULL_SITUATION)
      const stands = Object.keys(call.waits === undefined ? STANDS : {})
      // The table of calls lets each situation meet each kind of memory, where nothing stands.
      const places = metElsewhere([situations, ...kinds], turn)
      // First where nothing stands: what is loaded at the first use of all is loaded then.
      const first = { what: 'nothing', place: places[0] }
      const others = combinations([stands, places], turn).map(([stand = 0, place = 0]) => ({
        what: stands[stand],
        place: places[place],
      }))
      for (const { what, place: [at = 0, ...rest] = [] } of [first, ...others]) {
        const [situation, memory] = [situations[at], chosen(kinds, rest)]
        if (situation === undefined || what === undefined) continue
        const cell = { situation, hold: 'nothing', memory } as const
        const operands = memory.length === 0 ? '' : `, with memory: ${memory.join(', ')}`
        const where = describeSituation(situation)
        const lacks = memory.map((kind) => lab.lacks(kind)).find((lack) => lack !== undefined)
        const needsPlace = isFakeDriver() && call.name === NEEDS_PLACE && what === THEIRS
        const stand = STANDS[what]
        const standing = (): Standing => ({
          within: (act) => act(),
          isForever: false,
          end: stand === undefined ? () => {} : stand(lab),
        })
        yield {
          name: `${where}, ${what === 'nothing' ? 'nothing stands' : `another stream stands at ${what}`}${operands}`,
          lacks: needsPlace ? 'a fake GPU has no place for a stream' : lacks,
          play: () => play(lab, call, cell, standing),
        }
      }
      for (const situation of situations) {
        // What a capture forbids comes first.
        if (situation.capture !== undefined) continue
        const cell = { situation, hold: 'nothing', memory: kinds.flatMap(([plain]) => plain ?? []) } as const
        for (const [what, stand] of Object.entries(FOREVER)) {
          const name = `${describeSituation(situation)}, ${what}`
          yield { name, play: () => play(lab, call, cell, () => stand(lab)) }
        }
      }
    },
  } satisfies Row
}

/** Asynchronous copies, tensor maps and clusters do on the engine, byte for byte, what they did on an H200. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeTensorMap } from '../../../src/ptx/tensor-map.js'
import { randomNumbers } from '../machine.js'
import type { HopperCase } from './hopper-case.js'
import { type PlayOptions, play, tensorMapOf } from './hopper-machine.js'
import { HOPPER_CASES, type HopperAnswer, loadRecording } from './recording.js'
import { ENCODED_MAPS } from './tensor-cases.js'

const recording = loadRecording()
const answers = new Map(recording.cases.map((each) => [each.name, each]))

/** The cases that are an illegal address here, and of which an H200 says nothing, as it drops what lies far beyond shared memory. */
const ILLEGAL_HERE = new Set([
  'bulk wrong destination beyond its end',
  'bulk wrong mbarrier beyond its end',
  'bulk wrong store from beyond the end',
  'tensor wrong tile beyond shared memory',
])
const ILLEGAL_ADDRESS = 700

/** The bytes of a buffer that hold an address, which is another one here. */
const ADDRESS_IN_MAP = { of: /^tensor (?:map in memory|replace)/, buffer: 1, from: 8192, to: 8200 }

function withoutAddresses(name: string, buffer: number, bytes: Uint8Array): Uint8Array {
  const copy = bytes.slice()
  if (ADDRESS_IN_MAP.of.test(name) && buffer === ADDRESS_IN_MAP.buffer)
    copy.fill(0, ADDRESS_IN_MAP.from, ADDRESS_IN_MAP.to)
  return copy
}

/** What differs from the answer of the GPU; undefined if nothing does. */
function differenceOf(each: HopperCase, answer: HopperAnswer, options: PlayOptions = {}): string | undefined {
  const { buffers, fault } = play(each, options)
  const wanted = ILLEGAL_HERE.has(each.name) ? ILLEGAL_ADDRESS : answer.result
  if (wanted !== undefined)
    return fault?.number === wanted ? undefined : `${each.name}: ${wanted}, not ${fault?.message}`
  if (fault !== undefined) return `${each.name}: ${fault.message}`
  for (const [index, text] of (answer.buffers ?? []).entries()) {
    const expected = text === null ? (each.buffers[index] ?? new Uint8Array()) : Buffer.from(text, 'base64')
    const [found, recorded] = [buffers[index] ?? new Uint8Array(), new Uint8Array(expected)].map((bytes) =>
      withoutAddresses(each.name, index, bytes),
    )
    if (found !== undefined && recorded !== undefined && Buffer.compare(found, recorded) === 0) continue
    const at = found?.findIndex((byte, place) => byte !== recorded?.[place]) ?? -1
    if (at >= 0) return `${each.name}: byte ${at} of buffer ${index} is ${found?.[at]}, not ${recorded?.[at]}`
  }
  return undefined
}

/** The cases that the GPU has run, or in whose run it met a fault: launches that it refuses have no place in the engine. */
const played = (group: string): readonly (readonly [HopperCase, HopperAnswer])[] =>
  HOPPER_CASES.filter(({ name }) => name.startsWith(`${group} `)).flatMap((each) => {
    const answer = answers.get(each.name)
    assert.ok(answer !== undefined, `${each.name} is recorded`)
    return answer.where === 'launch' || answer.where === 'encode' ? [] : [[each, answer] as const]
  })

for (const group of ['bulk', 'cluster', 'tensor', 'kernel'])
  test(`${group}: each case has the bytes of the GPU`, () => {
    const cases = played(group)
    assert.ok(cases.length > 0)
    assert.deepEqual(
      cases.flatMap(([each, answer]) => differenceOf(each, answer) ?? []),
      [],
    )
  })

test('parts of launches and schedules change nothing', () => {
  const next = randomNumbers(7)
  const choose = (count: number): number => Math.floor(next() * count)
  const cases = [...played('kernel'), ...played('cluster').filter(([, answer]) => answer.result === undefined)]
  for (const options of [{ budget: 500 }, { choose }, { choose, budget: 2000 }])
    assert.deepEqual(
      cases.flatMap(([each, answer]) => differenceOf(each, answer, options) ?? []),
      [],
    )
})

test('the checks find nothing in programs that are right, and change nothing', () => {
  for (const group of ['kernel', 'bulk', 'cluster', 'tensor'])
    for (const [each, answer] of played(group)) {
      if (answer.result !== undefined || each.name.includes('wrong')) continue
      // Their tiles have fewer bytes than the mbarrier awaits, so that the copy is not waited for.
      if (/replace (?:box|element stride)|interleave \d+ strides/.test(each.name)) continue
      const { findings } = play(each, { checked: true })
      assert.deepEqual(
        findings.map(({ message }) => message),
        [],
        each.name,
      )
      assert.equal(differenceOf(each, answer, { checked: true }), undefined)
    }
})

test('tensor maps have the bytes that the driver makes', () => {
  const specs = new Map(ENCODED_MAPS)
  let encoded = 0
  for (const [name, result, bytes, address] of recording.maps) {
    const spec = specs.get(name)
    if (result !== 0 || spec === undefined) continue
    assert.equal(Buffer.from(encodeTensorMap(tensorMapOf(spec, address))).toString('hex'), bytes, name)
    encoded++
  }
  assert.ok(encoded > 100)
})

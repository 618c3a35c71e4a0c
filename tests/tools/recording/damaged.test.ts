/** A damaged recording is read, or is an error with the call: never an error of the inside, an endless loop or all of the memory. */
import assert from 'node:assert/strict'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Device, Stream } from 'cuda-streams'
import { Recorder } from 'cuda-streams/recording'
import { simulate } from 'cuda-streams/sim'
import { Random } from '../../../src/simulator/machine/random.js'
import { checkRecording } from '../../../src/tools/recording/check.js'
import { Reader } from '../../../src/tools/recording/reader.js'
import { timelineOfRecording } from '../../../src/tools/recording/recorded-timeline.js'
import { whatIf } from '../../../src/tools/recording/what-if.js'
import { refused } from '../../conformance/expect.js'
import { runs } from '../../helpers/effort.js'
import { accessKernel } from '../sanitizer/access-kernel.js'

const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-damaged-'))
const path = join(folder, 'x.rec')
after(() => rmSync(folder, { recursive: true }))

const MUTANTS = runs({ quick: 100, normal: 400, nightly: 10_000 })
const DAMAGED = /x\.rec is (?:damaged|no recording|a recording of version)/

/** What a recording of a program with each kind of call is. */
async function recordedText(): Promise<string> {
  using simulation = simulate()
  const [device] = simulation.devices as readonly [Device]
  const file = join(folder, 'whole.rec')
  const recorder = Recorder.start(file, { device })
  const [stream, other] = [new Stream({ device }), new Stream({ device })]
  const [data, pinned] = [device.alloc(64, { stream }), device.allocPinned(64)]
  const event = stream.fill(data, 1).record()
  other
    .wait(event)
    .copy(pinned, data)
    .launchHostFunc(() => {})
  stream.wait(other).launch(accessKernel([true]), { grid: 1, block: 1 }, data)
  const exec = stream.capture(() => stream.fill(data, 2).copy(pinned, data)).instantiate()
  stream.launch(exec).writeValue(pinned, 1).waitValue(pinned, 1)
  await stream.upload(data, new Uint8Array(64))
  await other.wait(stream).download(data)
  event.synchronize()
  device.synchronize()
  await device.finished()
  for (const each of [exec, data, pinned, event, stream, other]) each.close()
  await recorder.stop()
  return readFileSync(file, 'utf8')
}

/** Values that stand where others do not expect them. */
const VALUES = [null, -1, 0, 1.5, 1e300, 2 ** 53, 7, '', 'x', 'constructor', '__proto__', [], {}, [[]], true]

/** Changes one value somewhere within. */
function mutated(value: unknown, below: (count: number) => number): unknown {
  if (typeof value !== 'object' || value === null || below(4) === 0) return VALUES[below(VALUES.length)]
  const keys = Object.keys(value)
  const key = keys[below(keys.length)]
  if (key === undefined) return VALUES[below(VALUES.length)]
  if (Array.isArray(value)) return value.with(Number(key), mutated(value[Number(key)], below))
  const rest = Object.fromEntries(Object.entries(value).filter(([name]) => name !== key))
  return below(4) === 0 ? rest : { ...value, [key]: mutated(Reflect.get(value, key), below) }
}

async function readAll(): Promise<void> {
  await checkRecording(new Reader(path))
  const timeline = await timelineOfRecording(new Reader(path))
  timeline.toText()
  await whatIf(path, [], 1)
}

describe('a damaged recording', () => {
  let lines: readonly string[] = []
  before(async () => {
    lines = (await recordedText()).split('\n')
    writeFileSync(path, lines.join('\n'))
    await readAll()
  })

  for (let first = 0; first < MUTANTS; first += MUTANTS / 10) {
    it(`is read or an error that says where, mutants from ${first} on`, async () => {
      for (let seed = first; seed < first + MUTANTS / 10; seed += 1) {
        const random = new Random(seed)
        const below = (count: number): number => Math.floor(random.next() * count)
        const at = below(lines.length - 1)
        const line = lines[at] ?? ''
        const cut = below(line.length + 1)
        const kinds = [
          () => lines.with(at, JSON.stringify(mutated(JSON.parse(line), below))),
          () => lines.with(at, JSON.stringify(mutated(JSON.parse(line), below))),
          () => lines.toSpliced(at, 1),
          () => lines.toSpliced(at, 0, lines[below(lines.length - 1)] ?? ''),
          () => lines.with(at, `${line.slice(0, cut)}${line.slice(cut + 1 + below(3))}`),
          () => [...lines.slice(0, at), line.slice(0, cut)],
        ]
        writeFileSync(path, (kinds[below(kinds.length)] ?? (() => lines))().join('\n'))
        try {
          await readAll()
        } catch (error) {
          assert.equal(
            error instanceof Error && Reflect.get(error, 'code'),
            'ERR_INVALID_ARG_VALUE',
            `mutant ${seed}: ${error instanceof Error ? error.stack : error}`,
          )
          assert.match(String(error), DAMAGED, `mutant ${seed}`)
        }
      }
    })
  }

  it('has no call by a name of a prototype', async () => {
    for (const call of ['constructor', '__proto__', 'toString', 'hasOwnProperty', 'unknown']) {
      writeFileSync(path, [lines[0], `{"call":"${call}"}`, '[0,1,1]', '[0,1,1]'].join('\n'))
      await assert.rejects(readAll(), { code: 'ERR_INVALID_ARG_VALUE', message: /x\.rec is damaged at call 0/ })
    }
  })

  it('without a line end is not read as a whole', () => {
    const file = openSync(path, 'w')
    writeSync(file, `${lines[0]}\n`)
    const piece = 'x'.repeat(2 ** 20)
    for (let nth = 0; nth < 300; nth += 1) writeSync(file, piece)
    closeSync(file)
    const reader = new Reader(path)
    refused(() => reader.next(), 'ERR_INVALID_ARG_VALUE', /x\.rec is damaged: a line is longer/)
  })

  it('in which scopes are nested without end is damaged', async () => {
    const nested = Array.from({ length: 50_000 }, () => '[0,1,1]')
    writeFileSync(path, [lines[0], '{"call":"synchronizeDevice","device":0}', ...nested].join('\n'))
    await assert.rejects(checkRecording(new Reader(path)), { code: 'ERR_INVALID_ARG_VALUE', message: DAMAGED })
  })
})

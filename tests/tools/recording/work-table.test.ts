/** The table of recorded work: what its rows write is valid, and the same once it was queued again. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { defineKernel, Stream } from 'cuda-streams'
import { Recorder } from 'cuda-streams/recording'
import { simulate } from 'cuda-streams/sim'
import { Comparison } from '../../../src/foundation/driver/driver-constants.js'
import { Reader } from '../../../src/tools/recording/reader.js'
import { isRecordedWork, queued, type RecordedWork, recorded } from '../../../src/tools/recording/work-table.js'

const rows = { rowLength: 2, rows: 3, rowDistance: 8, matrices: 1, matrixDistance: 24 }
const copied = { destination: 4096, source: 8192, byteLength: 6 }
const memory = [{ pointer: 4096, byteLength: 4, access: 'atomic', argument: 0 }]
const word = { pointer: 4096, bits: 64, value: '18446744073709551615' }
const stream = 7

/** Work of each kind, with all fields, as a file has it. */
const WORK: { readonly [K in RecordedWork['kind']]: object } = {
  kernel: { kind: 'kernel', stream, name: 'k', grid: [1, 2, 3], block: [4, 5, 6], sharedMemory: 8, memory },
  copy: { kind: 'copy', stream, name: 'upload', ...copied, route: { to: 0, from: 1 }, rows: { to: rows, from: rows } },
  copies: { kind: 'copies', stream, copies: [{ ...copied, route: 'withinHost' }, copied] },
  fill: { kind: 'fill', stream, pointer: 4096, value: 1, width: 2, count: 3, rows },
  library: { kind: 'library', calls: [{ name: 'sgemm', stream, memory }] },
  allocate: { kind: 'allocate', stream, pointer: 0, byteLength: 16 },
  free: { kind: 'free', stream, pointer: 4096, after: [1, 2] },
  hostFunction: { kind: 'hostFunction', stream, internal: true, callback: false },
  promise: { kind: 'promise', stream },
  waitValue: { kind: 'waitValue', stream, word, compare: Comparison.NOR },
  writeValue: { kind: 'writeValue', stream, word },
  graph: { kind: 'graph', stream, exec: 9 },
  graphUpload: { kind: 'graphUpload', stream, exec: 9 },
  childGraph: { kind: 'childGraph', stream, graph: 9 },
}
/** The fields that the table allows beside these: the recorder adds them to what the table writes. */
const ADDED = {
  kernel: { blocksAtOnce: 2 },
  copy: { engine: 'toHost' },
  library: { operation: { kind: 'kernel', name: 'k', grid: [1, 2, 3], block: [4, 5, 6], host: false, possible: true } },
}

const asInFile = (value: object): unknown => JSON.parse(JSON.stringify(value))

for (const [kind, work] of Object.entries(WORK)) {
  describe(`recorded work of the kind ${kind}`, () => {
    it('is written again as it was once it was queued again', () => {
      assert.ok(isRecordedWork(work))
      assert.deepEqual(asInFile(recorded(queued(work))), work)
    })

    it('is refused where a field has a value of another type', () => {
      const whole = { ...work, ...Reflect.get(ADDED, kind) }
      assert.ok(isRecordedWork(whole))
      for (const name of Object.keys(whole)) assert.ok(!isRecordedWork({ ...whole, [name]: null }), name)
    })
  })
}

it('work of no kind of the table is refused, also by the names of what every object has', () => {
  for (const kind of ['constructor', '__proto__', 'toString', '', 1, undefined]) {
    assert.ok(!isRecordedWork({ kind, stream }), String(kind))
  }
})

it('a recording of a kernel that updates memory atomically can be read', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-work-table-'))
  after(() => rmSync(folder, { recursive: true }))
  const path = join(folder, 'atomic.rec')
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  const count = defineKernel({
    name: 'count',
    source: 'extern "C" __global__ void count(unsigned* sum) { atomicAdd(sum, 1u); }',
    signature: ['inout atomic u32*'],
    simulate() {},
  })
  const recorder = Recorder.start(path, { device })
  using queue = new Stream({ device })
  using sum = device.alloc(4)
  queue.launch(count, { grid: 1, block: 1 }, sum)
  queue.synchronize()
  await recorder.stop()
  const reader = new Reader(path)
  const accesses: string[] = []
  for (let entry = reader.next(); entry !== undefined; entry = reader.next()) {
    if (entry.what !== 'call' || entry.call.call !== 'queue' || entry.call.work.kind !== 'kernel') continue
    accesses.push(...entry.call.work.memory.map(({ access }) => access))
  }
  assert.deepEqual(accesses, ['atomic'])
})

/** What `npm pack` packs is the whole library: in a project of its own each entry point compiles under strict options, and runs. */
import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { compiler, compilerUnavailable } from '../docs/guide-compiler.js'
import { installPacked, packInto, runIn } from './packed.js'

const skip = compilerUnavailable() ?? false
if (typeof skip === 'string') console.log(`skipped: ${skip}`)

/** As strict as a project may be, and the package's own declarations are checked too. */
const OPTIONS = {
  compilerOptions: {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: false,
    module: 'nodenext',
    target: 'es2022',
    lib: ['es2022', 'esnext.disposable'],
    types: ['node'],
  },
  include: ['*.mts', '*.cts'],
}

/** All entry points but OpenTelemetry's: its optional peer is not installed in the project. */
const MODULE = `
import { existsSync } from 'node:fs'
import { Stream } from 'cuda-streams'
import { Cublas } from 'cuda-streams/cublas'
import { Communicator, uniqueId } from 'cuda-streams/nccl'
import { sanitize } from 'cuda-streams/sanitizer'
import { busy, explore, simulate } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'

const timeline = await Timeline.record(async () => {
  await sanitize(async () => {
    const stream = new Stream()
    busy(stream, 1000)
    using cublas = new Cublas({ device: stream.device })
    const [a, b, c] = [4, 4, 4].map((bytes) => stream.device.alloc(bytes, { stream }))
    if (a === undefined || b === undefined || c === undefined) throw new Error('three buffers were made')
    stream.upload(a, Float32Array.of(6))
    stream.upload(b, Float32Array.of(7))
    cublas.gemm(stream, a, b, c, { type: 'f32', m: 1, n: 1, k: 1 })
    await using ranks = await Communicator.create({ id: uniqueId(), rank: 0, size: 1, device: stream.device })
    stream.run(() => ranks.allReduce(Stream.current(ranks.device), c, c, { type: 'f32' }))
    console.log(new Float32Array((await stream.download(c)).buffer)[0])
    await stream.finished()
  })
})
await timeline.save('timeline.html')
console.log(existsSync('timeline.html'))
const { verdict } = await explore(({ devices: [device] }) => new Stream({ device }).finished())
console.log(verdict, simulate().devices.length)
`

const COMMON_JS = `
import cudaStreams = require('cuda-streams')
console.log(String(new cudaStreams.Stream().device))
`

describe('the packed package', { skip }, () => {
  if (skip !== false) return
  const folder = mkdtempSync(join(tmpdir(), 'a project '))
  after(() => rmSync(folder, { recursive: true, force: true }))

  const run = (command: string, ...args: readonly string[]): string => runIn(folder, command, ...args).stdout

  before(() => {
    installPacked(folder, packInto(folder), ['@types', 'undici-types'])
    writeFileSync(join(folder, 'package.json'), '{ "private": true }')
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(OPTIONS))
    writeFileSync(join(folder, 'module.mts'), MODULE)
    writeFileSync(join(folder, 'common.cts'), COMMON_JS)
    run(process.execPath, compiler(), '-p', '.')
  })

  it('runs as a module, each entry point', () => {
    assert.deepEqual(run(process.execPath, 'module.mjs').split('\n'), ['42', 'true', 'agree 1', ''])
  })

  it('can be required', () => {
    assert.equal(run(process.execPath, 'common.cjs'), 'Device(0, sim)\n')
  })

  it('has the command', () => {
    const { bin } = JSON.parse(readFileSync(join(folder, 'node_modules', 'cuda-streams', 'package.json'), 'utf8'))
    const command = join(folder, 'node_modules', 'cuda-streams', bin['cuda-streams'])
    assert.match(run(process.execPath, command, 'doctor'), /device 0 .*the self-test passed/)
  })
})

/**
 * The pages that map members of other libraries and CUDA's functions to this library are true of its own: what stands in the right-hand column of each row is run, in its
 * order, on a simulated device with objects of all kinds, so that a member that does not exist or refuses is found.
 */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import util from 'node:util'
import { compileFunction } from 'node:vm'
import * as cudaStreams from 'cuda-streams'
import { DeviceBuffer, defineKernel, Event, ExternalStream, Graph, MemoryPool, Module, Stream } from 'cuda-streams'
import * as dlpack from 'cuda-streams/dlpack'
import { foreignStream, simulate } from 'cuda-streams/sim'
import { Timeline } from 'cuda-streams/timeline'
import { root } from '../helpers/root.js'
import { parsePage } from './guide-pages.js'

const PAGES = ['docs/guides/coming-from.md', 'docs/reference/cuda-runtime.md'] as const
const skip = PAGES.every((page) => existsSync(join(root, page))) ? false : 'the docs are not here'

/** What is no expression, or cannot run here, and why. */
const NOT_RUN: Readonly<Record<string, string>> = {
  '__cuda_stream__()': 'the name of a method of objects of other libraries',
  'close()': 'a method that the same cell runs with its object',
  using: 'a word of JavaScript',
  'await using': 'a word of JavaScript',
  'Symbol.asyncDispose': 'a symbol that Node 20 has only where it was loaded',
  maxBytes: 'the name of an option',
  sharedMemory: 'the name of an option',
  cooperative: 'the name of an option',
  programmatic: 'the name of an option',
  'Event.fromIpcHandle(bytes)': 'the bytes are of another process',
  'DeviceBuffer.fromIpcHandle(bytes)': 'the bytes are of another process',
  sync: 'the name of an option of Warp',
  MemoryAsyncPool: 'a class of CuPy',
  ERR_UNSUPPORTED: 'the code of an error',
  ERR_INVALID_HANDLE: 'the code of an error',
  'CUDA_STREAMS_SYNC=throw': 'a variable of the environment',
  'wp.Stream(cuda_stream=handle)': 'an expression of Python',
  "stream.external({ name: 'theirs' }, (handle) => {})": 'the simulator has no code of other libraries to queue',
}

/** A kernel without parameters that does nothing, and a variable. */
const PTX = `.version 8.0
.target sm_80
.address_size 64
.visible .global .u32 counter;
.visible .entry nothing() { ret; }
`

/** CUDA's own functions in cuda-runtime.md, and its names of options, are no calls. */
const isRun = (page: string, code: string): boolean =>
  !(code in NOT_RUN) && (page !== 'docs/reference/cuda-runtime.md' || /^(?!\w+<<<).*[.(]/.test(code))

const axpy = defineKernel({
  name: 'axpy',
  source: 'extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {}',
  signature: ['f32', 'in f32*', 'inout f32*', 'i32'],
  simulateGrid: () => undefined,
})

interface Row {
  readonly page: string
  readonly line: number
  readonly spans: readonly string[]
}

/** The code of each row's right-hand column; of a table without a column 'here' all of the row's. */
function rowsOf(page: string, markdown: string): readonly Row[] {
  const lines = markdown.split('\n')
  const rows = new Map<number, string[]>()
  for (const { line, code } of parsePage(page, markdown).codeSpans) {
    if (!lines[line - 1]?.startsWith('|')) continue
    rows.set(line, [...(rows.get(line) ?? []), code])
  }
  return Array.from(rows, ([line, spans]) => ({ page, line, spans }))
}

type Scope = Readonly<Record<string, unknown>>

/** Objects by the names that the page has for them, all idle. */
function makeScope(row: string): Scope {
  const device = cudaStreams.Device.current()
  const stream = new Stream()
  // What other processes open has no timing, and is memory of its own.
  const interprocess = /\bipcHandle\(\)/.test(row)
  const owner = {}
  const own = device.alloc(64, { interprocess })
  const buffer = /\bbuffer\.owner\b/.test(row) ? DeviceBuffer.from(own.pointer, 64, { owner }) : own
  const eventOptions = interprocess ? { interprocess } : { timing: true }
  const start = stream.record(new Event({ timing: true }))
  const event = stream.record(new Event(eventOptions))
  const pinned = device.allocPinned(64)
  const image = device.createArray({ shape: [16], format: 'f32', surface: true })
  const module = Module.load(PTX)
  const kernel = module.kernel('nothing', [])
  const config = { grid: 1, block: 32 }
  const graph = stream.capture(() =>
    stream.launch(kernel, config).copy(pinned, own).fill(own, 1).record(event, { external: true }),
  )
  const [context] = device.split({ multiprocessors: [16] })
  const handle = foreignStream(device)
  const other = new Stream()
  stream.synchronize()
  // These are of a capture under way, whose graph nobody asks for.
  const inCapture = /\bstream\.(?:createCondition|if|while|switch)\(|\bstream\.launch\(graph\)/.test(row)
  if (inCapture) stream.beginCapture()
  return {
    ...cudaStreams,
    ...dlpack,
    util,
    a: stream,
    b: other,
    args: [],
    axpy,
    array: new Uint8Array(64),
    blockingSync: true,
    buffer,
    byteLength: 64,
    bytes: new Uint8Array(64),
    // Each node has a condition of its own.
    get condition() {
      return inCapture ? stream.createCondition() : undefined
    },
    config,
    context,
    device,
    event,
    exec: graph.instantiate(),
    external: false,
    fn: () => undefined,
    from: device.alloc(64),
    graph,
    handle: /\bEvent\.from\(/.test(row) ? event.handle : /\bGraph\.from\(/.test(row) ? graph.handle : handle,
    id: cudaStreams.Device.get().pciBusId,
    interprocess: false,
    kernel,
    module,
    name: /\bmodule\./.test(row) ? 'counter' : 'multiprocessorCount',
    node: graph.nodesOf(kernel)[0],
    nonBlocking: true,
    options: {},
    ordinal: 0,
    other,
    owner,
    pinned,
    image,
    texture: device.createTexture(image),
    surface: device.createSurface(image),
    pointer: own.pointer,
    pool: new MemoryPool({ device, maxBytes: 2 ** 20 }),
    priority: 0,
    shared: new Event().share(),
    signal: new AbortController().signal,
    source: { __cuda_stream__: () => [0, handle] },
    start,
    stream,
    timing: true,
    to: device.alloc(64),
    value: 1,
    Timeline,
    x: device.alloc(64),
    y: device.alloc(64),
    wrapped: new ExternalStream(handle, { owner }),
  }
}

/** A scope's object, as Node 20 can write it: it ends at once. */
function withoutUsing(code: string): string {
  const [, isAwaited, made] = /^(await )?using \w+ = (.*)$/.exec(code) ?? []
  if (made === undefined) return code
  return isAwaited === undefined ? `(${made})[Symbol.dispose]()` : `await (${made})[Symbol.asyncDispose]()`
}

/** Runs one expression; what it throws names it. A member that does not exist is an error, too. */
async function play(code: string, scope: Scope): Promise<void> {
  const text = `return (async () => [await (${withoutUsing(code)})])()`
  try {
    const run = compileFunction(text, Object.keys(scope))
    const outcome: unknown = await Reflect.apply(run, undefined, Object.values(scope))
    const isMember = /^[\w.]+$/.test(code)
    if (isMember) assert.notDeepEqual(outcome, [undefined], 'it does not exist')
  } catch (error) {
    throw new Error(`${code}: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
  }
}

/** The page says `node` of nodes of all kinds: this takes one that has the member. */
function withNode(code: string, scope: Scope): Scope {
  const [, member] = /^node\.(\w+)$/.exec(code) ?? []
  const { graph } = scope
  if (member === undefined || !(graph instanceof Graph)) return scope
  const node = graph.nodes.find((each) => member in each)
  return { ...scope, node }
}

/** Runs what a row names, one after the other, on a machine of its own. */
async function playRow({ page, spans }: Row): Promise<void> {
  const [device] = simulate({ devices: 2 }).devices
  assert.ok(device)
  await device.run(async () => {
    const scope = makeScope(spans.join(' '))
    for (const code of spans) if (isRun(page, code)) await play(code, withNode(code, scope))
  })
}

describe('the right-hand column of a page that maps others to this library', { skip }, () => {
  if (skip !== false) return
  const rows = PAGES.flatMap((page) => rowsOf(page, readFileSync(join(root, page), 'utf8')))

  it('is found', () => {
    assert.ok(rows.length > 200, `${rows.length} rows`)
  })

  for (const row of rows) {
    const names = row.spans.filter((code) => isRun(row.page, code))
    if (names.length > 0) it(`${row.page}:${row.line}: ${names.join(', ')}`, () => playRow(row))
  }

  it('has all that is said not to run', () => {
    const all = new Set(rows.flatMap(({ spans }) => spans))
    assert.deepEqual(
      Object.keys(NOT_RUN).filter((code) => !all.has(code)),
      [],
    )
  })

  it('is told where it names what does not exist, or refuses', async () => {
    const row = (code: string): Row => ({ page: PAGES[0], line: 1, spans: [code] })
    await assert.rejects(playRow(row('stream.lanes')), /^Error: stream\.lanes: it does not exist/)
    await assert.rejects(playRow(row('stream.lanes()')), /^Error: stream\.lanes\(\): .*not a function/)
    await assert.rejects(playRow(row('stream.endCapture()')), /^Error: stream\.endCapture\(\): /)
    await assert.rejects(playRow(row('exec.handel')), /it does not exist/)
  })
})

/**
 * What a whole process did, of all its libraries: the trace that a C library writes within it, and the races that are found there. The
 * traces of PyTorch, CuPy and CUDA C++ were made on an H100 by the programs beside this file.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, describe, it } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { injectionFile } from '../../../src/foundation/native/layer.js'
import { Random } from '../../../src/simulator/machine/random.js'
import { checkRecording } from '../../../src/tools/recording/check.js'
import { ForeignKernel, usesInPtx } from '../../../src/tools/recording/foreign-kernels.js'
import { recordTrace } from '../../../src/tools/recording/process-trace.js'
import { Reader } from '../../../src/tools/recording/reader.js'
import { findHeader } from '../../helpers/cuda-toolkit.js'
import { runs } from '../../helpers/effort.js'
import { root } from '../../helpers/root.js'
import { fakeProgram } from './fake-program.js'

const MUTANTS = runs({ quick: 50, normal: 200, nightly: 3000 })
const home = join(root, 'tests', 'tools', 'process-trace')
const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-process-trace-'))
after(() => rmSync(folder, { recursive: true }))

async function messagesIn(trace: string, possible = false, source?: string, at = home): Promise<readonly string[]> {
  const recording = join(folder, 'run.rec')
  recordTrace(trace, recording, { possible })
  // As on the machine of the run, where the lines of Python are in their files.
  if (source !== undefined) {
    const there = new RegExp(`[^" ]+(?=/${source}:)`, 'g')
    writeFileSync(recording, readFileSync(recording, 'utf8').replace(there, `(${at}`))
  }
  const { reports, isComplete } = await checkRecording(new Reader(recording))
  assert.ok(isComplete)
  return reports.map(({ message }) => message)
}

function unpacked(name: string): string {
  const path = join(folder, name)
  writeFileSync(path, gunzipSync(readFileSync(join(home, 'traces', `${name}.gz`))))
  return path
}

/** Reads a trace that is damaged in a few bytes, or ends early, many times: it is read, or said to be damaged. */
async function readDamaged(whole: Uint8Array): Promise<void> {
  const path = join(folder, 'mutant.trace')
  for (let seed = 0; seed < MUTANTS; seed += 1) {
    const random = new Random(seed)
    const below = (count: number): number => Math.floor(random.next() * count)
    const mutant = Uint8Array.from(whole)
    for (let changes = 1 + below(8); changes > 0; changes -= 1) {
      // Lengths, kinds and counts are small numbers: they are met more often by these than by any byte.
      mutant[below(mutant.length)] = [0, 1, 8, 127, 255, below(256)][below(6)] ?? 0
    }
    writeFileSync(path, below(4) === 0 ? mutant.subarray(0, 8 * below(mutant.length / 8)) : mutant)
    try {
      await messagesIn(path, below(2) === 0)
    } catch (error) {
      const what = `mutant ${seed}: ${error instanceof Error ? error.stack : error}`
      assert.equal(error instanceof Error && Reflect.get(error, 'code'), 'ERR_INVALID_ARG_VALUE', what)
      assert.match(String(error), /damaged at (?:byte|call) \d+|is no trace/, what)
    }
  }
}

describe('traces of programs on an H100', () => {
  /** The functions of a program, each of which has one missing wait. */
  const functionsOf = (file: string, pattern: RegExp): readonly string[] =>
    Array.from(readFileSync(join(home, file), 'utf8').matchAll(pattern), ([, name = '']) => name)
  const inPython = functionsOf('programs.py', /^def (\w+)\(\):$/gm).filter((name) => name !== 'cupyx_pinned')

  it('each missing wait between PyTorch, CuPy and their streams is found, with the line of Python', async () => {
    const messages = await messagesIn(unpacked('programs-racy.trace'))
    assert.equal(inPython.length, 20)
    for (const name of inPython) {
      const found = messages.filter((message) => new RegExp(`at ${name} \\(\\S*/programs\\.py:\\d+\\)`).test(message))
      assert.ok(found.length > 0, `nothing is found in ${name}`)
    }
  })

  it('each missing wait of rows, managed memory, Triton, cuDNN and CUB is found, and those behind kernels of Numba and cuFFT as possible', async () => {
    const trace = unpacked('libraries-racy.trace')
    const [messages, possible] = [await messagesIn(trace), await messagesIn(trace, true)]
    const names = functionsOf('libraries.py', /^def (\w+)\(\):$/gm).filter((name) => name !== 'order')
    assert.equal(names.length, 9)
    for (const name of names) {
      const isFound = (message: string): boolean =>
        new RegExp(`at ${name} \\(\\S*/libraries\\.py:\\d+\\)`).test(message)
      // Both load machine code, and their arguments are structures that say nothing of what is read and written.
      assert.equal(messages.some(isFound), name !== 'numba_kernel' && name !== 'fft', name)
      assert.ok(possible.some(isFound), name)
    }
    const byLibrary = (name: string, library: RegExp): boolean =>
      messages.some((message) => message.includes(`at ${name} (`) && library.test(message))
    assert.ok(byLibrary('convolution', /then, kernel '[\w…]+' of cuDNN /), "a convolution is cuDNN's")
    assert.ok(byLibrary('attention', /then, kernel '[\w…]+' of cuDNN /), "attention is cuDNN's")
  })

  it('each missing wait between this library and PyTorch, CuPy or CUDA C++ is found, with the line of JavaScript', async () => {
    const messages = await messagesIn(unpacked('exchanges-racy.trace'))
    const exchanges = functionsOf('exchanges.ts', /^ {2}(\w+)\(ours, theirs.*\) \{$/gm)
    assert.equal(exchanges.length, 7)
    for (const name of exchanges) {
      const found = messages.filter((message) => message.includes(`at ${name} (`))
      assert.equal(found.length, 3, `${name}: ${found.length}`)
    }
    assert.equal(messages.length, 21)
  })

  it('each missing edge between nodes is found, with the lines at which both were added', async () => {
    const messages = await messagesIn(unpacked('nodes-racy.trace'))
    assert.equal(messages.length, 5)
    for (const name of ['fork_join', 'diamond', 'child_graph', 'changed_kernel', 'two_streams']) {
      const places = new RegExp(`its node was made[\\s\\S]* at ${name} \\(`)
      assert.ok(
        messages.some((message) => places.test(message)),
        name,
      )
    }
  })

  for (const name of ['host', 'patterns']) {
    it(`each function of ${name}.py is found, with the lines of both sides`, async () => {
      const messages = await messagesIn(unpacked(`${name}-racy.trace`))
      const functions = functionsOf(`${name}.py`, /^def (\w+)\(\):$/gm).filter((one) => one !== 'model')
      assert.equal(functions.length, name === 'host' ? 21 : 11)
      for (const one of functions) {
        const found = messages.filter((message) =>
          new RegExp(
            `first, [\\s\\S]* at ${one} \\(\\S*/${name}\\.py:\\d+\\)[\\s\\S]*then, [\\s\\S]*^ {6}at `,
            'm',
          ).test(message),
        )
        assert.ok(found.length > 0, `nothing is found in ${one}`)
      }
      const sides = messages.filter((message) => message.startsWith('The host uses page-locked memory'))
      assert.ok(sides.length >= (name === 'host' ? 21 : 8))
      for (const message of sides) assert.match(message, /^ {2}(?:Add `.*ynchronize\(.*\)` before|Give the copy)/m)
    })
  }

  for (const name of ['programs', 'libraries', 'exchanges', 'plain', 'host', 'patterns', 'nodes']) {
    it(`with their waits ${name} are silent, also of what is possible`, async () => {
      const trace = unpacked(`${name}-right.trace`)
      assert.deepEqual(await messagesIn(trace), [])
      assert.deepEqual(await messagesIn(trace, true), [])
    })
  }

  it('plain CUDA C++: kernels by their types, copies, and memory that is freed too early', async () => {
    const messages = await messagesIn(unpacked('plain-racy.trace'))
    for (const says of [
      /kernel 'scale' writes on stream 1[\s\S]*kernel 'scale' reads on stream 2/,
      /kernel 'set' writes on stream 1[\s\S]*copy reads on stream 2/,
      /copy writes on stream 1[\s\S]*kernel 'scale' reads on stream 2/,
      /kernel 'set' writes on stream 1[\s\S]*free on stream 2/,
      / {2}Add `cudaEventRecord\(event, stream1\)` after that kernel 'set', and `cudaStreamWaitEvent\(stream2, event\)` before this copy\./,
      /and `cudaStreamWaitEvent\(stream2, event\)` before the memory is freed\./,
    ]) {
      assert.ok(
        messages.some((message) => says.test(message)),
        String(says),
      )
    }
  })

  it('advice is in the words of the library that has the streams, with the variables of the program', async () => {
    const [programs, libraries] = [
      await messagesIn(unpacked('programs-racy.trace'), false, 'programs.py'),
      await messagesIn(unpacked('libraries-racy.trace'), false, 'libraries.py'),
    ]
    for (const [name, advice] of [
      ['loader', 'Add `torch.cuda.default_stream().wait_stream(side)` before this kernel'],
      ['download', 'Add `side.wait_stream(torch.cuda.default_stream())` before this copy.'],
      ['graph', 'Add `torch.cuda.default_stream().wait_stream(side)` before this launch of the graph.'],
      // The stream of a thread's function has a name there alone.
      [
        'load',
        'default_stream().wait_stream(stream13)` before this kernel',
        'where `stream13` is `own` of programs.py:126.',
      ],
      ['cupy_kernels', 'Add `two.wait_event(one.record())` before this kernel'],
      ['cupy_raw', 'Add `two.wait_event(one.record())` before this kernel'],
      ['cupy_set', 'Add `two.wait_event(one.record())` before this copy.'],
      // Which of the two streams of a line it is that `with` does not have is not known.
      [
        'cupy_memset',
        'Add `stream137.wait_event(one.record())`',
        'where `stream137` is the stream made at programs.py:216.',
      ],
      ['torch_to_cupy', 'Add `torch.cuda.ExternalStream(own.ptr).wait_stream(side)` before this kernel'],
      ['cupy_to_torch', 'Add `side.wait_stream(torch.cuda.ExternalStream(own.ptr))` before this kernel'],
      ['rows', 'Add `stream129.wait_event(two.record())`', 'where `stream129` is the stream made at libraries.py:13.'],
      ['managed', 'Add `two.wait_event(one.record())` before this kernel'],
    ] as const) {
      const message = [...programs, ...libraries].find((each) => each.includes(`at ${name} (`)) ?? ''
      const [, part, note = ''] = [name, ...[advice].flat()]
      assert.ok(message.includes(part ?? '') && message.includes(note), `${name}: ${message}`)
    }
    for (const message of [...programs, ...libraries]) assert.doesNotMatch(message, /\.wait\(|Stream\.null/)
  })

  it('a folder of the program that is called as a library is none', async () => {
    const messages = await messagesIn(unpacked('programs-racy.trace'), false, 'programs.py', '/app/torch')
    const message = messages.find((each) => each.includes('at cupy_kernels (/app/torch/programs.py')) ?? ''
    assert.match(message, /Add `stream131\.wait_event\(stream130\.record\(\)\)` before this kernel/)
  })

  it('without the source a stream of Python is called by its number, with the place where it was made or used', async () => {
    const messages = await messagesIn(unpacked('programs-racy.trace'))
    const find = (name: string): string => messages.find((message) => message.includes(`at ${name} (`)) ?? name
    assert.match(
      find('loader'),
      /wait_stream\(stream1\)` before .*, where `stream1` is the stream made at programs\.py:12\.$/,
    )
    // PyTorch made it with the others of its pool, for the line that asked for the first.
    assert.match(find('load'), /where `stream13` is the stream of the copy at programs\.py:128\.$/)
    assert.match(find('load'), /stream 13 was made at __new__ \(\S*\/torch\/cuda\/streams\.py:43\)/)
  })

  it('of what a kernel touches only the first byte is said to be known; of a copy all bytes are', async () => {
    const messages = await messagesIn(unpacked('programs-racy.trace'))
    for (const message of messages) {
      const kernel = /(?:first|then), kernel/.test(message)
      const says =
        kernel || message.includes('launch of the graph') ? /from 0x\w+ on: of what a kernel/ : /\d{2,} bytes from/
      assert.match(message, says)
      // A tensor of a later line may be in what PyTorch has allocated for another one.
      assert.match(message, /buffer of \d+ bytes, allocated at .* and perhaps divided since, as PyTorch and CuPy do$/m)
    }
    for (const message of await messagesIn(unpacked('plain-racy.trace'))) assert.doesNotMatch(message, /divided since/)
  })

  it('a damaged trace is read, or said to be damaged, and so is what its recording holds', () =>
    readDamaged(gunzipSync(readFileSync(join(home, 'traces', 'plain-racy.trace.gz')))))

  it('a file that is no trace is said to be none', () => {
    const path = join(folder, 'no.trace')
    writeFileSync(path, 'something else')
    assert.throws(() => recordTrace(path, join(folder, 'no.rec'), { possible: false }), {
      code: 'ERR_INVALID_ARG_VALUE',
      message: /no\.trace is no trace/,
    })
  })
})

it('each call that is written is read, but for those that order and touch nothing, or bring PTX alone', () => {
  const namesIn = (path: string, pattern: RegExp): ReadonlySet<string> =>
    new Set(Array.from(readFileSync(join(root, path), 'utf8').matchAll(pattern), ([, name = '']) => name))
  const written = namesIn('native/injection/trace.c', /\{"(cu\w+?)(?:_v\d+)?", "/g)
  const read = namesIn('src/tools/recording/process-trace.ts', /^ {2}(cu\w+):/gm)
  const onlyWritten = [
    'cuLaunchHostFunc',
    'cuModuleLoadData',
    'cuModuleLoadDataEx',
    'cuModuleLoadFatBinary',
    'cuLibraryLoadData',
  ]
  assert.deepEqual(
    [...written].filter((name) => !read.has(name)),
    onlyWritten,
  )
  assert.deepEqual(
    [...read].filter((name) => !written.has(name)),
    [],
  )
})

describe('the structures of nodes are read as cuda.h has them', () => {
  const header = findHeader('cuda.h')
  const skip = typeof header === 'string' ? false : `no cuda.h: tried ${header.tried.join(', ')}`
  /** A field of graphs.c, and the same of cuda.h. */
  const fields = [
    ['KernelNode', 'function', 'CUDA_KERNEL_NODE_PARAMS_v2', 'func'],
    ['KernelNode', 'arguments', 'CUDA_KERNEL_NODE_PARAMS_v1', 'kernelParams'],
    ['KernelNode', 'arguments', 'CUDA_KERNEL_NODE_PARAMS_v2', 'kernelParams'],
    ['KernelNode', 'extra', 'CUDA_KERNEL_NODE_PARAMS_v2', 'extra'],
    ['KernelNode', 'kernel', 'CUDA_KERNEL_NODE_PARAMS_v2', 'kern'],
    ['FillNode', 'to', 'CUDA_MEMSET_NODE_PARAMS_v1', 'dst'],
    ['FillNode', 'pitch', 'CUDA_MEMSET_NODE_PARAMS_v1', 'pitch'],
    ['FillNode', 'width', 'CUDA_MEMSET_NODE_PARAMS_v1', 'elementSize'],
    ['FillNode', 'columns', 'CUDA_MEMSET_NODE_PARAMS_v1', 'width'],
    ['FillNode', 'rows', 'CUDA_MEMSET_NODE_PARAMS_v1', 'height'],
    ['AllocationNode', 'bytes', 'CUDA_MEM_ALLOC_NODE_PARAMS_v1', 'bytesize'],
    ['AllocationNode', 'pointer', 'CUDA_MEM_ALLOC_NODE_PARAMS_v1', 'dptr'],
    ['ConditionalNode', 'count', 'CUDA_CONDITIONAL_NODE_PARAMS', 'size'],
    ['ConditionalNode', 'bodies', 'CUDA_CONDITIONAL_NODE_PARAMS', 'phGraph_out'],
    ['AnyNode', 'parameters', 'CUgraphNodeParams', 'kernel'],
  ] as const
  /** Numbers of graphs.c, and what they are in cuda.h. */
  const numbers = [
    ['8 * WORDS_OF_COPY', 'sizeof(CUDA_MEMCPY3D)'],
    ['8 * SOURCE_TYPE', 'offsetof(CUDA_MEMCPY3D, srcMemoryType)'],
    ['8 * TARGET_TYPE', 'offsetof(CUDA_MEMCPY3D, dstMemoryType)'],
    ['BEFORE_COPY', 'offsetof(CUDA_MEMCPY_NODE_PARAMS, copyParams)'],
    ['IS_KERNEL', 'CU_GRAPH_NODE_TYPE_KERNEL'],
    ['IS_COPY', 'CU_GRAPH_NODE_TYPE_MEMCPY'],
    ['IS_FILL', 'CU_GRAPH_NODE_TYPE_MEMSET'],
    ['IS_GRAPH', 'CU_GRAPH_NODE_TYPE_GRAPH'],
    ['IS_WAIT', 'CU_GRAPH_NODE_TYPE_WAIT_EVENT'],
    ['IS_RECORD', 'CU_GRAPH_NODE_TYPE_EVENT_RECORD'],
    ['IS_ALLOCATION', 'CU_GRAPH_NODE_TYPE_MEM_ALLOC'],
    ['IS_FREE', 'CU_GRAPH_NODE_TYPE_MEM_FREE'],
    ['IS_CONDITIONAL', 'CU_GRAPH_NODE_TYPE_CONDITIONAL'],
  ] as const
  it('in each field and number', { skip }, () => {
    const asserted = [
      ...fields.map(([ours, field, theirs, its]) => [`offsetof(${ours}, ${field})`, `offsetof(${theirs}, ${its})`]),
      ...numbers,
    ].map(([ours, theirs]) => `_Static_assert((int)(${ours}) == (int)(${theirs}), "${theirs}");`)
    const includes = ['"cuda.h"', '"graphs.c"'].map((name) => `#include ${name}`)
    const folders = [dirname(`${header}`), join(root, 'native', 'injection')].map((folder) => `-I${folder}`)
    const { status, stderr } = spawnSync('cc', ['-fsyntax-only', ...folders, '-x', 'c', '-'], {
      encoding: 'utf8',
      input: [...includes, ...asserted].join('\n'),
    })
    assert.equal(status, 0, stderr)
  })
})

describe('the library that CUDA loads', () => {
  const program = fakeProgram(folder)

  for (const [how, ...more] of [['racy'], ['right'], ['racy', 'extra']] as const) {
    it(`writes what CUPTI tells it of two threads: ${[how, ...more].join(' ')}`, async () => {
      const traces = join(folder, [how, ...more].join('-'))
      mkdirSync(traces)
      const { status, stderr } = spawnSync(program, [injectionFile(), how, ...more], {
        encoding: 'utf8',
        env: { ...process.env, CUDA_STREAMS_TRACE: traces, CUDA_STREAMS_CUPTI: join(folder, 'libfake-cupti.so') },
      })
      assert.equal(status, 0, stderr)
      const [name = ''] = readdirSync(traces)
      const messages = await messagesIn(join(traces, name))
      if (how === 'right') assert.deepEqual(messages, [])
      else {
        assert.equal(messages.length, 1)
        assert.match(messages[0] ?? '', /kernel 'set' writes on stream 1[\s\S]*copy reads on stream 2/)
      }
    })
  }

  /** What the host does while a copy is pending, or not, in a process of its own. */
  async function usesOf(
    name: string,
    how: 'racy' | 'right',
    level: 'exact' | 'sampled',
    { possible = false, isPreloaded = true } = {},
  ): Promise<readonly string[]> {
    const traces = mkdtempSync(join(folder, `${name}-`))
    const { status, signal, stderr } = spawnSync(program, [injectionFile(), how, 'host', name], {
      encoding: 'utf8',
      env: {
        ...process.env,
        CUDA_STREAMS_TRACE: traces,
        CUDA_STREAMS_CUPTI: join(folder, 'libfake-cupti.so'),
        CUDA_STREAMS_TRACE_HOST: level,
        ...(isPreloaded ? { LD_PRELOAD: injectionFile() } : {}),
      },
    })
    assert.equal(status ?? signal, 0, stderr)
    const [trace = ''] = readdirSync(traces)
    return messagesIn(join(traces, trace), possible)
  }

  const scenarios = [
    ['source', /copy reads[\s\S]*then, the host writes/],
    ['destination', /copy writes[\s\S]*then, the host reads/],
    ['overwritten', /copy writes[\s\S]*then, the host writes/],
    ['thread', /then, the host writes/],
    ['fromFile', /then, the host, by a call of the system such as read\(2\), writes/],
    ['toFile', /then, the host, by a call of the system such as read\(2\), reads/],
    ['unseen', /then, the host writes/],
    ['elapsed', /then, the host writes/],
    ['neighbour', /then, the host writes/],
    ['rows', /then, the host writes/],
    ['inBatch', /copy of a batch reads[\s\S]*then, the host writes/],
    ['inAnyOrder', /copy that may read before what its stream waits for[\s\S]*then, the host writes/],
    ['reused', /then, the host writes/],
    ['child', /then, the host writes/],
    ['large', /then, the host writes/],
    ['rowsFromFile', /then, the host, by a call of the system such as read\(2\), writes/],
  ] as const
  for (const [name, says] of scenarios) {
    for (const level of ['exact', 'sampled'] as const) {
      it(`finds what the host does too early, and nothing with a wait: ${name}, ${level}`, async () => {
        const [message = 'nothing is found', ...others] = await usesOf(name, 'racy', level)
        assert.match(message, /^The host uses page-locked memory that queued work still uses/)
        assert.match(message, says)
        assert.deepEqual(others, [])
        assert.deepEqual(await usesOf(name, 'right', level), [])
        assert.deepEqual(await usesOf(name, 'right', level, { possible: true }), [])
      })
    }
  }

  it('finds the uses of several copies, and nothing once one wait was for all of them', async () => {
    assert.equal((await usesOf('several', 'racy', 'exact')).length, 1, 'all are of one line')
    for (const level of ['exact', 'sampled'] as const)
      assert.deepEqual(await usesOf('several', 'right', level, { possible: true }), [])
  })

  it('says nothing of a source that was read during the call', async () => {
    assert.deepEqual(await usesOf('duringCall', 'racy', 'exact', { possible: true }), [])
  })

  it('takes a use for possible where a host function may have told that the copy is over, unless it is not', async () => {
    assert.deepEqual(await usesOf('told', 'right', 'exact'), [])
    assert.equal((await usesOf('told', 'right', 'exact', { possible: true })).length, 1)
    assert.equal((await usesOf('told', 'racy', 'exact')).length, 1)
  })

  it('compares samples of what is copied where it is not preloaded, and takes no permission', async () => {
    const [message = 'nothing is found'] = await usesOf('source', 'racy', 'sampled', { isPreloaded: false })
    assert.match(message, /then, the host, before this call, writes/)
    assert.deepEqual(await usesOf('source', 'right', 'sampled', { isPreloaded: false }), [])
    assert.deepEqual(await usesOf('destination', 'racy', 'sampled', { isPreloaded: false }), [])
    assert.deepEqual(
      await usesOf('answered', 'right', 'sampled', { isPreloaded: false }),
      [],
      'a copy has written there',
    )
  })

  /** What is found where the nodes of a graph are added one by one, in a process of its own. */
  const foundInGraph = async (name: string, how: 'racy' | 'right'): Promise<readonly string[]> =>
    messagesIn(traceOfGraph(name, how))

  function traceOfGraph(name: string, how: 'racy' | 'right'): string {
    const traces = mkdtempSync(join(folder, `${name}-`))
    const { status, signal, stderr } = spawnSync(program, [injectionFile(), how, 'nodes', name], {
      encoding: 'utf8',
      env: { ...process.env, CUDA_STREAMS_TRACE: traces, CUDA_STREAMS_CUPTI: join(folder, 'libfake-cupti.so') },
    })
    assert.equal(status ?? signal, 0, stderr)
    const [trace = ''] = readdirSync(traces)
    return join(traces, trace)
  }

  it('a damaged trace of graphs is read, or said to be damaged', async () => {
    for (const name of ['inBody', 'inClone', 'capturedInto']) {
      const whole = readFileSync(traceOfGraph(name, 'racy'))
      // The file of a trace is longer than its records.
      await readDamaged(whole.subarray(0, 8 * Math.ceil((whole.findLastIndex((byte) => byte !== 0) + 1) / 8)))
    }
  })

  const graphs = [
    ['forkJoin', 'right', /kernel 'read' reads[\s\S]*kernel 'set' writes/],
    ['diamond', 'right', /fill writes[\s\S]*copy reads/],
    ['throughEmpty', /kernel 'set' writes|kernel 'read' reads/],
    ['removed', /kernel 'set' writes[\s\S]*kernel 'read' reads/],
    ['destroyed', /kernel 'set' writes[\s\S]*kernel 'read' reads/],
    ['rowsOfNodes', /fill writes[\s\S]*copy writes/],
    ['inChild', /kernel 'set' writes[\s\S]*kernel 'read' reads/],
    ['changedKernel', /kernel 'set' writes[\s\S]*kernel 'read' reads/],
    ['changedFill', /kernel 'set' writes[\s\S]*fill writes/],
    ['changedCopy', /kernel 'set' writes[\s\S]*copy reads/],
    ['changedNode', /kernel 'set' writes[\s\S]*kernel 'read' reads/],
    ['updatedExec', /kernel 'set' writes[\s\S]*kernel 'read' reads/],
    ['switchedOff', /kernel 'set' writes[\s\S]*kernel 'read' reads/],
    ['inClone', /kernel 'set' writes[\s\S]*kernel 'read' reads/],
    ['inBody', /kernel 'set' writes[\s\S]*kernel 'read' reads/],
    ['ofAnyType', /kernel 'set' writes[\s\S]*copy reads/],
    ['allocationNode', /allocation writes[\s\S]*kernel 'set' writes/],
    ['capturedInto', /kernel 'set' writes[\s\S]*kernel 'read' reads/],
    ['afterCaptured', /kernel 'set' writes[\s\S]*kernel 'read' reads/],
    ['manyNodes', /kernel 'set' writes[\s\S]*kernel 'read' reads/],
  ] as const
  for (const [name, ...more] of graphs) {
    it(`finds two nodes that no path of dependencies orders, with the lines that added them: ${name}`, async () => {
      const [message = 'nothing is found', ...others] = await foundInGraph(name, 'racy')
      const [first, says] = more.length === 2 ? more : ['first', ...more]
      assert.match(message, says)
      for (const line of [first, 'last']) {
        assert.ok(message.includes(`    its node was made\n      at ${line} (/app/nodes.c:1)`), message)
      }
      assert.match(message, /^ {2}Let the node of this [\s\S]* \(`cudaGraphAddDependencies`\)\.$/m)
      assert.deepEqual(others, [])
      assert.deepEqual(await foundInGraph(name, 'right'), [])
    })
  }

  it('orders launches on several streams, and what stands beside graphs, as those of captured graphs', async () => {
    for (const [name, says] of [
      ['twoStreams', /at first \(\/app[\s\S]*at last \(\/app[\s\S]*cudaStreamWaitEvent\(stream2, event\)/],
      ['twoLaunches', /at first \(\/app[\s\S]*kernel 'set' writes on stream 1/],
      ['eventNodes', /at first \(\/app[\s\S]*at last \(\/app/],
      [
        'capturedChild',
        /in a child graph, whose node was made\n {6}at child \(\/app[\s\S]*at last \(\/app[\s\S]*depend on that of that child graph/,
      ],
    ] as const) {
      const [message = `nothing is found in ${name}`, ...others] = await foundInGraph(name, 'racy')
      assert.match(message, says)
      assert.deepEqual(others, [])
      assert.deepEqual(await foundInGraph(name, 'right'), [], name)
    }
  })

  it('takes memory that a node allocates for memory of each launch, also where a stream frees it', async () => {
    const messages = await foundInGraph('freedOutside', 'racy')
    for (const says of [
      /kernel 'set' writes[\s\S]*at first \(\/app/,
      /allocation writes[\s\S]*at allocation \(\/app/,
    ]) {
      assert.ok(messages.some((message) => says.test(message) && /then, free writes on stream 2/.test(message)))
    }
    assert.deepEqual(await foundInGraph('freedOutside', 'right'), [])
  })

  it('concludes nothing from a graph or an instance of which a node is not known', async () => {
    for (const name of ['unknownNode', 'unknownChange']) {
      assert.equal((await foundInGraph(name, 'racy')).length, 1, name)
      assert.deepEqual(await foundInGraph(name, 'right'), [], name)
    }
  })

  it('is read for `sanitize`, which writes the findings as text, as a page and for continuous integration', () => {
    const command = join(root, 'dist', 'src', 'tools', 'cli', 'main.js')
    const [text, html, junit] = ['text', 'html', 'xml'].map((name) => join(folder, `findings.${name}`))
    const run = (how: string): number | null => {
      const files = [`--text=${text}`, `--html=${html}`, `--junit=${junit}`]
      const args = [command, 'sanitize', ...files, '--', program, injectionFile(), how]
      return spawnSync(process.execPath, args, {
        env: { ...process.env, CUDA_STREAMS_CUPTI: join(folder, 'libfake-cupti.so') },
      }).status
    }
    const [written, page, cases] = [text, html, junit].map((file) => () => readFileSync(file ?? '', 'utf8'))
    assert.equal(run('racy'), 1)
    assert.match(written?.() ?? '', /kernel 'set' writes on stream 1[\s\S]*process \d+: 1 finding\(s\) in \d+ calls/)
    assert.match(page?.() ?? '', /<pre class="error">Race: [\s\S]*kernel 'set' writes[\s\S]*<\/pre>/)
    assert.match(
      cases?.() ?? '',
      /<testsuite name="process \d+" tests="1" failures="1"[\s\S]*<failure type="race" message="Race: [^"]*">[\s\S]*writes on stream 1/,
    )
    assert.equal(run('right'), 0)
    assert.match(written?.() ?? '', /^process \d+: No findings in/)
    assert.match(cases?.() ?? '', /tests="1" failures="0"[\s\S]*<testcase [^>]*name="No findings in \d+ calls"\/>/)
    assert.doesNotMatch(page?.() ?? '', /<pre/)
  })
})

describe('what a kernel of another library touches', () => {
  const accesses = (readable: string, parameters: readonly number[], name = 'k'): readonly string[] =>
    new ForeignKernel(name, readable, undefined).accesses(
      parameters.map((parameter) => ({ parameter, offset: 0, pointer: 1000 * parameter })),
    )

  it('by the types in its C++ name: who writes const for what is read writes to the rest', () => {
    assert.deepEqual(accesses('void scale<float>(float const*, float*, int)', [0, 1]), ['in', 'out'])
    assert.deepEqual(accesses('void ns::f<2, (A)1>(std::array<int, 2>, float*, float const*)', [1, 2]), ['out', 'in'])
    assert.deepEqual(accesses('swap(float*, float*)', [0, 1]), ['either', 'either'])
  })

  it('one pointer is written, since a kernel without an effect is none', () => {
    assert.deepEqual(accesses('', [0]), ['out'])
    assert.deepEqual(accesses('', [0, 1]), ['either', 'either'])
  })

  it('by its PTX', () => {
    const uses = usesInPtx(`.version 7.0
.target sm_70
.address_size 64
.visible .entry move(.param .u64 to, .param .u64 from) {
  .reg .b64 %rd<5>;
  .reg .f32 %f<2>;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [from];
  cvta.to.global.u64 %rd3, %rd1;
  cvta.to.global.u64 %rd4, %rd2;
  ld.global.f32 %f1, [%rd4];
  st.global.f32 [%rd3], %f1;
  ret;
}`)
    const kernel = new ForeignKernel('move', '', uses.get('move'))
    const pointers = [0, 1].map((parameter) => ({ parameter, offset: 0, pointer: parameter }))
    assert.deepEqual(kernel.accesses(pointers), ['out', 'in'])
    assert.deepEqual([...usesInPtx('.version of nothing')], [])
  })

  it("by the library: PyTorch's output comes first, CuPy's last", () => {
    const torch =
      'void at::native::vectorized_elementwise_kernel<4, F, std::array<char*, 2ul> >(int, F, std::array<char*, 2ul>)'
    const kernel = new ForeignKernel('_ZN2at', torch, undefined)
    assert.equal(kernel.title, "'at::native::vectorized_elementwise_kernel' of PyTorch")
    const words = [0, 8].map((offset) => ({ parameter: 2, offset, pointer: offset }))
    assert.deepEqual(kernel.accesses(words), ['out', 'in'])
    assert.deepEqual(accesses('', [0, 1, 2], 'cupy_add__float32_float32_float32'), ['in', 'in', 'out'])
  })
})

describe('the names of kernels', () => {
  const titleOf = (name: string, readable = ''): string => new ForeignKernel(name, readable, undefined).title

  it('are demangled without the demangler of C++, or stay as they are', () => {
    for (const [mangled, title] of [
      ['_Z3setPfi', "'set'"],
      ['_ZN2ns5scaleIfLi3EEEvPKfPfi', "'ns::scale'"],
      ['_ZN12_GLOBAL__N_15scaleIfLb1EEEvPT_', "'anonymous::scale'"],
      [
        '_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_',
        "'at::native::vectorized_elementwise_kernel' of PyTorch",
      ],
      [
        '_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfZNS0_11sum_functorIfffEclERNS_14TensorIteratorEEUlffE_EEjfLi4EEEEEvT1_',
        "'at::native::reduce_kernel' of PyTorch",
      ],
      ['set', "'set'"],
      ['_Z', "'_Z'"],
      ['_ZN2ns', "'_ZN2ns'"],
      ['_ZN2ns1fILN1a1bE1EEEvv', "'_ZN2ns1fILN1a1bE1EEEvv'"],
    ] as const) {
      assert.equal(titleOf(mangled), title)
    }
  })

  it('are shortened in their middle, where the kernels of a library do not differ', () => {
    const [begin, end] = ['sm80_xmma_gemm_f32f32', 'warpsize1x4x1_split_k_kernel__5x_cublas']
    const title = titleOf(`${begin}${'_x'.repeat(100)}${end}`)
    assert.match(title, /^'sm80_xmma_gemm_f32f32\w*…\w*_split_k_kernel__5x_cublas' of cuBLAS$/)
    assert.ok(title.length < 90, title)
    const whole = 'at_cuda_detail::cub::detail::radix_sort::DeviceRadixSortHistogramKernel'
    assert.equal(titleOf(whole), `'${whole}'`)
  })
})

describe('npx cuda-streams sanitize', () => {
  const command = join(root, 'dist', 'src', 'tools', 'cli', 'main.js')
  const run = (...args: readonly string[]) => spawnSync(process.execPath, [command, ...args], { encoding: 'utf8' })

  it('ends as the program does, and says that it has not used CUDA', () => {
    const { status, stdout, stderr } = run('sanitize', '--', process.execPath, '-e', 'console.log(1); process.exit(7)')
    assert.equal(status, 7)
    assert.equal(stdout, '1\n')
    assert.match(stderr, /nothing was traced: the program did not use CUDA/)
  })

  it('checks a folder of traces again', () => {
    const traces = mkdtempSync(join(folder, 'traces-'))
    unpacked('plain-racy.trace')
    writeFileSync(join(traces, '1.trace'), readFileSync(join(folder, 'plain-racy.trace')))
    const { status, stderr } = run('check', traces)
    assert.equal(status, 1)
    assert.match(stderr, /kernel 'set' writes/)
  })

  it('needs a program, behind --', () => {
    for (const args of [[], ['train.py'], ['--']]) {
      const { status, stderr } = run('sanitize', ...args)
      assert.equal(status, 2)
      assert.match(stderr, /sanitize -- python train\.py/)
    }
    const { status, stderr } = run('sanitize', '--', '/no/such/program')
    assert.equal(status, 1)
    assert.match(stderr, /ENOENT/)
  })
})

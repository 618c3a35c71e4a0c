/** What the library offers and the programs do not play is named in docs/differential.md, with the reason. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { isQuiet, publicMembers } from '../catalogue/members.js'
import { root } from '../helpers/root.js'
import { programs } from './generate.js'
import { FIELDS, type Step, type What } from './steps.js'

/** By the step that plays them: calls, and options as `Options.name`. What a step does before and after counts, too. */
const PLAYED: Readonly<Record<What | 'every program', string>> = {
  'every program': `new Stream, StreamOptions.device, StreamOptions.priority, StreamOptions.nonBlocking, StreamOptions.context,
    new ExternalStream, ExternalStreamOptions.device, Device#createEvent, EventOptions.timing, Device#alloc, AllocOptions.stream,
    Device#allocPinned, PinnedBuffer.from, PinnedBuffer#bytes, DeviceBuffer#slice, PinnedBuffer#slice, Device#split,
    SplitOptions.multiprocessors`,
  host: 'Stream#launchHostFunc',
  callback: 'Stream#addCallback',
  record: 'Stream#record',
  wait: 'Stream#wait',
  waitStream: 'Stream#wait',
  fill: 'Stream#fill, FillValueOptions.width',
  copy: 'Stream#copy',
  mix: 'Stream#launch, LaunchConfigOptions.block',
  latch: '',
  open: '',
  queryStream: 'Stream#query',
  queryEvent: 'Event#query',
  elapsed: 'Event#elapsedSince',
  finishedStream: 'Stream#finished',
  finishedEvent: 'Event#finished',
  synchronizeStream: 'Stream#synchronize',
  synchronizeEvent: 'Event#synchronize',
  synchronizeDevice: 'Device#synchronize',
  awaitStream: 'Stream#finished',
  awaitEvent: 'Event#finished',
  turn: 'Device#finished',
  peek: 'PinnedBuffer#bytes',
  poke: 'PinnedBuffer#bytes',
  begin: 'Stream#beginCapture',
  end: 'Stream#endCapture',
  instantiate: 'Graph#instantiate, Graph#nodes, Graph#nodesOf',
  launch: 'Stream#launch',
  update: 'GraphExec#update',
  nodeCount: 'Graph#nodeCount',
  isCapturing: 'Stream#isCapturing',
  ask: 'Stream#priority, Stream#nonBlocking, Stream#id, Stream#share, Stream.from',
  closeStream: 'Stream#close',
  closeEvent: 'Event#close',
  closeBuffer: 'DeviceBuffer#close, PinnedBuffer#close',
  closeGraph: 'Graph#close',
  closeExec: 'GraphExec#close',
  wrong: 'new Event, Stream#capture',
  inside: 'Stream#launchHostFunc',
  recordExternal: 'RecordOptions.external',
  waitExternal: 'WaitEventOptions.external',
  upload: 'Stream#upload',
  download: 'Stream#download',
  renewStream: 'Stream#close',
  renewEvent: 'Event#close',
  act: 'Stream#launchHostFunc, Stream#addCallback',
  fault: '',
  updateNode: 'GraphExec#update',
  setEnabled: 'GraphExec#setEnabled',
  copyRows: 'CopyOptions.shape, CopyOptions.destinationStrides, CopyOptions.sourceStrides',
  copyAll: 'Stream#copy',
  waitDevice: 'Stream#wait',
  waitPromise: 'Stream#wait',
  settle: '',
  waitValue: 'Stream#waitValue, WaitValueOptions.compare, PinnedBuffer#view',
  signal: 'Stream#writeValue, WriteValueOptions.byteOffset',
  makePool: 'new MemoryPool, MemoryPoolOptions.device, MemoryPoolOptions.maxBytes, MemoryPoolOptions.releaseThreshold',
  closePool: 'MemoryPool#close',
  usePool: `MemoryPool#used, MemoryPool#peakUsed, MemoryPool#reserved, MemoryPool#peakReserved, MemoryPool#trim,
    MemoryPool#releaseThreshold, MemoryPool#resetPeaks`,
  overfill: 'Device#alloc',
  renewBuffer: 'AllocOptions.pool',
  launchGraph: 'Stream#launch',
  grow: 'Stream#capture, CaptureOptions.mode, CaptureOptions.into, CaptureOptions.after',
  updateKernel: 'GraphExec#update',
  updateCopy: 'GraphExec#update',
  updateFill: 'GraphExec#update',
  uploadExec: 'GraphExec#upload',
  external: 'Stream#external',
  nothing: 'Stream#fill',
  recordNew: 'Stream#record',
  waitBy: 'WaitStreamOptions.event',
  drain: 'Device#drainHostFunctions',
  aborted: 'WaitOptions.signal',
  finishedDevice: 'Device#finished',
  capture: 'Stream#capture',
  fillRows: 'FillOptions.shape, FillOptions.strides',
  lend: `toDLPack, ToDLPackOptions.stream, ElementOptions.dtype, ElementOptions.shape, fromDLPack, FromDLPackOptions.stream`,
}
/** Steps of recorded programs only. */
const OLD: readonly What[] = ['updateNode']

const NOUNS =
  /^(new )?(Device|Stream|ExternalStream|Event|DeviceBuffer|PinnedBuffer|Graph|GraphExec|\w+Node|MemoryPool|GreenContext|DLPackTensor)\b/
const FUNCTIONS = /^(to|from)[A-Z]\w*$/
/** Where the options of these are declared. */
const SOURCES = ['.', 'driver', 'graphs', 'kernels', 'libraries/dlpack', 'memory', 'streams']
/** Those of kernels and of the simulator are played by no step. */
const OPTIONS = /^export interface (?!(?:Compile|SimDriver)Options\b)(\w+Options)\b[^{]*\{(.*?)^\}/gms

const page = readFileSync(join(root, 'docs', 'differential.md'), 'utf8')
const named = new Set([...page.matchAll(/`([^`\n]+)`/g)].flatMap(([, name]) => name ?? []))
const played = new Set(Object.values(PLAYED).flatMap((names) => names.split(/,\s*/)))

const sources = SOURCES.flatMap((folder) => {
  const path = join(root, 'src', folder)
  return readdirSync(path)
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(join(path, name), 'utf8'))
})

function members(): readonly string[] {
  return publicMembers().filter((name) => (NOUNS.test(name) || FUNCTIONS.test(name)) && !isQuiet(name))
}

function options(): readonly string[] {
  return sources
    .flatMap((text) => [...text.matchAll(OPTIONS)])
    .flatMap(([, of, body = '']) => [...body.matchAll(/^ {2}readonly (\w+)\??:/gm)].map(([, name]) => `${of}.${name}`))
}

describe('the programs', () => {
  for (const [what, all] of Object.entries({ call: members(), option: options() })) {
    test(`play each ${what} of the library, or the page says why not`, () => {
      assert.ok(all.length > 30, `${all.length} are known`)
      const missing = all.filter((name) => !played.has(name) && !named.has(name))
      assert.deepEqual(missing, [], 'add a step, or a row to the table in docs/differential.md')
      const both = all.filter((name) => played.has(name) && named.has(name))
      assert.deepEqual(both, [], 'the page says that no step plays it')
    })
  }

  test('are said to play only what there is', () => {
    const all = new Set([...members(), ...options()])
    assert.deepEqual(
      [...played].filter((name) => name !== '' && !all.has(name)),
      [],
    )
    const stale = [...named].filter((name) => /^(new \w+|\w+#\S+|[A-Z]\w+\.\w+)$/.test(name) && !all.has(name))
    assert.deepEqual(stale, [], 'docs/differential.md names what is gone')
  })

  test('contain every step', () => {
    const found = new Set<string>()
    const look = (step: Step): void => {
      found.add(step.what)
      if ('body' in step) step.body.forEach(look)
    }
    for (const { steps } of fc.sample(programs(2, 4), { seed: 1, numRuns: 300 })) steps.forEach(look)
    const expected = Object.keys(FIELDS).filter((what) => !OLD.includes(what as What))
    assert.deepEqual(
      expected.filter((what) => !found.has(what)),
      [],
    )
  })
})

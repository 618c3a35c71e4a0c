/** The addon that makes the hot calls: it calls C functions right, in every thread, and the environment can switch it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { koffi, NativeMemory } from '../../../../src/driver/cuda/libcuda/native.js'
import { openQuickCalls } from '../../../../src/driver/cuda/libcuda/quick-calls.js'
import { argumentTypesOf, CALLED_OFTEN, SIGNATURES } from '../../../../src/driver/cuda/libcuda/signatures.js'
import { refused } from '../../../conformance/expect.js'

const SOURCE = `
#include <stdint.h>
#include <stdatomic.h>
int one(int value) { return value; }
int high(uint64_t address) { return (int)(address >> 32); }
int two(uint64_t *out, uint64_t value) { *out = value; return 0; }
int three(uint64_t *out, unsigned flags, unsigned char byte) { out[0] = flags; out[1] = byte; return -1; }
int four(uint64_t *out, uint64_t a, unsigned b, uint64_t c) { out[0] = a; out[1] = b; out[2] = c; return INT32_MIN; }
static atomic_int calls;
int count(int more) { return atomic_fetch_add(&calls, more) + more; }
`
const POINTER = 2 ** 47 - 8
const ROUNDS = 20_000

/** Makes all calls in this thread; what is wrong, in words. */
function tryAll(file: string): string[] {
  const { bind } = openQuickCalls()
  if (bind === undefined) return ['there is no addon']
  const library = koffi().load(file)
  const bound = (name: string, parameters: number) => bind(Number(library.symbol(name)), parameters)
  const [one, high, two, three, four] = [
    ...[bound('one', 1), bound('high', 1), bound('two', 2), bound('three', 3), bound('four', 4)],
  ] as const
  const { address, uint64 } = new NativeMemory(32)
  const wrong: string[] = []
  const is = (what: string, found: unknown, expected: unknown): void => {
    if (found !== expected) wrong.push(`${what}: ${found}, not ${expected}`)
  }
  for (const value of [0, 1, -1, 700, 2 ** 31 - 1, -(2 ** 31)]) is(`one(${value})`, one?.(value), value)
  for (const value of [2 ** 32, POINTER, 2 ** 52]) is(`high(${value})`, high?.(value), Math.floor(value / 2 ** 32) | 0)
  for (const value of [0, POINTER, Number.MAX_SAFE_INTEGER]) {
    is('two()', two?.(address, value), 0)
    is(`two(${value})`, uint64[0], BigInt(value))
  }
  is('three()', three?.(address, 2 ** 32 - 1, 255), -1)
  is('flags', uint64[0], 2n ** 32n - 1n)
  is('byte', uint64[1], 255n)
  is('four()', four?.(address, POINTER, 2 ** 31, 1), -(2 ** 31))
  is('four, the arguments', uint64.slice(0, 3).join(), [POINTER, 2 ** 31, 1].join())
  const count = bound('count', 1)
  let last = 0
  for (let round = 0; round < ROUNDS; round += 1) {
    const next = count(1)
    if (next <= last) wrong.push(`count() gave ${next} after ${last}`)
    last = next
  }
  return wrong
}

if (!isMainThread) parentPort?.postMessage(tryAll(workerData))
else {
  // Not loaded here, so that a worker is the first thread that does.
  const addon = `../../../../src/driver/cuda/libcuda/calls-${process.platform}-${process.arch}.node`
  const isBuilt = existsSync(new URL(addon, import.meta.url))
  const folder = mkdtempSync(join(tmpdir(), 'cuda-streams-calls-'))
  const file = join(folder, 'functions.so')
  writeFileSync(join(folder, 'functions.c'), SOURCE)
  const { error } = spawnSync('cc', ['-shared', '-fPIC', '-o', file, join(folder, 'functions.c')], { stdio: 'inherit' })
  const skip = !isBuilt ? `no ${addon} here` : error === undefined ? false : `no C compiler here: ${error.message}`
  if (skip !== false) console.log(`skipped: ${skip}`)
  after(() => rmSync(folder, { recursive: true }))

  const inWorker = async (): Promise<string[]> => {
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: file })
    const ended = once(worker, 'exit')
    const [wrong] = await once(worker, 'message')
    await ended
    return wrong
  }

  describe('arguments and results pass as C has them', { skip }, () => {
    test('in a worker, the first thread that loads the addon', async () => assert.deepEqual(await inWorker(), []))
    test('in two workers at once', async () => {
      assert.deepEqual(await Promise.all([inWorker(), inWorker()]), [[], []])
    })
    test('here, after those have ended', () => assert.deepEqual(tryAll(file), []))
    test('in a worker after those', async () => assert.deepEqual(await inWorker(), []))
  })
  describe('CUDA_STREAMS_CALLS', () => {
    /** As if the platform were another one, to which no addon belongs. */
    const opened = (value: string | undefined, arch: string = process.arch) => {
      const before = process.env['CUDA_STREAMS_CALLS']
      const own = Object.getOwnPropertyDescriptor(process, 'arch')
      if (value === undefined) Reflect.deleteProperty(process.env, 'CUDA_STREAMS_CALLS')
      else process.env['CUDA_STREAMS_CALLS'] = value
      Object.defineProperty(process, 'arch', { configurable: true, enumerable: true, value: arch })
      try {
        return openQuickCalls()
      } finally {
        if (own !== undefined) Object.defineProperty(process, 'arch', own)
        if (before === undefined) Reflect.deleteProperty(process.env, 'CUDA_STREAMS_CALLS')
        else process.env['CUDA_STREAMS_CALLS'] = before
      }
    }

    test('auto, or nothing, takes the addon where it is there', () => {
      for (const value of [undefined, '', 'auto']) {
        const { bind, why } = opened(value)
        assert.equal(bind !== undefined, existsSync(why))
        const without = opened(value, 'pdp11')
        assert.equal(without.bind, undefined)
        assert.match(without.why, /calls-\w+-pdp11\.node cannot be loaded/)
      }
    })

    test('koffi takes koffi', () => {
      assert.deepEqual(opened('koffi'), { bind: undefined, why: 'CUDA_STREAMS_CALLS=koffi' })
    })

    test('slots takes the addon, or says what is missing, and the way out', () => {
      if (opened(undefined).bind !== undefined) assert.notEqual(opened('slots').bind, undefined)
      const says = [/CUDA_STREAMS_CALLS=slots/, /calls-\w+-pdp11\.node cannot be loaded/, /Unset it/]
      refused(() => opened('slots', 'pdp11'), 'ERR_UNSUPPORTED', ...says)
    })

    test('another value is ERR_INVALID_ARG_VALUE', () => {
      refused(
        () => opened('fast'),
        'ERR_INVALID_ARG_VALUE',
        /CUDA_STREAMS_CALLS/,
        /'auto', 'slots' or 'koffi'/,
        /'fast'/,
      )
    })
  })

  test('the functions that are called often take one to four integers', () => {
    for (const name of CALLED_OFTEN) {
      const types = argumentTypesOf(SIGNATURES[name as keyof typeof SIGNATURES])
      assert.ok(types.length >= 1 && types.length <= 4, name)
      for (const type of types) assert.match(type, /^(uintptr_t|u?int(32|64)?|size_t)$/, name)
    }
  })
}

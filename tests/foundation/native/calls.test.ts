/** Calls of C functions: arguments and results of every shape, in every thread. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { bindAll, callAt, declaration, own, shapeOf } from '../../../src/foundation/native/c-functions.js'
import { layer } from '../../../src/foundation/native/layer.js'
import { NativeMemory } from '../../../src/foundation/native/native-memory.js'
import { NativeCalls, NativeThread } from '../../../src/foundation/native/native-thread.js'
import { SharedLibrary } from '../../../src/foundation/native/shared-library.js'
import { compiled, skip } from './compile.js'

const MANY = Array.from({ length: 23 }, (_, index) => `uint64_t a${index}`).join(', ')
const SOURCE = `
#include <stdint.h>
#include <stdatomic.h>
#include <string.h>
typedef struct { unsigned char b[64]; } Handle;
typedef struct { unsigned char b[128]; } Id;
int zero(void) { return 41; }
int one(int value) { return value; }
int high(uint64_t address) { return (int)(address >> 32); }
int two(uint64_t *out, uint64_t value) { *out = value; return 0; }
int three(uint64_t *out, unsigned flags, unsigned char byte) { out[0] = flags; out[1] = byte; return -1; }
int four(uint64_t *out, uint64_t a, unsigned b, uint64_t c) { out[0] = a; out[1] = b; out[2] = c; return INT32_MIN; }
int seven(uint64_t *out, int a, uint64_t b, int c, uint64_t d, int e, uint64_t f) {
  out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f; return 7;
}
int many(${MANY}) {
  uint64_t all[] = {${MANY.replaceAll('uint64_t ', '')}};
  memcpy((void *)a0, all, sizeof(all));
  return 23;
}
int opened(uint64_t *out, Handle handle, unsigned flags) { memcpy(out, &handle, 64); out[8] = flags; return 1; }
int ranked(uint64_t *out, int size, Id id, int rank, uint64_t *config) {
  memcpy(out, &id, 128); out[16] = size; out[17] = rank; *config = 5; return 2;
}
int scaled(uint64_t *out, int a, uint64_t b, float c, float d) {
  float all[] = {c, d}; memcpy(out, all, 8); out[1] = a; out[2] = b; return 3;
}
int exact(uint64_t *out, int a, uint64_t b, double c, double d) {
  double all[] = {c, d}; memcpy(out, all, 16); out[2] = a; out[3] = b; return 4;
}
int single(uint64_t *out, int a, uint64_t b, double c) { memcpy(out, &c, 8); out[1] = a; out[2] = b; return 5; }
const char *name(int which) { return which == 0 ? 0 : which == 1 ? "one" : "\\xc3\\xa4"; }
static atomic_int calls;
int count(int more) { return atomic_fetch_add(&calls, more) + more; }
int deep(uint64_t bytes, uint64_t unused, uint64_t unused2) {
  volatile char stack[bytes]; stack[0] = 3; stack[bytes - 1] = 4; return stack[0] + stack[bytes - 1];
}
uint64_t far(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + h;
}
void mark(uint64_t *where) { *where = 77; }
static uint64_t current;
int set_current(uint64_t context) { current = context; return 0; }
int note(uint64_t *list, uint64_t result, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f) {
  list[++list[0]] = current * 1000 + a + b + c + d + e + f; return (int)result;
}
`
const POINTER = 2 ** 47 - 8
const ROUNDS = 20_000
const PARAMETERS = {
  zero: 'void',
  one: 'int value',
  high: 'size_t address',
  two: 'uint64_t *out, uint64_t value',
  three: 'uint64_t *out, unsigned int flags, unsigned char byte',
  four: 'uint64_t *out, uint64_t a, unsigned int b, uint64_t c',
  seven: 'uint64_t *out, int a, uint64_t b, int c, uint64_t d, int e, uint64_t f',
  many: MANY,
  opened: 'CUevent *phEvent, CUipcEventHandle handle',
  ranked: 'ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config',
  scaled: 'uint64_t *out, int a, size_t b, float c, float d',
  exact: 'uint64_t *out, int a, size_t b, double c, double d',
  single: 'uint64_t *out, int a, size_t b, double c',
  count: 'int more',
} as const

/** Makes all calls in this thread. Returns a description of what is wrong. */
function tryAll(file: string): string[] {
  const library = SharedLibrary.open(file)
  const c = library.functions(PARAMETERS)
  const { address, bytes, uint64 } = new NativeMemory(256)
  const wrong: string[] = []
  const is = (what: string, found: unknown, expected: unknown): void => {
    if (String(found) !== String(expected)) wrong.push(`${what}: ${found}, not ${expected}`)
  }
  is('zero()', c.zero(), 41)
  for (const value of [0, 1, -1, 700, 2 ** 31 - 1, -(2 ** 31)]) is(`one(${value})`, c.one(value), value)
  for (const value of [2 ** 32, POINTER, 2 ** 52]) is(`high(${value})`, c.high(value), Math.floor(value / 2 ** 32) | 0)
  for (const value of [0, POINTER, Number.MAX_SAFE_INTEGER]) {
    is('two()', c.two(address, value), 0)
    is(`two(${value})`, uint64[0], value)
  }
  is('three()', c.three(address, 2 ** 32 - 1, 255), -1)
  is('three, the arguments', uint64.slice(0, 2), [2 ** 32 - 1, 255])
  is('four()', c.four(address, POINTER, 2 ** 31, 1), -(2 ** 31))
  is('four, the arguments', uint64.slice(0, 3), [POINTER, 2 ** 31, 1])
  is('seven()', c.seven(address, 1, POINTER, 3, 2 ** 40, 5, 6), 7)
  is('seven, the arguments', uint64.slice(0, 6), [1, POINTER, 3, 2 ** 40, 5, 6])
  const numbers = Array.from({ length: 22 }, (_, index) => 2 ** 40 + index)
  is('many()', c.many(address, ...numbers), 23)
  is('many, the arguments', uint64.slice(0, 23), [address, ...numbers])
  bytes.set(
    Array.from({ length: 128 }, (_, index) => index),
    128,
  )
  is('opened()', c.opened(address, address + 128), 1)
  is('opened, the struct', bytes.slice(0, 64), bytes.slice(128, 192))
  const room = new NativeMemory(160)
  is('ranked()', c.ranked(room.address, 4, address + 128, 3, address), 2)
  is('ranked, the struct', room.bytes.slice(0, 128), bytes.slice(128, 256))
  is('ranked, the arguments', [...room.uint64.slice(16, 18), uint64[0] ?? 0n], [4, 3, 5])
  const { bytes: raw } = room
  const floats = new Float32Array(raw.buffer)
  const doubles = new Float64Array(raw.buffer)
  is('scaled()', c.scaled(room.address, 7, POINTER, 0.1, -2.5), 3)
  is('scaled, the floats', floats.slice(0, 2), [Math.fround(0.1), -2.5])
  is('scaled, the words', room.uint64.slice(1, 3), [7, POINTER])
  is('exact()', c.exact(room.address, 7, POINTER, 0.1, -(2 ** 60)), 4)
  is('exact, the doubles', doubles.slice(0, 2), [0.1, -(2 ** 60)])
  is('exact, the words', room.uint64.slice(2, 4), [7, POINTER])
  is('single()', c.single(room.address, 7, POINTER, 1 / 3), 5)
  is('single, the double', doubles[0], 1 / 3)
  is('single, the words', room.uint64.slice(1, 3), [7, POINTER])
  const { name } = library.texts({ name: 'int which' })
  is('texts', [name(0), name(1), name(2)], ['', 'one', 'ä'])
  const eight = Array.from({ length: 8 }, (_, index) => `uint64_t a${index}`).join(', ')
  const { far } = bindAll([declaration('far', library.addressOf('far'), eight, 'address8')])
  is('far()', far(1, 1, 1, 1, 1, 1, 1, POINTER - 28), POINTER)
  callAt(library.find('mark') ?? 0, address)
  is('callAt()', uint64[0], 77)
  let last = 0
  for (let round = 0; round < ROUNDS; round += 1) {
    const next = c.count(1)
    if (next <= last) wrong.push(`count() gave ${next} after ${last}`)
    last = next
  }
  return wrong
}

if (!isMainThread) parentPort?.postMessage(tryAll(workerData))
else {
  const file = compiled('calls', SOURCE)
  const inWorker = async (): Promise<string[]> => {
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: file })
    const ended = once(worker, 'exit')
    const [wrong] = await once(worker, 'message')
    await ended
    return wrong
  }

  describe('arguments and results pass as C has them', { skip }, () => {
    test('in a worker, the first thread that loads the layer', async () => assert.deepEqual(await inWorker(), []))
    test('in two workers at once', async () => {
      assert.deepEqual(await Promise.all([inWorker(), inWorker()]), [[], []])
    })
    test('here, after those have ended', () => assert.deepEqual(tryAll(file), []))
    test('in a worker after those', async () => assert.deepEqual(await inWorker(), []))
  })

  test('a call on a thread of its own has a large stack, and says when it is done', { skip }, async () => {
    const address = SharedLibrary.open(file).find('deep') ?? 0
    const threads = [1000, 12 * 2 ** 20].map((bytes) => new NativeThread(address, bytes))
    while (threads.some(({ result }) => result === undefined)) own().nap(100)
    assert.deepEqual(
      threads.map(({ result }) => result),
      [7, 7],
    )
  })

  test('callForAddress() makes a call of eight words on another thread, and leaves the address', { skip }, async () => {
    const frame = new NativeMemory(80)
    const words = [SharedLibrary.open(file).addressOf('far'), 2 ** 46, 1, 1, 1, 1, 1, 1, 5]
    for (const [index, word] of words.entries()) frame.setPointer(8 * index, word)
    const thread = new NativeThread(layer().functions['callForAddress'] ?? 0, frame.address)
    while (thread.result === undefined) own().nap(100)
    assert.deepEqual([thread.result, frame.pointerAt(72)], [0, 2 ** 46 + 32])
    frame.free()
  })

  test('calls in turn: each in its context, until one is refused, and the last all the same', { skip }, async () => {
    const library = SharedLibrary.open(file)
    const [setContext, address] = [library.addressOf('set_current'), library.addressOf('note')]
    const made = (results: readonly number[], set = setContext): readonly unknown[] => {
      const list = new NativeMemory(80)
      const call = (result: number, nth: number) => ({
        address,
        context: nth + 1,
        args: [list.address, result, nth, 10, 20, 30, 40, ...(nth === 0 ? [] : [100])],
      })
      const calls = new NativeCalls(set, results.map(call))
      while (calls.result === undefined) own().nap(100)
      const notes = Array.from({ length: list.pointerAt(0) }, (_, nth) => list.pointerAt(8 + 8 * nth))
      list.free()
      return [calls.result, calls.result, notes]
    }
    assert.deepEqual(made([0]), [0, 0, [1100]])
    assert.deepEqual(made([0, 0, 0]), [0, 0, [1100, 2201, 3202]])
    assert.deepEqual(made([0, 7, 0, 9]), [7, 7, [1100, 2201, 4203]], 'the last ends what the first began')
    assert.deepEqual(made([0, 0, 9], 0), [9, 9, [4100, 4201, 4202]], 'without contexts')
  })

  test('functions of one library are called by their own names, which stacks show', { skip }, () => {
    const found = SharedLibrary.open(file).find('one') ?? 0
    assert.equal(bindAll([declaration('aName', found, 'int value')]).aName.name, 'aName')
  })

  test('what no call passes is refused', () => {
    assert.throws(() => shapeOf('float x'), /how C passes 'float x'/)
    assert.throws(() => shapeOf('double x, int y'), /how C passes 'double x'/)
    assert.throws(() => shapeOf('dim3 grid'), /how C passes 'dim3 grid'/)
    assert.throws(() => shapeOf('ncclUniqueId id'), /No call passes/)
    assert.throws(() => shapeOf(Array(25).fill('int x').join(', ')), /No call passes/)
    assert.throws(() => shapeOf('int a, int b, int c, float x, double y'), /how C passes 'float x'/)
    assert.throws(() => shapeOf('int a, int b, double x'), /how C passes 'double x'/)
    assert.throws(() => shapeOf('int a, int b, int c, float x, float y, float z'), /how C passes 'float x'/)
    assert.equal(shapeOf('float *x'), 'call1')
  })

  test('a frame that does not lie in its buffer, and a shape that does not exist, are refused', { skip }, () => {
    const { bind } = layer()
    assert.throws(() => bind(new ArrayBuffer(4), 0, 0), /No frame/)
    assert.throws(() => bind(new ArrayBuffer(64), 64, 0), /No frame/)
    assert.throws(() => bind(new ArrayBuffer(64), 2 ** 53 - 8, 0), /No frame/)
    assert.throws(() => bind(new ArrayBuffer(64), 0, 99), /shape/)
    assert.throws(() => Reflect.apply(bind, undefined, [{}, 0, 0]), /No frame/)
    assert.throws(() => Reflect.apply(bind, undefined, []), /Too few arguments/)
  })

  test('a frame lies in its buffer with all slots of its shape', { skip }, () => {
    const { bind } = layer()
    /** The slots of each shape, in their order. */
    const slots = [1, 2, 3, 4, 8, 24, 4, 8, 3, 5, 5, 5]
    for (const [shape, count] of slots.entries()) {
      const bytes = 8 + 8 * count
      assert.throws(() => bind(new ArrayBuffer(bytes - 1), 0, shape), /No frame/, `shape ${shape}`)
      assert.throws(() => bind(new ArrayBuffer(bytes + 15), 16, shape), /No frame/, `shape ${shape}`)
      bind(new ArrayBuffer(bytes + 16), 16, shape)
    }
    assert.throws(() => bind(new ArrayBuffer(1024), 0, slots.length), /shape/)
  })
}

/** The C functions by which CUPTI gets memory lose nothing. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { bindAll, declaration } from '../../../../src/foundation/native/c-functions.js'
import { NativeMemory } from '../../../../src/foundation/native/native-memory.js'
import { SharedLibrary } from '../../../../src/foundation/native/shared-library.js'
import { type RecordBuffer, RecordBuffers } from '../../../../src/tools/timeline/cupti/record-buffers.js'
import { scratchFolder } from '../../../helpers/scratch.js'

const SIZE = 4096
const isSupported = process.platform === 'linux'
const folder = scratchFolder('cupti')
const missing = (tool: string): boolean => spawnSync(tool, ['--version']).error !== undefined

interface Asked {
  readonly address: number
  readonly size: number
  readonly most: number
}

describe('buffers of records', { skip: !isSupported }, () => {
  const open = () => {
    const buffers = new RecordBuffers(SIZE)
    const out = new NativeMemory(24)
    const { requested, completed } = bindAll([
      declaration('requested', buffers.requested, 'uint8_t **buffer, size_t *size, size_t *most'),
      declaration(
        'completed',
        buffers.completed,
        'CUcontext c, uint32_t s, uint8_t *buffer, size_t size, size_t valid',
      ),
    ])
    // The process has one list: what another test has left is gone.
    buffers.drain(() => {})
    buffers.allow(0)
    return {
      buffers,
      ask(): Asked {
        out.uint64.fill(99n)
        requested(out.address, out.address + 8, out.address + 16)
        const [address, size, most] = Array.from(out.uint64, Number)
        return { address: address ?? 0, size: size ?? 0, most: most ?? 0 }
      },
      handBack: (address: number, valid: number) => completed(0, 0, address, SIZE, valid),
      drained(): RecordBuffer[] {
        const all: RecordBuffer[] = []
        buffers.drain((buffer) => all.push(buffer))
        return all
      },
    }
  }

  test('as many are given as are allowed, each of the size; then none', () => {
    const { buffers, ask } = open()
    assert.deepEqual(ask(), { address: 0, size: 0, most: 0 })
    buffers.allow(2)
    const given = [ask(), ask(), ask()]
    assert.deepEqual(
      given.map(({ size, most }) => [size, most]),
      [
        [SIZE, 0],
        [SIZE, 0],
        [0, 0],
      ],
    )
    assert.notEqual(given[0]?.address, given[1]?.address)
    assert.equal(given[2]?.address, 0)
    for (const { address } of given.slice(0, 2)) {
      assert.equal(address % 8, 0)
      new NativeMemory(SIZE, address).bytes.fill(7)
    }
    buffers.allow(1)
    assert.deepEqual([ask().size, ask().size], [SIZE, 0])
  })

  test('what is handed back is read once, oldest first, also when nothing is in it', () => {
    const { buffers, ask, handBack, drained } = open()
    buffers.allow(4)
    const [a, b, c] = [ask(), ask(), ask()].map(({ address }) => address)
    assert.ok(a && b && c)
    assert.deepEqual(drained(), [])
    handBack(b, 10)
    handBack(a, 0)
    assert.deepEqual(drained(), [
      { address: b, length: 10 },
      { address: a, length: 0 },
    ])
    handBack(c, SIZE)
    assert.deepEqual(drained(), [{ address: c, length: SIZE }])
    assert.deepEqual(drained(), [])
  })

  const noCompiler = missing('cc') ? 'no C compiler here' : false
  if (noCompiler !== false) console.log(`skipped: ${noCompiler}`)
  test('four threads lose none, while a fifth reads', { skip: noCompiler }, async () => {
    const EACH = 50_000
    const file = join(folder, 'threads.so')
    writeFileSync(
      join(folder, 'threads.c'),
      `#include <pthread.h>
       #include <stddef.h>
       #include <stdint.h>
       typedef void (*Request)(uint8_t **, size_t *, size_t *);
       typedef void (*Complete)(void *, uint32_t, uint8_t *, size_t, size_t);
       static Request request; static Complete complete; static volatile int left; static uint64_t first;
       static void *work(void *unused) {
         (void)unused;
         for (int i = 0; i < ${EACH}; i++) {
           uint8_t *buffer; size_t size, most;
           request(&buffer, &size, &most);
           *(uint64_t *)buffer = __sync_fetch_and_add(&first, 1);
           complete(0, 0, buffer, size, 8);
         }
         __sync_fetch_and_sub(&left, 1);
         return 0;
       }
       void start(void *r, void *c) { request = (Request)r; complete = (Complete)c; left = 4; for (int i = 0; i < 4; i++) { pthread_t t; pthread_create(&t, 0, work, 0); pthread_detach(t); } }
       int under_way(void) { return left; }`,
    )
    const compiled = spawnSync('cc', ['-shared', '-fPIC', '-O2', '-pthread', '-o', file, join(folder, 'threads.c')])
    assert.equal(compiled.status, 0, String(compiled.stderr))
    const library = SharedLibrary.open(file).functions({ start: 'void *r, void *c', under_way: 'void' })
    const buffers = new RecordBuffers(SIZE)
    buffers.allow(4 * EACH)
    library.start(buffers.requested, buffers.completed)
    const seen = new Uint8Array(4 * EACH)
    const read = ({ address, length }: RecordBuffer): void => {
      assert.equal(length, 8)
      const number = new NativeMemory(8, address).pointerAt(0)
      seen[number] = (seen[number] ?? 0) + 1
    }
    while (library.under_way() > 0) {
      buffers.drain(read)
      await turn()
    }
    buffers.drain(read)
    assert.ok(seen.every((times) => times === 1))
  })
})

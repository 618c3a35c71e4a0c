/** Memory of C: views, addresses, detaching, text, what is filled at the end of a thread, and reading what may not be there. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { bindAll, declaration, own } from '../../../src/foundation/native/c-functions.js'
import { layer } from '../../../src/foundation/native/layer.js'
import { MemoryReader } from '../../../src/foundation/native/memory-reader.js'
import { NativeMemory } from '../../../src/foundation/native/native-memory.js'
import { SharedLibrary } from '../../../src/foundation/native/shared-library.js'
import { compiled, skip } from './compile.js'

const notLinux = process.platform === 'linux' ? false : 'a system call of Linux'

/** Where AddressSanitizer looks on, it has to come first. */
const PRELOADED = process.env['LD_PRELOAD'] ? `${process.env['LD_PRELOAD']}:` : ''
const UNMAPPED = [8, 0x1000, 0x2000_0000_0000, 0x7fff_ffff_f000]

/** What reading returns in this process, as text. */
function readings(): string[] {
  const reader = new MemoryReader()
  const memory = new NativeMemory(64)
  memory.uint64.set([1n, 2n, 3n, 4n, 5n, 6n, 7n, 0x5a5a_5a5a_5a5a_5a5an])
  const words = (address: number, count: number): string => String(reader.wordsAt(address, count))
  const wrong: string[] = []
  const is = (found: unknown, expected: unknown): void => {
    if (String(found) !== String(expected)) wrong.push(`${found}, not ${expected}`)
  }
  // In pages of its own.
  const far = new NativeMemory(2 ** 20)
  far.uint64[0] = 42n
  is(reader.pointerAt(far.address), 42)
  is(reader.pointerAt(memory.address + 8), 2)
  is(words(memory.address, 8), memory.uint64)
  is(words(memory.address + 8, 2), '2,3')
  for (const address of UNMAPPED) {
    is(reader.pointerAt(address), undefined)
    is(words(address, 8), undefined)
  }
  far.free()
  memory.free()
  return wrong
}

interface Task {
  readonly address: number
  readonly stays: boolean
}

if (!isMainThread) {
  const { address, stays }: Task = workerData
  layer().fillAtEnd(address, 32, 0x7f)
  layer().fillAtEnd(address + 32, 32, 1)
  const buffer = new ArrayBuffer(8)
  layer().detach(buffer)
  parentPort?.postMessage(buffer.byteLength)
  if (stays) setInterval(() => {}, 1000)
} else if (process.argv[2] === 'readings') console.log(JSON.stringify(readings()))
else if (process.argv[2] === 'race') {
  const address = SharedLibrary.open(process.argv[3] ?? '').find('race') ?? 0
  const parameters = 'void *read, uint64_t rounds'
  const { race } = bindAll([declaration('race', address, parameters)])
  const found = race(layer().functions['readMemory'] ?? 0, 100_000)
  console.log(found >= 0 ? 'read' : 'not read')
} else {
  describe('memory of C', { skip }, () => {
    test('is zeros, and lies where it says', () => {
      const { bytes, address } = new NativeMemory(4096)
      assert.ok(bytes.every((byte) => byte === 0))
      assert.equal(layer().addressOf(bytes), address)
      assert.equal(layer().addressOf(bytes.subarray(5)), address + 5)
      assert.equal(address % 8, 0)
    })

    test('of no bytes can be viewed', () => {
      assert.equal(new Uint8Array(layer().view(4096, 0)).length, 0)
      assert.equal(new NativeMemory(0).bytes.length, 0)
    })

    test('has an address when it is an array of JavaScript, also a small or a shared one', () => {
      for (const bytes of [new Uint8Array(4), new Uint8Array(9000), new Uint8Array(new SharedArrayBuffer(16))]) {
        const view = new Uint8Array(layer().view(layer().addressOf(bytes), 4))
        bytes[3] = 9
        assert.equal(view[3], 9)
      }
      assert.throws(() => Reflect.apply(layer().addressOf, undefined, [{}]), /no typed array/)
    })

    test('is taken away from all of its views by detaching one, and is still there', () => {
      const memory = new NativeMemory(4096)
      const buffer = layer().view(memory.address, 4096)
      const views = [new Uint8Array(buffer), new Float32Array(buffer, 16, 4)]
      memory.bytes[0] = 7
      assert.equal(views[0]?.[0], 7)
      layer().detach(buffer)
      layer().detach(buffer)
      assert.deepEqual([buffer.byteLength, ...views.map(({ length }) => length)], [0, 0, 0])
      assert.equal(memory.bytes[0], 7)
      assert.throws(() => Reflect.apply(layer().detach, undefined, [{}]), /cannot be detached/)
    })

    test('has text, which ends at a zero; none is at address 0', () => {
      const memory = NativeMemory.ofText('täxt')
      assert.equal(layer().text(memory.address), 'täxt')
      assert.equal(layer().text(0), '')
      memory.free()
    })

    test('is copied also where it overlaps', () => {
      const { bytes, address } = new NativeMemory(16)
      bytes.set([1, 2, 3, 4])
      own().copy(address + 1, address, 4)
      assert.deepEqual([...bytes.subarray(0, 6)], [1, 1, 2, 3, 4, 0])
    })

    for (const stays of [false, true]) {
      test(`is filled when a thread ${stays ? 'is terminated' : 'ends'}`, async () => {
        const { bytes, address } = new NativeMemory(64)
        const worker = new Worker(fileURLToPath(import.meta.url), { workerData: { address, stays } satisfies Task })
        const ended = once(worker, 'exit')
        assert.deepEqual(await once(worker, 'message'), [0])
        if (stays) {
          assert.ok(bytes.every((byte) => byte === 0))
          await worker.terminate()
        }
        await ended
        while (bytes[63] !== 1) await new Promise((next) => setTimeout(next, 1))
        assert.deepEqual([...new Set(bytes)], [0x7f, 1])
      })
    }
  })

  describe('memory that may not be there', { skip }, () => {
    test('is read when it is, all or nothing', () => assert.deepEqual(readings(), []))

    test('is an answer also while another thread gives the end of the heap back', { skip: notLinux }, () => {
      const race = compiled(
        'trimmed-heap',
        `#define _DEFAULT_SOURCE
         #include <pthread.h>
         #include <stdint.h>
         #include <unistd.h>
         static _Atomic(int) is_over;
         static void *grow_and_trim(void *unused) { while (!is_over) { sbrk(1 << 16); sbrk(-(1 << 16)); } return unused; }
         int race(int (*read)(uint64_t, uint64_t, uint64_t), uint64_t rounds) {
           char bytes[64]; pthread_t thread; uint64_t behind = ((uint64_t)sbrk(0) + 8191) & ~4095ull; int found = 0;
           pthread_create(&thread, 0, grow_and_trim, 0);
           while (rounds-- > 0) found += read(behind, (uint64_t)bytes, 64);
           is_over = 1; pthread_join(thread, 0);
           return found; }`,
      )
      // In a process of its own, whose other threads have heaps of their own, or are asleep.
      const args = [fileURLToPath(import.meta.url), 'race', race]
      const { status, signal, stdout } = spawnSync(process.execPath, args, {
        encoding: 'utf8',
        env: { ...process.env, NODE_TEST_CONTEXT: undefined },
      })
      assert.deepEqual([status, signal, stdout], [0, null, 'read\n'])
    })

    for (const name of ['EPERM', 'ENOSYS']) {
      test(`also where the system forbids process_vm_readv, by ${name}`, { skip: notLinux }, () => {
        const forbidden = compiled(
          `forbidden-${name}`,
          `#include <errno.h>
           long process_vm_readv() { errno = ${name}; return -1; }`,
        )
        const { stdout, stderr } = spawnSync(process.execPath, [fileURLToPath(import.meta.url), 'readings'], {
          encoding: 'utf8',
          env: { ...process.env, LD_PRELOAD: PRELOADED + forbidden, NODE_TEST_CONTEXT: undefined },
        })
        assert.equal(stdout.trim(), '[]', stderr)
      })
    }
  })
}

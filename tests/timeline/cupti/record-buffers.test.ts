/** The machine code by which CUPTI gets memory: it is what the assembler makes of its source, and loses nothing. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { koffi, NativeMemory } from '../../../src/driver/cuda/libcuda/native.js'
import { MACHINE_CODES, type RecordBuffer, RecordBuffers } from '../../../src/timeline/cupti/record-buffers.js'
import { root } from '../../helpers/root.js'
import { scratchFolder } from '../../helpers/scratch.js'

const P = 'uintptr_t'
const SIZE = 4096
const isSupported = process.platform === 'linux' && MACHINE_CODES[process.arch] !== undefined
const folder = scratchFolder('cupti')
const missing = (tool: string): boolean => spawnSync(tool, ['--version']).error !== undefined

test('elsewhere it says where it works', { skip: isSupported }, () => {
  assert.throws(() => new RecordBuffers(SIZE), { code: 'ERR_UNSUPPORTED', message: /x64 and arm64 Linux only/ })
})

/** The GNU tools for an architecture: those of this machine, or to build for another. */
const TOOLS: Readonly<Record<string, string>> = { x64: 'x86_64-linux-gnu-', arm64: 'aarch64-linux-gnu-' }

for (const [arch, code] of Object.entries(MACHINE_CODES)) {
  const source = join(root, 'tests', 'timeline', 'cupti', `record-buffers.${arch}.s`)
  const prefix = arch === process.arch ? '' : (TOOLS[arch] ?? '')
  const tools = ['as', 'objcopy', 'nm'].map((tool) => `${prefix}${tool}`)
  const why = !existsSync(source) ? `${source} was not brought here` : `no ${tools.find(missing)} here`
  const skip = existsSync(source) && !tools.some(missing) ? false : why
  if (skip !== false) console.log(`skipped: ${skip}`)

  test(`the code for ${arch} is what its source says`, { skip }, () => {
    const [object, binary] = [join(folder, `${arch}.o`), join(folder, `${arch}.bin`)]
    const [as = '', objcopy = '', nm = ''] = tools
    const assembled = spawnSync(as, [source, '-o', object], { encoding: 'utf8' })
    assert.equal(assembled.status, 0, assembled.stderr)
    assert.equal(spawnSync(objcopy, ['-O', 'binary', '-j', '.text', object, binary]).status, 0)
    assert.equal(readFileSync(binary).toString('hex'), code.bytes)
    const symbols = spawnSync(nm, [object], { encoding: 'utf8' }).stdout
    const addressOf = (name: string): number =>
      Number.parseInt(new RegExp(`^(\\w+) . ${name}$`, 'm').exec(symbols)?.[1] ?? '', 16)
    assert.deepEqual(['requested', 'completed', 'state'].map(addressOf), [0, code.completed, code.bytes.length / 2])
  })
}

interface Asked {
  readonly address: number
  readonly size: number
  readonly most: number
}

describe('buffers of records', { skip: !isSupported }, () => {
  const open = () => {
    const buffers = new RecordBuffers(SIZE)
    const { koffi: library, out } = { koffi: koffi(), out: new NativeMemory(24) }
    const requested = library.proto(`void (${P}, ${P}, ${P})`)
    const completed = library.proto(`void (${P}, uint32_t, ${P}, size_t, size_t)`)
    return {
      buffers,
      ask(): Asked {
        out.uint64.fill(99n)
        library.call(BigInt(buffers.requested), requested, out.address, out.address + 8, out.address + 16)
        const [address, size, most] = Array.from(out.uint64, Number)
        return { address: address ?? 0, size: size ?? 0, most: most ?? 0 }
      },
      handBack: (address: number, valid: number) =>
        library.call(BigInt(buffers.completed), completed, 0, 0, address, SIZE, valid),
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
    const library = koffi().load(file)
    const buffers = new RecordBuffers(SIZE)
    buffers.allow(4 * EACH)
    library.func('start', 'void', [P, P])(buffers.requested, buffers.completed)
    const underWay = library.func('under_way', 'int', [])
    const seen = new Uint8Array(4 * EACH)
    const read = ({ address, length }: RecordBuffer): void => {
      assert.equal(length, 8)
      const number = Number(koffi().decode.uint64(address))
      seen[number] = (seen[number] ?? 0) + 1
    }
    while (underWay() > 0) {
      buffers.drain(read)
      await turn()
    }
    buffers.drain(read)
    assert.ok(seen.every((times) => times === 1))
  })
})

/** Memory of a machine: faults with their place, memory outside, what a launch read and wrote, first reads. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type ByteRange,
  DeviceMemory,
  type KernelFinding,
  type KernelLaunch,
  OutOfMachineMemory,
  type RecordedAccesses,
} from '../../src/ptx/ptx.js'
import { faultOf } from './faults.js'
import { Machine, ptxOf } from './machine.js'

/** A kernel (u64 a, u64 b, u32 n) with this body; %r1 is the thread, %rd1 and %rd2 are a and b. */
const kernel = (
  body: string,
  name = 'k',
): string => `.visible .entry ${name}(.param .u64 a, .param .u64 b, .param .u32 n)
{
.reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f32 %f<4>; .reg .pred %p<4>;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u32 %r2, [n];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
${body}
ret;
}
`
const moduleOf = (...kernels: string[]): string => `.version 8.0\n.target sm_80\n.address_size 64\n${kernels.join('')}`
const COPY = 'ld.global.u32 %r3, [%rd4]; st.global.u32 [%rd5], %r3;'

function faultIn(body: string, from = 16, parameters?: (a: number) => number): ReturnType<typeof faultOf> {
  const machine = new Machine()
  const module = machine.load(moduleOf(kernel(body)))
  const a = machine.put(new Uint32Array(from))
  const b = machine.put(new Uint32Array(16))
  return faultOf(() => machine.run(module, 'k', { block: 16 }, [parameters?.(a) ?? a, b, 0]))
}

test('a load behind the end of a block is a fault that says by how much, and where', () => {
  const fault = faultIn(COPY, 10)
  assert.equal(fault.code, 'CUDA_ERROR_ILLEGAL_ADDRESS')
  assert.equal(fault.number, 700)
  assert.deepEqual(
    [fault.block, fault.thread],
    [
      [0, 0, 0],
      [10, 0, 0],
    ],
  )
  assert.match(
    fault.message,
    /A load reads 4 bytes at 0x[0-9a-f]+, 0 bytes behind the end of the block at 0x[0-9a-f]+ of 40 bytes, in k/,
  )
  assert.equal(fault.line, 10)
  assert.equal(fault.address, 0x7f0000000000 + 40)
})

test('an access that reaches over the end of a block is a fault', () => {
  const machine = new Machine()
  const module = machine.load(moduleOf(kernel('ld.global.u32 %r3, [%rd1+12];')))
  const a = machine.put(new Uint8Array(14))
  const fault = faultOf(() => machine.run(module, 'k', {}, [a, 0, 0]))
  assert.match(fault.message, /reaching 2 bytes beyond the block/)
})

test('null pointers, freed memory and addresses of nothing are faults', () => {
  assert.match(faultIn(COPY, 16, () => 0).message, /a null pointer/)
  assert.equal(faultIn(COPY, 16, () => 0x123456789000).code, 'CUDA_ERROR_ILLEGAL_ADDRESS')
  assert.equal(faultIn('st.global.u32 [%rd4+-8], %r1;').code, 'CUDA_ERROR_ILLEGAL_ADDRESS')
  const machine = new Machine()
  const module = machine.load(moduleOf(kernel(COPY)))
  const [a, b] = [machine.put(new Uint32Array(16)), machine.put(new Uint32Array(16))]
  machine.run(module, 'k', { block: 16 }, [a, b, 0])
  machine.memory.remove(a)
  const fault = faultOf(() => machine.run(module, 'k', { block: 16 }, [a, b, 0]))
  assert.equal(fault.code, 'CUDA_ERROR_ILLEGAL_ADDRESS')
})

test('an access that is not aligned is a fault of its own', () => {
  for (const body of [
    'ld.global.u32 %r3, [%rd4+2];',
    'st.global.v2.u32 [%rd1+4], {%r1, %r1};',
    'ld.u64 %rd6, [%rd1+4];',
    '.shared .b8 s[64]; mov.u32 %r3, s; ld.shared.u32 %r4, [%r3+1];',
    'red.global.add.u32 [%rd1+2], 1;',
  ]) {
    const fault = faultIn(body)
    assert.equal(fault.code, 'CUDA_ERROR_MISALIGNED_ADDRESS', body)
    assert.equal(fault.number, 716)
  }
})

test('shared and local memory have their bounds', () => {
  assert.match(
    faultIn('.shared .b32 s[8]; mov.u32 %r3, s; mad.lo.s32 %r3, %r1, 4, %r3; st.shared.u32 [%r3], %r1;').message,
    /byte 32 of shared memory, of which the block has 32/,
  )
  assert.match(
    faultIn('.local .b32 l[8]; mov.u64 %rd6, l; add.s64 %rd6, %rd6, 100000; st.local.u32 [%rd6], %r1;').message,
    /A store writes 4 bytes at 0x\w+, outside of local memory/,
  )
  assert.match(
    faultIn('.local .b32 l[8]; mov.u64 %rd6, l; add.s64 %rd6, %rd6, 100000; ld.local.u32 %r3, [%rd6];').message,
    /A load reads 4 bytes at 0x\w+, outside of local memory/,
  )
})

test('memory outside is read and written where it is, byte for byte', () => {
  const machine = new Machine()
  const module = machine.load(moduleOf(kernel(`${COPY} atom.global.add.u32 %r4, [%rd2+64], 2;`)))
  const [pinned, a] = [new Uint32Array(17), machine.put(Uint32Array.from({ length: 16 }, (_, index) => index * 3))]
  const begin = machine.allocate(pinned.byteLength)
  machine.memory.addExternal(begin, pinned.byteLength, () => new Uint8Array(pinned.buffer))
  machine.run(module, 'k', { block: 16 }, [a, begin, 0])
  assert.deepEqual([...pinned], [...Array.from({ length: 16 }, (_, index) => index * 3), 32])
  machine.run(module, 'k', { block: 16 }, [begin, begin, 0])
  assert.equal(pinned[16], 64)
})

test('a kernel that alternates between blocks finds each of them', () => {
  const machine = new Machine()
  const module = machine.load(
    moduleOf(
      kernel(
        'mul.wide.u32 %rd6, %r1, 8; add.s64 %rd6, %rd1, %rd6; ld.global.u64 %rd7, [%rd6]; ld.u32 %r3, [%rd7]; st.global.u32 [%rd5], %r3;',
      ),
    ),
  )
  const blocks = Array.from({ length: 16 }, (_, index) => machine.put(Uint32Array.of(100 + index)))
  const a = machine.put(BigUint64Array.from(blocks, BigInt))
  const b = machine.put(new Uint32Array(16))
  machine.run(module, 'k', { block: 16 }, [a, b, 0])
  assert.deepEqual(
    [...machine.get(b, new Uint32Array(16))],
    blocks.map((_, index) => 100 + index),
  )
})

test('a launch that is recorded says which bytes it read and wrote, and which by atomics', () => {
  const machine = new Machine()
  const body =
    'ld.global.u32 %r3, [%rd4]; setp.lt.u32 %p1, %r1, 4; @%p1 st.global.u16 [%rd5+2], %r3; atom.global.add.u32 %r4, [%rd2+200], 1;'
  const module = machine.load(moduleOf(kernel(body)))
  const [a, b] = [machine.put(new Uint32Array(64)), machine.put(new Uint32Array(64))]
  const launch = machine.run(module, 'k', { block: 8, recorded: true }, [a, b, 0])
  const expected: RecordedAccesses[] = [
    { block: a, reads: [{ from: a, to: a + 32 }], writes: [], atomics: [] },
    {
      block: b,
      reads: [{ from: b + 200, to: b + 204 }],
      writes: [0, 1, 2, 3]
        .map((at) => ({ from: b + 4 * at + 2, to: b + 4 * at + 4 }))
        .concat([{ from: b + 200, to: b + 204 }]),
      atomics: [{ from: b + 200, to: b + 204 }],
    },
  ]
  assert.deepEqual(launch.accesses(), expected)
  assert.deepEqual(launch.accesses(), [])
})

test('accesses to memory outside are recorded, too', () => {
  const machine = new Machine()
  const module = machine.load(moduleOf(kernel(COPY)))
  const [a, begin] = [machine.put(new Uint32Array(6)), machine.allocate(26)]
  const outsideBytes = new Uint8Array(26)
  machine.memory.addExternal(begin, 26, () => outsideBytes)
  const launch = machine.run(module, 'k', { block: 6, recorded: true }, [a, begin, 0])
  const [, outside] = launch.accesses()
  assert.deepEqual(outside, { block: begin, reads: [], writes: [{ from: begin, to: begin + 24 }], atomics: [] })
})

test('what a recorded launch touches decides how many marks are looked at, not what other memory there is', () => {
  const machine = new Machine()
  const module = machine.load(moduleOf(kernel(COPY)))
  const words = 2 ** 20
  const [large, other] = [machine.put(new Uint32Array(words)), machine.put(new Uint32Array(words))]
  const run = (count: number, offset: number): KernelLaunch =>
    machine.run(module, 'k', { block: count, recorded: true }, [large + offset, other + offset, 0])
  const ofBlock = (begin: number, from: number, to: number): ByteRange => ({ from: begin + from, to: begin + to })
  // The marks of a range are one range again, though they lie in several pages.
  for (const [count, offset] of [[1024, 2048] as const, [1024, 4080] as const, [16, 8] as const]) {
    const accesses = run(count, offset).accesses()
    const range = [offset, offset + 4 * count] as const
    assert.deepEqual(accesses, [
      { block: large, reads: [ofBlock(large, ...range)], writes: [], atomics: [] },
      { block: other, reads: [], writes: [ofBlock(other, ...range)], atomics: [] },
    ])
  }
  run(16, 65_536)
  const touched = machine.memory.takeTouched()
  assert.deepEqual(
    touched.map(({ block }) => block.begin),
    [large, other],
  )
  for (const { parts } of touched) {
    const bytes = parts.reduce((sum, { from, to }) => sum + to - from, 0)
    assert.ok(bytes >= 64 && bytes <= 2 * 4096, `${bytes} bytes of marks for 64 bytes of memory`)
  }
  assert.deepEqual(machine.memory.takeTouched(), [])
})

test('marks are found of blocks that begin and end in one page with others, and not of those that are gone', () => {
  const machine = new Machine()
  const module = machine.load(moduleOf(kernel(COPY)))
  const blocks = Array.from({ length: 12 }, () => machine.put(new Uint32Array(64)))
  const run = (from: number, to: number): KernelLaunch =>
    machine.run(module, 'k', { block: 16, recorded: true }, [blocks[from] ?? 0, blocks[to] ?? 0, 0])
  for (let at = 0; at + 1 < blocks.length; at += 1) {
    assert.deepEqual(
      run(at, at + 1)
        .accesses()
        .map(({ block }) => block),
      blocks.slice(at, at + 2),
    )
  }
  const launch = run(3, 7)
  machine.memory.remove(blocks[3] ?? 0)
  assert.deepEqual(
    launch.accesses().map(({ block }) => block),
    [blocks[7]],
  )
})

test('a recorded launch reports the first read of bytes that nothing wrote', () => {
  const machine = new Machine()
  const module = machine.load(moduleOf(kernel(COPY)))
  const [a, b, c] = [machine.allocate(64), machine.allocate(64), machine.allocate(64)]
  for (const block of [a, b, c]) machine.memory.add(block, 64)
  const findings: KernelFinding[] = []
  const options = { block: 16, recorded: true, report: (finding: KernelFinding) => findings.push(finding) }
  machine.memory.markInitialised(a, 64)
  machine.run(module, 'k', options, [a, b, 0])
  assert.deepEqual(findings, [])
  machine.run(module, 'k', options, [b, a, 0])
  assert.deepEqual(findings, [])
  machine.run(module, 'k', options, [c, a, 0])
  assert.deepEqual(
    findings.map(({ kind, line, threads }) => [kind, line, threads]),
    [['uninitialised-read', 10, [0]]],
  )
})

test('two kernels of a module share its variables, and a variable can point to another', () => {
  const machine = new Machine()
  const globals = '.global .u32 value = 7;\n.global .u64 pointer = generic(value);\n'
  const get = kernel('ld.global.u64 %rd6, [pointer]; ld.u32 %r3, [%rd6]; st.global.u32 [%rd5], %r3;', 'get')
  const set = kernel('st.global.u32 [value], %r2;', 'set')
  const module = machine.load(moduleOf(globals, get, set))
  const b = machine.put(new Uint32Array(1))
  const read = (): number | undefined => {
    machine.run(module, 'get', {}, [0, b, 0])
    return machine.get(b, new Uint32Array(1))[0]
  }
  assert.equal(read(), 7)
  machine.run(module, 'set', {}, [0, 0, 99])
  assert.equal(read(), 99)
})

test('a form that the simulator does not run refuses the kernels that reach it, and no others', () => {
  const machine = new Machine()
  const exotic = kernel('multimem.red.relaxed.sys.global.add.u32 [%rd1], %r1;', 'exotic')
  const module = machine.load(
    moduleOf(
      kernel(COPY),
      exotic,
      '.func helper() { tcgen05.wait::ld.sync.aligned; ret; }\n',
      kernel('call helper;', 'caller'),
    ),
  )
  const [a, b] = [machine.put(new Uint32Array(16)), machine.put(new Uint32Array(16))]
  machine.run(module, 'k', { block: 16 }, [a, b, 0])
  for (const [name, form] of [
    ['exotic', 'multimem.red.relaxed.sys.global.add.u32'],
    ['caller', 'tcgen05.wait::ld.sync.aligned'],
  ] as const) {
    assert.throws(
      () => module.code(name),
      (error: Error & { code: string; line: number }) => {
        assert.equal(error.code, 'ERR_UNSUPPORTED')
        assert.ok(error.message.includes(`'${form}'`) && error.line > 0)
        return true
      },
    )
  }
})

test('what is declared elsewhere has to be linked in', () => {
  const machine = new Machine()
  const module = machine.load(
    moduleOf(
      '.extern .func other();\n.extern .global .u32 far;\n',
      kernel('call other;', 'calls'),
      kernel('ld.global.u32 %r3, [far];', 'reads'),
    ),
  )
  for (const name of ['calls', 'reads', 'missing']) {
    assert.throws(() => module.code(name), { code: 'ERR_COMPILATION' })
  }
})

test('facts tell the parameters apart that a kernel reads, writes, changes by atomics, or lets escape', () => {
  const facts = (body: string) => new Machine().load(moduleOf(kernel(body))).facts('k')
  const copy = facts(COPY)
  assert.deepEqual(
    copy.parameters.map(({ name, use, pointer, atomic }) => [name, use, pointer, atomic]),
    [
      ['a', 'read', true, false],
      ['b', 'write', true, false],
      ['n', 'none', false, false],
    ],
  )
  assert.deepEqual([copy.parameterBytes, copy.staticSharedBytes, copy.otherMemory], [20, 0, false])
  const changes = facts(
    '.shared .b8 s[100]; red.global.add.u32 [%rd4], 1; st.global.u64 [%rd5], %rd1; ld.global.u64 %rd6, [%rd5]; st.global.u32 [%rd6], 1;',
  )
  assert.deepEqual(
    changes.parameters.map(({ use, atomic }) => [use, atomic]),
    [
      ['unknown', true],
      ['read-write', false],
      ['none', false],
    ],
  )
  assert.deepEqual([changes.staticSharedBytes, changes.otherMemory], [100, true])
})

test('facts have what the compiler wrote about threads', () => {
  const text = ptxOf('triton_matmul.sm_90')
  const facts = new Machine().load(text).facts('matmul_kernel')
  assert.deepEqual(
    [facts.maxThreads, facts.requiredThreads, facts.usesDynamicShared, facts.hasMeetings],
    [undefined, [128], true, true],
  )
  assert.deepEqual(
    facts.parameters.slice(0, 3).map(({ use }) => use),
    ['read', 'read', 'write'],
  )
})

test('the memory of a machine has a limit, and gives back what is released', () => {
  const memory = new DeviceMemory(8 * 2 ** 20)
  const pieces: number[] = []
  for (let piece = memory.allocate(2 ** 20); piece !== undefined; piece = memory.allocate(2 ** 20)) pieces.push(piece)
  assert.equal(pieces.length, 7)
  memory.add(2 ** 40, 2 ** 21)
  assert.equal(memory.use(2 ** 40, 4), undefined)
  for (const piece of pieces) memory.release(piece)
  assert.equal(memory.use(2 ** 40, 4)?.length, 4)
  assert.ok(new OutOfMachineMemory('a block') instanceof Error)
})

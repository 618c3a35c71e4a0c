/** Host implementations get structs as objects, vectors as arrays, and memory of structs as elements to read and write. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineKernel, elements, Stream, struct } from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { collectingUncaught } from '../../../src/foundation/base/uncaught.js'
import { refused } from '../../conformance/expect.js'
import { lacksNvrtc } from '../../helpers/nvrtc.js'

const [device] = simulate().devices
assert.ok(device)
const stream = new Stream({ device })
const Particle = struct({ position: 'f32x3', speed: 'f16', id: 'u64', on: 'bool' })
const World = struct({ gravity: 'f32x2', steps: ['i32', 3] })
const ONE = { grid: 1, block: 1 }

const PARTICLES = [
  { position: [0, 1, 2], speed: 0.5, id: 7n, on: true },
  { position: [3, 4, 5], speed: -2, id: 8n, on: false },
] as const

test('a host implementation reads and writes structs in memory, and gets those by value as objects', async () => {
  const seen: unknown[] = []
  const move = defineKernel({
    name: 'move',
    source: '',
    signature: [{ inout: Particle }, World, 'f32x4', 'f16', 'inout f16*', 'in i8x4*', 'bf16x2', 'i64x2'],
    simulate({ globalX: i }, particles, world, colour, half, halves, quads, pair, longs) {
      if (i >= particles.length) return
      const { position, ...rest } = particles.get(i)
      const [x, y, z] = position
      particles.set(i, { ...rest, position: [x + world.gravity[0], y + colour[3], z * half] })
      halves.set(i, halves.get(i) + 0.1)
      seen.push([world, colour, half, quads.length, quads[5], pair, longs, [...particles].length])
    },
  })
  using particles = stream.bufferFrom(Particle.pack(PARTICLES))
  using halves = stream.bufferFrom(elements('f16').pack([1, 2]))
  using quads = stream.bufferFrom(Int8Array.of(0, 1, 2, 3, 4, -5, 6, 7))
  const world = { gravity: [1, 2], steps: [1, 2, 3] } as const
  stream.launch(move, { threads: 2 }, particles, world, [0, 0, 0, 0.1], 0.1, halves, quads, [1, 2], [1n, 2n])
  const tenth = Math.fround(0.1)
  const halfTenth = 0.0999755859375
  assert.deepEqual(Particle.unpack(await stream.download(particles)), [
    { position: [1, Math.fround(1 + tenth), Math.fround(2 * halfTenth)], speed: 0.5, id: 7n, on: true },
    { position: [4, Math.fround(4 + tenth), Math.fround(5 * halfTenth)], speed: -2, id: 8n, on: false },
  ])
  assert.deepEqual(elements('f16').unpack(await stream.download(halves)), [1.099609375, 2.099609375])
  assert.deepEqual(seen[0], [world, [0, 0, 0, tenth], halfTenth, 8, -5, [1, 2], [1n, 2n], 2])
})

test('an index beyond the structs is an error, and so is a value that is none', async () => {
  const define = (run: (particles: { get(i: number): unknown; set(i: number, value: never): void }) => void) =>
    defineKernel({ name: 'wrong', source: '', signature: [{ inout: Particle }], simulate: (_, all) => run(all) })
  const thrown: string[] = []
  using particles = stream.bufferFrom(Particle.pack(PARTICLES))
  collectingUncaught(
    (error) => thrown.push(String(error)),
    () => {
      stream.launch(
        define((all) => all.get(2)),
        ONE,
        particles,
      )
      stream.launch(
        define((all) => all.set(0, { ...PARTICLES[0], position: [1, 2, 'x'] } as never)),
        ONE,
        particles,
      )
      stream.synchronize()
    },
  )
  assert.match(
    thrown[0] ?? '',
    /index of an element of argument 0, 'inout struct\*' of kernel 'wrong' must be from 0 to 1 \(.*\), not 2/,
  )
  assert.match(thrown[1] ?? '', /of kernel 'wrong': element 0\.position\[2\] \(f32\) must be a number, not 'x'/)
})

test('what only reads structs is held to it', () => {
  const writes = defineKernel({
    name: 'writes',
    source: '',
    signature: [{ in: Particle }],
    parameterNames: ['particles'],
    simulate: (_, all) => all.set(1, PARTICLES[0]),
  })
  using particles = stream.bufferFrom(Particle.pack(PARTICLES))
  const thrown: string[] = []
  collectingUncaught(
    (error) => thrown.push(String(error)),
    () => stream.launch(writes, ONE, particles).synchronize(),
  )
  assert.match(thrown[0] ?? '', /writes byte \d+ of the 64 of `particles`, 'in struct\*', which it may only read/)
})

test('the source and the JavaScript are compared member by member, without the padding', {
  skip: lacksNvrtc(),
}, async () => {
  const Item = struct({ on: 'bool', value: 'f64', half: 'f16' })
  const define = (factor: number) =>
    defineKernel({
      name: 'twice',
      source: `#include <cuda_fp16.h>
        struct Item { bool on; double value; half h; };
        extern "C" __global__ void twice(Item *x, Item add, float4 more) {
          Item own = x[threadIdx.x];
          own.value = own.value * 2 + add.value + more.w;
          own.h = __float2half(__half2float(own.h) * 2);
          x[threadIdx.x] = own;
          ((char *)x)[1] = 77;
        }`,
      signature: [{ inout: Item }, Item, 'f32x4'],
      simulate: ({ threadIdx: { x: i } }, x, add, more) => {
        const { on, value, half } = x.get(i)
        x.set(i, { on, value: factor * value + add.value + more[3], half: 2 * half })
      },
      runs: 'both',
    })
  using x = stream.bufferFrom(
    Item.pack([
      { on: true, value: 1, half: 0.1 },
      { on: false, value: 2, half: 3 },
    ]),
  )
  const add = { on: false, value: 0.5, half: 0 }
  stream.launch(define(2), { grid: 1, block: 2 }, x, add, [0, 0, 0, 1])
  const values = Item.unpack(await stream.download(x)).map(({ value }) => value)
  assert.deepEqual(values, [3.5, 5.5])
  const thrown: unknown[] = []
  collectingUncaught(
    (error) => thrown.push(error),
    () => stream.launch(define(3), { grid: 1, block: 2 }, x, add, [0, 0, 0, 1]).synchronize(),
  )
  assert.match(
    String(thrown[0]),
    /in element 0\.value of argument 0, 'inout struct\*' the source has 8\.5, and the JavaScript 12$/,
  )
})

test('arrays in a struct by value are read at any index, and written in a copy of each thread', {
  skip: lacksNvrtc(),
}, async () => {
  const Sub = struct({ s: ['i16', 4], c: 'i8' })
  const Table = struct({ m: ['f32', 9], subs: [Sub, 3] })
  const source = `struct Sub { short s[4]; signed char c; };
    struct Table { float m[9]; Sub subs[3]; };
    __device__ __noinline__ float pick(const Table &t, int i) { return t.m[i] + t.subs[i % 3].s[i % 4]; }
    extern "C" __global__ void read(const __grid_constant__ Table t, float *out) {
      int i = threadIdx.x;
      out[i] = t.m[8 - i] + t.subs[i % 3].c;
    }
    extern "C" __global__ void write(Table t, float *out) {
      int i = threadIdx.x;
      t.m[i] += 1;
      out[i] = pick(t, i);
    }`
  const m = Array.from({ length: 9 }, (_, i) => i)
  const table = { m, subs: [0, 1, 2].map((i) => ({ s: [0, 1, 2, 3].map((k) => 10 * i + k), c: -i })) }
  using out = device.alloc(4 * 9, { stream })
  for (const [name, expected] of [
    ['read', (i: number) => 8 - i - (i % 3)],
    ['write', (i: number) => i + 1 + 10 * (i % 3) + (i % 4)],
  ] as const) {
    const kernel = defineKernel({ name, source, signature: [Table, 'out f32*'] })
    stream.launch(kernel, { grid: 1, block: 9 }, table, out)
    assert.deepEqual([...(await stream.download(out, Float32Array))], m.map(expected), name)
  }
})

test('addresses in a struct are followed, by value and in memory', { skip: lacksNvrtc() }, async () => {
  const View = struct({ data: 'u64', n: 'i32' })
  const touch = defineKernel({
    name: 'touch',
    source: `struct View { float *data; int n; };
      extern "C" __global__ void touch(View own, const View *other) {
        for (int i = 0; i < own.n; ++i) own.data[i] += 1;
        other->data[0] = 9;
      }`,
    signature: [View, { in: View }],
  })
  using x = stream.bufferFrom(Float32Array.of(1, 2, 3))
  using other = stream.bufferFrom(View.pack([{ data: x.pointer + 8n, n: 1 }]))
  stream.launch(touch, ONE, { data: x.pointer, n: 3 }, other)
  assert.deepEqual([...(await stream.download(x, Float32Array))], [2, 3, 9])
})

test('signatures are read, and the wrong ones refused', () => {
  const define = (signature: unknown, more = {}): unknown =>
    Reflect.apply(defineKernel, undefined, [{ name: 'k', source: '', signature, ...more }])
  for (const right of [['f32x4'], ['in bf16x2*'], [Particle], [{ atomic: Particle }], ['inout atomic i32x2*']]) {
    define(right)
  }
  const message = /^signature\[0\] is .*: it must be one of .*, or a vector of them such as f32x4; for a pointer/
  for (const wrong of ['f32x5', 'float4', 'in struct*', 'in f32', { inn: Particle }, { in: { fields: {} } }, {}]) {
    refused(() => define([wrong]), 'ERR_INVALID_ARG_VALUE', message)
  }
  for (const [wrong, right] of [
    ['float', 'f32'],
    ['unsigned int', 'u32'],
    ['float4', 'f32x4'],
    ['uint8_t', 'u8'],
    ['float32', 'f32'],
    ['inout float*', 'inout f32*'],
    ['const float*', 'in f32*'],
    ['const float *', 'in f32*'],
    ['f32*', 'inout f32*'],
    ['in half', 'in f16*'],
  ] as const) {
    const end = `; did you mean '${right}'?`
    const { message: text } = refused(() => define([wrong]), 'ERR_INVALID_ARG_VALUE', message)
    assert.ok(text.endsWith(end), `${wrong}: ${text}`)
  }
  refused(() => Reflect.apply(struct, undefined, [{ a: 'float' }]), 'ERR_INVALID_ARG_VALUE', /; did you mean 'f32'\?$/)
  refused(() => Reflect.apply(elements, undefined, ['half']), 'ERR_INVALID_ARG_VALUE', /; did you mean 'f16'\?$/)
  refused(() => define([{ in: Particle, out: Particle }]), 'ERR_INVALID_ARG_VALUE', message)
  for (const wrong of [5, null, undefined, ['f32']]) {
    refused(() => define([wrong]), 'ERR_INVALID_ARG_TYPE', /^signature\[0\] must be a type such as 'in f32\*'/)
  }
  refused(
    () => define(['f32'], { parameterNames: ['a', 'b'] }),
    'ERR_INVALID_ARG_VALUE',
    /parameterNames has 2 names, and definition\.signature 1 parameters/,
  )
  refused(() => define(['f32'], { parameterNames: 'a' }), 'ERR_INVALID_ARG_TYPE', /^definition\.parameterNames/)
})

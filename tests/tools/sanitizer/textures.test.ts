/** The sanitizer and textures: a launch with a texture reads its array, and one with a surface reads and writes it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Module, Stream } from 'cuda-streams'
import { Sanitizer } from 'cuda-streams/sanitizer'
import { simulate } from 'cuda-streams/sim'

const PTX = `.version 7.0
.target sm_70
.address_size 64
.visible .entry read(.param .u64 texture, .param .u64 out) {
  .reg .b64 %t, %out, %at;
  .reg .b32 %i, %r<4>;
  .reg .f32 %x;
  ld.param.u64 %t, [texture];
  ld.param.u64 %out, [out];
  mov.u32 %i, %tid.x;
  cvt.rn.f32.u32 %x, %i;
  tex.1d.v4.f32.f32 {%r0, %r1, %r2, %r3}, [%t, {%x}];
  mul.wide.u32 %at, %i, 4;
  add.u64 %at, %at, %out;
  st.global.b32 [%at], %r0;
  ret;
}
.visible .entry write(.param .u64 surface) {
  .reg .b64 %s;
  .reg .b32 %x;
  ld.param.u64 %s, [surface];
  mov.u32 %x, %tid.x;
  shl.b32 %x, %x, 2;
  sust.b.1d.b32.trap [%s, {%x}], %x;
  ret;
}
`

/** The kinds of what the sanitizer reports of a program with an array whose first half is read by a texture, and which a surface writes. */
async function reported(
  threads: number,
  write: 'copy' | 'surface' | 'upload',
  waits: boolean,
): Promise<readonly string[]> {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  using sanitizer = Sanitizer.start({ device })
  using one = new Stream({ device })
  using other = new Stream({ device })
  using module = Module.load(PTX, { device })
  using array = device.createArray({ shape: [64], format: 'f32', surface: true })
  using texture = device.createTexture(array)
  using surface = device.createSurface(array)
  using buffer = device.alloc(256, { stream: one })
  using out = device.alloc(256, { stream: other })
  one.fill(buffer, 0)
  void one.upload(array, new Float32Array(64))
  await device.finished()
  if (write === 'copy') one.copy(array, buffer)
  else if (write === 'upload') void one.upload(array, new Float32Array(64))
  else one.launch(module.kernel('write', ['u64']), { grid: 1, block: threads }, surface)
  if (waits) other.wait(one)
  other.launch(module.kernel('read', ['u64', 'out f32*']), { grid: 1, block: 32 }, texture, out)
  await device.finished()
  return sanitizer.reports.map(({ kind }) => kind)
}

test('I4 a texture is read on one stream while another writes its array', async () => {
  for (const write of ['copy', 'upload', 'surface'] as const) {
    assert.deepEqual(await reported(64, write, false), ['race'], write)
    assert.deepEqual(await reported(64, write, true), [], write)
  }
})

test('I4 the elements that no launch reads and writes at once are no race', async () => {
  using simulation = simulate()
  const [device] = simulation.devices
  assert.ok(device)
  using sanitizer = Sanitizer.start({ device })
  using one = new Stream({ device })
  using other = new Stream({ device })
  using module = Module.load(PTX, { device })
  using array = device.createArray({ shape: [64], format: 'f32', surface: true })
  using texture = device.createTexture(array)
  using out = device.alloc(256, { stream: other })
  void one.upload(array, new Float32Array(64))
  await device.finished()
  const read = module.kernel('read', ['u64', 'out f32*'])
  one.launch(read, { grid: 1, block: 16 }, texture, out)
  other.wait(one).launch(read, { grid: 1, block: 32 }, texture, out)
  await device.finished()
  assert.deepEqual(sanitizer.reports, [])
})

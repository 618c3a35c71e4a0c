/** Programs whose kernels take the simulator long to compute, with what they say and when: `time.test.ts` plays them on processors of any speed. */
import assert from 'node:assert/strict'
import { type Device, defineKernel, Stream } from 'cuda-streams'
import { busy, latch } from 'cuda-streams/sim'

export type Say = (what: string, at?: number) => void
export type Program = (device: Device, say: Say) => Promise<unknown>

/** A kernel that takes the simulator a few milliseconds, in many parts. */
const COUNT = defineKernel({
  name: 'count',
  signature: ['inout u32*', 'u32'],
  ptx: `.version 7.0
.target sm_75
.address_size 64
.visible .entry count(.param .u64 sum, .param .u32 turns)
{
  .reg .pred %more;
  .reg .b32 %r<4>;
  .reg .b64 %rd1;
  ld.param.u64 %rd1, [sum];
  ld.param.u32 %r1, [turns];
  ld.global.u32 %r3, [%rd1];
  mov.u32 %r2, 0;
again:
  mad.lo.u32 %r3, %r3, 1664525, 1013904223;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %more, %r2, %r1;
  @%more bra again;
  st.global.u32 [%rd1], %r3;
  ret;
}`,
})
const TURNS = 250_000
const ONE = { grid: 1, block: 1 }

export const PROGRAMS: Record<string, Program> = {
  'calls while kernels are computed': async (device, say) => {
    const [a, b] = [new Stream({ device }), new Stream({ device })]
    const sum = device.alloc(4, { stream: a })
    a.fill(sum, 0)
    for (let nth = 0; nth < 12; nth += 1) {
      a.launch(COUNT, ONE, sum, TURNS)
      for (let call = 0; call < 30; call += 1) b.record()
    }
    say('queued')
    await a.finished()
    say('finished')
    await a.download(sum, Uint32Array)
    say('read')
  },
  'events of streams that work beside': async (device, say) => {
    const streams = [0, 1, 2].map(() => new Stream({ device }))
    const events: { readonly begin: ReturnType<Stream['record']>; readonly end: ReturnType<Stream['record']> }[] = []
    for (let turn = 0; turn < 4; turn += 1) {
      for (const [at, stream] of streams.entries()) {
        const sum = device.alloc(4, { stream })
        stream.fill(sum, 0)
        const begin = stream.record({ timing: true })
        stream.launch(COUNT, ONE, sum, TURNS >> at)
        const end = stream.record({ timing: true })
        streams[(at + 1) % 3]?.wait(end)
        events.push({ begin, end })
        busy(stream, 700)
      }
    }
    for (const { end } of events) await end.finished()
    for (const { begin, end } of events) say('took', end.elapsedSince(begin))
    say('finished')
  },
  'host functions and promises, in their order': async (device, say) => {
    const streams = [0, 1, 2].map(() => new Stream({ device }))
    const settled: Promise<unknown>[] = []
    for (let turn = 0; turn < 3; turn += 1) {
      for (const [at, stream] of streams.entries()) {
        const sum = device.alloc(4, { stream })
        stream.fill(sum, 0).launch(COUNT, ONE, sum, TURNS)
        stream.launchHostFunc(() => {
          say(`host function ${turn} of ${at}`)
          busy(stream, 300)
          streams[(at + 1) % 3]?.record()
        })
        stream.launch(COUNT, ONE, sum, TURNS / 5)
        settled.push(stream.finished().then(() => say(`promise ${turn} of ${at}`)))
      }
      for (let call = 0; call < 40; call += 1) streams[turn]?.record()
    }
    await Promise.all(settled)
    await device.finished()
    say('finished')
  },
  'kernels of two priorities that wait for room': async (device, say) => {
    const [low, high] = [device.createStream({ priority: 0 }), device.createStream({ priority: -5 })]
    const others = Array.from({ length: 126 }, () => device.createStream())
    for (const other of others) busy(other, 9000)
    const sums = [low, high].map((stream) => device.alloc(4, { stream }))
    const events: [string, ReturnType<Stream['record']>][] = []
    for (let turn = 0; turn < 6; turn += 1) {
      for (const [at, stream] of [low, high].entries()) {
        const sum = sums[at]
        assert.ok(sum)
        stream.launch(COUNT, ONE, sum, TURNS)
        events.push([`${turn} of ${at}`, stream.record({ timing: true })])
        for (const other of others.slice(0, 20)) busy(other, 2000)
      }
    }
    const begin = events[0]?.[1]
    assert.ok(begin)
    for (const [name, event] of events) {
      await event.finished()
      say(name, event.elapsedSince(begin))
    }
  },
  'a graph and a blocking wait behind it': async (device, say) => {
    const [a, b] = [new Stream({ device }), new Stream({ device })]
    const sum = device.alloc(4, { stream: a })
    a.fill(sum, 0)
    const exec = a
      .capture(() => {
        b.wait(a)
        a.launch(COUNT, ONE, sum, TURNS)
        busy(b, 1300)
        a.wait(b)
        busy(a, 500)
      })
      .instantiate()
    for (let turn = 0; turn < 3; turn += 1) {
      exec.launch(a)
      for (let call = 0; call < 60; call += 1) b.record()
      busy(b, 900)
      exec.launch(b)
      say('launched')
      if (turn === 1) {
        a.synchronize()
        say('waited')
      }
    }
    await device.finished()
    say('finished')
  },
  'an upload in parts': async (device, say) => {
    const [a, b] = [new Stream({ device }), new Stream({ device })]
    const bytes = new Uint8Array(20 * 2 ** 20)
    const memory = device.alloc(bytes.length, { stream: a })
    for (let turn = 0; turn < 2; turn += 1) {
      const uploaded = a.upload(memory, bytes)
      for (let call = 0; call < 500; call += 1) b.record()
      await uploaded
      say('uploaded')
      await a.finished()
      say('finished')
    }
  },
  'a latch that is opened while a kernel is computed': async (device, say) => {
    const [a, b] = [new Stream({ device }), new Stream({ device })]
    const [one, two] = [device.alloc(4, { stream: a }), device.alloc(4, { stream: b })]
    a.fill(one, 0)
    b.fill(two, 0)
    for (let turn = 0; turn < 3; turn += 1) {
      const gate = device.allocPinned(4)
      gate.view(Uint32Array)[0] = 0
      b.waitValue(gate, turn + 1)
      b.launch(COUNT, ONE, two, TURNS)
      a.launch(COUNT, ONE, one, TURNS)
      for (let call = 0; call < 30; call += 1) a.record()
      gate.view(Uint32Array)[0] = turn + 1
      for (let call = 0; call < 30; call += 1) a.record()
      await b.finished()
      say('passed')
    }
    await a.finished()
    say('finished')
  },
  'a latch that is opened before its stream has come to it': async (device, say) => {
    const [a, b] = [new Stream({ device }), new Stream({ device })]
    const sum = device.alloc(4, { stream: a })
    a.fill(sum, 0)
    const began = b.record({ timing: true })
    for (let turn = 0; turn < 3; turn += 1) {
      a.launch(COUNT, ONE, sum, TURNS)
      const held = latch(a)
      busy(a, 100)
      const passed = a.record({ timing: true })
      for (let call = 0; call < 200; call += 1) b.record()
      held.open()
      for (let call = 0; call < 30; call += 1) b.record()
      await passed.finished()
      say('passed', passed.elapsedSince(began))
    }
  },
}

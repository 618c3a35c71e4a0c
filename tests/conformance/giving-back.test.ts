/**
 * W6: what is closed while a stream stands at something that only this thread ends, also at something of another library:
 * nothing blocks, and it is given back once the devices have nothing to do. CUDA waits for the whole device in each of the calls
 * that give such things back.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { CudaError, ExternalStream, Module, PinnedBuffer, type Stream } from 'cuda-streams'
import { PTX } from '../catalogue/adding.js'
import { onEveryBackend } from '../helpers/suite.js'
import { standingAtValue } from './stands.js'

const MIB = 1024 * 1024

onEveryBackend('what is closed while a stream stands', (bench) => {
  const { device } = bench

  /** What it stands at, and what ends that. */
  const STANDS: Readonly<Record<string, (stream: Stream) => () => void>> = {
    'a wait of another library': (stream) => bench.latch(stream).open,
    'a wait for a value': (stream) => standingAtValue(stream, (flags) => stream.waitValue(flags, 1)),
    'a launch that waits for a value': (stream) =>
      standingAtValue(stream, (flags) => stream.launch(stream.capture(() => stream.waitValue(flags, 1)).instantiate())),
  }

  /** Makes something and returns what closes it, and what waits until it was given back, where that can be seen. */
  type Row = () => { readonly close: () => void; readonly isBack?: () => Promise<void> }
  const registered = () => {
    // What a page can register, too.
    const array = new Uint8Array(new SharedArrayBuffer(64))
    const buffer = PinnedBuffer.from(array, { device })
    return {
      close: () => buffer.close(),
      async isBack(): Promise<void> {
        for (;;) {
          try {
            PinnedBuffer.from(array, { device }).close()
            return
          } catch (error) {
            assert.ok(error instanceof CudaError && error.number === 712, String(error))
            await sleep(5)
          }
        }
      },
    }
  }
  const ROWS: Readonly<Record<string, Row>> = {
    'registered memory': registered,
    'pinned memory, more than is kept': () => {
      const buffers = [129, 130].map((mebibytes) => device.allocPinned(mebibytes * MIB))
      return { close: () => buffers.forEach((buffer) => void buffer.close()) }
    },
    'interprocess memory, more than is kept': () => {
      const buffers = [129, 130].map((mebibytes) => device.alloc(mebibytes * MIB, { interprocess: true }))
      return { close: () => buffers.forEach((buffer) => void buffer.close()) }
    },
    'a module': () => {
      const module = Module.load(PTX, { device })
      return { close: () => module.close() }
    },
  }

  test('W6 registered memory, while streams have done what they had at each look, and stand again', async () => {
    const streams = [bench.stream(), bench.stream()]
    const { close, isBack } = registered()
    device.synchronize()
    let end = bench.latch(streams[0] ?? device.defaultStream).open
    close()
    for (let round = 1; round < 40; round += 1) {
      const [before, after] = [streams[(round + 1) % 2], streams[round % 2]]
      const next = bench.latch(after ?? device.defaultStream).open
      end()
      await before?.finished()
      end = next
      // Each close of registered memory is a look.
      registered().close()
    }
    end()
    await device.finished()
    await isBack()
    for (const stream of streams) stream.close()
  })

  test('W6 registered memory, while another library’s own stream that is wrapped stands at a wait of that library', async () => {
    const { close, isBack } = registered()
    const handle = bench.foreignStream(device)
    const theirs = new ExternalStream(handle, { device })
    device.synchronize()
    const end = bench.latch(theirs).open
    close()
    await sleep(60)
    assert.equal(theirs.query(), false)
    end()
    await theirs.finished()
    await isBack()
    theirs.close()
    bench.destroyForeignStream(handle)
  })

  test('W6 an instance of two branches, at a host function: closing it waits for nothing', async () => {
    using stream = bench.stream()
    using other = bench.stream()
    using graph = stream.capture(() => {
      other.wait(stream).launchHostFunc(() => {})
      stream.launchHostFunc(() => {}).wait(other)
    })
    for (const made of ['before', 'meanwhile']) {
      const early = made === 'before' ? graph.instantiate() : undefined
      let ran = 0
      stream.launchHostFunc(() => {
        ran += 1
      })
      const exec = early ?? graph.instantiate()
      exec.close()
      assert.equal(ran, 0)
      await stream.finished()
      assert.equal(ran, 1)
    }
  })

  for (const [where, stand] of Object.entries(STANDS)) {
    for (const [what, make] of Object.entries(ROWS)) {
      test(`W6 ${what}, at ${where}`, async () => {
        using stream = bench.stream()
        const { close, isBack } = make()
        device.synchronize()
        const end = stand(stream)
        close()
        await sleep(60)
        assert.equal(stream.query(), false)
        end()
        await stream.finished()
        await isBack?.()
      })
    }
  }

  test('W6 registered memory whose turn to be given back comes while another library’s wait stands', async () => {
    using stream = bench.stream()
    const array = new Uint8Array(new SharedArrayBuffer(64))
    const buffer = PinnedBuffer.from(array, { device })
    const first = bench.latch(stream)
    buffer.close()
    // What was queued before the close is done, and what is queued then stands.
    first.open()
    stream.synchronize()
    for (let round = 0; round < 4; round += 1) {
      using next = bench.latch(stream)
      await sleep(30)
      assert.equal(stream.query(), false)
      next.open()
      await stream.finished()
    }
  })

  test('W6 memory is given back by a device that always has work', async () => {
    const array = new Uint8Array(new SharedArrayBuffer(64))
    const buffer = PinnedBuffer.from(array, { device })
    const streams = [bench.stream(), bench.stream()]
    for (const each of streams) bench.busy(each, 20_000_000)
    buffer.close()
    const begun = performance.now()
    let isBack = false
    // Each has work of 20 ms, and the next before it is over.
    for (let turn = 0; !isBack && performance.now() - begun < 20_000; turn += 1) {
      const stream = streams[turn % 2]
      assert.ok(stream !== undefined)
      await stream.finished()
      for (const each of streams) bench.busy(each, 20_000_000)
      try {
        PinnedBuffer.from(array, { device }).close()
        isBack = true
      } catch (error) {
        assert.ok(error instanceof CudaError && error.number === 712, String(error))
      }
    }
    assert.ok(isBack, 'it was not given back in 20 s')
    for (const stream of streams) stream.close()
  })
})

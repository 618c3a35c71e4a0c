/** Every public call that reaches the driver, on things of its own: for tests that let each of them fail in all ways. */
import assert from 'node:assert/strict'
import { type Device, type DeviceBuffer, defineKernel, Event, ExternalStream, Stream } from 'cuda-streams'
import { busy, destroyForeignStream, foreignStream, latch } from 'cuda-streams/sim'
import { aboutLibraries } from '../libraries/about-libraries.js'

/** What the calls work on. */
export interface Stage {
  readonly device: Device
  readonly stream: Stream
  /** Another stream, which has work. */
  readonly other: Stream
  /** 64 bytes of the stream's own, all of them 1. */
  readonly own: DeviceBuffer
  /** 64 bytes of the other stream's, all of them 2. */
  readonly theirs: DeviceBuffer
  /** Counts host functions. */
  readonly ran: { count: number }
}

/** A call, and what it must have brought about once it has returned or its promise is done. */
export interface Attempt {
  readonly act: () => unknown
  /** What must hold where it has thrown. */
  readonly refused?: (() => unknown) | undefined
  /** To be called when all work is done. */
  readonly check?: (() => unknown) | undefined
  /** To be called in the end, without faults. */
  readonly end?: (() => unknown) | undefined
}

export type Prepare = (stage: Stage) => Attempt

const increment = defineKernel({
  name: 'increment',
  source: '',
  signature: ['inout u8*', 'in u8*'],
  simulateGrid: (_grid, to, from) => to.fill((from[0] ?? 0) + 1),
})

const bytesOf = async (buffer: DeviceBuffer): Promise<number[]> => [
  ...new Set(await buffer.device.createStream().download(buffer)),
]
const holds =
  (buffer: DeviceBuffer, value: number): (() => Promise<void>) =>
  async () =>
    assert.deepEqual(await bytesOf(buffer), [value])

/** Makes something once, and closes it in the end. */
function making(make: () => { close(): void }): Attempt {
  let made: { close(): void } | undefined
  return {
    act: () => {
      made = make()
    },
    end: () => made?.close(),
  }
}

const closing = (thing: { close(): void; readonly closed: boolean }): Attempt => ({
  act: () => thing.close(),
  refused: () => assert.equal(thing.closed, false),
  check: () => assert.equal(thing.closed, true),
})

export const CALLS: Readonly<Record<string, Prepare>> = {
  'new Stream()': ({ device }) => making(() => new Stream({ device })),
  'new Stream({ memorySyncDomain })': ({ device }) => making(() => new Stream({ device, memorySyncDomain: 'remote' })),
  'device.createStream()': ({ device }) => making(() => device.createStream({ nonBlocking: false })),
  'device.split()': ({ device }) =>
    making(() => {
      const parts = device.split({ multiprocessors: [8] })
      return { close: () => parts.forEach((part) => void part.close()) }
    }),
  'new Stream({ context })': ({ device }) => {
    const [context, rest] = device.split({ multiprocessors: [8] })
    rest.close()
    const { act, end } = making(() => new Stream({ context }))
    return {
      act,
      end: () => {
        end?.()
        context.close()
      },
    }
  },
  'greenContext.close()': ({ device }) => {
    const [context, rest] = device.split({ multiprocessors: [8] })
    rest.close()
    return closing(context)
  },
  'new Event()': ({ device }) => making(() => new Event({ device })),
  'device.createEvent({ timing })': ({ device }) => making(() => device.createEvent({ timing: true })),
  'foreignStream()': ({ device }) => {
    let handle = 0n
    return {
      act: () => {
        handle = foreignStream(device)
      },
      end: () => destroyForeignStream(handle),
    }
  },
  'device.alloc() on the stream': ({ device, stream }) => making(() => device.alloc(32, { stream })),
  'device.alloc() on the current stream': ({ device }) => making(() => device.alloc(32)),
  'device.alloc() on a foreign stream': ({ device }) => {
    const handle = foreignStream(device)
    const stream = new ExternalStream(handle)
    const { act, end } = making(() => device.alloc(32, { stream }))
    return {
      act,
      end: () => {
        end?.()
        destroyForeignStream(handle)
      },
    }
  },
  'device.alloc({ interprocess })': ({ device }) => making(() => device.alloc(32, { interprocess: true })),
  'device.allocPinned()': ({ device }) => making(() => device.allocPinned(32)),

  'stream.record()': ({ stream }) => making(() => stream.record()),
  'stream.record({ timing })': ({ stream }) => making(() => stream.record({ timing: true })),
  'stream.record(event)': ({ stream, device }) => {
    const event = new Event({ device })
    return { act: () => stream.record(event), check: () => assert.equal(event.query(), true), end: () => event.close() }
  },
  'event.record(stream)': ({ stream, device }) => {
    const event = new Event({ device })
    return { act: () => event.record(stream), end: () => event.close() }
  },
  'stream.wait(event)': ({ stream, other }) => {
    const event = other.record()
    return { act: () => stream.wait(event), end: () => event.close() }
  },
  'stream.wait(stream)': ({ stream, other }) => ({ act: () => stream.wait(other) }),
  'null stream: wait, record, query': ({ stream, device }) => ({
    act: () => {
      const { defaultStream } = device
      defaultStream.wait(stream)
      defaultStream.record().close()
      defaultStream.query()
    },
  }),
  'stream.launchHostFunc()': ({ stream, ran }) => ({
    act: () =>
      stream.launchHostFunc(() => {
        ran.count += 1
      }),
    check: () => assert.equal(ran.count, 1),
  }),
  'stream.addCallback()': ({ stream, ran }) => ({
    act: () =>
      stream.addCallback(() => {
        ran.count += 1
      }, undefined),
    check: () => assert.equal(ran.count, 1),
  }),
  'stream.query()': ({ stream }) => ({ act: () => stream.query() }),
  'event.query()': ({ stream }) => {
    const event = stream.record()
    return { act: () => event.query(), end: () => event.close() }
  },
  'stream.synchronize()': ({ stream }) => ({ act: () => stream.synchronize() }),
  'event.synchronize()': ({ stream }) => {
    const event = stream.record()
    return { act: () => event.synchronize(), end: () => event.close() }
  },
  'device.synchronize()': ({ device }) => ({ act: () => device.synchronize() }),
  'device.drainHostFunctions()': ({ device }) => ({ act: () => device.drainHostFunctions() }),
  'stream.finished()': ({ stream }) => ({ act: () => stream.finished() }),
  'event.finished()': ({ stream }) => {
    const event = stream.record()
    return { act: () => event.finished(), end: () => event.close() }
  },
  'device.finished()': ({ device }) => ({ act: () => device.finished() }),
  'stream.finished() that is aborted': ({ stream }) => ({
    act: async () => {
      const controller = new AbortController()
      const finished = stream.finished({ signal: controller.signal })
      controller.abort(new Error('enough'))
      await finished.catch((error: Error) => {
        if (error.message !== 'enough') throw error
      })
    },
  }),

  'stream.fill()': ({ stream, own }) => ({ act: () => stream.fill(own, 5), check: holds(own, 5) }),
  'stream.fill() of memory of another stream': ({ stream, theirs }) => ({
    act: () => stream.fill(theirs, 0x0505, { width: 2 }),
    check: holds(theirs, 5),
  }),
  'stream.copy()': ({ stream, own, theirs }) => ({ act: () => stream.copy(own, theirs), check: holds(own, 2) }),
  'stream.copy() to pinned memory, and on': ({ stream, device, own, theirs }) => {
    const pinned = device.allocPinned(64)
    return {
      act: () => stream.copy(pinned, theirs).copy(own, pinned),
      check: async () => {
        assert.equal(pinned.bytes[63], 2)
        await holds(own, 2)()
      },
      end: () => pinned.close(),
    }
  },
  'stream.upload()': ({ stream, theirs }) => ({
    act: () => stream.upload(theirs, new Uint8Array(64).fill(6)),
    check: holds(theirs, 6),
  }),
  'stream.upload() of more than there is room for': ({ stream, device }) => {
    const long = device.alloc(17 * 2 ** 20, { stream })
    return {
      act: () => stream.upload(long, new Uint8Array(long.byteLength).fill(6)),
      check: async () => assert.deepEqual(await bytesOf(long.slice(long.byteLength - 64, 64)), [6]),
      end: () => long.close(),
    }
  },
  'stream.download()': ({ stream, theirs }) => ({
    act: async () => assert.deepEqual([...new Set(await stream.download(theirs))], [2]),
  }),
  'stream.download() of more than there is room for': ({ stream, device }) => {
    const long = device.alloc(17 * 2 ** 20, { stream })
    stream.fill(long, 7)
    return {
      act: async () => {
        const bytes = await stream.download(long)
        // One of each chunk is enough to tell whether that was copied.
        for (let at = 0; at < bytes.length; at += 2 ** 19) assert.equal(bytes[at], 7)
      },
      end: () => long.close(),
    }
  },
  'stream.uploader()': ({ stream, own }) => ({
    act: async () => {
      const writer = stream.uploader(own).getWriter()
      await writer.write(new Uint8Array(32).fill(8))
      await writer.write(new Uint8Array(32).fill(8))
      await writer.close()
    },
    check: holds(own, 8),
  }),
  'stream.downloader()': ({ stream, own }) => ({
    act: async () => {
      for await (const chunk of stream.downloader(own, { chunkBytes: 32 })) assert.equal(chunk[0], 1)
    },
  }),

  'stream.launch(kernel)': ({ stream, own, theirs }) => ({
    act: () => stream.launch(increment, { grid: 1, block: 1 }, own, theirs),
    check: holds(own, 3),
  }),
  'stream.external()': ({ stream, own, theirs }) => ({
    act: () =>
      stream.external(
        { name: 'theirs', memory: [{ buffer: own }, { buffer: theirs }], simulate: ([to]) => to?.fill(9) },
        () => {},
      ),
    check: holds(own, 9),
  }),
  ...Object.assign({}, ...aboutLibraries.map(({ publicCalls }) => publicCalls)),
  'busy()': ({ stream }) => ({ act: () => busy(stream, 10) }),
  'latch(), and opening it': ({ stream }) => {
    let held: ReturnType<typeof latch> | undefined
    return {
      act: () => {
        held ??= latch(stream)
        held.open()
      },
    }
  },

  'a capture': ({ stream, own, ran }) => {
    const graphs: { close(): void }[] = []
    return {
      act: () => {
        // Where the stack has run over in the end of an earlier attempt.
        if (stream.isCapturing) stream.endCapture().close()
        const graph = stream.capture(() => {
          stream.fill(own, 4).launchHostFunc(() => {
            ran.count += 1
          })
        })
        graphs.push(graph, graph.instantiate().launch(stream))
      },
      check: async () => {
        await holds(own, 4)()
        assert.equal(ran.count, 1)
      },
      end: () => {
        for (const graph of graphs) graph.close()
      },
    }
  },
  'exec.launch(), upload() and update()': ({ stream, theirs }) => {
    const graph = stream.capture(() => stream.fill(theirs, 4))
    const exec = graph.instantiate()
    return {
      act: () => exec.upload(stream).update(graph).launch(stream),
      check: holds(theirs, 4),
      end: () => {
        for (const each of [graph, exec]) each.close()
      },
    }
  },
  'graph.nodes, exec.update(node) and exec.setEnabled()': ({ stream, theirs, own }) => {
    const graph = stream.capture(() => stream.fill(theirs, 4).launch(increment, { grid: 1, block: 64 }, own, theirs))
    const exec = graph.instantiate()
    const config = { grid: 1, block: 64 }
    return {
      act: () => {
        const [fill] = graph.nodes
        const [kernel] = graph.nodesOf(increment)
        assert.ok(fill?.kind === 'fill' && kernel !== undefined)
        exec.update(fill, theirs, 6).update(kernel, config, own, theirs).setEnabled(kernel, false)
        exec.setEnabled(kernel, true).launch(stream)
      },
      check: holds(own, 7),
      end: () => {
        for (const each of [graph, exec]) each.close()
      },
    }
  },
  'a graph within a graph, and a capture that adds to one': ({ stream, own }) => {
    const inner = stream.capture(() => stream.fill(own, 4))
    const graphs: { close(): void }[] = [inner]
    return {
      act: () => {
        if (stream.isCapturing) stream.endCapture().close()
        const outer = stream.capture(() => void stream.launch(inner))
        graphs.push(outer)
        const [node] = outer.nodes
        stream.capture(() => void stream.fill(own, 5), { into: outer, after: node === undefined ? [] : [node] })
        graphs.push(outer.instantiate().launch(stream))
      },
      check: holds(own, 5),
      end: () => {
        for (const graph of graphs) graph.close()
      },
    }
  },

  'buffer.close()': ({ stream, device }) => {
    const buffer = device.alloc(64, { stream })
    return closing(buffer)
  },
  'buffer.close() after use by others': ({ stream, other, device }) => {
    const buffer = device.alloc(64, { stream })
    other.fill(buffer, 3)
    return closing(buffer)
  },
  'buffer.close() when its stream is closed': ({ device }) => {
    const allocationStream = new Stream({ device })
    const buffer = device.alloc(64, { stream: allocationStream })
    allocationStream.fill(buffer, 3).close()
    return closing(buffer)
  },
  'buffer.close() of memory for other processes': ({ stream, device }) => {
    const buffer = device.alloc(64, { interprocess: true })
    stream.fill(buffer, 3)
    return closing(buffer)
  },
  'pinned.close()': ({ stream, device }) => {
    const buffer = device.allocPinned(64)
    stream.fill(buffer, 3)
    return closing(buffer)
  },
  'stream.close()': ({ device }) => {
    const allocationStream = new Stream({ device })
    const buffer = device.alloc(64, { stream: allocationStream })
    allocationStream.fill(buffer, 3)
    return { ...closing(allocationStream), end: () => buffer.close() }
  },
  'event.close()': ({ stream }) => {
    const event = stream.record({ timing: true })
    return closing(event)
  },
}

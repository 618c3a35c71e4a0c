/** G14, G15: the nodes of a graph; one node of an instance changed, or switched off. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type CopyNode,
  DeviceBuffer,
  defineKernel,
  type FillNode,
  type Graph,
  type GraphExec,
  type GraphNode,
  type KernelNode,
  type LaunchConfig,
  type PinnedBuffer,
  type Stream,
} from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import { onEveryBackend } from '../helpers/suite.js'
import { add, affine } from '../soak/kernels.js'
import { CAPTURE_MODES, collected, collectUntil, ONE_DEVICE, refused, refusedByDriver, secondDevice } from './expect.js'

const BYTES = 64
const ONE: LaunchConfig = { grid: 1, block: BYTES }

const noArguments = defineKernel({
  name: 'spin',
  source: 'extern "C" __global__ void spin(unsigned long long n) {}',
  signature: ['u64'],
  simulateGrid() {},
})

onEveryBackend('nodes', (bench) => {
  const { device } = bench

  interface Scene {
    readonly stream: Stream
    readonly a: DeviceBuffer
    readonly b: DeviceBuffer
    readonly c: DeviceBuffer
    readonly graph: Graph
    readonly exec: GraphExec
    readonly fill: FillNode
    readonly copy: CopyNode
    readonly kernel: KernelNode<readonly ['inout u8*', 'i32', 'u8']>
    /** The first bytes of the three buffers, when all is done. */
    read(): Promise<readonly number[]>
  }

  /** A graph that fills `a` with 1, copies it to `b`, and makes `b` 3 * b + 2. */
  async function scene(run: (scene: Scene) => void | Promise<void>): Promise<void> {
    await affine.prepare(device)
    await add.prepare(device)
    using stream = bench.stream()
    const [a, b, c] = [0, 0, 0].map(() => device.alloc(BYTES, { stream })) as [DeviceBuffer, DeviceBuffer, DeviceBuffer]
    for (const buffer of [a, b, c]) stream.fill(buffer, 0)
    using graph = stream.capture(() => {
      stream.fill(a, 1).copy(b, a).launch(affine, ONE, b, BYTES, 2)
    })
    using exec = graph.instantiate()
    const [fill, copy] = graph.nodes as [FillNode, CopyNode, GraphNode]
    const [kernel] = graph.nodesOf(affine)
    assert.ok(kernel !== undefined)
    const read = async (): Promise<readonly number[]> => {
      const bytes = await Promise.all([a, b, c].map((buffer) => stream.download(buffer)))
      for (const each of bytes) assert.equal(new Set(each).size, 1, 'all bytes of a buffer are the same')
      return bytes.map(([first]) => first ?? -1)
    }
    await run({ stream, a, b, c, graph, exec, fill, copy, kernel, read })
    for (const buffer of [a, b, c]) buffer.close()
  }

  test('G14 a graph tells its nodes, each with its kind and those that it comes after', () =>
    scene(({ graph, fill, copy, kernel }) => {
      const { nodes } = graph
      assert.equal(nodes.length, graph.nodeCount)
      assert.deepEqual(
        nodes.map(({ kind, index, after }) => [kind, index, after.map((before) => before.index)]),
        [
          ['fill', 0, []],
          ['copy', 1, [0]],
          ['kernel', 2, [1]],
        ],
      )
      assert.deepEqual([fill.byteLength, copy.byteLength], [BYTES, BYTES])
      assert.equal(kernel, nodes[2])
      assert.equal(kernel.kernel, affine)
      assert.equal(kernel.name, 'affine')
      assert.deepEqual(kernel.config, { grid: 1, block: BYTES, sharedMemory: 0 })
      assert.equal(graph.nodes, nodes, 'the same objects each time')
      assert.deepEqual(graph.nodesOf(add), [])
      assert.match(String(kernel), /^KernelNode\(2, kernel\)$/)
      assert.throws(() => structuredClone(kernel))
    }))

  test('G14 branches join again, and events and host functions have kinds of their own', () => {
    using stream = bench.stream()
    using side = bench.stream()
    using buffer = device.alloc(BYTES, { stream })
    using pinned = device.allocPinned(BYTES)
    const event = stream.record()
    stream.synchronize()
    using graph = stream.capture(() => {
      stream.wait(event, { external: true }).fill(buffer, 1)
      side.wait(stream)
      side.launchHostFunc(() => {})
      stream.copy(pinned, buffer).copy(pinned.subarray(0, 8), pinned.subarray(8, 16))
      stream.wait(side)
      stream.record(event, { external: true })
    })
    assert.deepEqual(
      graph.nodes.map(({ kind, after }) => [kind, after.map(({ index }) => index).sort()]),
      [
        ['eventWait', []],
        ['fill', [0]],
        ['hostFunction', [1]],
        ['copy', [1]],
        ['hostFunction', [3]],
        ['eventRecord', [2, 4]],
      ],
    )
  })

  test('G15 a kernel gets other arguments for the launches to come', () =>
    scene(async ({ stream, b, c, exec, kernel, read }) => {
      stream.launch(exec)
      assert.deepEqual(await read(), [1, 5, 0])
      exec.update(kernel, ONE, b, BYTES, 7)
      stream.launch(exec)
      assert.deepEqual(await read(), [1, 10, 0])
      exec.update(kernel, kernel.config ?? ONE, c, BYTES, 9).launch(stream)
      assert.deepEqual(await read(), [1, 1, 9])
      stream.launch(exec)
      assert.deepEqual(await read(), [1, 1, 36])
    }))

  test('G15 launches under way keep what they were launched with', () =>
    scene(async ({ stream, b, c, exec, kernel, copy, fill, read }) => {
      using latch = bench.latch(stream)
      stream.launch(exec)
      exec.update(kernel, ONE, c, BYTES, 4)
      exec.update(fill, c, 6)
      exec.update(copy, b, c)
      latch.open()
      assert.deepEqual(await read(), [1, 5, 0])
      stream.launch(exec)
      assert.deepEqual(await read(), [1, 6, 22])
    }))

  test('G15 a copy and a fill get other buffers, values and lengths', () =>
    scene(async ({ stream, a, b, c, exec, kernel, copy, fill, read }) => {
      exec.setEnabled(kernel, false)
      exec.update(fill, c, 0x0505, { width: 2 }).update(copy, a, c).launch(stream)
      assert.deepEqual(await read(), [5, 0, 5])
      exec.update(fill, b.subarray(0, 8), -1).update(copy, c.subarray(8, 16), b.subarray(0, 8)).launch(stream)
      await stream.finished()
      const bytes = await stream.download(c)
      assert.deepEqual([...bytes.subarray(0, 17)], [...Array(8).fill(5), ...Array(8).fill(255), 5])
    }))

  test('G14 copies of rows and of batches are copies, within the host host functions; values are of no other kind', () =>
    scene(({ stream, a, b }) => {
      using pinned = device.allocPinned(BYTES)
      const rows = { shape: [2, 8], sourceStrides: [16] } as const
      using graph = stream.capture(() => {
        stream.copy(a, b, rows).copy(pinned.subarray(0, 16), pinned.subarray(24, 48), rows)
        stream.copy([[pinned.subarray(0, 16), a.subarray(0, 16)]]).launchHostFunc(() => {})
        stream.writeValue(pinned, 1).waitValue(pinned, 1)
      })
      const kinds = graph.nodes.map(({ kind }) => kind)
      assert.deepEqual(kinds, ['copy', 'hostFunction', 'copy', 'hostFunction', 'other', 'other'])
    }))

  test('G15 copies of one batch are changed as other copies are, and a copy of several rows is not', () =>
    scene(async ({ stream, a, b, c }) => {
      using pinned = device.allocPinned(BYTES)
      const half = BYTES / 2
      const rows = { shape: [2, 8], sourceStrides: [16] } as const
      using graph = stream.capture(() => {
        stream.copy([[a.subarray(0, half), b.subarray(0, half)]])
        stream.copy(a, b, rows).copy(a, b, { shape: [1, 8] })
      })
      const [batched, several, one] = graph.nodes.filter((node): node is CopyNode => node.kind === 'copy')
      assert.ok(batched && several && one)
      using exec = graph.instantiate()
      for (const node of [batched, one]) {
        refused(() => exec.update(node, pinned, a), 'ERR_INVALID_ARG_VALUE', /no update changes that/)
      }
      refused(() => exec.update(several, a, b), 'ERR_INVALID_ARG_VALUE', /several rows/)
      exec.setEnabled(several, false).update(batched, c, b).update(one, c.subarray(8, 16), a.subarray(0, 8))
      stream.fill(a, 1).fill(b, 2).launch(exec)
      const bytes = [...(await stream.download(c))]
      assert.deepEqual(
        bytes,
        bytes.map((_, at) => (at >= 8 && at < 16 ? 1 : 2)),
      )
    }))

  test('G15 a copy gets other memory, but not memory of a pool in the place of other memory, nor the reverse', async () => {
    using stream = bench.stream()
    const two = <B>(make: () => B): readonly [B, B] => [make(), make()]
    const buffers = {
      pool: two(() => device.alloc(BYTES)),
      interprocess: two(() => device.alloc(BYTES, { interprocess: true })),
      pinned: two(() => device.allocPinned(BYTES)),
    }
    const kinds = ['pool', 'interprocess', 'pinned'] as const
    const pairs = kinds.flatMap((to) => kinds.map((from) => ({ to, from })))
    const copies = pairs.filter(({ to, from }) => to !== 'pinned' || from !== 'pinned')
    for (const before of copies) {
      using graph = stream.capture(() => void stream.copy(buffers[before.to][0], buffers[before.from][1]))
      using exec = graph.instantiate()
      const [node] = graph.nodes
      assert.ok(node?.kind === 'copy')
      for (const after of copies) {
        const update = (): unknown => exec.update(node, buffers[after.to][1], buffers[after.from][0])
        const ends = [[before.to, after.to] as const, [before.from, after.from] as const]
        if (ends.every(([was, is]) => was === is)) update()
        else if (ends.some(([was, is]) => (was === 'pinned') !== (is === 'pinned'))) {
          refused(update, 'ERR_INVALID_ARG_VALUE', /no update changes that/)
        } else assert.match(refusedByDriver(update, 1).message, /memory of a pool.*interprocess.*capture another graph/)
      }
      exec.launch(stream)
    }
    await stream.finished()
    for (const buffer of Object.values(buffers).flat()) buffer.close()
  })

  test('G15 a node is switched off and on, and stays off through updates', () =>
    scene(async ({ stream, b, exec, kernel, copy, fill, read }) => {
      exec.setEnabled(kernel, false).launch(stream)
      assert.deepEqual(await read(), [1, 1, 0])
      exec.update(kernel, ONE, b, BYTES, 9).launch(stream)
      assert.deepEqual(await read(), [1, 1, 0])
      exec.setEnabled(copy, false).setEnabled(fill, false).setEnabled(kernel, true).launch(stream)
      assert.deepEqual(await read(), [1, 12, 0])
      exec.setEnabled(copy, true).setEnabled(fill, true).launch(stream)
      assert.deepEqual(await read(), [1, 12, 0])
    }))

  test('G15 a fill of the second device is switched off and on', async (t) => {
    const there = secondDevice(bench)
    if (there === undefined) return t.skip(ONE_DEVICE)
    using stream = there.createStream()
    using buffer = there.alloc(4, { stream })
    stream.fill(buffer, 1)
    using graph = stream.capture(() => stream.fill(buffer, 2))
    using exec = graph.instantiate()
    const [node] = graph.nodes
    assert.ok(node?.kind === 'fill')
    exec.setEnabled(node, false).launch(stream)
    assert.deepEqual([...(await stream.download(buffer))], [1, 1, 1, 1])
    exec.setEnabled(node, true).launch(stream)
    assert.deepEqual([...(await stream.download(buffer))], [2, 2, 2, 2])
  })

  for (const kind of ['fill', 'copy', 'kernel'] as const) {
    for (const place of ['first', 'second'] as const) {
      test(`G15 launches that wait for others leave out a ${kind} that is off, the ${place} of the graph`, () =>
        scene(async ({ stream, a, b, c, read }) => {
          using graph = stream.capture(() => {
            if (place === 'second') stream.fill(c, 4)
            if (kind === 'fill') stream.fill(a, 1)
            if (kind === 'copy') stream.copy(a, b)
            if (kind === 'kernel') stream.launch(affine, ONE, a, BYTES, 7)
            stream.launch(affine, ONE, b, BYTES, 2)
          })
          using exec = graph.instantiate()
          const off = graph.nodes[place === 'first' ? 0 : 1] as FillNode
          assert.equal(off.kind, kind)
          exec.setEnabled(off, false)
          {
            using _held = bench.latch(stream)
            for (let launches = 3; launches > 0; launches -= 1) stream.launch(exec)
          }
          assert.deepEqual(await read(), [0, 26, place === 'first' ? 0 : 4])
          exec.setEnabled(off, true).launch(stream)
          assert.deepEqual(await read(), [{ fill: 1, copy: 26, kernel: 7 }[kind], 80, place === 'first' ? 0 : 4])
        }))
    }
  }

  test('G14 an empty graph has no nodes, and a graph of one node no order', () => {
    using stream = bench.stream()
    using buffer = device.alloc(BYTES, { stream })
    using empty = stream.capture(() => {})
    assert.deepEqual(empty.nodes, [])
    using one = stream.capture(() => void stream.fill(buffer, 1))
    assert.deepEqual(
      one.nodes.map(({ after }) => after),
      [[]],
    )
  })

  for (const [from, to] of [
    ['device', 'device'],
    ['pinned', 'pinned'],
    ['device', 'pinned'],
    ['pinned', 'device'],
  ] as const) {
    test(`G15 a fill of ${from} memory is ${from === to ? '' : 'not '}changed to fill ${to} memory`, async () => {
      using stream = bench.stream()
      const make = (where: string): DeviceBuffer | PinnedBuffer =>
        where === 'pinned' ? device.allocPinned(BYTES) : device.alloc(BYTES, { stream })
      const [first, second] = [make(from), make(to)]
      stream.fill(first, 0).fill(second, 0)
      using graph = stream.capture(() => void stream.fill(first, 0x01010101, { width: 4 }))
      using exec = graph.instantiate()
      const update = (): unknown => exec.update(graph.nodes[0] as FillNode, second.subarray(16, 48) as DeviceBuffer, 7)
      if (from !== to) {
        refused(update, 'ERR_INVALID_ARG_VALUE', /no update changes that/)
        return
      }
      update()
      stream.launch(exec)
      await stream.finished()
      const read = async (buffer: DeviceBuffer | PinnedBuffer) => [...(await stream.download(buffer))]
      assert.deepEqual(new Set(await read(first)), new Set([0]))
      assert.deepEqual(await read(second), [...Array(16).fill(0), ...Array(32).fill(7), ...Array(16).fill(0)])
    })
  }

  test('G15 nodes that are changed, switched off and switched on again have what they were changed to', () =>
    scene(async ({ stream, b, c, exec, kernel, copy, fill, read }) => {
      for (let round = 1; round <= 3; round += 1) {
        stream.fill(b, 0).fill(c, 0)
        exec.update(kernel, ONE, c, BYTES, round).update(fill, b, round)
        for (const node of [kernel, copy, fill]) exec.setEnabled(node, false)
        stream.launch(exec)
        assert.deepEqual(await read(), [0, 0, 0])
        for (const node of [kernel, fill]) exec.setEnabled(node, true)
        stream.launch(exec)
        assert.deepEqual(await read(), [0, round, round])
        exec.setEnabled(kernel, false).setEnabled(kernel, true).launch(stream)
        assert.deepEqual(await read(), [0, round, 4 * round])
      }
    }))

  test('G15 an instance is either updated by graphs or has nodes switched', () =>
    scene(async ({ stream, graph, exec, kernel, read }) => {
      using second = graph.instantiate()
      exec.setEnabled(kernel, false)
      refused(() => exec.update(graph), 'ERR_UNSUPPORTED', /make another instance/)
      second.update(graph)
      refused(() => second.setEnabled(kernel, false), 'ERR_UNSUPPORTED', /make another instance/)
      exec.setEnabled(kernel, true)
      refused(() => exec.update(graph), 'ERR_UNSUPPORTED', /make another instance/)
      stream.launch(exec).launch(second)
      assert.deepEqual(await read(), [1, 5, 0])
    }))

  test('G15 an update of the whole instance takes all nodes, and its nodes are those of the first graph', () =>
    scene(async ({ stream, a, b, c, exec, kernel, read }) => {
      using other = stream.capture(() => {
        stream.fill(a, 2).copy(c, a).launch(affine, ONE, c, BYTES, 1)
      })
      exec.update(kernel, ONE, b, BYTES, 9)
      exec.update(other).launch(stream)
      assert.deepEqual(await read(), [2, 0, 7])
      exec.update(kernel, ONE, b, BYTES, 3).launch(stream)
      assert.deepEqual(await read(), [2, 3, 2])
      const [theirs] = other.nodesOf(affine)
      assert.ok(theirs)
      refused(() => exec.update(theirs, ONE, b, BYTES, 3), 'ERR_INVALID_ARG_VALUE', /not of the graph/)
      refused(() => exec.setEnabled(theirs, false), 'ERR_INVALID_ARG_VALUE', /not of the graph/)
    }))

  test('G15 instances are changed one by one, also when their graph is closed', () =>
    scene(async ({ stream, b, c, graph, exec, kernel, read }) => {
      using second = graph.instantiate()
      graph.close()
      exec.update(kernel, ONE, c, BYTES, 3)
      stream.launch(exec).launch(second)
      assert.deepEqual(await read(), [1, 5, 3])
      second.update(kernel, ONE, b, BYTES, 0).launch(stream)
      assert.deepEqual(await read(), [1, 3, 3])
    }))

  test('G15 what a node does not take is refused, and nothing is changed', () =>
    scene(async ({ stream, b, graph, exec, kernel, copy, fill, read }) => {
      const wrong = exec.update as (...args: unknown[]) => GraphExec
      const update = (...args: unknown[]): unknown => wrong.apply(exec, args)
      refused(() => update(kernel, ONE, b, BYTES), 'ERR_INVALID_ARG_VALUE', /3 argument/)
      refused(() => update(kernel, ONE, b, BYTES, 256), 'ERR_OUT_OF_RANGE')
      refused(() => update(kernel, ONE, b, 'x', 1), 'ERR_INVALID_ARG_TYPE')
      refused(() => update(kernel, { ...ONE, grids: 1 }, b, BYTES, 1), 'ERR_INVALID_ARG_VALUE')
      refused(
        () => update(kernel, { ...ONE, cooperative: true }, b, BYTES, 1),
        'ERR_INVALID_ARG_VALUE',
        /no update changes it/,
      )
      refused(() => update(kernel, undefined, b, BYTES, 1), 'ERR_INVALID_ARG_TYPE')
      refused(() => update(copy, b), 'ERR_INVALID_ARG_TYPE', /source/)
      refused(() => update(copy, b, b.subarray(0, 8)), 'ERR_OUT_OF_RANGE')
      using pinned = device.allocPinned(BYTES)
      refused(() => update(copy, pinned, b), 'ERR_INVALID_ARG_VALUE', /device 0.*no update changes that/s)
      refused(() => update(fill, b, 256), 'ERR_OUT_OF_RANGE')
      refused(() => update(fill, b.subarray(0, 0), 1), 'ERR_OUT_OF_RANGE', /setEnabled/)
      refused(() => update(copy, b.subarray(0, 0), b.subarray(0, 0)), 'ERR_OUT_OF_RANGE', /setEnabled/)
      refused(() => update(fill, b, 1, { width: 3 }), 'ERR_INVALID_ARG_VALUE')
      refused(() => update({ kind: 'fill' }, b, 1), 'ERR_INVALID_ARG_TYPE', /a Graph, or a node of one/)
      refused(() => update(undefined), 'ERR_INVALID_ARG_TYPE')
      refused(() => exec.setEnabled(kernel, 1 as unknown as boolean), 'ERR_INVALID_ARG_TYPE')
      refused(() => exec.setEnabled({} as KernelNode, true), 'ERR_INVALID_ARG_TYPE')
      refused(() => graph.nodesOf({} as never), 'ERR_INVALID_ARG_TYPE')
      refusedByDriver(() => update(kernel, { grid: 1, block: 4096 }, b, BYTES, 1), 1)
      const closed = device.alloc(BYTES, { stream })
      closed.close()
      refused(() => update(kernel, ONE, closed, BYTES, 1), 'ERR_CLOSED')
      refused(() => update(copy, closed, b), 'ERR_CLOSED')
      refused(() => update(fill, closed, 1), 'ERR_CLOSED')
      const [elsewhere] = simulate().devices
      assert.ok(elsewhere)
      const foreign = elsewhere.alloc(BYTES)
      refused(() => update(kernel, ONE, foreign, BYTES, 1), 'ERR_DEVICE_MISMATCH')
      refused(() => update(fill, foreign, 1), 'ERR_DEVICE_MISMATCH')
      stream.launch(exec)
      assert.deepEqual(await read(), [1, 5, 0])
      exec.close()
      refused(() => update(kernel, ONE, b, BYTES, 1), 'ERR_CLOSED')
      refused(() => exec.setEnabled(kernel, false), 'ERR_CLOSED')
      graph.close()
      refused(() => graph.nodes, 'ERR_CLOSED')
      refused(() => graph.nodesOf(affine), 'ERR_CLOSED')
    }))

  test('G15 a host function and an event cannot be changed alone', () => {
    using stream = bench.stream()
    using graph = stream.capture(() => {
      stream.launchHostFunc(() => {}).record(device.createEvent(), { external: true })
    })
    using exec = graph.instantiate()
    for (const node of graph.nodes) {
      refused(() => exec.setEnabled(node as KernelNode, false), 'ERR_INVALID_ARG_VALUE', /cannot be switched off/)
      refused(() => exec.update(node as FillNode, undefined as never, 1), 'ERR_INVALID_ARG_VALUE', /changed alone/)
    }
  })

  test('G15 a getter that closes the instance changes nothing', () =>
    scene(({ b, exec, kernel }) => {
      const config = {
        get grid() {
          exec.close()
          return 1
        },
        block: BYTES,
      }
      refused(() => exec.update(kernel, config, b, BYTES, 1), 'ERR_CLOSED')
    }))

  test('G15 it can be done beside a capture, in every mode, and in a host function', () =>
    scene(async ({ stream, b, c, exec, kernel, fill, copy, read }) => {
      for (const mode of ['global', 'threadLocal', 'relaxed'] as const) {
        using other = bench.stream()
        other.beginCapture(mode)
        exec.update(kernel, ONE, c, BYTES, 1).setEnabled(copy, false).setEnabled(copy, true)
        exec.update(fill, b, 2)
        other.endCapture().close()
      }
      stream.launchHostFunc(() => {
        exec.update(kernel, ONE, c, BYTES, 8)
      })
      await stream.finished()
      stream.launch(exec)
      assert.deepEqual(await read(), [0, 0, 8])
    }))

  test('G13 an instance keeps what its nodes were changed to use, and lets go of it', () =>
    scene(async ({ stream, exec, kernel, copy, read, c }) => {
      const changed = (): { readonly exec: GraphExec; readonly weak: WeakRef<object> } => {
        const more = device.alloc(BYTES, { stream })
        stream.fill(more, 11)
        exec.update(copy, c, more).launch(stream)
        more.close()
        return { exec, weak: new WeakRef(more) }
      }
      const { weak } = changed()
      await collectUntil(() => weak.deref() === undefined)
      const junk = Array.from({ length: 4 }, () => device.alloc(BYTES, { stream }))
      for (const buffer of junk) stream.fill(buffer, 0xee)
      stream.launch(exec)
      assert.deepEqual(await read(), [1, 8, 11])
      // A step of a program after the other, each with a buffer of its own.
      for (let step = 0; step < 100; step += 1) {
        const mine = device.alloc(BYTES, { stream })
        stream.fill(mine, 0)
        exec.update(kernel, ONE, mine, BYTES, step).launch(stream)
        mine.close()
      }
      await stream.finished()
      for (const buffer of junk) buffer.close()
    }))

  test('G13 buffers of which a kernel or a changed node uses a slice, and that know the graph, are collected with it', async () => {
    await affine.prepare(device)
    using stream = bench.stream()
    const make = (): WeakRef<object>[] => {
      const buffers = [0, 0, 0].map(() => device.alloc(BYTES, { stream })) as [DeviceBuffer, DeviceBuffer, DeviceBuffer]
      const [a, b, c] = buffers
      const half = (buffer: DeviceBuffer): DeviceBuffer => buffer.subarray(0, BYTES / 2)
      const graph = stream.capture(() => {
        stream.fill(half(a), 1).launch(affine, ONE, half(b), BYTES / 2, 2)
      })
      const exec = graph.instantiate()
      for (const node of graph.nodes) if (node.kind === 'fill') exec.update(node, half(c), 3)
      for (const buffer of buffers) Object.assign(buffer, { graph, exec })
      return buffers.map((buffer) => new WeakRef(buffer))
    }
    const made = make()
    assert.ok(await collectUntil(() => made.every((each) => each.deref() === undefined)))
  })

  test('G13 the owner of foreign memory that a node uses is kept with the instance', () =>
    scene(async ({ a, exec, fill, c }) => {
      const put = (): WeakRef<object> => {
        const owner = {}
        exec.update(fill, DeviceBuffer.from(a.pointer, BYTES, { device, owner }), 1)
        return new WeakRef(owner)
      }
      const weak = put()
      assert.equal(await collected(() => weak.deref() === undefined), false)
      exec.update(fill, c, 1)
      assert.equal(await collectUntil(() => weak.deref() === undefined), true)
    }))

  test('M10 a node uses memory of another device that its own can reach', async (t) => {
    const second = secondDevice(bench)
    if (second === undefined) return t.skip(ONE_DEVICE)
    using theirs = second.alloc(BYTES)
    second.synchronize()
    await scene(async ({ stream, exec, kernel, fill }) => {
      exec.update(kernel, ONE, theirs, BYTES, 5)
      refused(() => exec.update(fill, theirs, 1), 'ERR_INVALID_ARG_VALUE', /memory of device 0/)
      stream.fill(theirs, 1).launch(exec)
      assert.equal((await stream.download(theirs))[0], 8)
    })
  })

  test('G15 two arguments of one kernel of forty are changed at each of many launches', () =>
    scene(async ({ stream, a, c }) => {
      using graph = stream.capture(() => {
        stream.fill(a, 1).fill(c, 0)
        for (let layer = 0; layer < 40; layer += 1) stream.launch(add, ONE, c, a, BYTES)
      })
      using exec = graph.instantiate()
      const node = graph.nodesOf(add)[20]
      assert.ok(node)
      const pinned: PinnedBuffer = device.allocPinned(BYTES)
      for (let step = 0; step < 100; step += 1) {
        // All bytes, or none.
        exec.update(node, ONE, c, step % 2 === 0 ? a : c, BYTES).launch(stream)
        await stream.copy(pinned, c).finished()
        assert.deepEqual(new Set(pinned.bytes), new Set([step % 2 === 0 ? 40 : 59]))
      }
      pinned.close()
    }))

  test('G14 a kernel that a graph does not have has no nodes there', () =>
    scene(({ graph }) => assert.deepEqual(graph.nodesOf(noArguments), [])))

  test('G16 a graph is launched within another, as often as it stands there', () =>
    scene(async ({ stream, a, b, c, graph, read }) => {
      using outer = stream.capture(() => {
        stream.fill(c, 4).launch(graph).launch(add, ONE, c, b, BYTES).launch(graph).launch(add, ONE, c, a, BYTES)
      })
      graph.close()
      assert.deepEqual(
        outer.nodes.map(({ kind, after }) => [kind, after.map(({ index }) => index)]),
        [
          ['fill', []],
          ['graph', [0]],
          ['kernel', [1]],
          ['graph', [2]],
          ['kernel', [3]],
        ],
      )
      using exec = outer.instantiate()
      stream.launch(exec)
      assert.deepEqual(await read(), [1, 5, 10])
      stream.launch(exec).launch(exec)
      assert.deepEqual(await read(), [1, 5, 10])
      refused(() => exec.setEnabled(outer.nodes[1] as unknown as KernelNode, false), 'ERR_INVALID_ARG_VALUE')
    }))

  test('G16 its host functions run once for each launch, its order holds, and it keeps what it uses', async () => {
    using stream = bench.stream()
    using side = bench.stream()
    const order: string[] = []
    const result = device.allocPinned(BYTES)
    const { bytes } = result
    const make = (): Graph => {
      const inner = device.alloc(BYTES, { stream })
      const graph = stream.capture(() => {
        stream.launchHostFunc(() => order.push('inner')).fill(inner, 9)
        side.wait(stream)
        side.copy(result, inner)
        stream.wait(side)
      })
      inner.close()
      return graph
    }
    const inner = make()
    const outer = stream.capture(() => {
      stream.launchHostFunc(() => order.push('before')).launch(inner)
      stream.launchHostFunc(() => order.push(`after ${bytes[0]}`))
    })
    inner.close()
    const exec = outer.instantiate()
    const again = outer.instantiate()
    outer.close()
    for (let launch = 0; launch < 3; launch += 1) stream.launch(exec).launch(again)
    exec.close()
    again.close()
    await stream.finished()
    const once = ['before', 'inner', 'after 9']
    assert.deepEqual(order, Array(6).fill(once).flat())
    result.close()
  })

  test('G16 an empty graph within another is one that does nothing; outside of a capture a graph is no target', async () => {
    using stream = bench.stream()
    using buffer = device.alloc(BYTES, { stream })
    using empty = stream.capture(() => {})
    refused(() => stream.launch(empty), 'ERR_INVALID_ARG_TYPE', /instantiate\(\)/)
    using outer = stream.capture(() => void stream.fill(buffer, 1).launch(empty).fill(buffer, 2))
    using exec = outer.instantiate()
    stream.launch(exec)
    assert.equal((await stream.download(buffer))[0], 2)
    refused(() => stream.capture(() => void stream.launch(simulated())), 'ERR_DEVICE_MISMATCH')
    const closed = stream.capture(() => {})
    closed.close()
    refused(() => stream.capture(() => void stream.launch(closed)), 'ERR_CLOSED')
    assert.equal(stream.isCapturing, false)
  })

  /** A graph of another driver. */
  function simulated(): Graph {
    const [other] = simulate().devices
    assert.ok(other)
    return other.createStream().capture(() => {})
  }

  test('K2 an address is memory to a kernel: launched, captured, and in an instance that is updated', async () => {
    await add.prepare(device)
    using stream = bench.stream()
    using to = device.alloc(BYTES, { stream })
    using from = device.allocPinned(BYTES)
    from.bytes.fill(1)
    stream.fill(to, 0)
    stream.launch(add, ONE, to.pointer, from, BYTES)
    stream.launch(add, ONE, Number(to.pointer) + 8, from.pointer, BYTES - 8)
    using graph = stream.capture(() => void stream.launch(add, ONE, to.pointer, Number(from.pointer), 8))
    using exec = graph.instantiate()
    const [node] = graph.nodesOf(add)
    assert.ok(node !== undefined)
    exec
      .launch(stream)
      .update(node, ONE, to.pointer + 8n, from.pointer, 8)
      .launch(stream)
    const expected = new Uint8Array(BYTES).fill(2).fill(3, 8, 16)
    assert.deepEqual(await stream.download(to), expected)
    // Nothing is behind 0, and nothing is read there.
    stream.launch(add, ONE, to, 0, 0).launch(add, ONE, 0n, from, 0)
    assert.deepEqual(await stream.download(to), expected)
    for (const wrong of [1.5, -1, 2n ** 64n, '16', null]) {
      assert.throws(() => stream.launch(add, ONE, to, wrong as number, 1), { name: /RangeError|TypeError/ })
    }
    const words = defineKernel({
      name: 'mirror',
      source: 'extern "C" __global__ void mirror(unsigned *words) {}',
      signature: ['in u32*'],
      simulateGrid() {},
    })
    for (const wrong of [to.pointer + 2n, Number(to.pointer) + 1, 3])
      refused(() => stream.launch(words, ONE, wrong), 'ERR_INVALID_ARG_VALUE', /address \d+ .*multiple of 4, for u32/)
    if (bench.name === 'sim') refusedByDriver(() => stream.launch(words, ONE, 64), 1)
  })

  test('G17 a capture adds to a graph: instances stay as they are, new ones do the new work too', () =>
    scene(async ({ stream, b, c, graph, exec, kernel, read }) => {
      const before = graph.nodes
      const same = stream.capture(() => void stream.launch(add, ONE, c, b, BYTES), { into: graph, after: [kernel] })
      assert.equal(same, graph)
      assert.deepEqual(
        graph.nodes.map(({ kind, after }) => [kind, after.map(({ index }) => index)]),
        [
          ['fill', []],
          ['copy', [0]],
          ['kernel', [1]],
          ['kernel', [2]],
        ],
      )
      assert.equal(graph.nodeCount, 4)
      stream.launch(exec)
      assert.deepEqual(await read(), [1, 5, 0])
      using second = graph.instantiate()
      stream.launch(second)
      assert.deepEqual(await read(), [1, 5, 5])
      // Old nodes and new ones stand for the same.
      exec.update(before[2] as typeof kernel, ONE, b, BYTES, 3)
      second.update(graph.nodesOf(affine)[0] as typeof kernel, ONE, b, BYTES, 4).launch(stream)
      assert.deepEqual(await read(), [1, 7, 12])
      const [added] = graph.nodesOf(add)
      assert.ok(added)
      refusedByDriver(() => exec.update(added, ONE, c, b, BYTES), 1)
    }))

  test('G17 without after the new work stands beside the old, and host functions are added', async () => {
    using stream = bench.stream()
    const ran: string[] = []
    using graph = stream.capture(() => void stream.launchHostFunc(() => ran.push('one')))
    stream.capture(() => void stream.launchHostFunc(() => ran.push('two')), { into: graph, mode: 'relaxed' })
    using exec = graph.instantiate()
    assert.deepEqual(
      graph.nodes.map(({ after }) => after.length),
      [0, 0],
    )
    stream.launch(exec).launch(exec)
    await stream.finished()
    assert.deepEqual(ran.sort(), ['one', 'one', 'two', 'two'])
  })

  for (const [mode] of CAPTURE_MODES) {
    test(`G17 an instance made while the graph is added to has what was captured so far (${mode})`, async () => {
      await add.prepare(device)
      using stream = bench.stream()
      using a = device.alloc(BYTES, { stream })
      const [b, one] = [device.alloc(BYTES, { stream }), device.alloc(BYTES, { stream })]
      stream.fill(a, 0).fill(b, 0).fill(one, 1)
      stream.synchronize()
      const ran: string[] = []
      using graph = stream.capture(() => void stream.launch(add, ONE, a, one, BYTES))
      const made: GraphExec[] = [graph.instantiate()]
      stream.capture(
        () => {
          made.push(graph.instantiate())
          stream.launchHostFunc(() => ran.push('so far')).launch(add, ONE, b, one, BYTES)
          assert.equal(graph.nodeCount, graph.nodes.length)
          made.push(graph.instantiate())
          stream.launchHostFunc(() => ran.push('later'))
        },
        { into: graph, mode, after: graph.nodes },
      )
      made.push(graph.instantiate())

      const counts: number[][] = []
      for (const exec of made) {
        stream.launch(exec)
        counts.push([(await stream.download(a))[0] ?? 0, (await stream.download(b))[0] ?? 0, ran.length])
      }
      assert.deepEqual(counts, [
        [1, 0, 0],
        [2, 0, 0],
        [3, 1, 1],
        [4, 2, 3],
      ])
      assert.deepEqual(ran, ['so far', 'so far', 'later'])
      // The instance keeps what was captured so far.
      b.close()
      one.close()
      stream.launch(made[2] as GraphExec)
      await stream.finished()
      assert.equal((await stream.download(a))[0], 5)
      for (const exec of made) exec.close()
    })
  }

  test('G17 where the capture fails the graph is closed, as CUDA destroys it; its instances live on', () =>
    scene(async ({ stream, c, graph, exec, fill, read }) => {
      assert.throws(
        () =>
          stream.capture(
            () => {
              stream.fill(c, 1).query()
            },
            { into: graph },
          ),
        { number: 900 },
      )
      assert.equal(graph.closed, true)
      refused(() => graph.instantiate(), 'ERR_CLOSED')
      refused(() => exec.update(fill, c, 2), 'ERR_CLOSED', /CUDA destroyed the graph/)
      refused(() => exec.setEnabled(fill, false), 'ERR_CLOSED', /CUDA destroyed the graph/)
      stream.launch(exec)
      assert.deepEqual(await read(), [1, 5, 0])
    }))

  test('G17 what is no graph, or no node of it, is refused, and nothing captures', () =>
    scene(({ stream, graph, kernel }) => {
      using other = stream.capture(() => {})
      const capture = (options: object): unknown => stream.capture(() => {}, options)
      refused(() => capture({ into: {} }), 'ERR_INVALID_ARG_TYPE', /options\.into/)
      refused(() => capture({ after: [kernel] }), 'ERR_INVALID_ARG_VALUE', /options\.into/)
      refused(() => capture({ into: graph, after: kernel }), 'ERR_INVALID_ARG_TYPE', /options\.after/)
      refused(() => capture({ into: graph, after: [graph] }), 'ERR_INVALID_ARG_TYPE', /options\.after\[0\]/)
      refused(() => capture({ into: other, after: [kernel] }), 'ERR_INVALID_ARG_VALUE', /not a node of/)
      refused(() => capture({ into: simulated() }), 'ERR_DEVICE_MISMATCH')
      assert.equal(stream.isCapturing, false)
      using second = bench.stream()
      stream.capture(
        () => refused(() => second.capture(() => {}, { into: graph }), 'ERR_INVALID_ARG_VALUE', /adds to/),
        { into: graph },
      )
      assert.equal(graph.closed, false)
      graph.close()
      refused(() => capture({ into: graph }), 'ERR_CLOSED')
    }))
})

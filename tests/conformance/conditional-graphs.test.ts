/** G18: conditional nodes, whose bodies are played if a kernel wants it, or as long as one does. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type Condition,
  type ConditionalNode,
  type DeviceBuffer,
  defineKernel,
  type Graph,
  type GraphNode,
  Stream,
} from 'cuda-streams'
import { simulate } from 'cuda-streams/sim'
import fc from 'fast-check'
import { onEveryBackend } from '../helpers/suite.js'
import { stepsOf } from '../programs/generate.js'
import type { Statement } from '../programs/steps.js'
import { checkError, collectUntil, refused, refusedByDriver } from './expect.js'

const setCondition = defineKernel({
  name: 'set_condition',
  source: `extern "C" __global__ void set_condition(unsigned long long condition, unsigned value) {
    cudaGraphSetConditional(condition, value);
  }`,
  signature: ['u64', 'u32'],
  simulate: ({ setConditional }, condition, value) => setConditional(condition, value),
})
const countDown = defineKernel({
  name: 'count_down',
  source: `extern "C" __global__ void count_down(unsigned long long condition, unsigned* count) {
    *count -= 1;
    cudaGraphSetConditional(condition, *count);
  }`,
  signature: ['u64', 'inout u32*'],
  simulateGrid: ({ setConditional }, condition, count) => {
    count[0] = (count[0] ?? 0) - 1
    setConditional(condition, count[0])
  },
})
/** Appends a value to a list that begins with its length. */
const noting = defineKernel({
  name: 'note',
  source: `extern "C" __global__ void note(unsigned* list, unsigned value) {
    list[0] += 1;
    list[list[0]] = value;
  }`,
  signature: ['inout u32*', 'u32'],
  simulate: (_, list, value) => {
    const length = (list[0] ?? 0) + 1
    list[0] = length
    list[length] = value
  },
})
const NESTED = { note: 1, if: 1, while: 1, switch: 1 }
/** What a body does, one after the other, nested three times at most. */
const statements = (depth = 0): fc.Arbitrary<Statement[]> =>
  stepsOf<Statement['what']>(
    depth === 3 ? { note: 1 } : NESTED,
    {
      value: 4,
      bodies: depth === 3 ? fc.constant([]) : fc.array(statements(depth + 1), { minLength: 1, maxLength: 3 }),
    },
    { minLength: 1, maxLength: 3 },
  )

/** What they note. */
function noted(all: readonly Statement[]): readonly number[] {
  return all.flatMap((each) => {
    if (each.what === 'note') return each.value
    const { what, value, bodies } = each
    if (what === 'while') return Array.from({ length: value }, () => noted(bodies[0] ?? [])).flat()
    return noted(bodies[what === 'switch' ? value : value > 0 ? 0 : 1] ?? [])
  })
}

/** A promise, and what settles it. */
function gate(): { readonly passed: Promise<void>; readonly open: () => void } {
  let open = (): void => {}
  const passed = new Promise<void>((resolve) => {
    open = resolve
  })
  return { passed, open }
}

const ONE = { grid: 1, block: 1 } as const
const BYTES = 256

onEveryBackend('conditional nodes', (bench) => {
  const { device } = bench

  interface Scene {
    readonly stream: Stream
    readonly list: DeviceBuffer
    readonly count: DeviceBuffer
    /** Notes a value on a stream. */
    note(on: Stream, value: number): void
    /** Launches the graph's instance with this count, and gives what was noted. */
    played(exec: { launch(stream?: Stream): unknown }, count?: number): Promise<readonly number[]>
    playedOf(graph: Graph, count?: number): Promise<readonly number[]>
  }

  async function scene(run: (scene: Scene) => Promise<void>): Promise<void> {
    for (const kernel of [setCondition, countDown, noting]) await kernel.prepare(device)
    await using stream = bench.stream()
    using list = device.alloc(BYTES, { stream })
    using count = device.alloc(4, { stream })
    stream.fill(list, 0).fill(count, 0)
    const played: Scene['played'] = async (exec, given = 0) => {
      void stream.upload(count, Uint32Array.of(given))
      stream.fill(list, 0)
      exec.launch(stream)
      const [length = 0, ...values] = await stream.download(list, Uint32Array)
      return values.slice(0, length)
    }
    await run({
      stream,
      list,
      count,
      note: (on, value) => void on.launch(noting, ONE, list, value),
      played,
      playedOf: async (graph, given) => {
        using exec = graph.instantiate()
        return await played(exec, given)
      },
    })
    device.synchronize()
  }

  /** An if on a condition that begins with this value. */
  const branch = ({ stream, note }: Scene, value: number, otherwise = true): Graph =>
    stream.capture(() => {
      const condition = stream.createCondition(value)
      if (otherwise) {
        stream.if(
          condition,
          (body) => note(body, 1),
          (body) => note(body, 2),
        )
      } else stream.if(condition, (body) => note(body, 1))
      note(stream, 99)
    })

  /** A loop that notes 20, as often as `count` says. */
  const loop = ({ stream, count, note }: Scene): Graph =>
    stream.capture(() => {
      const again = stream.createCondition(1)
      note(stream, 10)
      stream.while(again, (body) => {
        note(body, 20)
        body.launch(countDown, ONE, again, count)
      })
      note(stream, 30)
    })

  test('G18 an if plays its first body if the condition is not 0, and its second if it is 0', () =>
    scene(async (all) => {
      for (const [value, expected] of [
        [0, [2, 99]],
        [1, [1, 99]],
        [2 ** 32 - 1, [1, 99]],
      ] as const) {
        using graph = branch(all, value)
        assert.deepEqual(await all.playedOf(graph), expected)
      }
      using without = branch(all, 0, false)
      assert.deepEqual(await all.playedOf(without), [99])
    }))

  test('G18 a while plays its body as long as the condition is not 0, and checks it before the first turn', () =>
    scene(async (all) => {
      const { stream, note, played, playedOf } = all
      using graph = loop(all)
      using exec = graph.instantiate()
      assert.deepEqual(await played(exec, 3), [10, 20, 20, 20, 30])
      assert.deepEqual(await played(exec, 1), [10, 20, 30], 'the condition is 1 again when a launch begins')
      using never = stream.capture(() => {
        stream.while(stream.createCondition(0), (body) => note(body, 1))
        note(stream, 2)
      })
      assert.deepEqual(await playedOf(never), [2])
    }))

  test('G18 a switch plays the body whose index the condition is, or none', () =>
    scene(async ({ stream, note, playedOf }) => {
      for (const [value, expected] of [
        [0, [5]],
        [2, [7]],
        [3, []],
        [2 ** 32 - 1, []],
      ] as const) {
        using graph = stream.capture(() => {
          const bodies = [5, 6, 7].map((each) => (body: Stream) => note(body, each))
          stream.switch(stream.createCondition(value), bodies)
        })
        assert.deepEqual(await playedOf(graph), expected)
      }
    }))

  test('G18 a kernel before the node sets the condition; the last of several counts', () =>
    scene(async ({ stream, note, played }) => {
      using graph = stream.capture(() => {
        const [first, second] = [stream.createCondition(), stream.createCondition(1)]
        for (const value of [0, 1, 0, 7]) stream.launch(setCondition, ONE, first, value)
        stream.launch(setCondition, ONE, second.handle, 0)
        stream.if(first, (body) => note(body, 1))
        stream.if(second, (body) => note(body, 2))
        stream.launch(setCondition, ONE, second, 1)
      })
      using exec = graph.instantiate()
      for (let time = 0; time < 2; time += 1) assert.deepEqual(await played(exec), [1])
    }))

  test('G18 nodes nest, and a body may have graphs, copies, fills, and other streams', () =>
    scene(async ({ stream, list, count, note, played }) => {
      using side = bench.stream()
      using copied = device.alloc(BYTES, { stream })
      using inner = side.capture(() => note(side, 7))
      using graph = stream.capture(() => {
        const [again, odd] = [stream.createCondition(1), stream.createCondition()]
        stream.while(again, (body) => {
          side.wait(body)
          note(side, 6)
          body.wait(side)
          body.if(odd, (within) => within.launch(inner))
          const deep = body.createCondition(1)
          body.if(deep, (within) => {
            note(within, 8)
            within.if(within.createCondition(1), (deepest) => note(deepest, 9))
          })
          body.launch(setCondition, ONE, odd, 1)
          body.fill(copied, 0).copy(copied, list)
          body.launch(countDown, ONE, again, count)
        })
        stream.copy(list, copied)
      })
      using exec = graph.instantiate()
      assert.deepEqual(await played(exec, 3), [6, 8, 9, 6, 7, 8, 9, 6, 7, 8, 9])
      assert.deepEqual(await played(exec, 1), [6, 8, 9])
    }))

  test('G18 whatever is nested, what is played is what the conditions say', () =>
    scene(async ({ stream }) => {
      using list = device.alloc(2 ** 16, { stream })
      const capture = (on: Stream, all: readonly Statement[]): void => {
        for (const each of all) {
          if (each.what === 'note') {
            on.launch(noting, ONE, list, each.value)
            continue
          }
          const { what, value, bodies } = each
          const condition = stream.createCondition()
          on.launch(setCondition, ONE, condition, value)
          const [then, otherwise] = bodies.map((body) => (within: Stream) => capture(within, body))
          assert.ok(then)
          if (what === 'if') on.if(condition, then, otherwise)
          else if (what === 'switch')
            on.switch(
              condition,
              bodies.map((body) => (within) => capture(within, body)),
            )
          else {
            using turns = device.alloc(4, { stream: on })
            on.fill(turns, value, { width: 4 }).while(condition, (within) => {
              then(within)
              within.launch(countDown, ONE, condition, turns)
            })
          }
        }
      }
      for (const all of fc.sample(statements(), { seed: 1, numRuns: 25 })) {
        using graph = stream.capture(() => capture(stream, all))
        using exec = graph.instantiate()
        for (let time = 0; time < 2; time += 1) {
          stream.fill(list, 0).launch(exec)
          const [length = 0, ...values] = await stream.download(list, Uint32Array)
          assert.deepEqual(values.slice(0, length), noted(all), JSON.stringify(all))
        }
      }
    }))

  test('G18 the nodes of a graph have the conditional ones, with the nodes of their bodies', () =>
    scene(async ({ stream, list, note }) => {
      using graph = stream.capture(() => {
        const [outer, within] = [stream.createCondition(1), stream.createCondition(0)]
        note(stream, 1)
        stream.if(
          outer,
          (body) => {
            note(body, 2)
            body.fill(list, 0)
            body.switch(within, [(last) => note(last, 3)])
            note(body, 4)
          },
          () => {},
        )
        note(stream, 5)
      })
      const shape = (nodes: readonly GraphNode[]): unknown =>
        nodes.map((node) => {
          const after = node.after.map(({ index }) => index)
          return node.kind === 'conditional' ? [node.type, after, ...node.bodies.map(shape)] : [node.kind, after]
        })
      assert.deepEqual(shape(graph.nodes), [
        ['kernel', []],
        [
          'if',
          [0],
          [
            ['kernel', []],
            ['fill', [0]],
            ['switch', [1], [['kernel', []]]],
            ['kernel', [2]],
          ],
          [],
        ],
        ['kernel', [1]],
      ])
      assert.equal(graph.nodeCount, 3)
      assert.match(graph.toDot(), /^digraph/)
      using exec = graph.instantiate()
      const node = graph.nodes[1] as ConditionalNode
      const [first] = node.bodies[0] ?? []
      assert.ok(first?.kind === 'kernel')
      refused(() => exec.setEnabled(node as never, false), 'ERR_INVALID_ARG_VALUE', /only kernels, copies and fills/)
      refused(
        () => stream.capture(() => {}, { into: graph, after: [first] }),
        'ERR_INVALID_ARG_VALUE',
        /is in the body/,
      )
    }))

  test('G18 nodes in bodies are changed and switched off one at a time, also after an update by a graph', () =>
    scene(async ({ stream, list, count, note, played }) => {
      using copied = device.alloc(BYTES, { stream })
      const capture = (value: number): Graph =>
        stream.capture(() => {
          const [again, inner] = [stream.createCondition(1), stream.createCondition(1)]
          stream.while(again, (body) => {
            note(body, value)
            body.if(inner, (within) => note(within, value + 1))
            note(body, value + 2)
            body.fill(copied, 0).copy(copied, list)
            body.launch(countDown, ONE, again, count)
          })
          stream.copy(list, copied)
        })
      using graph = capture(10)
      using exec = graph.instantiate()
      const [first, within, last] = graph.nodesOf(noting)
      assert.ok(first && within && last && graph.nodesOf(noting).length === 3)
      assert.deepEqual(first.config, { ...ONE, sharedMemory: 0 })
      exec.update(first, ONE, list, 50).update(within, ONE, list, 51)
      assert.deepEqual(await played(exec, 2), [50, 51, 12, 50, 51, 12])
      const loop = graph.nodes.find((node) => node.kind === 'conditional')
      const [fill, copy] = loop?.bodies[0]?.filter(({ kind }) => kind === 'fill' || kind === 'copy') ?? []
      assert.ok(fill?.kind === 'fill' && copy?.kind === 'copy')
      exec.update(copy, copied, list).update(fill, copied, 255)
      for (const node of [first, within, fill] as const) exec.setEnabled(node, false)
      assert.deepEqual(await played(exec, 2), [12, 12])
      for (const node of [first, fill] as const) exec.setEnabled(node, true)
      assert.deepEqual(await played(exec, 2), [50, 12, 50, 12])
      // @ts-expect-error the kernel has two parameters
      refused(() => exec.update(first, ONE, list), 'ERR_INVALID_ARG_VALUE', /takes 2 arguments/)
      exec.close()
      await device.finished()
      using another = graph.instantiate()
      using twenty = capture(20)
      assert.deepEqual(await played(another.update(twenty), 1), [20, 21, 22])
      assert.deepEqual(await played(another.update(within, ONE, list, 5), 1), [20, 5, 22])
    }))

  test('G18 a capture adds a conditional node to a graph that is there', () =>
    scene(async ({ stream, note, playedOf }) => {
      using graph = stream.capture(() => note(stream, 1))
      stream.capture(() => stream.if(stream.createCondition(1), (body) => note(body, 2)), {
        into: graph,
        after: graph.nodes,
      })
      stream.capture(() => stream.if(stream.createCondition(1), (body) => note(body, 3)), {
        into: graph,
        after: graph.nodes.slice(-1),
      })
      assert.deepEqual(await playedOf(graph), [1, 2, 3])
    }))

  test('G18 an instance is updated by a graph of the same shape, with its bodies and the values of its conditions', () =>
    scene(async (all) => {
      const { stream, note, played } = all
      const graphOf = (value: number, noted: number, more = false): Graph =>
        stream.capture(() => {
          stream.if(stream.createCondition(value), (body) => {
            note(body, noted)
            if (more) note(body, 0)
          })
        })
      using first = graphOf(1, 5)
      using exec = first.instantiate()
      assert.deepEqual(await played(exec), [5])
      using second = graphOf(1, 6)
      assert.deepEqual(await played(exec.update(second)), [6])
      using off = graphOf(0, 6)
      assert.deepEqual(await played(exec.update(off)), [])
      using longer = graphOf(1, 7, true)
      refusedByDriver(() => exec.update(longer), 910)
      assert.deepEqual(await played(exec.update(first)), [5])
      using other = loop(all)
      refusedByDriver(() => exec.update(other), 910)
      assert.deepEqual(await played(exec.update(second)), [6])
    }))

  test('G18 launches under way keep the bodies and conditions that they were launched with', () =>
    scene(async (all) => {
      const { stream, list } = all
      using graph = branch(all, 1)
      using exec = graph.instantiate()
      using other = branch(all, 0)
      const open = gate()
      stream.fill(list, 0).wait(open.passed)
      exec.launch(stream)
      exec.update(other).launch(stream)
      open.open()
      const [length = 0, ...values] = await stream.download(list, Uint32Array)
      assert.deepEqual(values.slice(0, length), [1, 99, 2, 99])
    }))

  test('G18 a graph with conditional nodes has one instance at a time, and is part of no other graph', () =>
    scene(async (all) => {
      const { stream } = all
      using graph = branch(all, 1)
      const exec = graph.instantiate()
      const error = refusedByDriver(() => graph.instantiate(), 801)
      assert.match(error.message, /one instance at a time/)
      exec.close()
      await device.finished()
      assert.deepEqual(await all.playedOf(graph), [1, 99])
      refusedByDriver(() => stream.capture(() => stream.launch(graph)), 801)
      refusedByDriver(
        () => stream.capture(() => stream.if(stream.createCondition(), (body) => body.launch(graph))),
        801,
      )
    }))

  test('G18 each condition is of one node, and of the graph whose capture made it', () =>
    scene(async ({ stream, note }) => {
      let strange: Condition | undefined
      using unused = stream.capture(() => {
        strange = stream.createCondition(1)
      })
      const error = refusedByDriver(() => unused.instantiate(), 1)
      assert.match(error.message, /a condition that no node has/)
      const condition = strange as Condition
      const body = (on: Stream): void => note(on, 1)
      using graph = stream.capture(() => {
        const own = stream.createCondition(1)
        stream.if(own, (within) => {
          refused(() => within.while(own, body), 'ERR_INVALID_ARG_VALUE', /of another node/)
          within.launch(setCondition, ONE, own, 0)
          note(within, 2)
        })
        refused(() => stream.if(own, body), 'ERR_INVALID_ARG_VALUE', /of another node/)
        refused(() => stream.if(condition, body), 'ERR_INVALID_ARG_VALUE', /in another capture/)
        refused(() => stream.launch(setCondition, ONE, condition, 1), 'ERR_INVALID_ARG_VALUE', /in another capture/)
      })
      assert.equal(graph.nodeCount, 1)
      refused(() => stream.launch(setCondition, ONE, condition, 1), 'ERR_INVALID_ARG_VALUE', /captures no graph/)
      refused(() => stream.createCondition(), 'ERR_UNSUPPORTED', /captures nothing/)
      refused(() => stream.if(condition, body), 'ERR_UNSUPPORTED', /captures nothing/)
    }))

  test('G18 a kernel of an instance is given another condition of its graph, and none of another', () =>
    scene(async ({ stream, note, played }) => {
      const made: Condition[] = []
      const capture = (): Graph =>
        stream.capture(() => {
          const [first, second] = [stream.createCondition(), stream.createCondition()]
          made.push(first, second)
          stream.launch(setCondition, ONE, first, 1)
          stream.if(first, (body) => note(body, 1))
          stream.if(second, (body) => note(body, 2))
        })
      using graph = capture()
      using exec = graph.instantiate()
      using other = capture()
      const [, second, ofOther] = made as [Condition, Condition, Condition]
      assert.equal(ofOther.handle, 1n)
      assert.deepEqual(await played(exec), [1])
      const [node] = graph.nodesOf(setCondition)
      assert.ok(node && other)
      assert.deepEqual(await played(exec.update(node, ONE, second, 1)), [2])
      refused(() => exec.update(node, ONE, ofOther, 1), 'ERR_INVALID_ARG_VALUE', /is not of Graph/)
    }))

  test('G18 a body refuses host functions, values and events of the outside, and what a graph with them has', () =>
    scene(async ({ stream, note }) => {
      using word = device.allocPinned(4)
      using other = device.allocPinned(4)
      using event = device.createEvent()
      using withHost = stream.capture(() => stream.launchHostFunc(() => {}))
      const acts: readonly ((body: Stream) => void)[] = [
        (body) => body.launchHostFunc(() => {}),
        (body) => body.writeValue(word, 1),
        (body) => void body.record(event, { external: true }),
        (body) => body.launch(withHost),
        (body) => body.copy(word, other),
      ]
      for (const act of acts) {
        const failing = (body: Stream): void => {
          note(body, 1)
          act(body)
        }
        refused(
          () => stream.capture(() => stream.if(stream.createCondition(1), failing)),
          'ERR_UNSUPPORTED',
          /body of a conditional node has a node of the kind/,
        )
      }
    }))

  test('G18 a body that fails leaves the capture around it usable, and throws what made it fail', () =>
    scene(async ({ stream, note, playedOf }) => {
      using side = bench.stream()
      using graph = stream.capture(() => {
        const one = stream.createCondition(1)
        const mine = new Error('mine')
        assert.throws(
          () =>
            stream.if(one, (body) => {
              note(body, 1)
              throw mine
            }),
          mine,
        )
        const two = stream.createCondition(1)
        refusedByDriver(
          () =>
            stream.if(two, (body) => {
              note(body, 2)
              side.wait(body)
              note(side, 3)
            }),
          904,
        )
        const three = stream.createCondition(1)
        const promising = (): unknown => Promise.reject(mine)
        assert.throws(() => stream.if(three, promising as never), { code: 'ERR_INVALID_ARG_VALUE', message: /promise/ })
        const four = stream.createCondition(1)
        refusedByDriver(
          () =>
            stream.if(four, (body) => {
              note(body, 4)
              refusedByDriver(() => body.query(), 900)
            }),
          901,
        )
        note(stream, 5)
      })
      // What the first body had captured before it threw is there.
      assert.deepEqual(await playedOf(graph), [1, 5])
    }))

  test('G18 an async function as a body is refused before it is called, and before there is a node', () =>
    scene(async ({ stream, note, playedOf }) => {
      const never = (): never => assert.fail('it was called')
      const wrong = [
        async (): Promise<void> => never(),
        function* () {
          yield never()
        },
      ]
      using graph = stream.capture(() => {
        const condition = stream.createCondition(1)
        for (const body of wrong) {
          refused(() => stream.if(condition, body as never), 'ERR_INVALID_ARG_VALUE', /then must not be/)
          refused(() => stream.if(condition, () => {}, body as never), 'ERR_INVALID_ARG_VALUE', /otherwise must/)
          refused(() => stream.while(condition, body as never), 'ERR_INVALID_ARG_VALUE', /body must not be/)
          refused(() => stream.switch(condition, [body as never]), 'ERR_INVALID_ARG_VALUE', /bodies\[0\] must/)
        }
        stream.if(condition, (body) => note(body, 1))
      })
      assert.deepEqual(await playedOf(graph), [1])
    }))

  test('G18 the stream that a body captures on is current in its function', () =>
    scene(async ({ stream, note, playedOf }) => {
      using graph = stream.capture(() => {
        stream.if(stream.createCondition(1), (body) => {
          assert.equal(Stream.current(bench.device), body)
          note(Stream.current(bench.device), 1)
          body.if(body.createCondition(1), (inner) => note(Stream.current(bench.device), Number(inner !== body) + 1))
          assert.equal(Stream.current(bench.device), body)
        })
        assert.equal(Stream.current(bench.device), stream)
        note(Stream.current(bench.device), 3)
      })
      assert.deepEqual(await playedOf(graph), [1, 2, 3])
    }))

  test('G18 a capture that is invalidated while a body is captured ends in the error of captures', () =>
    scene(async ({ stream, note }) => {
      const start = (body: Stream): void => {
        note(body, 1)
        assert.throws(() => device.synchronize())
      }
      refusedByDriver(() => stream.capture(() => stream.if(stream.createCondition(1), start)), 901)
      const close = (): void => {
        refused(() => stream.endCapture(), 'ERR_INVALID_ARG_VALUE', /cannot end before/)
      }
      using graph = stream.capture(() => stream.if(stream.createCondition(1), close))
      assert.equal(graph.nodeCount, 1)
      const end = (body: Stream): void => {
        refused(() => body.endCapture(), 'ERR_INVALID_ARG_VALUE', /ends when its function returns/)
        body.close()
        note(body, 1)
      }
      using other = stream.capture(() => stream.if(stream.createCondition(1), end))
      assert.equal(other.nodeCount, 1)
    }))

  test('G18 the stream of a body is closed when its function has returned', () =>
    scene(async ({ stream, list, note }) => {
      let kept: Stream | undefined
      using graph = stream.capture(() => {
        stream.if(stream.createCondition(1), (body) => {
          kept = body
          assert.equal(body.isCapturing, true)
          note(body, 1)
        })
      })
      assert.equal(graph.nodeCount, 1)
      assert.equal(kept?.closed, true)
      refused(() => kept?.fill(list, 0), 'ERR_CLOSED')
    }))

  test('G18 a graph retains what its bodies use', () =>
    scene(async ({ stream, list, playedOf }) => {
      const graph = stream.capture(() => {
        stream.if(stream.createCondition(1), (body) => {
          using own = device.alloc(BYTES, { stream: body })
          body.fill(own, 0).launch(noting, ONE, own, 5).copy(list, own)
        })
      })
      await collectUntil(() => false, 2)
      assert.deepEqual(await playedOf(graph), [5])
      graph.close()
    }))

  test('G18 launches of one instance run one after another, each from the beginning', () =>
    scene(async (all) => {
      const { stream, list } = all
      using other = bench.stream()
      using graph = branch(all, 1)
      using exec = graph.instantiate()
      stream.fill(list, 0)
      other.wait(stream)
      exec.upload(stream).launch(stream).launch(other).launch(stream)
      stream.wait(other)
      const [length = 0, ...values] = await stream.download(list, Uint32Array)
      assert.deepEqual(values.slice(0, length), [1, 99, 1, 99, 1, 99])
    }))

  test('G18 closing an instance waits for no launch, and the launch is played', () =>
    scene(async (all) => {
      const { stream, list } = all
      const graph = loop(all)
      const exec = graph.instantiate()
      const open = gate()
      void stream.upload(all.count, Uint32Array.of(2))
      stream.fill(list, 0)
      stream.wait(open.passed)
      exec.launch(stream)
      exec.close()
      graph.close()
      open.open()
      const [length = 0, ...values] = await stream.download(list, Uint32Array)
      assert.deepEqual(values.slice(0, length), [10, 20, 20, 30])
    }))
})

test('G18 on the simulator a loop that does not end loses the context, with the reason', async () => {
  const machine = simulate()
  const [device] = machine.devices
  assert.ok(device)
  const stream = device.createStream()
  const graph = stream.capture(() => {
    stream.while(stream.createCondition(1), (body) => body.launch(setCondition, ONE, 0n, 0))
  })
  const empty = stream.capture(() => stream.while(stream.createCondition(1), () => {}))
  assert.equal(graph.nodeCount, 1)
  empty.instantiate().launch(stream)
  await assert.rejects(stream.finished(), (error: Error) => {
    assert.match(error.message, /702.*played its body 100000 times/)
    return true
  })
  const another = simulate().devices[0]
  assert.ok(another)
  const strange = another.createStream()
  strange.launch(setCondition, ONE, 3n, 1)
  await assert.rejects(strange.finished(), (error: Error) => {
    checkError(error, 'CUDA_ERROR_ILLEGAL_ADDRESS', /sets the condition with the handle 3/)
    return true
  })
})

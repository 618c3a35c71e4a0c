/** Each kind of report, with what it says, and its counterpart without the mistake. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import {
  DeviceBuffer,
  Event,
  ExternalStream,
  type FillNode,
  type GraphExec,
  PinnedBuffer,
  type Stream,
} from 'cuda-streams'
import { declareAccess, declareWait, nameStream, Sanitizer, type SanitizerReport } from 'cuda-streams/sanitizer'
import { onEveryBackend } from '../../helpers/suite.js'
import type { Workbench } from '../../helpers/workbench.js'
import { accessKernel } from './access-kernel.js'

const BYTES = 64

type Four = [DeviceBuffer, DeviceBuffer, DeviceBuffer, DeviceBuffer]

/** Runs a program and returns what is said of it. The counterpart runs the same with what was missing. */
async function reportsOf(
  bench: Workbench,
  program: () => unknown | Promise<unknown>,
): Promise<readonly SanitizerReport[]> {
  using sanitizer = Sanitizer.start({ device: bench.device })
  await program()
  bench.device.synchronize()
  return sanitizer.reports
}

async function onlyReportOf(bench: Workbench, program: () => unknown | Promise<unknown>): Promise<SanitizerReport> {
  const reports = await reportsOf(bench, program)
  assert.equal(reports.length, 1, reports.map(({ message }) => message).join('\n\n'))
  return reports[0] as SanitizerReport
}

async function assertClean(bench: Workbench, program: () => unknown | Promise<unknown>): Promise<void> {
  assert.deepEqual(
    (await reportsOf(bench, program)).map(({ message }) => message),
    [],
  )
}

onEveryBackend('sanitizer', (bench) => {
  const { device } = bench
  /** The streams `main`, `side` and `third`, and memory. */
  const named = (): { streams: [Stream, Stream, Stream]; data: DeviceBuffer } => {
    const streams = ['main', 'side', 'third'].map((name) => nameStream(bench.stream(), name))
    const data = device.alloc(BYTES)
    device.synchronize()
    return { streams: streams as [Stream, Stream, Stream], data }
  }
  /** What could fault a real GPU. */
  const itOnSimulator: typeof it | undefined = bench.name === 'sim' ? it : undefined

  describe('a race', () => {
    const program = (fixed: boolean) => () => {
      const [decode, encode] = [bench.stream(), bench.stream()]
      nameStream(decode, 'decode')
      nameStream(encode, 'encode')
      const frame = device.alloc(BYTES)
      const result = device.alloc(BYTES)
      function fillTheFrame(): void {
        decode.fill(frame.subarray(16, 48), 1)
      }
      function readTheFrame(): void {
        encode.copy(result.subarray(0, 32), frame.subarray(0, 32))
      }
      fillTheFrame()
      if (fixed) encode.wait(decode)
      readTheFrame()
      return frame.pointer
    }

    it('names both operations, streams, stacks, the bytes, and the line to add', async () => {
      let pointer = 0n
      const report = await onlyReportOf(bench, () => {
        pointer = program(false)()
      })
      assert.equal(report.kind, 'race')
      assert.equal(report.severity, 'error')
      assert.deepEqual(report.memory, { pointer: pointer + 16n, byteLength: 16 })
      assert.equal(report.advice, 'Add `encode.wait(decode)` before this copy.')
      const { first, second } = report
      assert.deepEqual([first?.what, first?.access, first?.stream, first?.exactStack], ['fill', 'out', 'decode', true])
      assert.deepEqual([second.what, second.access, second.stream], ['copy', 'in', 'encode'])
      assert.match(first?.stack[0] ?? '', /fillTheFrame .*kinds\.test/)
      assert.match(second.stack[0] ?? '', /readTheFrame .*kinds\.test/)
      for (const line of [...(first?.stack ?? []), ...second.stack])
        assert.doesNotMatch(line, /dist\/src\/|node:internal/)
      for (const part of ['fill writes on decode', 'copy reads on encode', report.advice]) {
        assert.ok(report.message.includes(part), report.message)
      }
    })

    it('is none with that line', () => assertClean(bench, program(true)))

    it('has names that streams got before it began', async () => {
      const left = nameStream(bench.stream(), 'left')
      const right = nameStream(new ExternalStream(bench.foreignStream(device), { device }), 'right')
      const data = device.alloc(BYTES)
      device.synchronize()
      const { advice } = await onlyReportOf(bench, () => {
        right.wait(left)
        left.fill(data, 1)
        right.fill(data, 2)
      })
      assert.equal(advice, 'Add `right.wait(left)` before this fill.')
    })

    it('has names that streams got before it began, if it first sees them while they capture', async () => {
      const { streams, data } = named()
      const [main, side] = streams
      const graph = (fixed: boolean) => () => {
        const captured = main.capture(() => {
          side.wait(main).fill(data, 1)
          if (fixed) main.wait(side)
          main.fill(data, 2).wait(side)
        })
        main.launch(captured.instantiate())
      }
      const { advice } = await onlyReportOf(bench, graph(false))
      assert.equal(advice, 'Add `main.wait(side)` before this fill, inside the capture.')
      await assertClean(bench, graph(true))
    })

    it('names kernels, also those that ran before the sanitizer began', async () => {
      const [left, right] = [bench.stream(), bench.stream()]
      const kernel = accessKernel([true])
      const data = device.alloc(BYTES)
      const launch = (stream: Stream): void => void stream.launch(kernel, { grid: 1, block: 1 }, data)
      launch(left)
      device.synchronize()
      const { first, second } = await onlyReportOf(bench, () => {
        launch(left)
        launch(right)
      })
      assert.deepEqual([first?.what, second.what], ["kernel 'touch_w'", "kernel 'touch_w'"])
    })

    it('is told once for each pair of lines', async () => {
      const report = await onlyReportOf(bench, () => {
        const [left, right] = [bench.stream(), bench.stream()]
        const data = device.alloc(BYTES)
        device.synchronize()
        left.wait(right)
        for (let i = 0; i < 50; i += 1) {
          left.fill(data, 1)
          if (i === 20) right.fill(data, 2)
          if (i === 20) left.wait(right)
        }
      })
      assert.equal(report.second.what, 'fill')
    })

    const places: Readonly<Record<string, (step: () => void) => Promise<void>>> = {
      'a loop with an await': async (step) => {
        for (let i = 0; i < 3; i += 1) {
          step()
          await device.finished()
        }
      },
      'an async function that is not awaited': async (step) => {
        const steps = async (): Promise<void> => {
          for (let i = 0; i < 3; i += 1) {
            step()
            await device.finished()
          }
        }
        void steps()
        await device.finished()
        for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate)
      },
      'a callback': async (step) => {
        const again = (): void => step()
        again()
        await device.finished().then(again)
        setImmediate(again)
        await new Promise(setImmediate)
      },
    }
    for (const [title, repeat] of Object.entries(places)) {
      it(`is told once, before and behind the first await: ${title}`, async () => {
        await onlyReportOf(bench, async () => {
          const [left, right] = [bench.stream(), bench.stream()]
          const data = device.alloc(BYTES)
          device.synchronize()
          await repeat(() => {
            left.fill(data, 1)
            right.fill(data, 2)
            left.wait(right)
          })
        })
      })
    }

    it('is told for each place that calls the same helper', async () => {
      const reports = await reportsOf(bench, () => {
        const [left, right] = [bench.stream(), bench.stream()]
        const data = device.alloc(BYTES)
        device.synchronize()
        const race = (): void => {
          left.fill(data, 1)
          right.fill(data, 2)
          left.wait(right)
        }
        race()
        right.wait(left)
        race()
      })
      assert.equal(reports.length, 2)
    })

    it('is none between reads, or beside each other', async () => {
      await assertClean(bench, () => {
        const [left, right] = [bench.stream(), bench.stream()]
        const [data, a, b, halves] = Array.from({ length: 4 }, () => device.alloc(BYTES)) as Four
        device.synchronize()
        left.copy(a, data)
        right.copy(b, data)
        left.fill(halves.subarray(0, 32), 1)
        right.fill(halves.subarray(32, 64), 2)
      })
    })

    it('is seen in what kernels read and write', async () => {
      const report = await onlyReportOf(bench, () => {
        const [left, right] = [bench.stream(), bench.stream()]
        const [a, b] = [device.alloc(BYTES), device.alloc(BYTES)]
        device.synchronize()
        left.launch(accessKernel([false, true]), { grid: 1, block: 1 }, a, b)
        right.launch(accessKernel([false, false]), { grid: 1, block: 1 }, a, b)
      })
      assert.equal(report.first?.what, "kernel 'touch_rw'")
      assert.deepEqual([report.second.what, report.second.access], ["kernel 'touch_rr'", 'in'])
    })

    it('is seen of a stream that takes the place of one closed long ago', async () => {
      const program = (fixed: boolean) => () => {
        const data = device.alloc(BYTES)
        const other = bench.stream()
        const earlier = bench.stream()
        for (let i = 0; i < 20; i += 1) earlier.fill(data, i)
        other.wait(earlier).synchronize()
        earlier.synchronize()
        earlier.close()
        const later = bench.stream()
        later.fill(data, 1)
        if (fixed) other.wait(later)
        other.fill(data, 2)
      }
      assert.equal((await onlyReportOf(bench, program(false))).kind, 'race')
      await assertClean(bench, program(true))
    })

    it('is seen across devices', { skip: bench.devices.length < 2 ? 'needs two devices' : false }, async () => {
      const [, other] = bench.devices
      assert.ok(other)
      const copyThere = (fixed: boolean) => () => {
        const [here, there] = [bench.stream(), bench.stream({ device: other })]
        const [data, copied] = [device.alloc(BYTES), other.alloc(BYTES)]
        here.fill(data, 1)
        if (fixed) there.wait(here)
        there.copy(copied, data)
      }
      assert.equal((await onlyReportOf(bench, copyThere(false))).kind, 'race')
      await assertClean(bench, copyThere(true))
    })
  })

  describe('waits of the JavaScript thread', () => {
    const waits: Readonly<Record<string, (stream: ReturnType<Workbench['stream']>) => unknown>> = {
      'stream.synchronize()': (stream) => stream.synchronize(),
      'await stream.finished()': (stream) => stream.finished(),
      'stream.query() that is true': async (stream) => {
        while (!stream.query()) await new Promise(setImmediate)
      },
      'event.synchronize()': (stream) => stream.record().synchronize(),
      'await event.finished()': (stream) => stream.record().finished(),
      'event.query() that is true': async (stream) => {
        const event = stream.record()
        while (!event.query()) await new Promise(setImmediate)
      },
      'device.synchronize()': () => device.synchronize(),
      'await device.finished()': () => device.finished(),
      'device.drainHostFunctions() behind a host function': (stream) => {
        stream.launchHostFunc(() => {})
        device.drainHostFunctions()
      },
      'elapsedSince()': async (stream) => {
        const start = stream.record({ timing: true })
        const end = stream.record({ timing: true })
        for (let done = false; !done; ) {
          try {
            end.elapsedSince(start)
            done = true
          } catch {
            await new Promise(setImmediate)
          }
        }
      },
    }
    for (const [title, wait] of Object.entries(waits)) {
      it(`${title} orders what follows`, async () => {
        await assertClean(bench, async () => {
          const [left, right] = [bench.stream(), bench.stream()]
          const data = device.alloc(BYTES)
          left.fill(data, 1)
          await wait(left)
          right.fill(data, 2)
        })
      })
    }

    const promises: Readonly<Record<string, (stream: Stream, signal: AbortSignal) => Promise<void>>> = {
      'stream.finished()': (stream, signal) => stream.finished({ signal }),
      'event.finished()': (stream, signal) => stream.record().finished({ signal }),
      'device.finished()': (_, signal) => device.finished({ signal }),
    }
    for (const [title, promise] of Object.entries(promises)) {
      it(`${title} that is given up orders nothing, also where all is done`, async () => {
        const report = await onlyReportOf(bench, async () => {
          const [left, right, other] = [bench.stream(), bench.stream(), bench.stream()]
          const data = device.alloc(BYTES)
          device.synchronize()
          left.fill(data, 1)
          // Meanwhile the fill comes to its end.
          bench.busy(other, 1_000_000)
          other.synchronize()
          const wait = new AbortController()
          const given = promise(left, wait.signal)
          wait.abort()
          await assert.rejects(given)
          for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate)
          right.fill(data, 2)
        })
        assert.equal(report.kind, 'race')
      })
    }

    it('device.drainHostFunctions() orders nothing that comes behind the host functions', async () => {
      const report = await onlyReportOf(bench, () => {
        const [left, right] = [bench.stream(), bench.stream()]
        const data = device.alloc(BYTES)
        device.synchronize()
        left.launchHostFunc(() => {}).fill(data, 1)
        device.drainHostFunctions()
        right.fill(data, 2)
      })
      assert.equal(report.kind, 'race')
    })

    it('a query that is false orders nothing', async () => {
      const report = await onlyReportOf(bench, async () => {
        const [left, right] = [bench.stream(), bench.stream()]
        const data = device.alloc(BYTES)
        device.synchronize()
        using latch = bench.latch(left)
        left.fill(data, 1)
        assert.equal(left.query(), false)
        right.fill(data, 2)
        latch.open()
      })
      assert.equal(report.kind, 'race')
    })
  })

  describe('the null stream', () => {
    for (const timing of [false, true]) {
      it(`is nothing that a record on a non-blocking stream comes after, ${timing ? 'with' : 'without'} timing`, async () => {
        const program = (nonBlocking: boolean) => () => {
          using recorded = device.createStream({ nonBlocking })
          using reader = device.createStream({ nonBlocking: true })
          using event = device.createEvent({ timing })
          const [data, result] = [device.alloc(BYTES), device.alloc(BYTES)]
          reader.wait(recorded.wait(device))
          device.defaultStream.fill(data, 1)
          recorded.record(event)
          reader.wait(event).copy(result, data)
        }
        const { first, second } = await onlyReportOf(bench, program(true))
        assert.deepEqual([first?.what, second.what], ['fill', 'copy'])
        await assertClean(bench, program(false))
      })
    }

    for (const nonBlocking of [false, true]) {
      it(`comes after a ${nonBlocking ? 'non-blocking stream only if it waits' : 'blocking stream'}`, async () => {
        const reports = await reportsOf(bench, () => {
          const stream = bench.stream({ nonBlocking })
          const data = device.alloc(BYTES)
          device.synchronize()
          stream.fill(data, 1)
          device.defaultStream.fill(data, 2)
          stream.fill(data, 3)
        })
        assert.equal(reports.length > 0, nonBlocking)
      })
    }

    it('joins blocking streams, also by a record alone', async () => {
      const program = (joined: boolean) => () => {
        const [left, right] = [bench.stream({ nonBlocking: false }), bench.stream({ nonBlocking: false })]
        const data = device.alloc(BYTES)
        device.synchronize()
        left.fill(data, 1)
        if (joined) device.defaultStream.record()
        right.fill(data, 2)
      }
      assert.equal((await onlyReportOf(bench, program(false))).kind, 'race')
      await assertClean(bench, program(true))
    })

    it('is done, by its synchronize(), when the blocking streams are', async () => {
      const program = (nonBlocking: boolean) => () => {
        const [left, right] = [bench.stream({ nonBlocking }), bench.stream()]
        const data = device.alloc(BYTES)
        device.synchronize()
        left.fill(data, 1)
        device.defaultStream.synchronize()
        right.fill(data, 2)
      }
      assert.equal((await onlyReportOf(bench, program(true))).kind, 'race')
      await assertClean(bench, program(false))
    })
  })

  describe('pinned memory in JavaScript', () => {
    const program = (fixed: boolean) => async () => {
      const stream = bench.stream()
      nameStream(stream, 'downloads')
      const [data, pinned] = [device.alloc(BYTES), device.allocPinned(BYTES)]
      stream.fill(data, 1)
      stream.copy(pinned, data)
      if (fixed) await stream.finished()
      return pinned.bytes.length
    }

    it('is not to be looked at while work is pending', async () => {
      const report = await onlyReportOf(bench, program(false))
      assert.equal(report.kind, 'host-access')
      assert.deepEqual([report.first?.what, report.second.what, report.second.stream], ['copy', 'a view', undefined])
      const advice =
        'Add `await downloads.finished()` or `downloads.synchronize()` before JavaScript accesses the memory.'
      assert.equal(report.advice, advice)
    })

    it('is, once that is waited for', () => assertClean(bench, program(true)))

    /** The program writes through what it has, while a copy from there is queued, and goes on in one of these ways. */
    const writes: Readonly<Record<string, (write: () => void, other: Stream, data: DeviceBuffer) => unknown>> = {
      'work that is queued': (write, other, data) => {
        write()
        other.fill(data, 1)
      },
      'a wait that begins': (write, other) => {
        write()
        return other.finished()
      },
      'a wait that ends': (write, other) => {
        const done = other.finished()
        write()
        return done
      },
      'a wait of an event': async (write, other) => {
        const done = other.record().finished()
        write()
        await done
      },
      'a wait that blocks': (write, other) => {
        write()
        other.synchronize()
      },
      'a host function, from the event loop': async (write, other) => {
        other.launchHostFunc(() => {})
        write()
        for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate)
      },
    }
    const origins: Readonly<Record<string, () => [PinnedBuffer, Uint8Array]>> = {
      'a view that was kept': () => {
        const pinned = device.allocPinned(BYTES)
        return [pinned, pinned.bytes]
      },
      'an array that is registered': () => {
        const array = new Uint8Array(BYTES + 8).subarray(8)
        return [PinnedBuffer.from(array, { device }), array]
      },
      'a SharedArrayBuffer that is registered': () => {
        const array = new Uint8Array(new SharedArrayBuffer(BYTES))
        return [PinnedBuffer.from(array, { device }), array]
      },
    }
    for (const [origin, make] of Object.entries(origins)) {
      for (const [title, goOn] of Object.entries(writes)) {
        itOnSimulator?.(`${origin} is not to be written while it is read; it shows at ${title}`, async () => {
          const program = (fixed: boolean) => async () => {
            const [copies, other] = [nameStream(bench.stream(), 'copies'), bench.stream()]
            const [pinned, array] = make()
            const [data, rest] = [device.alloc(BYTES), device.alloc(BYTES)]
            array.fill(1)
            device.synchronize()
            // It stands, so that the copy is not over by chance.
            using latch = bench.latch(copies)
            if (fixed) latch.open()
            copies.copy(data, pinned)
            if (fixed) await copies.finished()
            await goOn(() => void array.fill(2), other, rest)
            latch.open()
            copies.synchronize()
            array.fill(3)
            pinned.close()
          }
          const { kind, first, second, advice } = await onlyReportOf(bench, program(false))
          assert.deepEqual([kind, first?.what, first?.access, second.access], ['host-access', 'copy', 'in', 'out'])
          assert.match(
            second.what,
            origin.startsWith('a view') ? /^a view that was kept/ : /^an array that is registered/,
          )
          assert.match(second.stack[0] ?? '', /kinds\.test/)
          assert.equal(
            advice,
            'Add `await copies.finished()` or `copies.synchronize()` before JavaScript writes there.',
          )
          await assertClean(bench, program(true))
        })
      }
    }

    it('is looked at by a host function in the order of its stream', async () => {
      const look = (fixed: boolean) => async () => {
        const [downloads, reports] = [bench.stream(), bench.stream()]
        const [data, pinned] = [device.alloc(BYTES), device.allocPinned(BYTES)]
        device.synchronize()
        downloads.copy(pinned, data)
        if (fixed) reports.wait(downloads)
        reports.launchHostFunc(() => pinned.view(Uint32Array))
        if (fixed) downloads.wait(reports)
        downloads.copy(pinned, data)
        await Promise.all([downloads.finished(), reports.finished()])
      }
      const reports = await reportsOf(bench, look(false))
      assert.ok(reports.length > 0)
      for (const { kind } of reports) assert.equal(kind, 'host-access')
      await assertClean(bench, look(true))
    })
  })

  describe('memory that comes and goes', () => {
    itOnSimulator?.('is not to be used before its allocation, by its address', async () => {
      const program = (fixed: boolean) => () => {
        const [allocationStream, other] = [bench.stream(), bench.stream()]
        const data = device.alloc(BYTES, { stream: allocationStream })
        const wrapped = DeviceBuffer.from(data.pointer, BYTES, { device })
        const exec = other.capture(() => other.fill(wrapped, 1)).instantiate()
        if (fixed) other.wait(allocationStream)
        exec.launch(other)
        other.synchronize()
      }
      const report = await onlyReportOf(bench, program(false))
      assert.deepEqual([report.kind, report.first?.what], ['use-before-allocation', 'allocation'])
      await assertClean(bench, program(true))
    })

    it('may be allocated by a capture: each launch comes after the allocation, and later uses after each launch', async () => {
      const program = (fixed: boolean) => () => {
        const [stream, other] = [bench.stream(), bench.stream()]
        let data: DeviceBuffer | undefined
        const graph = stream.capture(() => {
          data = device.alloc(BYTES, { stream })
          const closed = device.alloc(BYTES, { stream })
          stream.fill(data, 1).copy(closed, data)
          closed.close()
          device.alloc(BYTES, { stream }).close()
        })
        const [one, two] = [graph.instantiate(), graph.instantiate()]
        stream.launch(one).launch(two)
        other.wait(stream).launch(one)
        if (fixed) stream.wait(other)
        if (data !== undefined) stream.fill(data, 2)
        data?.close()
        one.close()
        two.close()
        graph.close()
      }
      const reports = await reportsOf(bench, program(false))
      // The launch on the other stream reads and writes it.
      assert.deepEqual(
        reports.map(({ kind }) => kind),
        ['race', 'race'],
      )
      await assertClean(bench, program(true))
    })

    const CLOSED: Readonly<Record<string, (exec: GraphExec, stream: Stream, data: DeviceBuffer) => void>> = {
      'with a launch under way': (exec, stream, data) => {
        exec.launch(stream)
        data.close()
      },
      'before a launch': (exec, stream, data) => {
        data.close()
        stream.synchronize()
        device.alloc(BYTES, { stream })
        exec.launch(stream)
      },
      'with the instance': (exec, stream, data) => {
        exec.launch(stream)
        data.close()
        exec.close()
      },
    }
    for (const [when, close] of Object.entries(CLOSED)) {
      it(`may be closed ${when} of a graph that uses it, since the graph keeps it`, async () => {
        await assertClean(bench, () => {
          const [allocationStream, other] = [bench.stream(), bench.stream()]
          const data = device.alloc(BYTES, { stream: allocationStream })
          const graph = other.capture(() => other.fill(data, 1))
          other.wait(allocationStream)
          close(graph.instantiate(), other, data)
          graph.close()
        })
        await assertClean(bench, async () => {
          const stream = bench.stream()
          const [data, pinned] = [device.alloc(BYTES, { stream }), device.allocPinned(BYTES)]
          const exec = stream.capture(() => stream.copy(pinned, data)).instantiate()
          exec.launch(stream)
          pinned.close()
          exec.launch(stream).close()
          await stream.finished()
        })
      })
    }

    it('is looked at where a node of a graph was changed to use it, and not where a node is off', async () => {
      const program = (fixed: boolean, isOff: boolean) => () => {
        const [allocationStream, other] = [bench.stream(), bench.stream()]
        const [first, second] = [
          device.alloc(BYTES, { stream: allocationStream }),
          device.alloc(BYTES, { stream: allocationStream }),
        ]
        other.wait(allocationStream)
        const graph = other.capture(() => other.fill(first, 1))
        const exec = graph.instantiate()
        const [node] = graph.nodes as [FillNode]
        exec.update(node, second, 2)
        if (isOff) exec.setEnabled(node, false)
        exec.launch(other)
        allocationStream.fill(first, 3)
        if (fixed) allocationStream.wait(other)
        allocationStream.fill(second, 4)
      }
      const report = await onlyReportOf(bench, program(false, false))
      assert.deepEqual([report.kind, report.first?.what, report.second.what], ['race', 'fill', 'fill'])
      await assertClean(bench, program(true, false))
      await assertClean(bench, program(false, true))
    })

    it('is looked at in graphs within graphs, and in what a capture has added to one', async () => {
      const program = (fixed: boolean, added: boolean) => () => {
        const [allocationStream, other] = [bench.stream(), bench.stream()]
        const data = device.alloc(BYTES, { stream: allocationStream })
        other.wait(allocationStream)
        const inner = other.capture(() => other.launchHostFunc(() => {}).fill(data, 1))
        const graph = other.capture(() => void (added ? other.launchHostFunc(() => {}) : other.launch(inner)))
        const after = graph.nodes
        if (added) other.capture(() => void other.fill(data, 2).fill(data, 1), { into: graph, after })
        other.launch(graph.instantiate())
        if (fixed) allocationStream.wait(other)
        allocationStream.fill(data, 3)
      }
      for (const added of [false, true]) {
        const report = await onlyReportOf(bench, program(false, added))
        assert.deepEqual([report.kind, report.first?.what, report.second.what], ['race', 'fill', 'fill'])
        await assertClean(bench, program(true, added))
      }
    })

    itOnSimulator?.('is not to be freed before work that has only its address is done', async () => {
      const program = (fixed: boolean) => () => {
        const [allocationStream, other] = [bench.stream(), bench.stream()]
        const data = device.alloc(BYTES, { stream: allocationStream })
        const exec = other
          .capture(() => other.fill(DeviceBuffer.from(data.pointer, BYTES, { device }), 1))
          .instantiate()
        other.wait(allocationStream)
        exec.launch(other)
        if (fixed) allocationStream.wait(other)
        data.close()
      }
      const report = await onlyReportOf(bench, program(false))
      assert.deepEqual([report.kind, report.second.what], ['use-after-free', 'free'])
      assert.match(report.first?.capturedAt[0] ?? '', /kinds\.test/)
      assert.match(report.advice, /\.wait\(.*\)` before the buffer is closed/)
      await assertClean(bench, program(true))
    })

    itOnSimulator?.('is gone for a graph that has only its address, also when others have its place', async () => {
      const report = await onlyReportOf(bench, () => {
        const stream = bench.stream()
        const data = device.alloc(BYTES, { stream })
        const alias = DeviceBuffer.from(data.pointer, BYTES, { device })
        const exec = stream.capture(() => stream.fill(alias, 1)).instantiate()
        data.close()
        stream.synchronize()
        device.alloc(BYTES, { stream })
        exec.launch(stream)
      })
      assert.equal(report.kind, 'use-after-free')
      assert.deepEqual([report.first?.what, report.second.what], ['free', 'fill'])
    })

    it('may be used on any stream and closed at once, since the library waits', async () => {
      await assertClean(bench, () => {
        const streams = Array.from({ length: 20 }, () => bench.stream())
        const source = device.alloc(BYTES)
        for (const stream of streams) {
          const copied = device.alloc(BYTES)
          stream.copy(copied, source)
          copied.close()
        }
        source.close()
        for (const stream of streams) stream.close()
      })
    })
  })

  describe('events', () => {
    it('that were never recorded are told of, as a warning', async () => {
      const report = await onlyReportOf(bench, () => {
        bench.stream().wait(device.createEvent())
      })
      assert.deepEqual([report.kind, report.severity], ['unrecorded-event', 'warning'])
      assert.match(report.second.stack[0] ?? '', /kinds\.test/)
    })

    it('stand for the record that was latest at the wait', async () => {
      const program = (early: boolean) => () => {
        const [left, right] = [bench.stream(), bench.stream()]
        const data = device.alloc(BYTES)
        const event = device.createEvent()
        device.synchronize()
        left.record(event)
        if (early) right.wait(event)
        left.fill(data, 1)
        left.record(event)
        if (!early) right.wait(event)
        right.fill(data, 2)
      }
      assert.equal((await onlyReportOf(bench, program(true))).kind, 'race')
      await assertClean(bench, program(false))
    })
  })

  describe('graphs', () => {
    it('have the edges of their capture', async () => {
      const program = (fixed: boolean) => () => {
        const [main, side] = [bench.stream(), bench.stream()]
        nameStream(main, 'main')
        nameStream(side, 'side')
        const data = device.alloc(BYTES)
        device.synchronize()
        const graph = main.capture(() => {
          side.wait(main)
          side.fill(data, 1)
          if (fixed) main.wait(side)
          main.fill(data, 2)
          if (!fixed) main.wait(side)
        })
        const exec = graph.instantiate()
        exec.launch(main)
        exec.launch(side)
        main.wait(side)
        main.fill(data, 3)
      }
      const report = await onlyReportOf(bench, program(false))
      assert.equal(report.kind, 'race')
      assert.equal(report.advice, 'Add `main.wait(side)` before this fill, inside the capture.')
      await assertClean(bench, program(true))
    })

    it('that stand within another are ordered by the streams that launch them there', async () => {
      const program = (inner: 'main' | 'third', what: 'graphs' | 'a graph and a fill', fixed: boolean) => () => {
        const { streams, data } = named()
        const [main, side, third] = streams
        const captured = inner === 'main' ? main : third
        const graph = captured.capture(() => captured.fill(data, 1))
        const both = main.capture(() => {
          side.wait(main)
          side.launch(graph)
          if (fixed) main.wait(side)
          if (what === 'graphs') main.launch(graph)
          else main.fill(data, 2)
          if (!fixed) main.wait(side)
        })
        main.launch(both.instantiate())
      }
      for (const inner of ['main', 'third'] as const) {
        const twice = await onlyReportOf(bench, program(inner, 'graphs', false))
        assert.equal(twice.advice, 'Add `main.wait(side)` before this launch of a graph, inside the capture.')
        for (const { capturedAt, withinAt, stack } of [twice.first, twice.second].flatMap((one) => one ?? [])) {
          for (const lines of [capturedAt, withinAt, stack]) assert.match(lines[0] ?? '', /kinds\.test/)
          assert.notEqual(capturedAt[0], withinAt[0])
        }
        assert.notEqual(twice.first?.withinAt[0], twice.second.withinAt[0])
        assert.match(twice.message, /^ {4}in a child graph, whose node was made\n {6}at /m)
        const one = await onlyReportOf(bench, program(inner, 'a graph and a fill', false))
        assert.equal(one.advice, 'Add `main.wait(side)` before this fill, inside the capture.')
        assert.deepEqual([one.first?.withinAt.length === 0, one.second.withinAt.length], [false, 0])
        for (const what of ['graphs', 'a graph and a fill'] as const)
          await assertClean(bench, program(inner, what, true))
      }
    })

    it('that stand within another have their own branches ordered in their own capture', async () => {
      const report = await onlyReportOf(bench, () => {
        const { streams, data } = named()
        const [main, side, third] = streams
        const graph = third.capture(() => {
          side.wait(third).fill(data, 1)
          third.fill(data, 2).wait(side)
        })
        const middle = main.capture(() => main.launch(graph))
        main.launch(main.capture(() => main.launch(middle)).instantiate())
      })
      assert.equal(report.advice, 'Add `third.wait(side)` before this fill, inside the capture.')
    })

    it('that two captures add to are ordered by their nodes', async () => {
      const program = (isNested: boolean, fixed: boolean) => () => {
        const { streams, data } = named()
        const [main, , third] = streams
        const inner = third.capture(() => third.fill(data, 1))
        const graph = main.capture(() => main.fill(data, 2))
        const after = fixed ? graph.nodes : []
        main.capture(() => (isNested ? main.launch(inner) : main.fill(data, 3)), { into: graph, after })
        main.launch(graph.instantiate())
      }
      for (const isNested of [false, true]) {
        const { advice } = await onlyReportOf(bench, program(isNested, false))
        const what = isNested ? 'launch of a graph' : 'fill'
        const line = `Name the node of that fill in \`after\` where this ${what} is captured: \`capture(fn, { into, after })\`.`
        assert.equal(advice, line)
        await assertClean(bench, program(isNested, true))
      }
    })

    it('that are older than the sanitizer may wait for events as old as they, and record them: no false alarm', async () => {
      const [main, before, after] = [bench.stream(), bench.stream(), bench.stream()]
      const [gate, reached] = [device.createEvent(), device.createEvent()]
      const [data, other] = [device.alloc(BYTES), device.alloc(BYTES)]
      device.synchronize()
      const graph = main.capture(() => {
        main.wait(gate, { external: true })
        main.fill(other, 1)
        main.record(reached, { external: true })
      })
      const exec = graph.instantiate()
      const program = (later: Stream) => () => {
        before.fill(data, 1).record(gate)
        main.launch(exec).fill(data, 2)
        after.wait(reached)
        later.fill(data, 3)
      }
      await assertClean(bench, program(main))
      const mistake = await onlyReportOf(bench, program(after))
      assert.equal(mistake.kind, 'race')
      device.synchronize()
      await assertClean(bench, () => {
        before.fill(data, 1)
        main.wait(before).launch(exec)
        after.wait(reached).fill(data, 2)
      })
    })

    describe('of which a part is older than the sanitizer: no false alarm where', () => {
      const OLDER: Readonly<Record<string, (main: Stream, wait: () => void) => () => { exec: GraphExec }>> = {
        'the graph is instantiated later': (main, wait) => {
          const graph = main.capture(wait)
          return () => ({ exec: graph.instantiate() })
        },
        'the capture ends later': (main, wait) => {
          main.beginCapture()
          wait()
          return () => ({ exec: main.endCapture().instantiate() })
        },
        'an instance is updated by an older graph': (main, wait) => {
          const graph = main.capture(wait)
          return () => {
            const exec = main.capture(wait).instantiate()
            exec.update(graph)
            return { exec }
          }
        },
        'the instance is launched': (main, wait) => {
          const exec = main.capture(wait).instantiate()
          return () => ({ exec })
        },
        'the second instance of the graph is launched': (main, wait) => {
          const graph = main.capture(wait)
          graph.instantiate()
          return () => ({ exec: graph.instantiate() })
        },
        'the instance is updated by a graph that is not older': (main, wait) => {
          const exec = main.capture(wait).instantiate()
          return () => ({ exec: exec.update(main.capture(wait)) })
        },
      }
      for (const [name, make] of Object.entries(OLDER)) {
        it(name, async () => {
          const [main, before] = [bench.stream(), bench.stream()]
          const gate = device.createEvent()
          const [data, other] = [device.alloc(BYTES), device.alloc(BYTES)]
          device.synchronize()
          const later = make(main, () => {
            main.wait(gate, { external: true })
            main.fill(other, 1)
          })
          await assertClean(bench, () => {
            const { exec } = later()
            before.fill(data, 1).record(gate)
            main.launch(exec).fill(data, 2)
          })
        })
      }
    })

    it('are not begun any more when the stream that began the capture is closed', async () => {
      const program = (fixed: boolean) => () => {
        const [origin, joined, other] = [bench.stream(), bench.stream(), bench.stream()]
        const data = device.alloc(BYTES)
        device.synchronize()
        origin.beginCapture()
        joined.wait(origin)
        origin.close()
        joined.fill(data, 1)
        if (fixed) other.wait(joined)
        other.fill(data, 2)
      }
      assert.equal((await onlyReportOf(bench, program(false))).kind, 'race')
      await assertClean(bench, program(true))
    })

    it('come after their own last launch, on any stream', async () => {
      await assertClean(bench, () => {
        const streams = [bench.stream(), bench.stream(), bench.stream()]
        const data = device.alloc(BYTES)
        device.synchronize()
        const [first] = streams
        assert.ok(first)
        const exec = first.capture(() => first.fill(data, 1)).instantiate()
        for (const stream of [...streams, ...streams]) exec.launch(stream)
      })
    })

    it('run their host functions in their place, at each launch', async () => {
      const program = (fixed: boolean) => async () => {
        const [stream, other] = [bench.stream(), bench.stream()]
        const [data, pinned] = [device.alloc(BYTES), device.allocPinned(BYTES)]
        device.synchronize()
        const exec = stream
          .capture(() => {
            stream.copy(pinned, data)
            stream.launchHostFunc(() => pinned.bytes)
          })
          .instantiate()
        exec.launch(stream)
        exec.launch(stream)
        if (fixed) other.wait(stream)
        other.copy(pinned, data)
        await Promise.all([stream.finished(), other.finished()])
      }
      assert.ok((await reportsOf(bench, program(false))).length > 0)
      await assertClean(bench, program(true))
    })
  })

  describe('a host function in a graph', () => {
    const program = (fixed: boolean, act: (copies: Stream, pinned: PinnedBuffer, data: DeviceBuffer) => void) => () => {
      const [copies, host] = [nameStream(bench.stream(), 'copies'), nameStream(bench.stream(), 'host')]
      const [data, pinned] = [device.alloc(BYTES), device.allocPinned(BYTES)]
      device.synchronize()
      const exec = host.capture(() => host.launchHostFunc(() => act(copies, pinned, data))).instantiate()
      copies.copy(pinned, data)
      function launchTheGraph(): void {
        host.launch(exec)
      }
      if (fixed) host.wait(copies)
      launchTheGraph()
      device.synchronize()
    }

    it('is told of with the line of the capture, and with that of the launch', async () => {
      const look = (_: Stream, pinned: PinnedBuffer): void => void pinned.bytes
      const { advice, second, message } = await onlyReportOf(bench, program(false, look))
      const launch =
        /^Add `host\.wait\(copies\)` before its graph is launched (at launchTheGraph .*kinds\.test.*)\.$/.exec(advice)
      assert.equal(launch?.[1], second.queuedAt[0], advice)
      assert.match(second.queuedAt[0] ?? '', /launchTheGraph .*kinds\.test/)
      assert.match(second.capturedAt[0] ?? '', /kinds\.test/)
      assert.doesNotMatch(second.capturedAt.join(), /launchTheGraph/)
      assert.match(
        message,
        /in a host function captured\n[\s\S]*\n {4}whose graph was launched\n {6}at launchTheGraph /,
      )
      await assertClean(bench, program(true, look))
    })

    it('is told of without the line of a launch where no stacks are taken', async () => {
      using sanitizer = Sanitizer.start({ device, stacks: 'none' })
      program(false, (_, pinned) => void pinned.bytes)()
      assert.deepEqual(
        sanitizer.reports.map(({ advice }) => advice),
        ['Add `host.wait(copies)` before the graph of this host function is launched.'],
      )
    })

    it('waits before the launch only for what is outside of it', async () => {
      const inside = (fixed: boolean) => () => {
        const [main, side, third] = named().streams
        const [data, pinned] = [device.alloc(BYTES), device.allocPinned(BYTES)]
        device.synchronize()
        const exec = main
          .capture(() => {
            side.wait(main).copy(pinned, data)
            if (fixed) main.wait(side)
            main.launchHostFunc(() => pinned.bytes)
            main.wait(side)
          })
          .instantiate()
        third.copy(pinned, data)
        if (fixed) main.wait(third)
        main.launch(exec)
        device.synchronize()
      }
      const reports = await reportsOf(bench, inside(false))
      const advice = reports.map((report) => report.advice.replace(/ at .*/, ''))
      assert.deepEqual(advice, [
        'Add `main.wait(third)` before this launch of the graph.',
        'Add `main.wait(side)` before this host function, inside the capture.',
        'Add `main.wait(third)` before its graph is launched',
      ])
      await assertClean(bench, inside(true))
    })

    it('cannot be waited for before the rest of its own launch where it queues work', async () => {
      const queueing = (mended: 'not' | 'by a wait' | 'by a capture') => () => {
        const [main, , third] = named().streams
        const data = device.alloc(BYTES)
        device.synchronize()
        const graph = main.capture(() => {
          if (mended === 'by a capture') third.wait(main).fill(data, 1)
          else
            main.launchHostFunc(() => {
              if (mended === 'by a wait') third.wait(main)
              third.fill(data, 1)
            })
          if (mended === 'by a capture') main.wait(third)
          main.fill(data, 2)
        })
        main.launch(graph.instantiate())
        device.synchronize()
      }
      const { advice } = await onlyReportOf(bench, queueing('not'))
      assert.equal(
        advice,
        'A host function of the same launch queues this fill: capture it in the graph, ' +
          'or add `third.wait(main)` before it so that it comes after the whole launch.',
      )
      for (const mended of ['by a wait', 'by a capture'] as const) await assertClean(bench, queueing(mended))
    })

    it('is waited for before a later launch where it queues work', async () => {
      const launches = (fixed: boolean) => async () => {
        const { streams, data } = named()
        const [main, side, third] = streams
        const first = main.capture(() => main.launchHostFunc(() => void third.fill(data, 1))).instantiate()
        const later = side.capture(() => side.fill(data, 2)).instantiate()
        main.launch(first)
        if (fixed) {
          await main.finished()
          side.wait(third)
        }
        side.launch(later)
        device.synchronize()
      }
      const { advice } = await onlyReportOf(bench, launches(false))
      assert.equal(
        advice,
        'A host function of main, queued before, queues this fill: add `await main.finished()`, then `side.wait(third)` ' +
          'before the launch of the graph that has the fill.',
      )
      await assertClean(bench, launches(true))
    })

    it('is told of the same way where it queues work', async () => {
      const other = bench.stream()
      const queue = (_: Stream, pinned: PinnedBuffer): void => void other.fill(pinned, 1)
      const { advice, second } = await onlyReportOf(bench, program(false, queue))
      assert.match(advice, /\.wait\(copies\)` before this fill\.$/)
      assert.match(second.queuedAt[0] ?? '', /launchTheGraph /)
    })

    it('is ordered inside the capture with a branch of the same graph', async () => {
      const branches = (fixed: boolean) => () => {
        const [copies, host] = [nameStream(bench.stream(), 'copies'), nameStream(bench.stream(), 'host')]
        const [data, pinned] = [device.alloc(BYTES), device.allocPinned(BYTES)]
        device.synchronize()
        const graph = host.capture(() => {
          copies.wait(host).copy(pinned, data)
          if (fixed) host.wait(copies)
          host.launchHostFunc(() => pinned.bytes)
          if (!fixed) host.wait(copies)
        })
        host.launch(graph.instantiate()).synchronize()
      }
      const { advice } = await onlyReportOf(bench, branches(false))
      assert.equal(advice, 'Add `host.wait(copies)` before this host function, inside the capture.')
      await assertClean(bench, branches(true))
    })
  })

  describe('streams and memory of another library', () => {
    const foreign = (fn: (theirs: ExternalStream, memory: DeviceBuffer) => unknown) => async () => {
      const owned = device.alloc(BYTES)
      const handle = bench.foreignStream(device)
      device.synchronize()
      const theirs = new ExternalStream(handle, { device })
      nameStream(theirs, 'theirs')
      await fn(theirs, owned)
      device.synchronize()
      theirs.close()
      bench.destroyForeignStream(handle)
    }

    it('race where what the library does is declared', async () => {
      const program = (fixed: boolean) =>
        foreign((theirs, memory) => {
          const ours = bench.stream()
          nameStream(ours, 'ours')
          declareAccess(theirs, { writes: [memory] }, 'torch.matmul')
          if (fixed) ours.wait(theirs)
          ours.fill(memory, 1)
        })
      const report = await onlyReportOf(bench, program(false))
      assert.deepEqual(
        [report.kind, report.first?.what, report.advice],
        ['race', 'torch.matmul', 'Add `ours.wait(theirs)` before this fill.'],
      )
      assert.match(report.first?.stack[0] ?? '', /kinds\.test/)
      await assertClean(bench, program(true))
    })

    it('are ordered by events of the library, as far as can be known', async () => {
      // Made before the sanitizer began: nobody that it knows.
      const made = device.createEvent()
      const program = (fixed: boolean) =>
        foreign((theirs, memory) => {
          const ours = bench.stream()
          declareAccess(theirs, { writes: [memory] })
          if (fixed) ours.wait(Event.from(made.handle, { device }))
          ours.fill(memory, 1)
        })
      assert.equal((await onlyReportOf(bench, program(false))).kind, 'race')
      await assertClean(bench, program(true))
    })

    it('are ordered by our records in an event of the library, however often that is wrapped', async () => {
      const theirs = device.createEvent()
      const wrapped = (): Event => Event.from(theirs.handle, { device })
      const program = (fixed: boolean) => () => {
        const [left, right] = [bench.stream(), bench.stream()]
        const data = device.alloc(BYTES)
        device.synchronize()
        left.fill(data, 1)
        if (fixed) left.record(wrapped())
        right.wait(wrapped())
        right.fill(data, 2)
      }
      assert.equal((await onlyReportOf(bench, program(false))).kind, 'race')
      await assertClean(bench, program(true))
    })

    it('are ordered by waits that the library makes, where these are declared', async () => {
      const program = (what: 'nothing' | 'stream' | 'event') =>
        foreign((theirs, memory) => {
          const ours = bench.stream()
          ours.fill(memory, 1)
          if (what === 'stream') declareWait(theirs, ours)
          if (what === 'event') declareWait(theirs, ours.record())
          declareAccess(theirs, { reads: [memory] })
        })
      assert.equal((await onlyReportOf(bench, program('nothing'))).kind, 'race')
      await assertClean(bench, program('stream'))
      await assertClean(bench, program('event'))
    })
  })

  describe('work of other libraries that is queued through us', () => {
    it('has its accesses', async () => {
      const program = (fixed: boolean) => () => {
        const [left, right] = [bench.stream(), bench.stream()]
        const data = device.alloc(BYTES)
        device.synchronize()
        const work = { name: 'theirWork', memory: [{ buffer: data, access: 'in' }], simulate: () => {} } as const
        left.external(work, () => {})
        if (fixed) right.wait(left)
        right.fill(data, 1)
      }
      const report = await onlyReportOf(bench, program(false))
      assert.deepEqual([report.kind, report.first?.what, report.first?.access], ['race', 'theirWork', 'in'])
      await assertClean(bench, program(true))
    })
  })

  describe('memory that belongs to no stream', () => {
    it('is there at once, and may be closed at once', async () => {
      const program = (fixed: boolean) => () => {
        const [left, right] = [bench.stream(), bench.stream()]
        const data = device.alloc(BYTES, { interprocess: true })
        left.fill(data, 1)
        if (fixed) right.wait(left)
        right.fill(data, 2)
        data.close()
      }
      assert.equal((await onlyReportOf(bench, program(false))).kind, 'race')
      await assertClean(bench, program(true))
    })
  })

  describe('memory of another library', () => {
    it('is asked about once, where no wrapped stream is waited for', async () => {
      // What was there before the sanitizer is nobody's that it knows.
      const theirs = device.alloc(BYTES)
      device.synchronize()
      const handle = bench.foreignStream(device)
      const program = (fixed: boolean) => () => {
        const foreign = new ExternalStream(handle, { device })
        const ours = bench.stream()
        const memory = DeviceBuffer.from(theirs.pointer, BYTES, { device })
        if (fixed) ours.wait(foreign)
        ours.fill(memory, 1)
        ours.fill(memory, 2)
      }
      const report = await onlyReportOf(bench, program(false))
      assert.deepEqual([report.kind, report.severity], ['foreign-memory', 'warning'])
      assert.deepEqual(report.memory, { pointer: theirs.pointer, byteLength: BYTES })
      await assertClean(bench, program(true))
      bench.destroyForeignStream(handle)
    })
  })

  describe('what the library does by itself', () => {
    it('uploads and downloads are clean', async () => {
      await assertClean(bench, async () => {
        const [left, right] = [bench.stream(), bench.stream()]
        const length = 3 * 1024 * 1024 + 5
        const [data, copied] = [device.alloc(length), device.alloc(length)]
        for (let round = 0; round < 9; round += 1) {
          const bytes = new Uint8Array(length).fill(round + 1)
          void left.upload(data, bytes)
          right.wait(left)
          right.copy(copied, data)
          left.wait(right)
          const downloads = [right.download(copied), right.download(copied), left.download(data)]
          right.wait(left)
          if (round % 3 === 2) for (const result of await Promise.all(downloads)) assert.deepEqual(result, bytes)
        }
      })
    })

    it('uploader() and downloader() are clean', async () => {
      await assertClean(bench, async () => {
        const stream = bench.stream()
        const data = device.alloc(9 * 1024 * 1024)
        const writer = stream.uploader(data).getWriter()
        for (let part = 0; part < 9; part += 1) await writer.write(new Uint8Array(1024 * 1024).fill(part))
        await writer.close()
        let read = 0
        for await (const chunk of stream.downloader(data, { chunkBytes: 1_000_000 })) read += chunk.length
        assert.equal(read, data.byteLength)
      })
    })
  })
})

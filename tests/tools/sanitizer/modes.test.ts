/** How a sanitizer is started and stopped, and how it tells what it found. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { type Device, DeviceBuffer, Event, Stream } from 'cuda-streams'
import { declareAccess, declareWait, nameStream, Sanitizer, SanitizerError, sanitize } from 'cuda-streams/sanitizer'
import { latch, simulate } from 'cuda-streams/sim'
import { runsModule } from '../../helpers/run-time.js'

const BYTES = 64

function machine(): Device {
  const [device] = simulate().devices
  assert.ok(device)
  return device
}

/** Two fills that nothing orders. */
function race(device: Device): void {
  const data = device.alloc(BYTES)
  device.synchronize()
  new Stream({ device }).fill(data, 1)
  new Stream({ device }).fill(data, 2)
}

function clean(device: Device): void {
  const data = device.alloc(BYTES)
  new Stream({ device }).fill(data, 1)
  device.synchronize()
  new Stream({ device }).fill(data, 2)
}

describe("mode 'throw'", () => {
  it('throws at the call, and nothing is queued then', async () => {
    const device = machine()
    using sanitizer = Sanitizer.start({ mode: 'throw', device })
    const [left, right] = [new Stream({ device }), new Stream({ device })]
    const data = device.alloc(1)
    device.synchronize()
    left.fill(data, 1)
    const refused = (error: unknown): boolean => {
      assert.ok(error instanceof SanitizerError)
      assert.equal(error.code, 'ERR_RACE')
      assert.equal(error.name, 'SanitizerError')
      assert.equal(error.message, error.reports[0]?.message)
      return true
    }
    assert.throws(() => right.fill(data, 2), refused)
    assert.throws(() => right.fill(data, 2), refused, 'a second try is refused as the first')
    assert.deepEqual([...(await left.download(data))], [1], 'the first fill is all that there was')
    right.wait(left)
    right.fill(data, 3)
    assert.deepEqual([...(await right.download(data))], [3])
    assert.equal(sanitizer.reports.length, 2)
  })

  it('throws, and what was not queued orders nothing', () => {
    const device = machine()
    using _ = Sanitizer.start({ mode: 'throw', device })
    const [left, right] = [new Stream({ device, nonBlocking: false }), new Stream({ device, nonBlocking: false })]
    const [data, other] = [device.alloc(BYTES), device.alloc(BYTES)]
    device.synchronize()
    left.fill(data, 1)
    new Stream({ device }).fill(other, 1)
    // On the null stream, it would have come between the two blocking streams.
    assert.throws(() => device.defaultStream.fill(other, 2), { code: 'ERR_RACE' })
    assert.throws(() => right.fill(data, 2), { code: 'ERR_RACE' })
    device.defaultStream.fill(data, 2)
    right.fill(data, 3)
  })

  it('throws instead of a view', () => {
    const device = machine()
    using _ = Sanitizer.start({ mode: 'throw', device })
    const stream = new Stream({ device })
    const [data, pinned] = [device.alloc(BYTES), device.allocPinned(BYTES)]
    stream.copy(pinned, data)
    assert.throws(() => pinned.bytes, { code: 'ERR_RACE' })
    stream.synchronize()
    assert.equal(pinned.bytes.length, BYTES)
  })

  it('leaves nothing behind of what it throws for', () => {
    const device = machine()
    using sanitizer = Sanitizer.start({ mode: 'throw', device })
    const [allocationStream, other] = [new Stream({ device }), new Stream({ device })]
    const before = sanitizer.statistics.events
    const seen = new Set<bigint>()
    for (let round = 0; round < 20; round += 1) {
      const data = device.alloc(BYTES, { stream: allocationStream })
      seen.add(data.pointer)
      // Used on another stream, which therefore has an event of its own.
      other.fill(data, 1)
      // Through an alias of which the library does not know.
      other.fill(DeviceBuffer.from(data.pointer, BYTES, { device }), 1)
      assert.throws(() => data.close(), { code: 'ERR_RACE' })
      data.close()
      device.synchronize()
    }
    assert.equal(sanitizer.statistics.events, before)
    assert.equal(seen.size, 1, 'the memory is given out again')
  })

  it('does not throw for a warning', () => {
    const device = machine()
    using sanitizer = Sanitizer.start({ mode: 'throw', device })
    new Stream({ device }).wait(device.createEvent())
    assert.deepEqual(
      sanitizer.reports.map(({ kind }) => kind),
      ['unrecorded-event'],
    )
  })
})

describe('an error that is thrown', () => {
  it('has the line of the caller in its stack, and none of the library', () => {
    const device = machine()
    using _ = Sanitizer.start({ mode: 'throw', device })
    try {
      race(device)
      assert.fail('it throws')
    } catch (error) {
      assert.ok(error instanceof SanitizerError)
      assert.match(error.stack ?? '', /^SanitizerError: Race: [\s\S]*\n {4}at race \(.*modes\.test/)
      assert.doesNotMatch(error.stack ?? '', /dist\/src\//)
      const message = (error.stack ?? '').slice(0, /^ *at .*:\d+:\d+\)?$/m.exec(error.stack ?? '')?.index)
      assert.match(message, /Add `.*` before this/, 'what reads stacks finds no frame in the message')
    }
  })

  it('and prints as its message and stack: the reports, which it has as data, are not printed again', () => {
    const device = machine()
    using _ = Sanitizer.start({ mode: 'throw', device })
    try {
      race(device)
      assert.fail('it throws')
    } catch (error) {
      assert.ok(error instanceof SanitizerError)
      const { reports } = error
      assert.equal(reports[0]?.kind, 'race')
      const printed = inspect(error)
      assert.ok(printed.startsWith(error.stack ?? '?'), printed)
      assert.doesNotMatch(printed, /reports|\[Object\]|exactStack/)
      assert.match(printed, /code: 'ERR_RACE'/)
    }
  })
})

describe('fixing', () => {
  for (const mode of ['collect', 'throw'] as const) {
    it(`queues the wait that is missing, in '${mode}' mode`, async () => {
      const device = machine()
      using sanitizer = Sanitizer.start({ mode, fix: true, device })
      const [left, right] = [nameStream(new Stream({ device }), 'left'), nameStream(new Stream({ device }), 'right')]
      const data = device.alloc(1)
      device.synchronize()
      const held = latch(left)
      left.fill(data, 1)
      for (let count = 0; count < 3; count += 1) right.fill(data, 2)
      assert.equal(right.query(), false, 'it stands behind what it lacked a wait for')
      held.open()
      assert.deepEqual([...(await right.download(data))], [2])
      const [report, ...others] = sanitizer.reports
      assert.deepEqual([report?.fixed, others.length], [true, 0])
      assert.match(report?.message ?? '', /Add `right\.wait\(left\)` before this fill\.\n {2}Fixed: /)
    })
  }

  it('lets JavaScript wait before it looks', () => {
    const device = machine()
    using sanitizer = Sanitizer.start({ fix: true, device })
    const stream = new Stream({ device })
    const [data, pinned] = [device.alloc(1), device.allocPinned(1)]
    pinned.bytes[0] = 1
    stream.fill(data, 7)
    stream.copy(pinned, data)
    assert.deepEqual([...pinned.bytes], [7])
    assert.deepEqual(
      sanitizer.reports.map(({ fixed }) => fixed),
      [true],
    )
  })

  it('waits for all of a device where the stream is closed', async () => {
    const device = machine()
    using sanitizer = Sanitizer.start({ fix: true, device })
    const [left, right] = [new Stream({ device }), new Stream({ device })]
    const data = device.alloc(1)
    device.synchronize()
    left.fill(data, 1)
    left.close()
    right.fill(data, 2)
    assert.deepEqual([...(await right.download(data))], [2])
    assert.match(sanitizer.reports[0]?.message ?? '', /Record an event before `.*` is closed[\s\S]*Fixed: /)
  })

  it('says what it cannot fix, and throws it where it is to', () => {
    const program = (device: Device): void => {
      const [left, right] = [new Stream({ device }), new Stream({ device })]
      const data = device.alloc(1)
      const graph = left.capture(() => {
        right.wait(left)
        left.fill(data, 1)
        right.fill(data, 2)
        left.wait(right)
      })
      device.synchronize()
      graph.instantiate().launch(left)
    }
    const device = machine()
    using sanitizer = Sanitizer.start({ fix: true, device })
    program(device)
    assert.match(sanitizer.reports[0]?.message ?? '', /Not fixed\./)
    const other = machine()
    using _ = Sanitizer.start({ mode: 'throw', fix: true, device: other })
    assert.throws(() => program(other), { code: 'ERR_RACE' })
  })
})

describe('suppressions', () => {
  it('hold back what they name, and are listed with their reasons', () => {
    const device = machine()
    const suppress = [
      { match: 'on idle', reason: 'nothing reads it' },
      { match: 'no such thing', reason: 'old' },
    ]
    using sanitizer = Sanitizer.start({ mode: 'throw', device, suppress })
    const [left, right] = [new Stream({ device }), nameStream(new Stream({ device }), 'idle')]
    const data = device.alloc(BYTES)
    device.synchronize()
    for (let count = 0; count < 3; count += 1) {
      left.wait(right).fill(data, 1)
      right.fill(data, 2)
    }
    assert.deepEqual(sanitizer.reports, [])
    assert.deepEqual(
      sanitizer.suppressed.map(({ match, count }) => [match, count]),
      [
        ['on idle', 1],
        ['no such thing', 0],
      ],
    )
    assert.throws(() => race(device), { code: 'ERR_RACE' })
  })

  it('need a reason', () => {
    for (const suppress of [[{ match: 'a' }], [{ match: '', reason: 'b' }], [7], 7]) {
      assert.throws(() => Sanitizer.start({ suppress: suppress as never }), { code: 'ERR_INVALID_ARG_TYPE' })
    }
  })
})

describe('both lines of a race', () => {
  it('are the right ones, also after many turns of a loop', () => {
    const device = machine()
    using sanitizer = Sanitizer.start({ device })
    const [left, right] = [new Stream({ device }), new Stream({ device })]
    const data = device.alloc(BYTES)
    device.synchronize()
    const lines = {
      innocent: () => left.fill(data, 1),
      wrong: () => left.fill(data, 2),
      late: () => right.fill(data, 3),
    }
    for (let turn = 0; turn < 200; turn += 1) {
      lines.innocent()
      if (turn < 100) continue
      lines.wrong()
      lines.late()
      left.wait(right)
    }
    const [report, ...others] = sanitizer.reports
    assert.deepEqual(
      others.map(({ message }) => message),
      [],
      report?.message,
    )
    assert.match(report?.first?.stack[0] ?? '', /wrong/)
    assert.match(report?.second.stack[0] ?? '', /late/)
    assert.deepEqual([report?.first?.exactStack, report?.second.exactStack], [true, true])
  })

  it('the later one also where it happens once', () => {
    const device = machine()
    using sanitizer = Sanitizer.start({ device })
    const [left, right] = [new Stream({ device }), new Stream({ device })]
    const data = device.alloc(BYTES)
    device.synchronize()
    for (let turn = 0; turn < 40; turn += 1) right.fill(data, 3)
    right.synchronize()
    left.fill(data, 1)
    const once = (): unknown => right.fill(data, 3)
    once()
    assert.match(sanitizer.reports[0]?.second.stack[0] ?? '', /once/)
  })
})

describe('a sanitizer', () => {
  it('collects unless told otherwise, and looks no further once stopped', () => {
    const device = machine()
    const sanitizer = Sanitizer.start({ device })
    assert.ok(Sanitizer.running.includes(sanitizer))
    race(device)
    assert.equal(sanitizer.reports.length, 1)
    sanitizer.stop()
    sanitizer.stop()
    race(device)
    assert.equal(sanitizer.reports.length, 1)
    assert.ok(!Sanitizer.running.includes(sanitizer))
  })

  it('looks at its own driver only', () => {
    const [device, other] = [machine(), machine()]
    using sanitizer = Sanitizer.start({ device })
    race(other)
    assert.deepEqual(sanitizer.reports, [])
    race(device)
    assert.equal(sanitizer.reports.length, 1)
  })

  it('takes streams, events and memory as it finds them', () => {
    const device = machine()
    const [left, right] = [new Stream({ device }), new Stream({ device, nonBlocking: false })]
    const data = device.alloc(BYTES)
    const event = device.createEvent()
    const wrapped = device.createEvent()
    left.record(event)
    using sanitizer = Sanitizer.start({ device })
    right.wait(Event.from(wrapped.handle, { device }))
    right.wait(wrapped)
    right.wait(event)
    right.fill(data, 1)
    device.defaultStream.fill(data, 1)
    left.wait(device.defaultStream)
    left.fill(data, 2)
    assert.deepEqual(sanitizer.reports, [])
    right.fill(data, 3)
    assert.equal(sanitizer.reports.length, 1)
  })

  it('takes stacks as it is told', () => {
    const device = machine()
    for (const stacks of ['sampled', 'all', 'none'] as const) {
      using sanitizer = Sanitizer.start({ device, stacks })
      const [left, right] = [new Stream({ device }), new Stream({ device })]
      const data = device.alloc(BYTES)
      device.synchronize()
      for (let i = 0; i < 20; i += 1) left.fill(data, 1)
      right.fill(data, 2)
      const [report] = sanitizer.reports
      assert.ok(report)
      const { first, second } = report
      assert.equal(first?.stack.length === 0, stacks === 'none')
      assert.equal(second.stack.length === 0, stacks === 'none')
      assert.equal(first?.exactStack, stacks !== 'sampled')
      assert.equal(report.message.includes('that of an earlier operation of this kind'), stacks === 'sampled')
    }
  })

  it('tells a hundred things at most', () => {
    const device = machine()
    // Without stacks, other streams are another race.
    using sanitizer = Sanitizer.start({ device, stacks: 'none' })
    for (let i = 0; i < 300; i += 1) race(device)
    assert.equal(sanitizer.reports.length, 100)
  })

  it('tells of two lines once, whatever streams they get, and so of all the others', () => {
    const device = machine()
    for (const stacks of ['sampled', 'all'] as const) {
      using sanitizer = Sanitizer.start({ device, stacks })
      for (let i = 0; i < 300; i += 1) race(device)
      // The same two streams with other lines, so many times that these could be taken for more of the same.
      const [left, right] = [new Stream({ device }), new Stream({ device })]
      const data = device.alloc(BYTES)
      const lines = [(): unknown => right.fill(data, 1), (): unknown => right.fill(data, 2)]
      for (let i = 0; i < 12; i += 1) {
        left.wait(right).fill(data, 3)
        lines[i < 11 ? 0 : 1]?.()
      }
      left.wait(right).fill(data, 4)
      right.copy(data, device.alloc(BYTES))
      assert.deepEqual(
        sanitizer.reports.map(({ second }) => second.what),
        ['fill', 'fill', 'fill', 'copy'],
      )
    }
  })

  it('opens no driver', () => {
    const code = `
      import { Sanitizer } from 'cuda-streams/sanitizer'
      const sanitizer = Sanitizer.start()
      console.log(sanitizer.reports.length, sanitizer.statistics.components)
      sanitizer.stop()
    `
    assert.equal(execute(code, { CUDA_STREAMS_DRIVER: 'nonsense' }).stdout, '0 0\n')
  })

  it('looks at the default driver from its first use on', () => {
    const code = `
      import { Sanitizer } from 'cuda-streams/sanitizer'
      const sanitizer = Sanitizer.start()
      ${RACE}
      console.log(sanitizer.reports.map(({ kind }) => kind).join())
    `
    assert.equal(execute(code, {}).stdout, 'race\n')
  })

  it('says what is wrong with its arguments', () => {
    const start = Sanitizer.start as (options: unknown) => Sanitizer
    for (const options of [7, { device: '0' }]) {
      assert.throws(() => start(options), { code: 'ERR_INVALID_ARG_TYPE' })
    }
    assert.throws(() => start({ device: 4000 }), { code: 'ERR_OUT_OF_RANGE' })
    for (const options of [{ mode: 'loud' }, { stacks: 'few' }]) {
      assert.throws(() => start(options), { code: 'ERR_INVALID_ARG_VALUE' })
    }
    const device = machine()
    const stream = new Stream({ device })
    const wrong = { code: 'ERR_INVALID_ARG_TYPE' }
    assert.throws(() => declareAccess(7 as never, {}), wrong)
    assert.throws(() => declareAccess(stream, 7 as never), wrong)
    assert.throws(() => declareAccess(stream, { reads: 7 as never }), wrong)
    assert.throws(() => declareAccess(stream, { writes: [stream as never] }), wrong)
    assert.throws(() => declareAccess(stream, {}, 7 as never), wrong)
    assert.throws(() => declareWait(stream, 7 as never), wrong)
    assert.throws(() => nameStream(stream, 7 as never), wrong)
    assert.throws(() => nameStream(stream, ''), { code: 'ERR_INVALID_ARG_VALUE', message: /name must not be empty/ })
    assert.throws(() => declareWait(stream, new Stream({ device: machine() })), { code: 'ERR_DEVICE_MISMATCH' })
    const other = machine().alloc(BYTES)
    assert.throws(() => declareAccess(stream, { reads: [other] }), { code: 'ERR_DEVICE_MISMATCH' })
    other.close()
    assert.throws(() => declareAccess(stream, { reads: [other] }), { code: 'ERR_CLOSED' })
  })
})

describe('sanitize()', () => {
  it('gives back what the function does, where it is clean', async () => {
    const device = machine()
    assert.equal(await sanitize(() => clean(device) ?? 5, { device }), 5)
    assert.equal(await sanitize(async () => 6, { device }), 6)
  })

  it('rejects with what was found, and stops', async () => {
    const device = machine()
    const before = Sanitizer.running.length
    await assert.rejects(
      sanitize(() => race(device), { device }),
      (error) => error instanceof SanitizerError && error.reports.length === 1,
    )
    assert.equal(Sanitizer.running.length, before)
  })

  it('rejects with what was found also where the function throws, and with its error as the cause', async () => {
    const device = machine()
    const before = Sanitizer.running.length
    const mine = new RangeError('mine')
    const failing = [
      () => {
        race(device)
        throw mine
      },
      async () => {
        race(device)
        await null
        throw mine
      },
    ]
    for (const fails of failing) {
      await assert.rejects(sanitize(fails, { device }), (error) => {
        assert.ok(error instanceof SanitizerError, String(error))
        assert.equal(error.cause, mine)
        assert.equal(error.reports.length, 1)
        assert.equal(error.message, `${error.reports[0]?.message}\n\nThe function also threw: mine`)
        assert.ok(error.stack?.includes('The function also threw: mine'), error.stack)
        return true
      })
    }
    const rejectingAfter = (work: typeof race, reason?: unknown): Promise<unknown> =>
      sanitize(
        () => {
          work(device)
          return Promise.reject(reason)
        },
        { device },
      ).catch((error: unknown) => error)
    const ofNothing = await rejectingAfter(race)
    assert.ok(ofNothing instanceof SanitizerError && Object.hasOwn(ofNothing, 'cause'))
    assert.equal(await rejectingAfter(clean, mine), mine)
    const alone = await sanitize(() => race(device), { device }).catch((error: unknown) => error)
    assert.ok(
      alone instanceof SanitizerError && !Object.hasOwn(alone, 'cause') && !alone.message.includes('also threw'),
    )
    assert.equal(Sanitizer.running.length, before)
  })

  it('finds what is wrong on a machine that the function makes, without being told of it', async () => {
    await assert.rejects(
      sanitize(() => {
        race(machine())
        race(machine())
      }),
      (error) => error instanceof SanitizerError && error.reports.length > 0,
    )
    await sanitize(() => clean(machine()))
    const later = machine()
    using sanitizer = Sanitizer.start()
    race(machine())
    race(later)
    assert.deepEqual(sanitizer.reports, [], 'start() watches the default driver alone')
  })
})

const RACE = `
  const { Device, Stream } = await import('cuda-streams')
  const device = Device.get()
  const data = device.alloc(64)
  device.synchronize()
  new Stream().fill(data, 1)
  new Stream().fill(data, 2)
`

/** The files that importing one brings with it, each by its folder and name. */
function staticImports(path: string, seen = new Map<string, string>()): ReadonlySet<string> {
  seen.set(path, `${basename(dirname(path))}/${basename(path)}`)
  for (const [, specifier = ''] of readFileSync(path, 'utf8').matchAll(
    /^(?:import|export) .*?['"](\.[^'"]+)['"];?$/gm,
  )) {
    const next = resolve(dirname(path), specifier)
    if (!seen.has(next)) staticImports(next, seen)
  }
  return new Set(seen.values())
}

function execute(
  code: string,
  env: Readonly<Record<string, string>>,
): {
  readonly status: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
} {
  const cwd = fileURLToPath(new URL('.', import.meta.url))
  return spawnSync(process.execPath, runsModule(code), {
    cwd,
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...process.env, NODE_OPTIONS: '', CUDA_STREAMS_DRIVER: 'sim', ...env },
  })
}

describe('CUDA_STREAMS_SANITIZER', () => {
  for (const value of ['1', 'true', 'print']) {
    it(`=${value} prints at the end of the process`, () => {
      const { status, stderr } = execute(`${RACE}; console.error('the program ends')`, {
        CUDA_STREAMS_SANITIZER: value,
      })
      assert.equal(status, 0)
      const [first, ...rest] = stderr.split('\n')
      assert.equal(first, 'the program ends')
      assert.match(rest.join('\n'), /cuda-streams sanitizer: 1 finding\(s\)[\s\S]*Race: [\s\S]*Add `\w+\.wait/)
    })
  }

  it('many that print are one listener of the end of the process', () => {
    const code = `${RACE}
      const { Sanitizer } = await import('cuda-streams/sanitizer')
      for (let count = 0; count < 20; count += 1) Sanitizer.start({ mode: 'print' })`
    const { status, stderr } = execute(code, {})
    assert.equal(status, 0)
    assert.equal(stderr, '')
  })

  it('=fix queues the wait, and says so', () => {
    const { status, stderr } = execute(RACE, { CUDA_STREAMS_SANITIZER: 'fix,exit-code=3' })
    assert.equal(status, 0, 'what is fixed is no error')
    assert.match(stderr, /1 finding\(s\), 1 fixed[\s\S]*Fixed: /)
  })

  it('prints at once, and sets the exit code, where it is asked to', () => {
    const { status, stderr } = execute(`${RACE}; console.error('the program ends')`, {
      CUDA_STREAMS_SANITIZER: 'print,at-once,exit-code=3,stacks=all',
    })
    assert.equal(status, 3)
    assert.match(stderr, /^Race: [\s\S]*\nthe program ends\n$/)
  })

  for (const [signal, listens] of [
    ['SIGINT', false],
    ['SIGTERM', false],
    ['SIGINT', true],
  ] as const) {
    it(`prints at ${signal}${listens ? ', and leaves the rest to the program that listens to it' : ''}`, () => {
      const listener = listens ? `process.on('${signal}', () => process.exit(7))` : ''
      const code = `${listener}; ${RACE}; process.kill(process.pid, '${signal}'); setInterval(() => {}, 1000)`
      const { status, signal: ended, stderr } = execute(code, { CUDA_STREAMS_SANITIZER: '1' })
      assert.deepEqual([status, ended], listens ? [7, null] : [null, signal])
      assert.equal(stderr.match(/1 finding\(s\)/g)?.length, 1)
    })
  }

  it('takes suppressions from a file, and lists them', () => {
    const directory = mkdtempSync(join(tmpdir(), 'cuda-streams-suppressions-'))
    const path = join(directory, 'list.txt')
    writeFileSync(path, '# what follows is known\n\nfill writes # nobody reads it\n')
    const { status, stderr } = execute(RACE, { CUDA_STREAMS_SANITIZER: `print,exit-code=3,suppressions=${path}` })
    writeFileSync(path, 'fill writes\n')
    const refused = execute(RACE, { CUDA_STREAMS_SANITIZER: `suppressions=${path}` })
    rmSync(directory, { recursive: true })
    assert.equal(status, 0)
    assert.equal(stderr, "cuda-streams sanitizer: 1 finding(s) with 'fill writes' suppressed: nobody reads it\n")
    assert.match(refused.stderr, /list\.txt:1 gives no reason/)
  })

  it('=throw throws at the call', () => {
    const { status, stderr } = execute(RACE, { CUDA_STREAMS_SANITIZER: 'throw' })
    assert.equal(status, 1)
    assert.match(stderr, /SanitizerError[\s\S]*Race: /)
  })

  it('=collect is there for the program to ask', () => {
    const code = `${RACE}
      const { Sanitizer } = await import('cuda-streams/sanitizer')
      console.log(Sanitizer.running[0].reports.length)`
    const { stdout, stderr } = execute(code, { CUDA_STREAMS_SANITIZER: 'collect' })
    assert.deepEqual([stdout, stderr], ['1\n', ''])
  })

  for (const value of ['', '0']) {
    it(`='${value}' is off`, () => {
      const { status, stdout, stderr } = execute(`${RACE}; console.log(typeof Stream)`, {
        CUDA_STREAMS_SANITIZER: value,
        NODE_V8_COVERAGE: '',
      })
      assert.deepEqual([status, stdout, stderr], [0, 'function\n', ''])
    })
  }

  it('with another value is refused at every use', () => {
    const code = `
      import { Device } from 'cuda-streams'
      for (let i = 0; i < 2; i++) try { Device.get() } catch (error) { console.log(error.code, error.message) }`
    const { stdout } = execute(code, { CUDA_STREAMS_SANITIZER: 'loud' })
    const words =
      "and with commas 'fix', 'causal', 'at-once', 'exit-code=…', 'stacks=…', 'suppressions=FILE', 'process' or 'possible', not 'loud'"
    const line = `ERR_INVALID_ARG_VALUE CUDA_STREAMS_SANITIZER must be 1, 'collect', 'throw', 'print' or 0, ${words}\n`
    assert.equal(stdout, line.repeat(2))
  })

  it('is asked for at the first use: until then, and without it, the code of a sanitizer is not loaded', () => {
    const code = `
      import { createRequire } from 'node:module'
      import { Device } from 'cuda-streams'
      const loaded = () => Object.keys(createRequire(import.meta.url).cache).some((path) => /sanitizer-variable\\.js$/.test(path))
      const before = loaded()
      Device.get()
      console.log(before, loaded())`
    assert.equal(execute(code, { CUDA_STREAMS_SANITIZER: '1' }).stdout, 'false true\n')
    assert.equal(execute(code, { CUDA_STREAMS_SANITIZER: '0' }).stdout, 'false false\n')
    const names = staticImports(fileURLToPath(import.meta.resolve('cuda-streams')))
    assert.ok(!names.has('sanitizer/sanitizer-variable.js'))
    assert.ok(!names.has('sanitizer/detector.js'))
    assert.ok(staticImports(fileURLToPath(import.meta.resolve('cuda-streams/sanitizer'))).has('sanitizer/detector.js'))
  })

  it('finds the two waits that the example leaves out, and nothing else in it', () => {
    const directory = mkdtempSync(join(tmpdir(), 'cuda-streams-example-'))
    const { stdout, stderr } = spawnSync(
      process.execPath,
      [fileURLToPath(new URL('../../../examples/pipeline/main.js', import.meta.url))],
      {
        cwd: directory,
        encoding: 'utf8',
        env: { ...process.env, CUDA_STREAMS_DRIVER: 'sim', CUDA_STREAMS_SANITIZER: '1' },
      },
    )
    rmSync(directory, { recursive: true })
    assert.match(stdout, /joined by events +48 +48 /)
    assert.deepEqual(stderr.match(/^ {2}Add .*$/gm), [
      "  Add `ours.wait(decoder)` before this kernel 'negative'.",
      '  Add `encoder.wait(ours)` before this copy.',
    ])
  })
})

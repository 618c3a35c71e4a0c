/** The helper that the tests and examples with other libraries stand on, with nothing but plain Python. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type * as Koffi from 'koffi'
import { PythonError, pythonUnavailable, startPython } from '../../examples/python/python.js'
import { runsModule } from '../helpers/run-time.js'

const ON_LINUX = process.platform === 'linux'

/** Which signals this process catches and ignores, as the kernel says. */
function signalMasks(): readonly string[] {
  const status = readFileSync('/proc/self/status', 'utf8')
  return status.split('\n').filter((line) => /^Sig(Cgt|Ign):/.test(line))
}

const HOME_VARIABLE = 'PYTHONHOME'
const homeBefore = process.env[HOME_VARIABLE]
const masksBefore = ON_LINUX ? signalMasks() : []
const python = startPython()
const masksAfter = ON_LINUX ? signalMasks() : []
const reason = pythonUnavailable()
if (reason !== undefined) console.log(`skipped: ${reason}`)

/** Skipping is decided by `skip`; this only tells the compiler so. */
function running(): NonNullable<typeof python> {
  assert.ok(python)
  return python
}

function raised(action: () => unknown): PythonError {
  try {
    action()
  } catch (error) {
    assert.ok(error instanceof PythonError, String(error))
    return error
  }
  throw new assert.AssertionError({ message: 'nothing was raised' })
}

describe('Python inside Node', { skip: reason ?? false }, () => {
  it('says which it is, and is one for the whole process', () => {
    const py = running()
    assert.match(py.version, /^3\.\d+\.\d+/)
    assert.equal(startPython(), py)
    assert.equal(pythonUnavailable(), undefined)
    assert.equal(py.text('__import__("sys").version.split()[0]'), py.version)
  })

  it('takes its modules from where the python3 executable takes them', () => {
    const py = running()
    const executable = py.text('__import__("sys").executable')
    const own = execFileSync(executable, ['-c', 'import sys; print(sys.prefix); print(sys.base_prefix)'], {
      encoding: 'utf8',
    })
    py.run('import sys')
    assert.deepEqual([py.text('sys.prefix'), py.text('sys.base_prefix')], own.trim().split('\n'))
    py.run('import ctypes, decimal, math, threading, zlib')
    assert.equal(
      py.number('zlib.crc32(zlib.decompress(zlib.compress(b"streams")))'),
      py.number('zlib.crc32(b"streams")'),
    )
    assert.equal(process.env[HOME_VARIABLE], homeBefore)
  })

  it('hands over numbers', () => {
    const py = running()
    assert.equal(py.number('6 * 7'), 42)
    assert.equal(py.number('0.1 + 0.2'), 0.1 + 0.2)
    assert.equal(py.number('5e-324'), Number.MIN_VALUE)
    assert.equal(py.number('True'), 1)
    assert.equal(py.number('2 ** 53'), 2 ** 53)
    assert.equal(py.number('float("inf")'), Number.POSITIVE_INFINITY)
    assert.equal(py.number('-float("inf")'), Number.NEGATIVE_INFINITY)
    assert.ok(Number.isNaN(py.number('float("nan")')))
    assert.ok(Object.is(py.number('-0.0'), -0))
    assert.match(raised(() => py.number('2 ** 53 + 1')).message, /OverflowError: 9007199254740993/)
    assert.match(raised(() => py.number('"12"')).message, /TypeError: a number is expected, not '12'/)
  })

  it('hands over handles of 64 bits exactly', () => {
    const py = running()
    assert.equal(py.handle('0'), 0n)
    assert.equal(py.handle('0x7f3a_1c00_9d21'), 0x7f3a_1c00_9d21n)
    assert.equal(py.handle('2 ** 53 + 1'), 2n ** 53n + 1n)
    assert.equal(py.handle('2 ** 64 - 1'), 2n ** 64n - 1n)
    assert.equal(py.handle('-2 ** 63'), -(2n ** 63n))
    assert.match(raised(() => py.handle('2 ** 64')).message, /OverflowError/)
    assert.match(raised(() => py.handle('1.0')).message, /TypeError/)
  })

  it('hands over text of any kind and length', () => {
    const py = running()
    assert.equal(py.text('""'), '')
    assert.equal(py.text('"Grüße, 世界 \\N{ROCKET}"'), 'Grüße, 世界 🚀')
    assert.equal(py.text('"a\\0b"'), 'a\0b')
    assert.equal(py.text('"=!"'), '=!')
    assert.equal(py.text('[1, None]'), '[1, None]')
    assert.equal(py.text('"x" * 3_000_000').length, 3_000_000)
    assert.equal(py.text(`"${'ü🚀'.repeat(500_000)}"`), 'ü🚀'.repeat(500_000))
  })

  it('hands over structures', () => {
    const py = running()
    assert.deepEqual(py.json('{"a": [1, 2.5, None, True], "ü": "x"}'), { a: [1, 2.5, null, true], ü: 'x' })
    assert.match(raised(() => py.json('{1, 2}')).message, /TypeError/)
    assert.match(raised(() => py.json('float("nan")')).message, /ValueError/)
  })

  it('keeps what earlier code defined', () => {
    const py = running()
    py.run('kept = [1]')
    py.run(`
      def more(by):
          kept.append(by)
          return len(kept)
    `)
    assert.equal(py.number('more(5)'), 2)
    py.run('kept += [7]')
    assert.deepEqual(py.json('kept'), [1, 5, 7])
    assert.equal(py.text('__name__'), '__main__')
  })

  it('turns an exception into an Error that holds the traceback', () => {
    const py = running()
    py.run(`
      def inner(x):
          return 1 / x

      def outer(x):
          return inner(x)
    `)
    const error = raised(() => py.run('outer(1)\nouter(0)'))
    assert.ok(error instanceof Error)
    assert.equal(error.name, 'PythonError')
    assert.match(
      error.message,
      /^Traceback \(most recent call last\):\n {2}File "<run \d+ from Node>", line 2, in <module>/,
    )
    assert.match(error.message, /line 2, in inner\n {4}return 1 \/ x\n/)
    assert.match(error.message, /ZeroDivisionError: division by zero$/)
    assert.doesNotMatch(error.message, /_cuda_streams_bridge/)
    assert.match(raised(() => py.run('1 +')).message, /SyntaxError/)
    assert.match(raised(() => py.number('missing')).message, /NameError: name 'missing' is not defined/)
    assert.match(raised(() => py.run('import no_such_module')).message, /ModuleNotFoundError/)
    assert.equal(py.number('outer(2)'), 0.5)
  })

  it('survives exits, interrupts and bottomless recursion', () => {
    const py = running()
    assert.match(raised(() => py.run('raise SystemExit(3)')).message, /SystemExit: 3$/)
    assert.match(raised(() => py.run('raise KeyboardInterrupt')).message, /KeyboardInterrupt$/)
    py.run('def down(): return down()')
    assert.match(raised(() => py.run('down()')).message, /RecursionError/)
    py.run(`
      class Down:
          def __repr__(self):
              return repr(self)
    `)
    assert.match(raised(() => py.text('Down()')).message, /RecursionError/)
  })

  it('lets Python threads run between calls', async () => {
    const py = running()
    py.run(`
      import ctypes, threading, time
      ticks, stop = ctypes.c_int32(0), False

      def tick():
          while not stop:
              ticks.value += 1
              time.sleep(0.001)

      ticker = threading.Thread(target=tick)
      ticker.start()
    `)
    // Python's own memory, which is looked at without a call of Python's: only its thread can make the number grow.
    const koffi: typeof Koffi = createRequire(import.meta.url)('koffi')
    const ticks = new Int32Array(koffi.view(py.handle('ctypes.addressof(ticks)'), 4))
    const before = Atomics.load(ticks, 0)
    while (Atomics.load(ticks, 0) < before + 10) await turn()
    py.run('stop = True; ticker.join()')
  })

  it('installs no signal handlers', { skip: ON_LINUX ? false : 'reads /proc' }, () => {
    assert.deepEqual(masksAfter, masksBefore)
  })

  it('prints at once, and lets the process end by itself', () => {
    const helper = new URL('../../examples/python/python.js', import.meta.url)
    const script = `
      import { writeSync } from 'node:fs'
      const { startPython } = await import(${JSON.stringify(helper.href)})
      const python = startPython()
      python.run('print("from Python")')
      writeSync(1, 'from Node\\n')
      python.run('import threading, time; threading.Thread(target=time.sleep, args=(60,)).start()')
    `
    const output = execFileSync(process.execPath, runsModule(script), {
      encoding: 'utf8',
      cwd: fileURLToPath(new URL('.', import.meta.url)),
      timeout: 30_000,
    })
    assert.equal(output, 'from Python\nfrom Node\n')
  })
})

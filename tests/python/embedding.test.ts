/** Python in this process, with nothing but plain Python: numbers, texts, exceptions, threads, signals, and the end. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Python, PythonError } from 'cuda-streams/python'
import { lackOf, openPython, pythonHere } from '../helpers/python.js'
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
const python = openPython()
const masksAfter = ON_LINUX ? signalMasks() : []
const reason = typeof python === 'string' ? python : undefined
if (reason !== undefined) console.log(`skipped: ${reason}`)

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
    const py = pythonHere()
    assert.match(py.version, /^3\.\d+\.\d+/)
    assert.equal(Python.start(), py)
    assert.equal(String(py), `Python(${py.version})`)
    assert.equal(py.evaluate('__import__("sys").version.split()[0]').text(), py.version)
  })

  it('takes its modules from where the python3 executable takes them', () => {
    const py = pythonHere()
    const executable = py.evaluate('__import__("sys").executable').text()
    const own = execFileSync(executable, ['-c', 'import sys; print(sys.prefix); print(sys.base_prefix)'], {
      encoding: 'utf8',
    })
    py.run('import sys')
    assert.deepEqual([py.evaluate('sys.prefix').text(), py.evaluate('sys.base_prefix').text()], own.trim().split('\n'))
    py.run('import ctypes, decimal, math, threading, zlib')
    assert.equal(
      py.evaluate('zlib.crc32(zlib.decompress(zlib.compress(b"streams")))').number(),
      py.evaluate('zlib.crc32(b"streams")').number(),
    )
    assert.equal(process.env[HOME_VARIABLE], homeBefore)
  })

  it('hands over numbers', () => {
    const py = pythonHere()
    assert.equal(py.evaluate('6 * 7').number(), 42)
    assert.equal(py.evaluate('0.1 + 0.2').number(), 0.1 + 0.2)
    assert.equal(py.evaluate('5e-324').number(), Number.MIN_VALUE)
    assert.equal(py.evaluate('True').number(), 1)
    assert.equal(py.evaluate('2 ** 53').number(), 2 ** 53)
    assert.equal(py.evaluate('float("inf")').number(), Number.POSITIVE_INFINITY)
    assert.equal(py.evaluate('-float("inf")').number(), Number.NEGATIVE_INFINITY)
    assert.ok(Number.isNaN(py.evaluate('float("nan")').number()))
    assert.ok(Object.is(py.evaluate('-0.0').number(), -0))
    assert.match(raised(() => py.evaluate('2 ** 53 + 1').number()).message, /OverflowError: 9007199254740993/)
    assert.match(raised(() => py.evaluate('"12"').number()).message, /TypeError: A number is expected, not '12'/)
  })

  it('hands over handles of 64 bits exactly', () => {
    const py = pythonHere()
    assert.equal(py.evaluate('0').bigint(), 0n)
    assert.equal(py.evaluate('0x7f3a_1c00_9d21').bigint(), 0x7f3a_1c00_9d21n)
    assert.equal(py.evaluate('2 ** 53 + 1').bigint(), 2n ** 53n + 1n)
    assert.equal(py.evaluate('2 ** 64 - 1').bigint(), 2n ** 64n - 1n)
    assert.equal(py.evaluate('-2 ** 63').bigint(), -(2n ** 63n))
    assert.equal(py.evaluate('-2 ** 100').bigint(), -(2n ** 100n))
    assert.equal(py.evaluate('True').bigint(), 1n)
    assert.match(raised(() => py.evaluate('1.0').bigint()).message, /TypeError/)
  })

  it('hands over text of any kind and length', () => {
    const py = pythonHere()
    assert.equal(py.evaluate('""').text(), '')
    assert.equal(py.evaluate('"Grüße, 世界 \\N{ROCKET}"').text(), 'Grüße, 世界 🚀')
    assert.equal(py.evaluate('"a\\0b"').text(), 'a\0b')
    assert.equal(py.evaluate('"=!"').text(), '=!')
    assert.equal(py.evaluate('[1, None]').text(), '[1, None]')
    assert.equal(py.evaluate('"x" * 3_000_000').text().length, 3_000_000)
    assert.equal(py.evaluate(`"${'ü🚀'.repeat(500_000)}"`).text(), 'ü🚀'.repeat(500_000))
  })

  it('keeps what earlier code defined', () => {
    const py = pythonHere()
    py.run('kept = [1]')
    py.run(`
      def more(by):
          kept.append(by)
          return len(kept)
    `)
    assert.equal(py.evaluate('more(5)').number(), 2)
    py.run('kept += [7]')
    assert.deepEqual(py.evaluate('kept').value(), [1, 5, 7])
    assert.equal(py.evaluate('__name__').text(), '__main__')
  })

  it('turns an exception into an Error that holds the traceback', () => {
    const py = pythonHere()
    py.run(`
      def inner(x):
          return 1 / x

      def outer(x):
          return inner(x)
    `)
    const error = raised(() => py.run('outer(1)\nouter(0)'))
    assert.ok(error instanceof Error)
    assert.equal(error.name, 'PythonError')
    assert.equal(error.message, 'ZeroDivisionError: division by zero')
    assert.equal(error.type, 'ZeroDivisionError')
    assert.match(
      error.traceback,
      /^Traceback \(most recent call last\):\n {2}File "<run \d+ from JavaScript>", line 2, in <module>/,
    )
    assert.match(error.traceback, /line 2, in inner\n {4}return 1 \/ x\n/)
    assert.match(error.traceback, /ZeroDivisionError: division by zero$/)
    assert.doesNotMatch(error.traceback, /<cuda-streams>/)
    // The line of JavaScript, then Python's own.
    const [javascript = '', pythons = ''] = (error.stack ?? '').split('\n\n')
    assert.match(javascript, /^PythonError: ZeroDivisionError: division by zero\n.*embedding\.test\.js/)
    assert.equal(pythons, error.traceback)
    assert.match(raised(() => py.run('1 +')).message, /SyntaxError/)
    assert.match(raised(() => py.evaluate('missing').number()).message, /NameError: name 'missing' is not defined/)
    const missing = raised(() => py.run('import no_such_module')).message
    assert.match(
      missing,
      /ModuleNotFoundError: No module named 'no_such_module'\. This is \/.*python.*: install it there/,
    )
    assert.equal(py.evaluate('outer(2)').number(), 0.5)
  })

  it('survives exits, interrupts and bottomless recursion', () => {
    const py = pythonHere()
    assert.match(raised(() => py.run('raise SystemExit(3)')).message, /SystemExit: 3$/)
    assert.match(raised(() => py.run('raise KeyboardInterrupt')).message, /KeyboardInterrupt$/)
    py.run('def down(): return down()')
    assert.match(raised(() => py.run('down()')).message, /RecursionError/)
    py.run(`
      class Down:
          def __repr__(self):
              return repr(self)
    `)
    assert.match(raised(() => py.evaluate('Down()').text()).message, /RecursionError/)
  })

  it('lets Python threads run between calls', async () => {
    const py = pythonHere()
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
    const { data: ticks } = py.evaluate('memoryview(ticks)').arrayView(Int32Array)
    const before = Atomics.load(ticks, 0)
    while (Atomics.load(ticks, 0) < before + 10) await turn()
    py.run('stop = True; ticker.join()')
  })

  it('installs no signal handlers', { skip: ON_LINUX ? false : 'reads /proc' }, () => {
    assert.deepEqual(masksAfter, masksBefore)
  })

  /** What a process prints that runs this after it has started Python, and ends by itself. */
  function printed(script: string): string {
    const entry = new URL('../../src/entry-points/python.js', import.meta.url)
    const code = `
      import { writeSync } from 'node:fs'
      const { Python } = await import(${JSON.stringify(entry.href)})
      const python = Python.start()
      ${script}
    `
    return execFileSync(process.execPath, runsModule(code), {
      encoding: 'utf8',
      cwd: fileURLToPath(new URL('.', import.meta.url)),
      timeout: 90_000,
    })
  }

  it('prints at once, and lets the process end by itself', () => {
    const output = printed(`
      python.run('print("from Python")')
      writeSync(1, 'from Node\\n')
      python.run('import threading, time; threading.Thread(target=time.sleep, args=(300,)).start()')
    `)
    assert.equal(output, 'from Python\nfrom Node\n')
  })

  for (const module of ['torch', 'jax', 'warp']) {
    it(`lets a process end that has used ${module}, with an object of it`, { skip: lackOf(module) ?? false }, () => {
      const output = printed(`
        const module = python.import('${module}')
        if ('${module}' === 'warp') python.run('warp.config.quiet = True; warp.init()', { warp: module })
        else globalThis.kept = python.evaluate('m.ones(8)', { m: python.import('${module}' === 'jax' ? 'jax.numpy' : 'torch') })
        writeSync(1, 'used\\n')
      `)
      assert.match(output, /used\n$/)
    })
  }
})

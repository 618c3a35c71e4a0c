/** Objects of Python in JavaScript: their members, the values that pass both ways, arrays without a copy, and how long all of it lives. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { inspect } from 'node:util'
import { Worker } from 'node:worker_threads'
import { ExternalStream, Stream } from 'cuda-streams'
import { type PythonArgument, PythonError, PythonObject } from 'cuda-streams/python'
import { collected, collectUntil, refused } from '../conformance/expect.js'
import { simulatedDevice } from '../helpers/partners.js'
import { lackOf, openPython, pythonHere } from '../helpers/python.js'

const python = openPython()
const reason = typeof python === 'string' ? python : false
if (reason !== false) console.log(`skipped: ${reason}`)

const raises = (act: () => unknown, type: string, says = /./): void => {
  assert.throws(act, (error) => error instanceof PythonError && error.type === type && says.test(error.message))
}

describe('an object of Python', { skip: reason }, () => {
  it('has attributes, items and methods, which take arguments by position and by name', () => {
    const py = pythonHere()
    const fraction = py.import('fractions').invoke('Fraction', [3], { denominator: 4 })
    assert.equal(fraction.get('denominator').number(), 4)
    assert.equal(fraction.number(), 0.75)
    assert.equal(String(fraction), 'PythonObject(fractions.Fraction)')
    assert.equal(inspect(fraction), 'PythonObject(fractions.Fraction)')
    const list = py.evaluate('[1, 2]')
    list.setItem(0, 7)
    list.invoke('append', [{ a: null }])
    assert.deepEqual(list.value(), [7, 2, { a: null }])
    assert.equal(list.item(2).item('a').isNone, true)
    assert.equal(py.evaluate('{(1, 2): 3}').item(1, 2).number(), 3)
    raises(() => list.item(), 'TypeError', /tuple/)
    list.setItem(py.evaluate('slice(0, 2)'), [8, 9])
    assert.deepEqual(list.item(py.evaluate('slice(0, 2)')).value(), [8, 9])
    const types = py.import('types').invoke('SimpleNamespace', [], { x: 1 })
    types.set('y', [1, 2])
    assert.deepEqual([types.get('x').number(), types.get('y').value()], [1, [1, 2]])
    assert.equal(py.evaluate('lambda *a, **k: (a, k)').call([1], { b: 2 }).item(1).item('b').number(), 2)
    assert.equal(py.evaluate('"abc"').invoke('upper').text(), 'ABC')
    assert.equal(py.evaluate('[]').boolean(), false)
  })

  it('raises what Python raises', () => {
    const py = pythonHere()
    const list = py.evaluate('[1]')
    raises(() => list.get('nothing'), 'AttributeError', /nothing/)
    raises(() => list.item(5), 'IndexError')
    raises(() => list.call(), 'TypeError', /not callable/)
    raises(() => list.invoke('append', [1, 2]), 'TypeError', /one argument/)
    raises(() => list.number(), 'TypeError')
    raises(() => py.import('no_such_module'), 'ModuleNotFoundError')
    raises(() => py.evaluate('1 +'), 'SyntaxError')
    raises(() => py.evaluate('(x := []).append(x) or x').value(), 'RecursionError')
    py.run('class Odd(Exception):\n  def __str__(self): raise ValueError')
    raises(() => py.run('raise Odd'), 'Odd', /its message cannot be made/)
  })

  it('is another value in JavaScript where there is one', () => {
    const py = pythonHere()
    const cases: readonly (readonly [expression: string, value: unknown, type: string])[] = [
      ['None', null, 'NoneType'],
      ['True', true, 'bool'],
      ['5', 5, 'int'],
      ['-5.5', -5.5, 'float'],
      ['5.0', 5, 'float'],
      ['-0.0', -0, 'float'],
      ['float("-inf")', Number.NEGATIVE_INFINITY, 'float'],
      ['float("nan")', Number.NaN, 'float'],
      ['2 ** 53', 2n ** 53n, 'int'],
      ['-2 ** 200', -(2n ** 200n), 'int'],
      ['"ü🚀\\ud800"', 'ü🚀\ud800', 'str'],
      ['b"\\x00\\xff"', new Uint8Array([0, 255]), 'bytes'],
      ['(1, [2, ()])', [1, [2, []]], 'tuple'],
      ['{"a": {"__proto__": 1}}', { a: Object.fromEntries([['__proto__', 1]]) }, 'dict'],
    ]
    for (const [expression, value, type] of cases) {
      const object = py.evaluate(expression)
      assert.deepEqual(object.value(), value, expression)
      assert.equal(object.type, type)
    }
    const [set] = py.evaluate('[{1, 2}]').value() as readonly unknown[]
    assert.ok(set instanceof PythonObject && set.type === 'set')
    assert.ok(py.evaluate('{1: 2}').value() instanceof PythonObject)
  })

  it('comes back as the value that was given', () => {
    const py = pythonHere()
    const cases: readonly (readonly [given: PythonArgument, repr: string])[] = [
      [undefined, 'None'],
      [null, 'None'],
      [true, 'True'],
      [3, '3'],
      [-0, '-0.0'],
      [0.1, '0.1'],
      [2 ** 60, '1.152921504606847e+18'],
      [Number.NaN, 'nan'],
      [Number.NEGATIVE_INFINITY, '-inf'],
      [-(2n ** 70n), '-1180591620717411303424'],
      ['ü', "'ü'"],
      [[1, [], { k: [2] }], "[1, [], {'k': [2]}]"],
      [Object.fromEntries([['i', 1]]), "{'i': 1}"],
      [py.evaluate('2.0'), '2.0'],
      [py.evaluate('{1, 2}'), '{1, 2}'],
    ]
    for (const [given, repr] of cases) assert.equal(py.evaluate('repr(x)', { x: given }).text(), repr)
    const floats = new Float32Array([1, 2.5])
    assert.deepEqual(py.evaluate('[x.tolist(), x.format]', { x: floats.subarray(1) }).value(), [[2.5], 'f'])
    const large = new Uint8Array(10_000_000).fill(3)
    assert.equal(py.evaluate('sum(x)', { x: large }).number(), 30_000_000)
    assert.equal(py.evaluate('len(x)', { x: 'ü'.repeat(1_000_000) }).number(), 1_000_000)
  })

  it('is not made of what Python has no counterpart for, and the error has the way out', () => {
    const py = pythonHere()
    const device = simulatedDevice()
    using buffer = device.alloc(64)
    const given = (value: unknown) => () => py.evaluate('x', { x: value as PythonArgument })
    refused(given(buffer), 'ERR_INVALID_ARG_TYPE', /python\.share\(buffer, \{ dtype, shape \}\)/)
    refused(
      given(() => 1),
      'ERR_INVALID_ARG_TYPE',
      /cannot call functions of JavaScript/,
    )
    refused(given(new Map()), 'ERR_INVALID_ARG_TYPE', /plain object/)
    refused(given(Symbol('x')), 'ERR_INVALID_ARG_TYPE')
    const cycle: unknown[] = []
    cycle.push(cycle)
    refused(given(cycle), 'ERR_INVALID_ARG_TYPE', /at most 200 arrays and objects deep/)
    refused(() => py.evaluate(5 as never), 'ERR_INVALID_ARG_TYPE', /expression must be a string/)
    refused(() => py.run('', [] as never), 'ERR_INVALID_ARG_TYPE', /names must be/)
    refused(() => py.evaluate('len').call('x' as never), 'ERR_INVALID_ARG_TYPE', /args must be an array/)
    refused(() => py.share({} as never, { dtype: 'u8', shape: [1] }), 'ERR_INVALID_ARG_TYPE', /a DeviceBuffer/)
  })

  it('cannot be used once it is closed, also as an argument', () => {
    const py = pythonHere()
    for (const expression of ['[]', '5']) {
      const object = py.evaluate(expression)
      object.close()
      object.close()
      assert.equal(object.closed, true)
      refused(() => object.text(), 'ERR_CLOSED', /PythonObject\((list|int 5)\) cannot be used any more/)
      refused(() => py.evaluate('x', { x: object }), 'ERR_CLOSED')
    }
  })

  it('that names of code stand for is not kept by them, unless the code assigns it', async () => {
    const py = pythonHere()
    py.run('import weakref\nclass Thing: pass\nx = "mine"')
    {
      using thing = py.evaluate('Thing()')
      py.run('seen = weakref.ref(x)', { x: thing })
      assert.equal(py.evaluate('x').text(), 'mine')
      py.evaluate('(lambda: x)()', { x: thing }).close()
    }
    assert.equal(py.evaluate('seen() is None').boolean(), true)
    py.run('x = given', { given: py.evaluate('Thing()') })
    assert.equal(py.evaluate('type(x).__name__').text(), 'Thing')
    raises(() => py.evaluate('given'), 'NameError')
    assert.equal(await collected(() => py.evaluate('x is None').boolean()), false)
  })
})

describe('a stream of this library in Python', { skip: reason }, () => {
  it('has the protocol, and lives as long as Python has it', async () => {
    const py = pythonHere()
    const device = simulatedDevice()
    const give = (): WeakRef<Stream> => {
      const stream = new Stream({ device })
      py.run('theirs = stream', { stream })
      assert.deepEqual(py.evaluate('theirs.__cuda_stream__()').value(), [0, Number(stream.handle)])
      const wrapped = new ExternalStream(py.evaluate('theirs'), { device })
      assert.equal(wrapped.equals(stream), true)
      wrapped.close()
      return new WeakRef(stream)
    }
    const stream = give()
    assert.equal(await collected(() => stream.deref() === undefined), false)
    py.run('del theirs')
    // The next reply says that Python has it no longer.
    py.run('pass')
    assert.equal(await collectUntil(() => stream.deref() === undefined), true)
    const closed = new Stream({ device })
    closed.close()
    refused(() => py.evaluate('x', { x: closed }), 'ERR_CLOSED')
  })

  it('is taken from what the class of a stream has, and from nothing else', () => {
    const py = pythonHere()
    using stream = new Stream({ device: simulatedDevice() })
    py.run(
      `
      class FakeStream: pass
      class Array: ptr = 4096
      made = {}
      for name in ('cuda_stream', 'ptr', 'handle'):
          made[name] = FakeStream()
          setattr(made[name], name, handle)
      import ctypes
      made['pointer'] = FakeStream()
      made['pointer'].handle = ctypes.c_void_p(handle)
    `,
      { handle: stream.handle },
    )
    for (const name of ['cuda_stream', 'ptr', 'handle', 'pointer']) {
      const wrapped = new ExternalStream(py.evaluate(`made['${name}']`), { device: stream.device })
      assert.equal(wrapped.equals(stream), true, name)
    }
    for (const none of ['Array()', 'FakeStream()', '5'])
      raises(() => new ExternalStream(py.evaluate(none), { device: stream.device }), 'TypeError', /is no stream/)
  })
})

const noNumpy = lackOf('numpy')
if (noNumpy !== undefined) console.log(`skipped: ${noNumpy}`)

describe('arrays of NumPy', { skip: noNumpy ?? false }, () => {
  it('are seen where they are, row after row', () => {
    const py = pythonHere()
    py.run('import numpy\na = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)')
    const { data, shape, dtype, readOnly } = py.evaluate('a').arrayView(Float32Array)
    assert.deepEqual([[...data], shape, dtype, readOnly], [[0, 1, 2, 3, 4, 5], [2, 3], 'f32', false])
    data[5] = 50
    py.run('a[0, 0] = 10')
    assert.deepEqual(py.evaluate('a.tolist()').value(), [
      [10, 1, 2],
      [3, 4, 50],
    ])
    assert.equal(data[0], 10)
  })

  it('are copied whatever their layout is', () => {
    const py = pythonHere()
    py.run('b = numpy.arange(6, dtype=numpy.int64).reshape(2, 3).T[::-1]')
    raises(() => py.evaluate('b').arrayView(BigInt64Array), 'BufferError', /arrayCopy\(\)/)
    const { data, shape, dtype } = py.evaluate('b').arrayCopy(BigInt64Array)
    assert.deepEqual([[...data], shape, dtype], [[2n, 5n, 1n, 4n, 0n, 3n], [3, 2], 'i64'])
    data[0] = 9n
    assert.equal(py.evaluate('b[0, 0]').number(), 2)
  })

  it('have the types that JavaScript has', () => {
    const py = pythonHere()
    const types = [
      ['int8', Int8Array, 'i8'],
      ['uint8', Uint8Array, 'u8'],
      ['int16', Int16Array, 'i16'],
      ['uint16', Uint16Array, 'u16'],
      ['int32', Int32Array, 'i32'],
      ['uint32', Uint32Array, 'u32'],
      ['int64', BigInt64Array, 'i64'],
      ['uint64', BigUint64Array, 'u64'],
      ['float16', Uint16Array, 'f16'],
      ['float32', Float32Array, 'f32'],
      ['float64', Float64Array, 'f64'],
      ['bool', Uint8Array, 'bool'],
    ] as const
    for (const [name, type, dtype] of types) {
      const array = py.evaluate(`numpy.ones(2, '${name}')`)
      const { data, dtype: found } = array.arrayView<ArrayBufferView>(type)
      assert.equal(found, dtype)
      const given = py.evaluate('numpy.asarray(x)', { x: data }).get('dtype').text()
      assert.equal(given, { float16: 'uint16', bool: 'uint8' }[name as string] ?? name)
    }
    refused(
      () => py.evaluate('numpy.ones(2)').arrayView(Float32Array),
      'ERR_INVALID_ARG_TYPE',
      /Float64Array, for elements of f64/,
    )
    raises(() => py.evaluate('numpy.ones(2, complex)').arrayCopy(Float64Array), 'TypeError', /format 'Zd'/)
    raises(() => py.evaluate('numpy.ones(2, ">f4")').arrayCopy(Float32Array), 'TypeError', /format '>f'/)
    raises(() => py.evaluate('5').arrayView(Float32Array), 'TypeError')
    assert.deepEqual([...py.evaluate('numpy.zeros((0, 3), numpy.float32)').arrayView(Float32Array).data], [])
    assert.equal(py.evaluate('b"ab"').arrayView(Uint8Array).readOnly, true)
    assert.equal(py.evaluate('b"ab"').arrayCopy(Uint8Array).readOnly, false)
    assert.deepEqual(py.evaluate('[numpy.float32(1.5), numpy.int64(7), numpy.bool_(True)]').value(), [1.5, 7, true])
  })

  it('are kept as long as what is seen of them, and no longer', async () => {
    const py = pythonHere()
    py.run('import gc, weakref\nclass Array(numpy.ndarray): pass')
    const see = (): Float64Array => {
      py.run('c = numpy.full(100_000, 7.0).view(Array); seen = weakref.ref(c)')
      using array = py.evaluate('c')
      py.run('del c')
      return array.arrayView(Float64Array).data
    }
    const isGone = (): boolean => py.evaluate('gc.collect() is None or seen() is None').boolean()
    // In a list, since collectors may look for references on the stack.
    const arrays = [see()]
    const last = (): number | undefined => arrays[0]?.[99_999]
    assert.equal(await collected(isGone), false)
    assert.equal(last(), 7)
    arrays.length = 0
    assert.equal(await collectUntil(isGone), true)
    py.run('c = numpy.full(10, 7.0).view(Array); seen = weakref.ref(c)')
    refused(() => py.evaluate('c').arrayView(Int8Array), 'ERR_INVALID_ARG_TYPE')
    py.evaluate('c').arrayCopy(Float64Array)
    py.run('del c')
    assert.equal(await collectUntil(isGone), true)
  })
})

describe('Python in a worker', { skip: reason }, () => {
  it('is the same interpreter, with objects of its own, and runs beside the main thread', async () => {
    const py = pythonHere()
    py.run('import threading\nfrom_worker = threading.Event()\nto_worker = threading.Event()')
    const entry = new URL('../../src/entry-points/python.js', import.meta.url)
    const code = `
      import(${JSON.stringify(entry.href)}).then(({ Python }) => {
        const python = Python.start()
        python.run('local = threading.local(); local.x = 5')
        python.run('from_worker.set()')
        // Blocks this thread, and not Python: the main thread sets it.
        const isSet = python.evaluate('to_worker.wait(30)').boolean()
        require('node:worker_threads').parentPort.postMessage([isSet, python.evaluate('local.x').number()])
      })`
    const worker = new Worker(code, { eval: true })
    const message = new Promise((resolve, reject) => {
      worker.once('message', resolve)
      worker.once('error', reject)
    })
    assert.equal(py.evaluate('from_worker.wait(30)').boolean(), true)
    py.run('to_worker.set()')
    assert.deepEqual(await message, [true, 5])
    await worker.terminate()
    assert.equal(py.evaluate('1 + 1').number(), 2)
  })
})

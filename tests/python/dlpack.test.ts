/**
 * Memory that Python's libraries and ours hand to each other in one process. NumPy proves on any machine how capsules are
 * made, taken and given back, and so do Warp and JAX in memory of the host. PyTorch, CuPy and Warp on a GPU prove the order: each exchange
 * has a counterpart without its wait, whose writer is held until the reader is done.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Device, type DeviceBuffer, ExternalStream, type PinnedBuffer, Stream } from 'cuda-streams'
import { fromCudaArrayInterface, fromDLPack, toCudaArrayInterface, toDLPack } from 'cuda-streams/dlpack'
import { type Python, PythonError, type PythonObject } from 'cuda-streams/python'
import { type Hold, holdOn } from '../../examples/hold.js'
import { gpuUnavailable } from '../../examples/python/gpu.js'
import { refused } from '../conformance/expect.js'
import { lackOf, pythonHere } from '../helpers/python.js'

const device = Device.get()

async function until(isSo: () => boolean): Promise<void> {
  const end = performance.now() + 5000
  while (!isSo()) {
    assert.ok(performance.now() < end, 'it did not come to be')
    await sleep(5)
  }
}

const noNumpy = lackOf('numpy')
if (noNumpy !== undefined) console.log(`skipped: ${noNumpy}`)

describe('NumPy and pinned memory', { skip: noNumpy ?? false }, () => {
  it('sees the memory itself, with its shape and strides, as often as it likes', () => {
    const py = pythonHere()
    using pinned = device.allocPinned(4 * 24)
    const floats = pinned.view(Float32Array)
    floats.set(Array.from({ length: 24 }, (_, index) => index))
    using whole = py.share(pinned, { dtype: 'f32', shape: [4, 6] })
    using part = py.share(pinned.subarray(4, 96), { dtype: 'f32', shape: [3, 2], strides: [6, 2] })
    py.run('a, b = numpy.from_dlpack(whole), numpy.from_dlpack(part)', { whole, part })
    assert.deepEqual(py.evaluate('[a.shape, a.strides, str(a.dtype), b.tolist()]').value(), [
      [4, 6],
      [24, 4],
      'float32',
      [
        [1, 3],
        [7, 9],
        [13, 15],
      ],
    ])
    py.run('a[0, 1] = 77')
    assert.deepEqual([floats[1], py.evaluate('b[0, 0]').number()], [77, 77])
    py.run('del a, b')
  })

  it('keeps the memory of a closed buffer until Python lets go, on whichever thread', async () => {
    const py = pythonHere()
    const pinned = device.allocPinned(64)
    pinned.bytes.fill(9)
    const tensors = [0, 1].map(() => toDLPack(pinned, { dtype: 'u8', shape: [64], maxVersion: [1, 0] }))
    for (const [index, tensor] of tensors.entries()) {
      py.run(
        `
        class Given:
            def __dlpack__(self, **more): return self.capsule
            def __dlpack_device__(self): return (1, 0)
        given = Given()
        given.capsule = tensor
        kept${index} = numpy.from_dlpack(given)
      `,
        { tensor },
      )
    }
    pinned.close()
    assert.deepEqual(py.evaluate('[int(kept0.sum()), int(kept1.sum())]').value(), [576, 576])
    assert.deepEqual(
      tensors.map(({ released }) => released),
      [false, false],
    )
    py.run('del kept0')
    assert.deepEqual(
      tensors.map(({ released }) => released),
      [true, false],
    )
    // The thread lets go while this one waits in C for it: the deleter may need no JavaScript.
    py.run(`
      import threading
      box = [kept1]
      del kept1
      thread = threading.Thread(target=box.clear)
      thread.start()
      thread.join()
    `)
    assert.deepEqual(
      tensors.map(({ released }) => released),
      [true, true],
    )
  })

  it('takes back what nobody has taken', () => {
    const py = pythonHere()
    using pinned = device.allocPinned(64)
    for (const maxVersion of [undefined, [1, 0]] as const) {
      const tensor = toDLPack(pinned, { dtype: 'u8', shape: [64], maxVersion })
      const capsule = py.evaluate('tensor', { tensor })
      assert.match(capsule.text(), maxVersion ? /"dltensor_versioned"/ : /"dltensor"/)
      assert.equal(tensor.released, false)
      refused(() => py.evaluate('tensor', { tensor }), 'ERR_CLOSED', /export the buffer once more/)
      tensor.release()
      assert.equal(tensor.released, false, 'Python has it')
      capsule.close()
      assert.equal(tensor.released, true)
    }
  })

  it('says itself that it refuses memory of a device, for which nothing else is raised or printed', () => {
    const py = pythonHere()
    using buffer = device.alloc(64)
    using shared = py.share(buffer, { dtype: 'u8', shape: [64] })
    py.run('import io, sys; stderr, sys.stderr = sys.stderr, io.StringIO()')
    for (let each = 0; each < 3; each += 1) {
      assert.throws(
        () => py.import('numpy').invoke('from_dlpack', [shared]),
        (error) => error instanceof PythonError && /^(?:Buffer|Runtime)Error: .*device/i.test(error.message),
      )
    }
    py.run('printed, sys.stderr = sys.stderr.getvalue(), stderr')
    assert.equal(py.evaluate('printed').text(), '')
  })

  it('is told why it is given nothing', () => {
    const py = pythonHere()
    using pinned = device.allocPinned(64)
    using readOnly = py.share(pinned, { dtype: 'u8', shape: [65] })
    const raises = (code: string, memory: PythonObject, says: RegExp): void => {
      assert.throws(
        () => py.run(code, { memory }),
        (error) => error instanceof PythonError && says.test(error.message),
      )
    }
    raises('numpy.from_dlpack(memory)', readOnly, /BufferError: .*at most 64.*not 65/)
    using fits = py.share(pinned, { dtype: 'u8', shape: [64] })
    raises('numpy.from_dlpack(memory, copy=True)', fits, /BufferError: .*not copied/)
    py.run(
      `
      def take():
          global told
          try: numpy.from_dlpack(fits)
          except BufferError as error: told = str(error)
      thread = threading.Thread(target=take)
      thread.start()
      thread.join()
    `,
      { fits },
    )
    assert.match(py.evaluate('told').text(), /on its thread only/)
    const late = py.share(pinned, { dtype: 'u8', shape: [64] })
    pinned.close()
    raises('numpy.from_dlpack(memory)', late, /BufferError: .*closed/)
  })

  it('gives back a part of what it had from us', async () => {
    const py = pythonHere()
    using stream = new Stream({ device })
    using pinned = device.allocPinned(96)
    pinned.bytes.fill(1)
    using offered = py.share(pinned.subarray(32, 96), { dtype: 'i32', shape: [4, 4] })
    py.run('part = numpy.from_dlpack(offered)[1:3, ::2]', { offered })
    using tensor = py.evaluate('part')
    const { buffer, shape, strides } = fromDLPack(tensor)
    assert.deepEqual([shape, strides, buffer.pointer, buffer.byteLength], [[2, 2], [4, 2], pinned.pointer + 48n, 28])
    await stream.fill(buffer, 2).finished()
    assert.deepEqual(py.evaluate('part.tolist()').value(), [Array(2).fill(0x02020202), Array(2).fill(0x02020202)])
    assert.deepEqual([pinned.bytes.indexOf(2), pinned.bytes.lastIndexOf(2)], [48, 75])
    buffer.close()
    py.run('del part')
  })

  it('cannot hand over pageable memory, and has it back', () => {
    const py = pythonHere()
    py.run('n = numpy.arange(1000); import sys; before = sys.getrefcount(n)')
    {
      using tensor = py.evaluate('n')
      refused(() => fromDLPack(tensor), 'ERR_UNSUPPORTED', /pageable memory/)
    }
    assert.equal(py.evaluate('sys.getrefcount(n) - before').number(), 0)
  })
})

const noWarp = lackOf('warp')
if (noWarp !== undefined) console.log(`skipped: ${noWarp}`)

describe('Warp and pinned memory', { skip: noWarp ?? false }, () => {
  before(() => pythonHere().run('warp.config.quiet = True; warp.init()'))

  it('sees the memory itself, with its shape and strides, from objects and from capsules', () => {
    const py = pythonHere()
    using pinned = device.allocPinned(4 * 24)
    const floats = pinned.view(Float32Array)
    floats.set(Array.from({ length: 24 }, (_, index) => index))
    using whole = py.share(pinned, { dtype: 'f32', shape: [4, 6] })
    const strided = { dtype: 'f32', shape: [3, 2], strides: [6, 2] } as const
    using part = py.evaluate('tensor', { tensor: toDLPack(pinned.subarray(4, 96), strided) })
    using vectors = py.share(pinned, { dtype: 'f32', shape: [8, 3] })
    py.run(
      `w, v = warp.from_dlpack(whole), warp.from_dlpack(part)
v3 = warp.from_dlpack(vectors, dtype=warp.vec3)`,
      { whole, part, vectors },
    )
    assert.deepEqual(
      py.evaluate('[w.shape, w.strides, w.dtype is warp.float32, str(w.device), v.numpy().tolist(), v3.shape]').value(),
      [
        [4, 6],
        [24, 4],
        true,
        'cpu',
        [
          [1, 3],
          [7, 9],
          [13, 15],
        ],
        [8],
      ],
    )
    py.run('v.fill_(5); v3[7:8].fill_(warp.vec3(1.0, 2.0, 3.0))')
    assert.deepEqual([...floats.slice(0, 4)], [0, 5, 2, 5])
    assert.deepEqual([...floats.slice(21)], [1, 2, 3])
    py.run('del w, v, v3')
  })

  it('gives back what it had from us, and keeps it as long as we do', async () => {
    const py = pythonHere()
    using stream = new Stream({ device })
    const pinned = device.allocPinned(64)
    const lent = toDLPack(pinned, { dtype: 'i32', shape: [4, 4] })
    using capsule = py.evaluate('tensor', { tensor: lent })
    py.run('w = warp.from_dlpack(capsule)', { capsule })
    using tensor = py.evaluate('w')
    const { buffer, shape, dtype } = fromDLPack(tensor)
    assert.deepEqual([shape, dtype, buffer.pointer], [[4, 4], 'i32', pinned.pointer])
    pinned.close()
    await stream.fill(buffer, 7, { width: 4 }).finished()
    assert.deepEqual(py.evaluate('w.numpy().flatten().tolist()').value(), Array(16).fill(7))
    tensor.close()
    py.run('del w')
    assert.equal(lent.released, false)
    buffer.close()
    await until(() => {
      // Looks for what can be given back.
      toDLPack(device.allocPinned(4), { dtype: 'i32', shape: [1] }).release()
      return lent.released
    })
  })

  it('cannot have its pageable memory taken in, and has it back', () => {
    const py = pythonHere()
    py.run("w = warp.zeros(16, dtype=warp.int32, device='cpu'); import sys; before = sys.getrefcount(w)")
    {
      using tensor = py.evaluate('w')
      refused(() => fromDLPack(tensor), 'ERR_UNSUPPORTED', /pageable memory/)
    }
    assert.equal(py.evaluate('sys.getrefcount(w) - before').number(), 0)
  })

  it('takes no versioned capsule', () => {
    const py = pythonHere()
    using pinned = device.allocPinned(64)
    using capsule = py.evaluate('tensor', {
      tensor: toDLPack(pinned, { dtype: 'u8', shape: [64], maxVersion: [1, 0] }),
    })
    assert.throws(
      () => py.run('warp.from_dlpack(capsule)', { capsule }),
      (error) => error instanceof PythonError && /valid DLPack capsule/.test(error.message),
    )
  })
})

const noTorch = lackOf('torch')
if (noTorch !== undefined) console.log(`skipped: ${noTorch}`)

describe('PyTorch and memory of the host', { skip: noTorch ?? false, timeout: 120_000 }, () => {
  it('sees ours, and its tensors are seen, without a copy', () => {
    const py = pythonHere()
    using pinned = device.allocPinned(4 * 24)
    const floats = pinned.view(Float32Array)
    using shared = py.share(pinned, { dtype: 'f32', shape: [4, 6] })
    using tensor = py.import('torch').invoke('from_dlpack', [shared])
    tensor.invoke('fill_', [3])
    assert.deepEqual([...new Set(floats)], [3])
    const { data, shape, dtype } = tensor.arrayView(Float32Array)
    data[0] = 8
    assert.deepEqual([floats[0], tensor.item(0, 0).number(), shape, dtype], [8, 8, [4, 6], 'f32'])
    using column = tensor.item(py.evaluate('slice(None)'), 0)
    assert.deepEqual([...column.arrayCopy(Float32Array).data], [8, 3, 3, 3])
    assert.throws(
      () =>
        py
          .import('torch')
          .invoke('ones', [2], { dtype: py.evaluate('torch.bfloat16') })
          .arrayCopy(Uint16Array),
      {
        name: 'PythonError',
        type: 'TypeError',
      },
    )
  })
})

const noJax = lackOf('jax')
if (noJax !== undefined) console.log(`skipped: ${noJax}`)

describe('JAX and memory of the host', { skip: noJax ?? false }, () => {
  it('takes ours, and its arrays are seen and copied', () => {
    const py = pythonHere()
    using pinned = device.allocPinned(4 * 24)
    pinned.view(Float32Array).set(Array.from({ length: 24 }, (_, index) => index))
    using shared = py.share(pinned, { dtype: 'f32', shape: [4, 6] })
    const doubled = py
      .import('jax.numpy')
      .invoke('multiply', [py.evaluate('jax.numpy.from_dlpack(x)', { x: shared }), 2])
    const { data, shape, readOnly } = doubled.arrayView(Float32Array)
    assert.deepEqual([data[23], shape, readOnly], [46, [4, 6], true])
    assert.deepEqual([...doubled.get('T').arrayCopy(Float32Array).data.slice(0, 3)], [0, 12, 24])
    refused(() => fromDLPack(doubled), 'ERR_UNSUPPORTED', /pageable memory/)
  })
})

const WORDS = 4096
const BYTES = 4 * WORDS
const ELEMENTS = { dtype: 'i32', shape: [WORDS] } as const

/** What users of the two libraries write; the methods are the same. */
const ADAPTERS = `
import gc

class Torch:
    def __init__(self, count, ordinal):
        import torch
        self.torch = torch
        self.device = torch.device('cuda', ordinal)
        self.stream = torch.cuda.Stream(self.device)
        self.handle = self.stream.cuda_stream
        torch.cuda.set_stream(self.stream)
        self.mine = torch.zeros(count, dtype=torch.int32, device=self.device)
        self.result = torch.zeros_like(self.mine)
        self.strided = torch.arange(24, dtype=torch.float32, device=self.device).reshape(4, 6)[1:, ::2].T
        self.take_interface = lambda array: torch.as_tensor(array, device=self.device)
        self.from_dlpack = torch.from_dlpack
        self.stream.synchronize()
    def fill(self, value): self.mine.fill_(value)
    def read(self): self.result.copy_(self.theirs)
    def values(self):
        self.stream.synchronize()
        return self.result.unique().tolist()
    def listed(self, array): return array.tolist()
    def big(self): return self.torch.zeros(1 << 26, dtype=self.torch.uint8, device=self.device)
    def used(self): return self.torch.cuda.memory_allocated(self.device)

class Cupy:
    def __init__(self, count, ordinal):
        import cupy
        self.cupy = cupy
        cupy.cuda.Device(ordinal).use()
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.handle = self.stream.ptr
        self.stream.use()
        self.mine = cupy.zeros(count, dtype=cupy.int32)
        self.result = cupy.zeros_like(self.mine)
        self.strided = cupy.arange(24, dtype=cupy.float32).reshape(4, 6)[1:, ::2].T
        self.take_interface = cupy.asarray
        self.from_dlpack = cupy.from_dlpack
        self.stream.synchronize()
    def fill(self, value): self.mine.fill(value)
    def read(self): self.cupy.copyto(self.result, self.theirs)
    def values(self):
        self.stream.synchronize()
        return self.cupy.unique(self.result).get().tolist()
    def listed(self, array): return array.tolist()
    def big(self): return self.cupy.zeros(1 << 26, dtype=self.cupy.uint8)
    def used(self): return self.cupy.get_default_memory_pool().used_bytes()

class Warp:
    def __init__(self, count, ordinal):
        import numpy, warp
        warp.init()
        self.warp, self.device = warp, warp.get_device('cuda:%d' % ordinal)
        self.stream = warp.Stream(self.device)
        self.handle = self.stream.cuda_stream
        warp.set_stream(self.stream, self.device)
        self.mine = warp.zeros(count, dtype=warp.int32, device=self.device)
        self.result = warp.zeros_like(self.mine)
        numbers = numpy.arange(24, dtype=numpy.float32).reshape(4, 6)
        self.strided = warp.array(numbers, device=self.device)[1:, ::2].transpose()
        self.take_interface = lambda array: warp.array(array, dtype=warp.int32, device=self.device, copy=False)
        self.from_dlpack = warp.from_dlpack
        warp.synchronize_stream(self.stream)
    def fill(self, value): self.mine.fill_(value)
    def read(self): self.warp.copy(self.result, self.theirs, stream=self.stream)
    def values(self):
        self.warp.synchronize_stream(self.stream)
        return sorted(set(self.result.numpy().tolist()))
    def listed(self, array): return array.numpy().tolist()
    def big(self): return self.warp.zeros(1 << 26, dtype=self.warp.uint8, device=self.device)
    def used(self):
        self.warp.synchronize_stream(self.device.null_stream)  # Warp frees there
        return self.warp.get_mempool_used_mem_current(self.device)

class FromInterface:
    def __len__(self): return self.__cuda_array_interface__['shape'][0]  # Warp takes sequences
    def __init__(self, told):
        told['shape'], told['data'] = tuple(told['shape']), tuple(told['data'])
        if told['strides'] is not None: told['strides'] = tuple(told['strides'])
        self.__cuda_array_interface__ = told
`

const noGpu = gpuUnavailable()
for (const [name, module, maxVersion] of [
  ['Torch', 'torch', [1, 0]],
  ['Cupy', 'cupy', [1, 0]],
  ['Warp', 'warp', undefined],
] as const) {
  const reason = noGpu ?? lackOf(module)
  if (reason !== undefined) console.log(`${module} skipped: ${reason}`)
  describe(`${name} and device memory`, { skip: reason ?? false, timeout: 300_000 }, () => {
    let py: Python
    let ours: Stream
    let theirs: ExternalStream
    let buffer: DeviceBuffer
    let pinned: PinnedBuffer
    let offered: PythonObject
    let hold: Hold
    let value = 100

    const words = (): readonly number[] => [...new Set(pinned.view(Int32Array))]

    before(async () => {
      py = pythonHere()
      hold = holdOn(device)
      py.run(ADAPTERS)
      py.run(`lib = ${name}(${WORDS}, ${device.ordinal})`)
      ours = new Stream({ device })
      theirs = new ExternalStream(py.evaluate('lib.handle').bigint(), { device })
      buffer = device.alloc(BYTES, { stream: ours })
      pinned = device.allocPinned(BYTES)
      offered = py.share(buffer, ELEMENTS)
      // Code is loaded at its first use, which waits for what is held.
      await ours.fill(buffer, 0).finished()
      py.run('lib.theirs = lib.from_dlpack(offered); lib.fill(1); lib.read(); lib.values()', { offered })
      await device.finished()
    })
    after(() => {
      py.run('lib.theirs = None; gc.collect()')
      for (const thing of [offered, buffer, pinned, theirs, ours]) thing.close()
    })

    it('takes our memory behind our work', () => {
      for (let round = 0; round < 5; round += 1) {
        value += 1
        const held = hold(ours)
        ours.fill(buffer, value, { width: 4 })
        py.run('lib.theirs = lib.from_dlpack(offered); lib.read()', { offered })
        held.release()
        assert.deepEqual(py.evaluate('lib.values()').value(), [value])
      }
    })

    it('takes it too early without the wait', async () => {
      for (let round = 0; round < 5; round += 1) {
        const old = value
        value += 1
        const held = hold(ours)
        ours.fill(buffer, value, { width: 4 })
        using capsule = py.evaluate('tensor', { tensor: toDLPack(buffer, { ...ELEMENTS, stream: null, maxVersion }) })
        py.run('lib.theirs = lib.from_dlpack(capsule); lib.read()', { capsule })
        assert.deepEqual(py.evaluate('lib.values()').value(), [old])
        held.release()
        await ours.finished()
      }
    })

    it('takes an unversioned capsule as well', () => {
      const tensor = toDLPack(buffer, { ...ELEMENTS, stream: theirs })
      using capsule = py.evaluate('tensor', { tensor })
      py.run('lib.theirs = lib.from_dlpack(capsule); lib.read()', { capsule })
      assert.deepEqual(py.evaluate('lib.values()').value(), [value])
      py.run('lib.theirs = None; gc.collect()')
      assert.equal(tensor.released, true)
    })

    it('gives us its memory behind its work', async () => {
      using mine = py.evaluate('lib.mine')
      for (let round = 0; round < 5; round += 1) {
        value += 1
        const held = hold(theirs)
        py.run(`lib.fill(${value})`)
        const tensor = fromDLPack(mine, { stream: ours })
        ours.copy(pinned, tensor.buffer)
        tensor.buffer.close()
        held.release()
        await ours.finished()
        assert.deepEqual(words(), [value])
      }
    })

    it('gives it too early without the wait', async () => {
      using mine = py.evaluate('lib.mine')
      for (let round = 0; round < 5; round += 1) {
        const old = value
        value += 1
        const held = hold(theirs)
        py.run(`lib.fill(${value})`)
        const tensor = fromDLPack(mine, { stream: null })
        await ours.copy(pinned, tensor.buffer).finished()
        held.release()
        assert.deepEqual(words(), [old])
        tensor.buffer.close()
        await theirs.finished()
      }
    })

    it('agrees with us on shapes and strides', async () => {
      using strided = py.evaluate('lib.strided')
      const { buffer: memory, shape, strides, dtype, byteOffset } = fromDLPack(strided, { stream: ours })
      assert.deepEqual([shape, strides, dtype, byteOffset], [[3, 3], [2, 6], 'f32', 0])
      const floats = await ours.download(memory, Float32Array)
      const elements = [0, 1, 2].map((x) => [0, 1, 2].map((y) => floats[2 * x + 6 * y]))
      assert.deepEqual(elements, py.evaluate('lib.listed(lib.strided)').value())
      const again = py.evaluate('tensor', { tensor: toDLPack(memory, { dtype, shape, strides, stream: theirs }) })
      py.run('back = lib.from_dlpack(again)', { again })
      again.close()
      assert.deepEqual(py.evaluate('lib.listed(back)').value(), elements)
      py.run('del back; gc.collect()')
      memory.close()
    })

    it('keeps its memory as long as our buffer, and the work with it', async () => {
      const before = py.evaluate('lib.used()').number()
      py.run('big = lib.big()')
      const source = py.evaluate('big')
      const tensor = fromDLPack(source, { stream: ours })
      source.close()
      py.run('del big; gc.collect()')
      assert.ok(py.evaluate('lib.used()').number() >= before + 2 ** 26)
      const held = hold(ours)
      ours.fill(tensor.buffer, 3)
      tensor.buffer.close()
      await sleep(60)
      assert.ok(py.evaluate('lib.used()').number() >= before + 2 ** 26, 'given back while a fill was pending')
      held.release()
      await until(() => py.evaluate('lib.used()').number() <= before)
    })

    it('lets us free our memory only behind its work', async () => {
      const memory = device.alloc(BYTES, { stream: ours })
      ours.fill(memory, 5)
      const { pointer } = memory
      const lent = py.evaluate('tensor', { tensor: toDLPack(memory, { ...ELEMENTS, stream: theirs }) })
      py.run('lib.theirs = lib.from_dlpack(lent)', { lent })
      lent.close()
      memory.close()
      const held = hold(theirs)
      py.run('lib.read(); lib.theirs = None; gc.collect()')
      // Looks for what was given back.
      toDLPack(buffer, { ...ELEMENTS, stream: ours }).release()
      using next = device.alloc(BYTES, { stream: ours })
      ours.fill(next, 6)
      held.release()
      assert.deepEqual(py.evaluate('lib.values()').value(), [0x05050505])
      console.log(`the same memory again: ${next.pointer === pointer}`)
      await ours.finished()
    })

    it('exchanges arrays by __cuda_array_interface__', async () => {
      value += 1
      ours.fill(buffer, value, { width: 4 })
      const told = toCudaArrayInterface(buffer, { ...ELEMENTS, stream: ours })
      py.run('lib.theirs = lib.take_interface(FromInterface(told))', { told })
      // PyTorch and Warp do not read the stream.
      theirs.wait(ours)
      py.run('lib.read()')
      assert.deepEqual(py.evaluate('lib.values()').value(), [value])

      value += 1
      const held = hold(theirs)
      py.run(`lib.fill(${value})`)
      const dict = py.evaluate('lib.mine').__cuda_array_interface__
      if (dict.version === 2) ours.wait(theirs)
      const { buffer: array, shape, dtype } = fromCudaArrayInterface(dict, { stream: ours, owner: theirs })
      assert.deepEqual([shape, dtype], [[WORDS], 'i32'])
      ours.copy(pinned, array)
      held.release()
      await ours.finished()
      assert.deepEqual(words(), [value])
      array.close()
    })
  })
}

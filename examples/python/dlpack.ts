/** Tensors of Python for cuda-streams, and memory of cuda-streams for Python, by DLPack: nothing is copied. */
import type { DeviceBuffer, PinnedBuffer } from 'cuda-streams'
import {
  type DLPackCapsule,
  type DLPackProducer,
  type DLPackRequest,
  type DLPackTensor,
  type ElementOptions,
  toDLPack,
} from 'cuda-streams/dlpack'
import koffi from 'koffi'
import type { Python } from './python.js'
import { PythonObject } from './python-object.js'

/**
 * What is written in Python: capsules are made and emptied here, and `__dlpack__` of a buffer asks JavaScript, by a C function
 * that runs on the JavaScript thread, inside the call of Python that JavaScript is waiting for.
 */
const BRIDGE = `
import ctypes, threading

class _DLPack:
    NAMES = {False: b'dltensor', True: b'dltensor_versioned'}
    USED = {False: b'used_dltensor', True: b'used_dltensor_versioned'}
    DELETERS = {False: 56, True: 16}
    thread = threading.get_ident()
    error = None

    def __init__(self):
        def function(name, result, *arguments):
            return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))
        pointer, text, object = ctypes.c_void_p, ctypes.c_char_p, ctypes.py_object
        self.destroyed = ctypes.PYFUNCTYPE(None, pointer)(self.destroy)
        self.new = function('PyCapsule_New', object, pointer, text, pointer)
        self.is_valid = function('PyCapsule_IsValid', ctypes.c_int, pointer, text)
        self.pointer = function('PyCapsule_GetPointer', pointer, pointer, text)
        self.rename = function('PyCapsule_SetName', ctypes.c_int, object, text)

    def capsule(self, pointer, versioned):
        return self.new(pointer, self.NAMES[versioned], ctypes.cast(self.destroyed, ctypes.c_void_p))

    def destroy(self, capsule):
        # A capsule that no consumer has taken.
        for versioned, name in self.NAMES.items():
            if self.is_valid(capsule, name):
                tensor = self.pointer(capsule, name)
                deleter = ctypes.c_void_p.from_address(tensor + self.DELETERS[versioned]).value
                ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(tensor)

    def take(self, tensor, stream, version):
        stream = {} if stream is None else {'stream': stream}
        try:
            capsule = tensor.__dlpack__(max_version=tuple(version), **stream)
        except TypeError:
            capsule = tensor.__dlpack__(**stream) # from before there were versions
        for versioned, name in self.NAMES.items():
            if self.is_valid(id(capsule), name):
                pointer = self.pointer(id(capsule), name)
                self.rename(capsule, self.USED[versioned])
                return {'pointer': pointer, 'versioned': versioned}
        raise TypeError('__dlpack__ returned no capsule of a tensor')

_dlpack = _DLPack()

class _Offered:
    def __init__(self, ask, number, device):
        self.ask, self.number, self.device = ctypes.PYFUNCTYPE(ctypes.c_size_t, ctypes.c_int, ctypes.c_int64, ctypes.c_int)(ask), number, device
    def __dlpack_device__(self):
        return self.device
    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if threading.get_ident() != _dlpack.thread:
            raise BufferError('a buffer of JavaScript can be taken on its thread only')
        if copy or (dl_device is not None and tuple(dl_device) != self.device):
            raise BufferError('a buffer of JavaScript is not copied, and is on device %s' % (self.device,))
        major = 0 if max_version is None else max_version[0]
        pointer = self.ask(self.number, 1 if stream is None else stream, major)
        if pointer == 0:
            raise BufferError(_dlpack.error)
        return _dlpack.capsule(pointer, major >= 1)
`

/** There is one for the process. */
let bridged: Python | undefined

function bridge(python: Python): void {
  if (bridged === python) return
  python.run(BRIDGE)
  bridged = python
}

/** A tensor of Python, for `fromDLPack()`. */
export class PythonTensor extends PythonObject implements DLPackProducer {
  constructor(python: Python, expression: string) {
    super(python, expression)
    bridge(python)
  }

  __dlpack_device__(): readonly [type: number, id: number] {
    return this.python.json(`[int(part) for part in ${this.expression}.__dlpack_device__()]`) as [number, number]
  }

  __dlpack__({ stream, max_version: [major, minor] }: DLPackRequest): DLPackCapsule {
    const asked = `${stream ?? 'None'}, (${major}, ${minor})`
    return this.python.json(`_dlpack.take(${this.expression}, ${asked})`) as DLPackCapsule
  }
}

/** A PyCapsule of a tensor, which one consumer may take: `torch.from_dlpack(capsule)`. */
export function capsuleOf(python: Python, { pointer, versioned }: DLPackTensor): PythonObject {
  bridge(python)
  return new PythonObject(python, `_dlpack.capsule(${pointer}, ${versioned ? 'True' : 'False'})`)
}

interface Offer {
  readonly buffer: DeviceBuffer | PinnedBuffer
  readonly elements: ElementOptions
}

const offers = new Map<number, Offer>()
let asked: bigint | undefined

/** An object with `__dlpack__`, which any library takes as often as it likes, each time in the order of its own stream. */
export class OfferedBuffer extends PythonObject {
  readonly #number: number

  constructor(python: Python, buffer: DeviceBuffer | PinnedBuffer, elements: ElementOptions) {
    bridge(python)
    asked ??= koffi.register(answer, koffi.pointer(koffi.proto('uintptr_t (int, int64, int)')))
    const number = offers.size === 0 ? 1 : Math.max(...offers.keys()) + 1
    const device = buffer[Symbol.toStringTag] === 'PinnedBuffer' ? '(1, 0)' : `(2, ${buffer.device.ordinal})`
    super(python, `_Offered(${asked}, ${number}, ${device})`)
    offers.set(number, { buffer, elements })
    this.#number = number
  }

  /** Consumers that have taken it keep the memory. */
  override close(): void {
    offers.delete(this.#number)
    super.close()
  }
}

/** Called by Python. An error becomes a BufferError there. */
function answer(number: number, stream: number, major: number): number {
  const offer = offers.get(number)
  try {
    if (offer === undefined) throw new Error('the buffer is offered no longer')
    return Number(toDLPack(offer.buffer, { ...offer.elements, stream, maxVersion: [major, 0] }).pointer)
  } catch (error) {
    const message = JSON.stringify(error instanceof Error ? error.message : String(error))
    bridged?.run(`_dlpack.error = ${message}`)
    return 0
  }
}

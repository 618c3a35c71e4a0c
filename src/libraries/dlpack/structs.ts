/**
 * DLPack's structs in memory, as dlpack.h has them: a DLManagedTensorVersioned (versions 1.x), and a DLManagedTensor, which
 * older consumers take.
 */
import { invalidValue, stateError } from '../../foundation/base/errors.js'
import { callAt } from '../../foundation/native/c-functions.js'
import { layer } from '../../foundation/native/layer.js'
import { MemoryReader } from '../../foundation/native/memory-reader.js'
import { NativeMemory } from '../../foundation/native/native-memory.js'
import { type Layout, MOST_DIMENSIONS, type ParsedType, rowMajor, typeOfCode } from './tensor.js'

/** DLDeviceType. */
export const DeviceType = { CPU: 1, CUDA: 2, CUDA_HOST: 3, CUDA_MANAGED: 13 } as const

/** The contents of a DLManagedTensor, versioned or not. */
export interface TensorFacts extends Layout {
  readonly pointer: number
  readonly deviceType: number
  readonly deviceId: number
  readonly type: ParsedType
  readonly readOnly: boolean
}

export const MAJOR_VERSION = 1
const MINOR_VERSION = 1
const FLAG_READ_ONLY = 1n

/** The offsets of the fields of either struct, in bytes. `tensor` is its DLTensor. */
const VERSIONED = { tensor: 32, context: 8, deleter: 16, byteLength: 80 } as const
const LEGACY = { tensor: 0, context: 48, deleter: 56, byteLength: 64 } as const
const FLAGS = 24
/** A bound that is larger than the number of dimensions of any tensor, and than the versions of DLPack. */
const MANY = 1024n
/** The offsets in a DLTensor, in words of 8 bytes, of data, device, ndim with dtype, shape, strides and byte_offset. */
const Word = { DATA: 0, DEVICE: 1, NDIM_AND_DTYPE: 2, SHAPE: 3, STRIDES: 4, BYTE_OFFSET: 5 } as const
const TENSOR_WORDS = 6
/** Shape and strides are stored behind either struct. */
const SHAPE_AT = 128
/** The deleter of exported tensors (native/libraries.c) writes this to the first word: no address and no version is so. */
const DELETED = 2n ** 64n - 1n

let reader: MemoryReader | undefined

/** The struct of an exported tensor. */
export class ExportedStruct {
  readonly address: number
  readonly #memory: NativeMemory

  constructor(facts: TensorFacts, versioned: boolean) {
    const { shape, strides } = facts
    const { tensor, deleter: at } = versioned ? VERSIONED : LEGACY
    const memory = new NativeMemory(SHAPE_AT + 16 * Math.max(1, shape.length))
    const { uint32, uint64, address } = memory
    if (versioned) {
      uint32[0] = MAJOR_VERSION
      uint32[1] = MINOR_VERSION
      uint64[FLAGS / 8] = facts.readOnly ? FLAG_READ_ONLY : 0n
    }
    uint64[at / 8] = BigInt(deleter())
    const word = tensor / 8
    uint64[word + Word.DATA] = BigInt(facts.pointer)
    uint32[2 * (word + Word.DEVICE)] = facts.deviceType
    uint32[2 * (word + Word.DEVICE) + 1] = facts.deviceId
    uint32[2 * (word + Word.NDIM_AND_DTYPE)] = shape.length
    const { code, bits, lanes } = facts.type
    uint32[2 * (word + Word.NDIM_AND_DTYPE) + 1] = code + bits * 2 ** 8 + lanes * 2 ** 16
    uint64[word + Word.SHAPE] = BigInt(address + SHAPE_AT)
    uint64[word + Word.STRIDES] = BigInt(address + SHAPE_AT + 8 * shape.length)
    const numbers = new BigInt64Array(uint64.buffer, SHAPE_AT)
    for (const [index, value] of [...shape, ...strides].entries()) numbers[index] = BigInt(value)
    this.#memory = memory
    this.address = address
  }

  /** Has the consumer called the deleter? */
  get isDeleted(): boolean {
    return Atomics.load(this.#memory.uint64, 0) === DELETED
  }

  /** Calls the deleter in a consumer's place. */
  delete(): void {
    callAt(deleter(), this.address)
  }

  /** Frees the struct, once it is deleted. */
  free(): void {
    this.#memory.free()
  }
}

/** A struct of another library: its deleter has to be called once. */
export class ImportedStruct {
  readonly #deleter: bigint

  /** Throws ERR_INVALID_HANDLE for an address at which no such struct can be: its deleter is not called. */
  constructor(
    private readonly address: number,
    private readonly versioned: boolean,
  ) {
    const { deleter: at, tensor } = versioned ? VERSIONED : LEGACY
    const deleter = this.#words(at, 1)[0] ?? 0n
    const [major = 0n, kind = 0n] = [this.#words(0, 1)[0], this.#words(tensor + 8 * Word.NDIM_AND_DTYPE, 1)[0]]
    const version = versioned ? major & 0xffffffffn : 1n
    // In a later major version only the deleter is known.
    const isPlausible =
      version > 1n ? version < MANY : version === 1n && (kind & 0xffffffffn) < MANY && kind >> 48n > 0n
    if (!isPlausible || (deleter !== 0n && !this.#isMapped(Number(deleter)))) throw this.#notFound()
    this.#deleter = deleter
  }

  /** Throws ERR_UNSUPPORTED, ERR_INVALID_ARG_VALUE. */
  read(): TensorFacts {
    if (this.versioned) this.#checkVersion()
    const { tensor } = this.versioned ? VERSIONED : LEGACY
    const [data = 0n, device = 0n, kind = 0n, shapeAt = 0n, stridesAt = 0n, byteOffset = 0n] = this.#words(
      tensor,
      TENSOR_WORDS,
    )
    const dimensions = Number(BigInt.asIntN(32, kind))
    if (dimensions < 0 || dimensions > MOST_DIMENSIONS) {
      throw invalidValue(`The tensor has ${dimensions} dimensions; from 0 to ${MOST_DIMENSIONS} are known`)
    }
    const type = typeOfCode(Number((kind >> 32n) & 0xffn), Number((kind >> 40n) & 0xffn), Number(kind >> 48n))
    const shape = this.#numbers(shapeAt, dimensions)
    if (shape.some((extent) => extent < 0)) throw invalidValue(`The tensor's shape is (${shape.join(', ')})`)
    return {
      pointer: Number(data + byteOffset),
      deviceType: Number(BigInt.asIntN(32, device)),
      deviceId: Number(BigInt.asIntN(32, device >> 32n)),
      type,
      shape,
      strides: stridesAt === 0n ? rowMajor(shape) : this.#numbers(stridesAt, dimensions),
      readOnly: this.versioned && ((this.#words(FLAGS, 1)[0] ?? 0n) & FLAG_READ_ONLY) !== 0n,
    }
  }

  /** Returns it to its producer. */
  delete(): void {
    if (this.#deleter !== 0n) callAt(Number(this.#deleter), this.address)
  }

  #checkVersion(): void {
    const version = this.#words(0, 1)[0] ?? 0n
    const [major, minor] = [version & 0xffffffffn, version >> 32n]
    if (major === BigInt(MAJOR_VERSION)) return
    throw stateError('ERR_UNSUPPORTED', `The tensor is of DLPack ${major}.${minor}; ask for max_version (1, 1)`)
  }

  #numbers(at: bigint, count: number): readonly number[] {
    return Array.from({ length: count }, (_, index) =>
      Number(BigInt.asIntN(64, this.#wordsAt(Number(at) + 8 * index, 1)[0] ?? 0n)),
    )
  }

  #words(offset: number, count: number): BigUint64Array {
    return this.#wordsAt(this.address + offset, count)
  }

  #wordsAt(address: number, count: number): BigUint64Array {
    reader ??= new MemoryReader()
    // A copy, since the next read overwrites the reader's memory.
    const words = reader.wordsAt(address, count)?.slice()
    if (words === undefined) throw this.#notFound()
    return words
  }

  #isMapped(address: number): boolean {
    return address < 2 ** 47 && reader?.wordsAt(address - (address % 8), 1) !== undefined
  }

  #notFound(): Error {
    const kind = this.versioned ? 'DLManagedTensorVersioned' : 'DLManagedTensor'
    const what = `No ${kind} lies at 0x${this.address.toString(16)}`
    return stateError('ERR_INVALID_HANDLE', `${what}: pass on the pointer in the capsule, and not that of the capsule`)
  }
}

/** Consumers call it on any thread, also while this one waits in C, so it is C code that only marks the struct. */
const deleter = (): number => layer().functions['deleteTensor'] ?? 0

/** The address of bytes, valid until their ArrayBuffer is detached. */
export const addressOfBytes = (bytes: Uint8Array): number => layer().addressOf(bytes)

/** NCCL as a C library: finding it, its functions and numbers. A test compares them with nccl.h. */

import type { OwnBytes } from '../../foundation/base/bytes.js'
import type { ELEMENT_TYPES, ElementTypeName } from '../../foundation/base/element-types.js'
import { VARIABLES } from '../../foundation/base/environment-variables.js'
import { LibraryError, stateError } from '../../foundation/base/errors.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { ContextHandle } from '../../foundation/driver/handle-types.js'
import type { ThreadedCalls } from '../../foundation/driver/library-driver.js'
import type { CFunction } from '../../foundation/native/c-functions.js'
import { NativeMemory } from '../../foundation/native/native-memory.js'
import { OwnedKind, Trait } from '../../foundation/native/owned-handles.js'
import { loadLibrary, type SharedLibrary } from '../../foundation/native/shared-library.js'
import { ThreadMemory } from '../../foundation/native/thread-memory.js'
import { declareFunctions } from '../library-call.js'

const COLLECTIVE_END = 'ncclComm_t comm, cudaStream_t stream)'

export const NCCL_SIGNATURES = {
  ncclGetVersion: 'ncclResult_t ncclGetVersion(int *version)',
  ncclGetUniqueId: 'ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId)',
  ncclCommInitRankConfig:
    'ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config)',
  ncclCommGetAsyncError: 'ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError)',
  ncclCommFinalize: 'ncclResult_t ncclCommFinalize(ncclComm_t comm)',
  ncclCommDestroy: 'ncclResult_t ncclCommDestroy(ncclComm_t comm)',
  ncclCommAbort: 'ncclResult_t ncclCommAbort(ncclComm_t comm)',
  ncclGroupStart: 'ncclResult_t ncclGroupStart(void)',
  ncclGroupEnd: 'ncclResult_t ncclGroupEnd(void)',
  ncclAllReduce: `ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, ${COLLECTIVE_END}`,
  ncclBroadcast: `ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, int root, ${COLLECTIVE_END}`,
  ncclReduce: `ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype, ncclRedOp_t op, int root, ${COLLECTIVE_END}`,
  ncclAllGather: `ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t datatype, ${COLLECTIVE_END}`,
  ncclReduceScatter: `ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t datatype, ncclRedOp_t op, ${COLLECTIVE_END}`,
  ncclSend: `ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ${COLLECTIVE_END}`,
  ncclRecv: `ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ${COLLECTIVE_END}`,
} as const satisfies Readonly<Record<string, string>>

export type NcclFunction = keyof typeof NCCL_SIGNATURES

/** Functions that are called on other threads only, and that an old NCCL may lack. */
export const NCCL_THREADED = {
  ncclCommSplit:
    'ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)',
} as const

/** ncclResult_t. */
export const NCCL_RESULT: Readonly<Record<string, number>> = {
  ncclSuccess: 0,
  ncclUnhandledCudaError: 1,
  ncclSystemError: 2,
  ncclInternalError: 3,
  ncclInvalidArgument: 4,
  ncclInvalidUsage: 5,
  ncclRemoteError: 6,
  ncclInProgress: 7,
}
const SUCCESS = 0
const IN_PROGRESS = 7

/** ncclRedOp_t. */
export const NCCL_OPERATIONS = { sum: 0, prod: 1, max: 2, min: 3, avg: 4 } as const

/** The type of elements: signed, unsigned and floating types, by their number of bits; bf16 is the upper half of an f32. */
export type NcclType = {
  [T in ElementTypeName]: (typeof ELEMENT_TYPES)[T] extends { readonly nccl: number } ? T : never
}[ElementTypeName]
/** The reduction of the values of all ranks to one: their sum, product, greatest, least, or mean. */
export type NcclReduction = keyof typeof NCCL_OPERATIONS

export const UNIQUE_ID_BYTES = 128

/**
 * ncclConfig_t as in NCCL 2.14, which introduced it. Later versions only added to its end: they read as much as `size` says,
 * and use defaults for members that the version stated here did not have.
 */
export const NCCL_CONFIG = { bytes: 24, size: 0, magic: 8, version: 12, blocking: 16 } as const
/** The members that followed until 2.18, when `splitShare` came. */
export const NCCL_CONFIG_OF_SPLIT = {
  ...NCCL_CONFIG,
  bytes: 48,
  cgaClusterSize: 20,
  minCTAs: 24,
  maxCTAs: 28,
  splitShare: 40,
} as const
export const NCCL_CONFIG_MAGIC = 0xcafebeef
const CONFIG_VERSION = 21400
const CONFIG_VERSION_OF_SPLIT = 21800
/** NCCL_CONFIG_UNDEF_INT */
const UNDEFINED_INT = -(2 ** 31)

/** The memory of a communicator: its address and its configuration, then the same of its blocking half. */
const PAIR = { parent: 0, parentConfig: 8, child: 56, childConfig: 64, bytes: 112 } as const

/**
 * The last bytes of an id of which all ranks make a blocking half, as `NcclHandle` describes. NCCL leaves them zero, so an id that another
 * program made has none, and its ranks, of which some may be no communicators of this library, make none.
 */
const MARK = Uint8Array.of(0x63, 0x73, 0x2d, 0x68, 0x61, 0x6c, 0x76, 0x31)
const MARK_AT = UNIQUE_ID_BYTES - MARK.length
/** The oldest NCCL for which this was tried. */
const OLDEST_WITH_HALVES = 22700
const OTHER_RULES =
  'options.id was made where NCCL is 2.27 or later and NCCL_COMM_SPLIT_SHARE_RESOURCES is not set, and here that is not so: all processes need the same NCCL and its same variables'

/**
 * The longest time in milliseconds that the end of a communicator waits for host functions. They may be behind the work of an
 * aborted one.
 */
const PATIENCE = { ncclCommDestroy: 10_000, ncclCommAbort: 250 } as const
/** The calls that end a communicator. */
export type EndCall = keyof typeof PATIENCE
/** The order in which the communicators of a thread that has ended are aborted. */
const OwnedRank = { WHOLE: 0, HALF: 1 } as const

export class NcclLibrary {
  /** A description of the place at which missing ranks have to be made, for warnings. */
  readonly missing: string = 'come from other threads or processes, and NCCL does not report which have come'
  readonly #functions: Readonly<Record<NcclFunction, CFunction>>
  readonly #texts: Readonly<Record<'ncclGetErrorString' | 'ncclGetLastError', (argument: number) => string>>
  readonly #memory = new ThreadMemory(UNIQUE_ID_BYTES)
  readonly #wholes: OwnedKind
  readonly #halves: OwnedKind

  /** @internal */
  constructor(private readonly library: SharedLibrary) {
    this.#functions = declareFunctions(library, NCCL_SIGNATURES)
    const abort = library.find('ncclCommAbort') ?? 0
    this.#wholes = new OwnedKind(abort, 'ncclCommAbort', Trait.WAITS | OwnedRank.WHOLE)
    this.#halves = new OwnedKind(abort, 'ncclCommAbort', Trait.WAITS | OwnedRank.HALF)
    this.#texts = library.texts({ ncclGetErrorString: 'ncclResult_t result', ncclGetLastError: 'ncclComm_t comm' })
  }

  /** NCCL's version, such as 22809. */
  version(): number {
    this.call('ncclGetVersion', this.#memory.address)
    return this.#memory.int32[0] ?? 0
  }

  uniqueId(): OwnBytes {
    this.call('ncclGetUniqueId', this.#memory.address)
    const id = this.#memory.bytes.slice(0, UNIQUE_ID_BYTES)
    if (this.#canHalve() && id.subarray(MARK_AT).every((byte) => byte === 0)) id.set(MARK, MARK_AT)
    return id
  }

  /**
   * Halves share what they have, so that to abort one ends what the other waits for. The program may have forbidden that, by a variable of
   * NCCL's, which must be the same in all processes.
   */
  #canHalve(): boolean {
    const isAllowed = (process.env['NCCL_COMM_SPLIT_SHARE_RESOURCES'] ?? '') === ''
    return isAllowed && this.library.find('ncclCommSplit') !== undefined && this.version() >= OLDEST_WITH_HALVES
  }

  /** Do the ranks of this id make a blocking half? */
  halves(id: Uint8Array, size: number): boolean {
    return size > 1 && MARK.every((byte, index) => id[MARK_AT + index] === byte)
  }

  /**
   * Begins to make a communicator, which a thread of NCCL completes. That thread may write the address again, so the memory
   * must not be freed before the communicator has ended.
   */
  initRank(id: Uint8Array, rank: number, size: number): NewCommunicator {
    if (this.halves(id, size) && !this.#canHalve()) throw stateError('ERR_UNSUPPORTED', OTHER_RULES)
    const memory = new NativeMemory(PAIR.bytes)
    this.#memory.bytes.set(id)
    if (this.halves(id, size)) {
      writeConfig(memory, PAIR.parentConfig, { blocking: 0, splitShare: 1 })
      writeConfig(memory, PAIR.childConfig, { blocking: 1 })
    } else writeConfig(memory, PAIR.parentConfig, { blocking: 0 })
    const { address } = memory
    try {
      this.call('ncclCommInitRankConfig', address, size, this.#memory.address, rank, address + PAIR.parentConfig)
    } catch (error) {
      memory.free()
      throw error
    }
    return {
      address: memory.pointerAt(PAIR.parent),
      half: () => memory.pointerAt(PAIR.child),
      split: [memory.pointerAt(PAIR.parent), 0, rank, address + PAIR.child, address + PAIR.childConfig],
      free: () => memory.free(),
    }
  }

  /** Is a communicator done with its latest call? Throws its error, as an error of `call`. */
  isDone(communicator: number, call: string): boolean {
    const { address, int32 } = this.#memory
    this.call('ncclCommGetAsyncError', communicator, address)
    const state = int32[0] ?? 0
    if (state === IN_PROGRESS) return false
    this.check(call, state)
    return true
  }

  /** Calls a function of NCCL. Throws a LibraryError unless that succeeds or is in progress. */
  call(name: NcclFunction, ...args: number[]): void {
    this.check(name, this.#functions[name](...args))
  }

  /** Begins to complete the work of a communicator. */
  finalize(communicator: number): void {
    this.call('ncclCommFinalize', communicator)
  }

  /** Makes calls on a thread of their own, with the context current. NCCL's numbers of what it cannot do are thrown by `check()`. */
  makeOnThread(driver: Driver, calls: readonly ThreadedCall[]): ThreadedCalls {
    const calls_ = calls.map(({ name, ...call }) => ({ ...call, address: this.library.find(name) ?? 0 }))
    return driver.libraries.makeOnThread(calls_)
  }

  /**
   * Has a communicator and its half, if it has one, be aborted once this thread has ended: when their work is done, since what is queued still runs,
   * and not destroyed, which waits for other ranks. The abort of the whole ends what the half waits for, so it comes first.
   */
  own(whole: number, half: number): void {
    this.#wholes.add(whole)
    if (half !== 0) this.#halves.add(half)
  }

  /** Leaves a communicator to this thread again: it ends it itself, or another thread makes a call in it. */
  disown(whole: number, half: number): void {
    this.#wholes.remove(whole)
    if (half !== 0) this.#halves.remove(half)
  }

  /** Makes the call on another thread, since it waits for the device. */
  async callOnThread(call: EndCall, communicator: number, driver: Driver, _device: number): Promise<void> {
    this.check(call, await driver.libraries.callOnThread(this.library.find(call) ?? 0, communicator, PATIENCE[call]))
  }

  /** Throws what a call has returned, unless it has succeeded or is in progress. */
  check(call: string, result: number): void {
    if (result === SUCCESS || result === IN_PROGRESS) return
    const name = Object.keys(NCCL_RESULT).find((key) => NCCL_RESULT[key] === result) ?? `ncclResult_${result}`
    const { ncclGetErrorString, ncclGetLastError } = this.#texts
    const said = [ncclGetErrorString(result), ncclGetLastError(0)].filter((text) => text.trim() !== '')
    throw new LibraryError(call, result, name, said.join('. NCCL says: '))
  }
}

/** A communicator that is being made, and the memory that NCCL writes its addresses to. */
export interface NewCommunicator {
  readonly address: number
  /** The address of its blocking half; 0 as long as there is none. */
  half(): number
  /** The arguments of the call that makes the half. */
  readonly split: readonly number[]
  free(): void
}

/** A call of NCCL that another thread makes. */
export interface ThreadedCall {
  readonly name: NcclFunction | keyof typeof NCCL_THREADED
  readonly context: ContextHandle
  readonly args: readonly number[]
}

/** Writes a configuration of NCCL, in which what is not named is left to NCCL. */
function writeConfig(
  memory: NativeMemory,
  at: number,
  given: { readonly blocking: 0 | 1; readonly splitShare?: 1 },
): void {
  const layout = NCCL_CONFIG_OF_SPLIT
  const isPlain = given.splitShare === undefined && given.blocking === 0
  const config = new DataView(memory.bytes.buffer, at, layout.bytes)
  config.setBigUint64(layout.size, BigInt(isPlain ? NCCL_CONFIG.bytes : layout.bytes), true)
  config.setUint32(layout.magic, NCCL_CONFIG_MAGIC, true)
  config.setUint32(layout.version, isPlain ? CONFIG_VERSION : CONFIG_VERSION_OF_SPLIT, true)
  config.setInt32(layout.blocking, given.blocking, true)
  for (const member of ['cgaClusterSize', 'minCTAs', 'maxCTAs'] as const) {
    config.setInt32(layout[member], UNDEFINED_INT, true)
  }
  config.setInt32(layout.splitShare, given.splitShare ?? UNDEFINED_INT, true)
}

/** NCCL itself, or its simulation. */
export type NcclBackend = Pick<NcclLibrary, keyof NcclLibrary>

let loaded: NcclLibrary | undefined

/** Throws ERR_UNSUPPORTED, with the places tried, if NCCL is not found, and if it is older than 2.14. */
export function openNccl(): NcclLibrary {
  loaded ??= declareNccl(loadLibrary(VARIABLES.nccl))
  return loaded
}

function declareNccl(library: SharedLibrary): NcclLibrary {
  try {
    return new NcclLibrary(library)
  } catch (cause) {
    throw stateError('ERR_UNSUPPORTED', 'This NCCL lacks a function that is needed: it must be 2.14 or later', cause)
  }
}

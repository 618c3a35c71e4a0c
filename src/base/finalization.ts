/**
 * What stays behind of objects that own something of the driver's, and has to be destroyed when they are closed or
 * become unreachable. Telling the garbage collector costs more than making the object, and most are closed soon; so an
 * object is registered only if it outlives the present turn of the event loop.
 */
import { CudaError } from './errors.js'

/** What has to be destroyed. */
export interface NativeResource {
  destroy(): void
  /** Closed: nothing is left to destroy. */
  gone: boolean
  registered: boolean
  /** What the driver refuses to destroy is there still, as far as that can be told. */
  readonly staysWhereRefused?: boolean
}

const MOST_YOUNG = 1024

const registry = new FinalizationRegistry((remains: NativeResource) => {
  try {
    remains.destroy()
  } catch {
    // The context is lost, and with it what was to be destroyed.
  }
})

/** While somebody runs a program that is to be run again in the same way: nothing may be destroyed at a time that the garbage collector picks. */
const keepers = new Set<object[]>()
let owners: object[] = []
let young: NativeResource[] = []
let growUpAtNextTurn: NodeJS.Immediate | undefined

/** Destroys the remains once the owner is unreachable, unless `release` came first. */
export function destroyWhenUnreachable(owner: object, remains: NativeResource): void {
  if (keepers.size > 0) for (const kept of keepers) kept.push(owner)
  owners.push(owner)
  young.push(remains)
  if (young.length >= MOST_YOUNG) growUp()
  else growUpAtNextTurn ??= setImmediate(growUp).unref()
}

/** Keeps all objects reachable that are made from now on, until the result is called. */
export function keepReachable(): () => boolean {
  const kept: object[] = []
  keepers.add(kept)
  return () => keepers.delete(kept)
}

/** Destroys the remains now. */
export function release(owner: object, remains: NativeResource): void {
  try {
    remains.destroy()
    remains.gone = true
  } catch (error) {
    // Where the stack has run over it can be tried again, and the garbage collector does in any case.
    if (error instanceof CudaError && remains.staysWhereRefused !== true) remains.gone = true
    throw error
  } finally {
    if (remains.gone && remains.registered) registry.unregister(owner)
  }
}

function growUp(): void {
  if (growUpAtNextTurn !== undefined) clearImmediate(growUpAtNextTurn)
  growUpAtNextTurn = undefined
  for (const [index, remains] of young.entries()) {
    const owner = owners[index]
    if (remains.gone || owner === undefined) continue
    remains.registered = true
    registry.register(owner, remains, owner)
  }
  owners = []
  young = []
}

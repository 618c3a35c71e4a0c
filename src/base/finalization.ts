/**
 * Objects that own something of the driver's, which is destroyed when they are closed or become unreachable. Telling the
 * garbage collector costs more than making the object, and most are closed soon; so an object is registered only if it
 * outlives the present turn of the event loop.
 */
import { CudaError } from './errors.js'

/** Something of the driver's. It must not reference its owner, which would then never become unreachable. */
export abstract class NativeResource {
  /** Destroyed: nothing is left to destroy. */
  gone = false
  /** The garbage collector watches its owner. */
  registered = false
  /** If the driver refuses to destroy it, it still exists, as far as that can be told. */
  get staysWhereRefused(): boolean {
    return false
  }

  abstract destroy(): void

  /** Destroys it now, once. */
  release(): void {
    if (this.gone) return
    try {
      this.destroy()
      this.gone = true
    } catch (error) {
      // Where the stack has run over it can be tried again, and the garbage collector does in any case.
      if (error instanceof CudaError && !this.staysWhereRefused) this.gone = true
      throw error
    } finally {
      if (this.gone) forget(this)
    }
  }
}

const MOST_YOUNG = 1024

const registry = new FinalizationRegistry((resource: NativeResource) => {
  try {
    resource.destroy()
  } catch {
    // The context is lost, and with it what was to be destroyed.
  }
})

/** While a program runs that is to be run again in the same way: nothing may be destroyed when the garbage collector picks. */
const keepers = new Set<object[]>()
let owners: object[] = []
let young: NativeResource[] = []
let growUpAtNextTurn: NodeJS.Immediate | undefined

/** Destroys the resource once its owner is unreachable, unless it is released before. */
export function destroyWhenUnreachable(owner: object, resource: NativeResource): void {
  if (keepers.size > 0) for (const kept of keepers) kept.push(owner)
  owners.push(owner)
  young.push(resource)
  if (young.length >= MOST_YOUNG) growUp()
  else growUpAtNextTurn ??= setImmediate(growUp).unref()
}

function forget(resource: NativeResource): void {
  if (resource.registered) registry.unregister(resource)
  else if (young.at(-1) === resource) {
    // Closed right after it was made: nothing keeps it from dying young.
    young.pop()
    owners.pop()
  }
}

/** Keeps all objects reachable that are made from now on, until the result is called. */
export function keepReachable(): () => boolean {
  const kept: object[] = []
  keepers.add(kept)
  return () => keepers.delete(kept)
}

function growUp(): void {
  if (growUpAtNextTurn !== undefined) clearImmediate(growUpAtNextTurn)
  growUpAtNextTurn = undefined
  for (const [index, resource] of young.entries()) {
    const owner = owners[index]
    if (resource.gone || owner === undefined) continue
    resource.registered = true
    registry.register(owner, resource, resource)
  }
  owners = []
  young = []
}

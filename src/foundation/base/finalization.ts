/**
 * Objects of the driver that belong to an object of this library, and are destroyed when that is closed or becomes
 * unreachable. Registering with the garbage collector costs more than making the object, and most objects are closed soon;
 * so an object is registered only if it outlives the present turn of the event loop.
 */
import { closedAt, noteClosed } from './closing-places.js'
import { CudaError, stateError } from './errors.js'
import { atNextTurn } from './event-loop.js'
import { collectNow, type Weak, weakly } from './heap.js'
import { implementation, LibraryObject } from './library-object.js'

/** An object of the driver. It must not reference its owner, which would then never become unreachable. */
export abstract class NativeResource {
  /** The owner no longer has the resource, and nothing is left to destroy for the owner. */
  declare isDisposed: boolean
  /** The garbage collector watches the owner. */
  declare registered: boolean
  /** The number of graphs and instances that retain it. */
  declare private retainers: number
  /** The owner no longer has the resource, which is destroyed when the last graph that retains it releases it. */
  declare private isRetainedOnly: boolean

  /**
   * The fields are assigned and not defined: V8 calls C for each field that a class defines if more than four classes extend it.
   */
  constructor() {
    this.isDisposed = false
    this.registered = false
    this.retainers = 0
    this.isRetainedOnly = false
  }

  /** Does the resource still exist, as far as the library can know, if the driver refuses to destroy it? */
  get outlivesRefusal(): boolean {
    return false
  }

  /** Is it worth a collection to find the resource forgotten, before the GPU is out of memory? */
  get holdsMemory(): boolean {
    return false
  }

  /** Only graphs use the resource: its owner no longer has it. */
  get isOnlyRetained(): boolean {
    return this.isRetainedOnly
  }

  abstract destroy(): void

  /** Was the object closed to which the resource belongs? */
  get isClosed(): boolean {
    return this.isDisposed
  }

  /** Throws ERR_CLOSED if it is closed. */
  checkOpen(): this {
    if (this.isClosed) throw stateError('ERR_CLOSED', `${this} cannot be used any more${closedAt(this)}`)
    return this
  }

  /** Called when the owner no longer has the resource, but graphs still retain it. */
  protected ownerGone(): void {}

  /** Adds a graph, or an instance of one, that uses the resource, which is not destroyed before `release()`. */
  retain(): void {
    this.retainers += 1
  }

  /** The reverse of `retain()`. Destroys it if nobody else retains it and its owner no longer has it. */
  release(): void {
    this.retainers -= 1
    if (this.retainers > 0 || !this.isRetainedOnly) return
    this.isRetainedOnly = false
    this.destroyUnowned()
  }

  /** Destroys it when no owner is left who could try that again. */
  protected destroyUnowned(): void {
    this.destroy()
  }

  /** Called when the owner was collected. */
  collected(): void {
    if (this.retainers === 0) this.destroyUnowned()
    else this.leaveToRetainers()
  }

  /**
   * Called when the owner no longer needs the resource: destroys it now, or when the last graph releases it. Only the first call
   * counts.
   */
  dispose(): void {
    if (this.isDisposed) return
    noteClosed(this)
    try {
      if (this.retainers === 0) this.destroy()
      else this.leaveToRetainers()
      this.isDisposed = true
    } catch (error) {
      if (error instanceof CudaError && !this.outlivesRefusal) this.isDisposed = true
      throw error
    } finally {
      if (this.isDisposed) forget(this)
    }
  }

  /**
   * Tells a subclass that only graphs retain the resource. The name is not private (#), because V8 would define it in each object
   * (see the constructor).
   */
  private leaveToRetainers(): void {
    this.isRetainedOnly = true
    this.ownerGone()
  }
}

const MOST_YOUNG = 1024

const registry = new FinalizationRegistry(destroyCollected)
let destroysCollected = false

/** Whether the call under way is made for the garbage collector, and not by the program: virtual time must not depend on it. */
export const isForCollector = (): boolean => destroysCollected

function destroyCollected(resource: NativeResource): void {
  stopWatching(resource)
  destroysCollected = true
  try {
    resource.collected()
  } catch {
    // The context is lost, and the resource with it; or it is tried again later.
  } finally {
    destroysCollected = false
  }
}

/** The registered resources that hold memory, and by which weak reference to ask whether they are forgotten. */
const watched = new Map<NativeResource, Weak>()

/** Lists of the objects made during an exploration: the garbage collector must not decide when they are destroyed. */
const keptObjects = new Set<object[]>()
// Filled up to `count`: arrays that grow and shrink are allocated again each time that they are nearly empty.
const owners = new Array<object | undefined>(MOST_YOUNG).fill(undefined)
const young = new Array<NativeResource | undefined>(MOST_YOUNG).fill(undefined)
let count = 0
let registersSoon = false

/** Destroys the resource once its owner is unreachable, unless it is disposed of before. */
export function destroyWhenUnreachable(owner: object, resource: NativeResource): void {
  if (keptObjects.size > 0) for (const kept of keptObjects) kept.push(owner)
  owners[count] = owner
  young[count] = resource
  count += 1
  if (count === MOST_YOUNG) registerYoung()
  else if (!registersSoon) {
    registersSoon = true
    atNextTurn(() => {
      registersSoon = false
      registerYoung()
    }).unref()
  }
}

function forget(resource: NativeResource): void {
  if (resource.registered) {
    stopWatching(resource)
    registry.unregister(resource)
  } else if (count > 0 && young[count - 1] === resource) {
    // A resource that was closed right after it was made is forgotten here, so that V8 can collect it early.
    count -= 1
    young[count] = undefined
    owners[count] = undefined
  }
}

/** Keeps all objects reachable that are made from now on, until the result is called. */
export function keepReachable(): () => boolean {
  const kept: object[] = []
  keptObjects.add(kept)
  return () => keptObjects.delete(kept)
}

function registerYoung(): void {
  for (let index = 0; index < count; index += 1) {
    const [owner, resource] = [owners[index], young[index]]
    owners[index] = undefined
    young[index] = undefined
    if (owner === undefined || resource === undefined || resource.isDisposed) continue
    resource.registered = true
    registry.register(owner, resource, resource)
    if (resource.holdsMemory) watch(owner, resource)
  }
  count = 0
}

/**
 * Asks about the implementation object of the owner: a call of the library that is under way may have that alone, and no finalizer runs
 * during a call.
 */
function watch(owner: object, resource: NativeResource): void {
  const impl = owner instanceof LibraryObject ? owner[implementation] : undefined
  const weak = weakly(impl ?? owner)
  if (weak !== undefined) watched.set(resource, weak)
}

function stopWatching(resource: NativeResource): void {
  const weak = watched.get(resource)
  if (weak === undefined) return
  watched.delete(resource)
  weak.release?.()
}

/**
 * Collects garbage now, and destroys the memory that was forgotten, for which finalizers need a turn of the event loop. False if there was none.
 */
export function destroyForgotten(): boolean {
  registerYoung()
  if (watched.size === 0 || !collectNow()) return false
  const forgotten = [...watched].filter(([, weak]) => weak.deref() === undefined)
  for (const [resource] of forgotten) {
    registry.unregister(resource)
    destroyCollected(resource)
  }
  return forgotten.length > 0
}

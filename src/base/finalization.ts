/**
 * Objects that own something of the driver's, which is destroyed when they are closed or become unreachable. Telling the
 * garbage collector costs more than making the object, and most are closed soon; so an object is registered only if it
 * outlives the present turn of the event loop.
 */
import { atNextTurn } from '#platform'

/** Something of the driver's. It must not reference its owner, which would then never become unreachable. */
export abstract class NativeResource {
  /** Destroyed: nothing is left to destroy. */
  declare gone: boolean
  /** The garbage collector watches its owner. */
  declare registered: boolean
  /** Graphs and instances that keep it. */
  declare private keepers: number
  /** Its owner has let it go: it is destroyed when the last graph that keeps it does. */
  declare private hasBeenLeft: boolean

  /** Assigned, not defined: V8 calls C for each field that a class defines in objects of more than four classes. */
  constructor() {
    this.gone = false
    this.registered = false
    this.keepers = 0
    this.hasBeenLeft = false
  }

  /** If the driver refuses to destroy it, it still exists, as far as the library can know. */
  get staysWhereRefused(): boolean {
    return false
  }

  abstract destroy(): void

  /** Its owner has let it go, and a graph keeps it still. */
  protected left(): void {}

  /** Its owner has let it go, and it lives for graphs alone. */
  get isLeft(): boolean {
    return this.hasBeenLeft
  }

  /** One more graph, or instance of one, keeps it: it is not destroyed before `letGo()`. */
  keep(): void {
    this.keepers += 1
  }

  /** The reverse of `keep()`. Destroys it where it was the last to keep it, and its owner has let it go. */
  letGo(): void {
    this.keepers -= 1
    if (this.keepers > 0 || !this.hasBeenLeft) return
    this.hasBeenLeft = false
    this.destroyUnowned()
  }

  /** Destroys it, where no owner is left who could ask for that again. */
  protected destroyUnowned(): void {
    this.destroy()
  }

  /** Its owner was collected. */
  collected(): void {
    if (this.keepers === 0) this.destroyUnowned()
    else this.abandon()
  }

  /** Destroys it, once no graph keeps it any more. */
  abandon(): void {
    if (this.keepers === 0) {
      this.destroy()
      return
    }
    this.hasBeenLeft = true
    this.left()
  }

  /** `abandon()`, once. */
  release(): void {
    if (this.gone) return
    try {
      this.abandon()
      this.gone = true
    } finally {
      if (!this.staysWhereRefused) this.gone = true
      if (this.gone) forget(this)
    }
  }
}

const MOST_YOUNG = 1024

const registry = new FinalizationRegistry((resource: NativeResource) => {
  try {
    resource.collected()
  } catch {
    // The context is lost, and the resource with it; or it is tried again later.
  }
})

/**
 * While a program runs that is to be run again in the same way: its objects must not be destroyed when the garbage
 * collector picks.
 */
const keepers = new Set<object[]>()
// Filled up to `count`. Arrays that grow and shrink are allocated anew each time when they are nearly empty.
const owners = new Array<object | undefined>(MOST_YOUNG).fill(undefined)
const young = new Array<NativeResource | undefined>(MOST_YOUNG).fill(undefined)
let count = 0
let growsUpSoon = false

/** Destroys the resource once its owner is unreachable, unless it is released before. */
export function destroyWhenUnreachable(owner: object, resource: NativeResource): void {
  if (keepers.size > 0) for (const kept of keepers) kept.push(owner)
  owners[count] = owner
  young[count] = resource
  count += 1
  if (count === MOST_YOUNG) growUp()
  else if (!growsUpSoon) {
    growsUpSoon = true
    atNextTurn(turned).unref()
  }
}

function forget(resource: NativeResource): void {
  if (resource.registered) registry.unregister(resource)
  else if (count > 0 && young[count - 1] === resource) {
    // Closed right after it was made: nothing keeps it from dying young.
    count -= 1
    young[count] = undefined
    owners[count] = undefined
  }
}

/** Keeps all objects reachable that are made from now on, until the result is called. */
export function keepReachable(): () => boolean {
  const kept: object[] = []
  keepers.add(kept)
  return () => keepers.delete(kept)
}

function turned(): void {
  growsUpSoon = false
  growUp()
}

function growUp(): void {
  for (let index = 0; index < count; index += 1) {
    const [owner, resource] = [owners[index], young[index]]
    owners[index] = undefined
    young[index] = undefined
    if (owner === undefined || resource === undefined || resource.gone) continue
    resource.registered = true
    registry.register(owner, resource, resource)
  }
  count = 0
}

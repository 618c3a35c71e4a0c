/**
 * The base of all public classes: how their objects print, which calls they refuse, and by which number they are
 * distinguished.
 */
import { describeObjectsBy, invalidReceiver, invalidType } from './errors.js'
import { inspect } from './node-modules.js'
import { printable } from './printable.js'

/**
 * The explanation for threads in an error. It is short enough that V8 shows all of it: V8 leaves out the middle of longer texts.
 */
const ONE_THREAD =
  'objects of cuda-streams cannot be sent to another thread: send the result of share() of a stream, event or device buffer'

let lastSerial = 0

/** A number that no other object of this thread has, so that no two objects of one class are deep-equal. */
export function nextSerial(): number {
  lastSerial += 1
  return lastSerial
}

/**
 * The value of a property that `structuredClone()` and `postMessage()` refuse to copy, with an error that says what to send
 * instead. Without it they would make a plain object of the public properties.
 */
export const notCloneable = (): symbol => Symbol(ONE_THREAD)

/** The implementation object of a public object that can be closed. */
interface Closable {
  readonly isClosed: boolean
}

/** The key under which the objects of every copy of the package have the file of that copy that makes them what they are. */
const COPY = Symbol.for('cuda-streams.copy')
const HERE: unknown = import.meta.url

/** What the public members of an object say that another copy of the package has made. */
export interface ObjectOfAnotherCopy {
  /** The file of that copy which makes its objects what they are. */
  readonly file: string
  /** The name of its class. */
  readonly name: string
  /** The driver of its device, and the number of that; undefined for an object without a device. */
  readonly driver: unknown
  readonly ordinal: unknown
}

/** The facts of an object of another copy of the package; undefined for an object of this copy, and for any other value. */
export function objectOfAnotherCopy(given: unknown): ObjectOfAnotherCopy | undefined {
  if (typeof given !== 'object' || given === null || given instanceof LibraryObject) return undefined
  const file: unknown = Reflect.get(given, COPY)
  if (typeof file !== 'string') return undefined
  const name = String(Reflect.get(given, Symbol.toStringTag))
  const device: unknown = name === 'Device' ? given : Reflect.get(given, 'device')
  const [driver, ordinal] =
    typeof device === 'object' && device !== null
      ? [Reflect.get(device, 'driver'), Reflect.get(device, 'ordinal')]
      : [undefined, undefined]
  return { file, name, driver, ordinal }
}

/** As messages have it. */
function describedOfAnotherCopy(given: unknown): string | undefined {
  const other = objectOfAnotherCopy(given)
  if (other === undefined) return undefined
  const { file, name, driver } = other
  const way =
    driver === 'sim' ? 'what is simulated stays in its copy' : 'objects go from one copy to the other by handles'
  return `a ${printable(name)} of another copy of cuda-streams, which is ${printable(file)}, and this is ${HERE}: ${way}; let the program have one copy`
}

/** The key under which a public object has its implementation object, which the rest of the library works with. */
export const implementation: unique symbol = Symbol('implementation')

/** The key of the function that makes an object of a class whose constructor is private. */
export const construct: unique symbol = Symbol('construct')

/**
 * The base of the public classes. Its constructor stores nothing, and a class that is often made assigns its fields itself:
 * V8 is slow to store what more than four classes have in common.
 */
export abstract class LibraryObject {
  /** @internal Undefined for an object that only has the prototype of the class. */
  declare readonly [implementation]: object | undefined

  abstract get [Symbol.toStringTag](): string

  toString(): string {
    const impl = this instanceof LibraryObject ? this[implementation] : undefined
    return String(impl ?? Object.prototype.toString.call(this))
  }

  static {
    // console.log() shows an object as it prints itself.
    const value = function (this: unknown): string {
      return String(this)
    }
    Object.defineProperty(LibraryObject.prototype, inspect.custom, { configurable: true, writable: true, value })
    Object.defineProperty(LibraryObject.prototype, COPY, { value: String(HERE) })
    describeObjectsBy((given) =>
      given instanceof LibraryObject && given[implementation] !== undefined
        ? String(given)
        : describedOfAnotherCopy(given),
    )
  }
}

/** The base of the public classes whose objects can be closed. */
export abstract class ClosableObject extends LibraryObject implements Disposable {
  /** @internal */
  declare readonly [implementation]: Closable | undefined

  /** Was the object closed? */
  get closed(): boolean {
    return checkedImplementation(this).isClosed
  }

  abstract close(): void

  /** `close()`, for `using`. */
  [Symbol.dispose](): void {
    checkedImplementation(this)
    this.close()
  }
}

function checkedImplementation(receiver: ClosableObject): Closable {
  const isOurs = receiver instanceof ClosableObject
  const impl = isOurs ? receiver[implementation] : undefined
  if (impl === undefined) throw invalidReceiver(isOurs ? `a ${receiver[Symbol.toStringTag]}` : 'an object', receiver)
  return impl
}

/**
 * Checks what a constructor gets that programs must not call: throws ERR_INVALID_ARG_TYPE unless the library gives its own
 * object.
 */
export function checkMade<I>(
  impl: unknown,
  type: abstract new (...args: never[]) => I,
  name: string,
  way: string,
): void {
  if (!(impl instanceof type)) throw invalidType(name, `obtained from ${way}`, `new ${name}()`)
}

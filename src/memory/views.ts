/** Typed arrays over memory, by their constructors. */
import { invalidType, invalidValue } from '../base/errors.js'
import type { BufferCore } from './buffer-core.js'

/** A constructor of typed arrays, such as `Float32Array`. */
export interface ViewConstructor<V extends ArrayBufferView> {
  /** The bytes of an element. */
  readonly BYTES_PER_ELEMENT: number
  /**
   * Makes a view.
   * @param buffer The memory.
   * @param byteOffset Where the view begins, in bytes.
   * @param length The elements of the view.
   */
  new (buffer: ArrayBuffer, byteOffset: number, length: number): V
}

/**
 * A view of as many bytes as the buffer has, of the memory that is asked for last: the constructor may be the program's.
 * Throws ERR_INVALID_ARG_TYPE for what makes no views, ERR_INVALID_ARG_VALUE where the elements do not fit.
 */
export function viewOf<V extends ArrayBufferView>(
  type: ViewConstructor<V>,
  core: BufferCore,
  byteOffset: number,
  memory: () => ArrayBuffer,
): V {
  const width = checkWidth(type)
  const { byteLength } = core
  if (byteLength % width !== 0 || byteOffset % width !== 0) {
    throw invalidValue(`${core} is no whole number of elements of ${width} bytes, or begins in the middle of one`)
  }
  core.checkFitsArray(byteLength / width)
  const view = new type(memory(), byteOffset, byteLength / width)
  if (ArrayBuffer.isView(view)) return view
  throw noViewConstructor(type)
}

/** The bytes of an element. Throws ERR_INVALID_ARG_TYPE for a function that makes no views. */
function checkWidth(type: unknown): number {
  // In JavaScriptCore DataView has elements of one byte.
  const isOther = typeof type !== 'function' || type === DataView
  const width: unknown = isOther ? undefined : Reflect.get(type, 'BYTES_PER_ELEMENT')
  if (typeof width === 'number' && Number.isInteger(width) && width > 0) return width
  throw noViewConstructor(type)
}

const noViewConstructor = (given: unknown): Error =>
  invalidType('type', 'a constructor of typed arrays such as Float32Array', given)

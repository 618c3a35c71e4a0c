/**
 * Reads of memory that nothing has written: what the launch before it left of the buffer. The commonest cause is a grid with fewer threads than the
 * buffer has elements, whose tail stays as it was.
 */
import type { LaunchShape } from '../../foundation/driver/kernel-driver.js'
import type { TouchedMemory } from '../../foundation/driver/touched-memory.js'
import type { CheckedOperation } from './operations.js'
import type { Region } from './regions.js'

const ELEMENTS: readonly number[] = [1, 2, 4, 8, 16]

const product = ([x, y, z]: LaunchShape['grid']): number => x * y * z

/** Notes in each region what a launch has written there. */
export function noteWrites(
  operation: CheckedOperation,
  shape: LaunchShape,
  exact: readonly TouchedMemory[],
  at: (address: number) => Region,
): void {
  const written = new Map<Region, { from: number; to: number; pieces: number }>()
  for (const { pointer, byteLength, access, rows } of exact) {
    if (access === 'in') continue
    const region = at(pointer)
    const known = written.get(region) ?? { from: pointer, to: pointer, pieces: 0 }
    known.from = Math.min(known.from, pointer)
    known.to = Math.max(known.to, pointer + byteLength)
    // What is written in rows, or by atomics, is not one element for each thread.
    known.pieces += rows === undefined && access !== 'atomic' ? 1 : 2
    written.set(region, known)
  }
  const threads = product(shape.grid) * product(shape.block)
  for (const [region, { from, to, pieces }] of written) {
    const perThread = (to - from) / threads
    const isEach = pieces === 1 && ELEMENTS.includes(perThread)
    region.lastLaunch = { operation, shape, from, to, perThread: isEach ? perThread : undefined }
  }
}

/** What to say of a read of bytes up to this address: the launch before it that ended short of them. Undefined if there is none. */
export function leftBy({ lastLaunch, start, end }: Region, readTo: number): string | undefined {
  if (lastLaunch === undefined || readTo <= lastLaunch.to) return undefined
  const { operation, shape, from, to, perThread } = lastLaunch
  const threads = product(shape.grid) * product(shape.block)
  const what = `${operation.what} wrote only bytes ${from - start} to ${to - start} of the buffer's ${end - start}: grid ${shown(shape.grid)} × block ${shown(shape.block)} = ${threads} threads`
  if (perThread === undefined) return `${what}.`
  const blocks = Math.ceil((end - from) / (perThread * product(shape.block)))
  return `${what}, each of which wrote ${perThread} bytes. If there is to be a thread for each element, launch a grid of ${blocks} such blocks.`
}

const shown = (size: LaunchShape['grid']): string => (size[1] * size[2] === 1 ? String(size[0]) : `(${size.join()})`)

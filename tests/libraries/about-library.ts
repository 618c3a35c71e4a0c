/**
 * What the tests that go over all of the package have to know of a library's entry point. Each library has it in a file of its own,
 * `tests/libraries/NAME/about-NAME.ts`, and tests find those by themselves: see about-libraries.ts.
 */

import type { Device, DeviceBuffer, Stream } from 'cuda-streams'
import type { Call } from '../catalogue/call.js'
import type { Scene } from '../catalogue/scene.js'
import { isFakeDriver } from '../fake-driver/fake-cuda.js'
import type { Access, PairTools } from '../tools/sanitizer/pairs/pairs.js'

export interface AboutLibrary {
  /** The module of the entry point. */
  readonly module: Readonly<Record<string, unknown>>
  /** An object of each of its classes. */
  objects(stream: Stream): readonly object[]
  /** Classes of which there are no objects on this machine. */
  readonly absent?: readonly { readonly name: string; readonly prototype: object }[]
  /** Its entries of the catalogue. */
  readonly calls: readonly Call[]
  /** Uses of one word of memory, for the sanitizer. */
  accesses(tools: PairTools): readonly Access[]
}

/** What a library queues is its own affair; on the simulator a call is one host implementation. */
export const nodes = ({ bench }: Scene): number | undefined => (bench.name === 'sim' ? 1 : undefined)

/** On a GPU a library may wait in ways of its own. */
export const mayWait = ({ bench }: Scene): 'perhaps' | undefined => (bench.name === 'sim' ? undefined : 'perhaps')

/** What a library needs is found out by the first use of it. Those of a machine with a GPU do nothing on a fake one. */
export async function lackOf(use: () => unknown): Promise<string | undefined> {
  if (isFakeDriver()) return 'a fake GPU has no libraries'
  try {
    await use()
    return undefined
  } catch (error) {
    if ((error as { readonly code?: unknown }).code !== 'ERR_UNSUPPORTED') throw error
    return String((error as Error).message)
  }
}

/** So many buffers of the scene, all of the device. */
export const deviceBuffers = (scene: Scene, count: number): readonly DeviceBuffer[] =>
  Array.from({ length: count }, (_, index) => scene.buffer(index) as DeviceBuffer)

/** Buffers of a device that one call fills with zeros before it is tried. */
export const zeros = (device: Device, stream: Stream, byteLength: number): DeviceBuffer => {
  const buffer = device.alloc(byteLength, { stream })
  stream.fill(buffer, 0)
  return buffer
}

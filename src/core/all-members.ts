/**
 * The classes and functions by which a program gets devices, streams, events and graphs, with the members that shortcuts.ts adds to these. Bundlers keep
 * this file for its effect, by `sideEffects` of package.json, and leave out what a program does not import of the rest.
 */
import './shortcuts.js'

export { Device } from './device.js'
export { Event } from './event.js'
export { Graph, GraphExec } from './graphs/graph.js'
export { Condition } from './kernels/condition.js'
export { DefinedKernel, defineKernel } from './kernels/defined-kernel.js'
export { Kernel, Module, Program } from './kernels/kernel.js'
export { DeviceBuffer } from './memory/device-buffer.js'
export { MemoryPool } from './memory/memory-pool.js'
export { PinnedBuffer } from './memory/pinned-buffer.js'
export { ExternalStream, Stream } from './stream.js'
export { StreamLane, StreamPool } from './stream-pool.js'
export { GreenContext } from './streams/green-context.js'

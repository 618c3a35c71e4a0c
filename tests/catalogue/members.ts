/** All public members, and those that the matrix need not try. */
import * as main from 'cuda-streams'
import * as dlpack from 'cuda-streams/dlpack'
import * as nccl from 'cuda-streams/nccl'
import * as sim from 'cuda-streams/sim'
import { aboutLibraries } from '../libraries/about-libraries.js'

const LIBRARIES = aboutLibraries.map(({ module }) => module)
const CLASSES_OF_LIBRARIES = LIBRARIES.flatMap((module) => Object.entries(module)).flatMap(([name, value]) =>
  isClass(value) && name !== 'LibraryError' ? [name] : [],
)

/** What makes nothing that a driver knows, queues nothing, waits for nothing and closes nothing, by the reason. */
export const QUIET: Readonly<Record<string, readonly string[]>> = {
  'says what the object was made with, or what is known of it without the driver': [
    ...['handle', 'closed', 'context', 'equals', 'valueOf', 'toString'].map((name) => `Stream#${name}`),
    'Stream#[Symbol.toStringTag]',
    'Stream#[nodejs.util.inspect.custom]',
    'Stream#[cuda.stream]',
    'Stream.compare',
    'ExternalStream#owner',
    'ExternalStream#[Symbol.toStringTag]',
    ...['handle', 'closed', 'equals', 'toString', '[Symbol.toStringTag]', '[nodejs.util.inspect.custom]'].map(
      (name) => `Event#${name}`,
    ),
    ...['toString', '[Symbol.toStringTag]', '[nodejs.util.inspect.custom]', 'driver'].map((name) => `Device#${name}`),
    ...['DeviceBuffer', 'PinnedBuffer'].flatMap((name) =>
      ['pointer', 'closed', 'toString', '[Symbol.toStringTag]', '[nodejs.util.inspect.custom]'].map(
        (member) => `${name}#${member}`,
      ),
    ),
    'DeviceBuffer#owner',
    ...['handle', 'closed', 'toString', '[Symbol.toStringTag]', '[nodejs.util.inspect.custom]'].flatMap((name) => [
      `GreenContext#${name}`,
      `MemoryPool#${name}`,
    ]),
    ...['Graph#handle', 'Graph#closed', 'Graph#toString', 'Graph#[Symbol.toStringTag]'],
    ...['GraphExec#closed', 'GraphExec#toString', 'GraphExec#[Symbol.toStringTag]'],
    ...['Graph', 'GraphExec', 'Kernel', 'Module', 'DefinedKernel'].map(
      (name) => `${name}#[nodejs.util.inspect.custom]`,
    ),
    ...['Kernel', 'DefinedKernel', 'Module'].flatMap((name) => [`${name}#toString`, `${name}#[Symbol.toStringTag]`]),
    'Module#closed',
    ...['toString', '[Symbol.toStringTag]', '[nodejs.util.inspect.custom]'].map((name) => `DLPackTensor#${name}`),
    ...['closed', 'toString', '[Symbol.toStringTag]', '[nodejs.util.inspect.custom]'].flatMap((name) =>
      ['Communicator', ...CLASSES_OF_LIBRARIES].map((owner) => `${owner}#${name}`),
    ),
  ],
  'asks the driver about the machine, or for the primary context': [
    ...['Device.count', 'Device.get', 'Device.current'],
    ...['name', 'uuid', 'pciBusId', 'computeCapability', 'context', 'priorityRange', 'attribute'].map(
      (name) => `Device#${name}`,
    ),
  ],
  'is about which stream or device is current, which JavaScript alone knows': [
    ...['Stream.current', 'Stream.null', 'Stream.perThread', 'Stream#use', 'Stream#enter', 'Stream#run'],
    ...['Device#defaultStream', 'Device#use', 'Device#enter', 'Device#run'],
  ],
  'is no constructor for programs': [
    ...['new Device', 'new DeviceBuffer', 'new PinnedBuffer', 'new Graph', 'new GraphExec', 'new Kernel', 'new Module'],
    ...['new Communicator', 'new GreenContext', 'new DLPackTensor', 'new Session'],
  ],
  'is what stream.launch() calls: the rows of that are its own': [
    'Kernel#[launchOn]',
    'GraphExec#[launchOn]',
    'DefinedKernel#[launchOn]',
    'Graph#[launchOn]',
  ],
  'is what exec.update() calls: the rows of that are its own': ['Kernel#[updateNode]', 'DefinedKernel#[updateNode]'],
  'is what defineKernel() returns: the row of that is its own': ['new DefinedKernel'],
  'is an error, or the name of a method': [
    ...['new CudaError', 'CudaError#name', 'new LibraryError', 'LibraryError#name', 'cudaStream'],
  ],
  'is a machine of its own, or runs programs on many: tests/simulator and tests/explore': [
    ...['simulate', 'simulationOf', 'explore', 'replay'],
  ],
  'loses the whole machine: tests/torture/faults.test.ts': ['fault'],
  'describes a type, and knows no driver': ['struct', 'elements'],
  'reads bytes of the host, and knows no driver': ['readJpegInfo'],
}

/** Options whose getters nothing closes anything in, by the reason: a call stands for all of its own. */
export const QUIET_OPTIONS: Readonly<Record<string, readonly string[]>> = {
  'is a machine of its own, or runs programs on many: tests/simulator and tests/explore': [
    ...['simulate', 'explore', 'replay', 'foreignStream'],
  ],
  'is read before there is anything to close: K8 in tests/conformance/defined-kernels.test.ts': [
    ...['defineKernel', 'new DefinedKernel', 'Module.load'],
  ],
  'needs another process: tests/processes': ['Event.fromIpcHandle', 'DeviceBuffer.fromIpcHandle'],
  ...Object.assign({}, ...aboutLibraries.map(({ quietOptions }) => quietOptions)),
  'is read by the code that reads those of allReduce()': [
    ...['broadcast', 'reduce', 'allGather', 'reduceScatter', 'send', 'recv'].map((name) => `Communicator#${name}`),
  ],
  'is about ranks, of which each has a process: tests/libraries and tests/processes': [
    ...['Communicator.create', 'Communicator.createAll', 'Communicator#finished', 'Communicator#close'],
  ],
  'describes memory of another library, and comes with it: tests/libraries/dlpack': [
    ...['__cuda_array_interface__', 'shape', 'typestr', 'data', 'version', 'strides', 'mask'].map(
      (name) => `fromCudaArrayInterface: ${name}`,
    ),
    ...['pointer', 'versioned'].map((name) => `fromDLPack: ${name}`),
  ],
  'is the device itself': ['Device#createStream: device'],
  'describes a type, and knows no driver': ['struct'],
}

/** As `new Stream`, `Stream.from`, `Stream#record`, or `simulate` for a function. */
export function publicMembers(): readonly string[] {
  const exported = Object.entries(Object.assign({}, main, sim, dlpack, nccl, ...LIBRARIES) as object)
  const classes = new Set(exported.flatMap(([, value]) => (isClass(value) ? [value.prototype] : [])))
  return exported.flatMap(([name, value]) => {
    if (isClass(value)) return membersOfClass(name, value, classes)
    if (typeof value === 'object' && value !== null) return namesOf(value).map((member) => `${name}.${member}`)
    return [name]
  })
}

interface Class {
  readonly prototype: object
}

function isClass(value: unknown): value is Class {
  return typeof value === 'function' && /^class\b/.test(Function.prototype.toString.call(value))
}

/** Its own, and those of its ancestors that are not public themselves. */
function membersOfClass(name: string, value: Class, classes: ReadonlySet<object>): readonly string[] {
  const found = new Set<string>()
  for (
    let at: object | null = value.prototype;
    at !== null && at !== Object.prototype;
    at = Object.getPrototypeOf(at)
  ) {
    if (at !== value.prototype && (classes.has(at) || at === Error.prototype)) break
    for (const member of namesOf(at)) if (member !== 'constructor') found.add(`${name}#${member}`)
  }
  const statics = namesOf(value).filter((member) => !['length', 'name', 'prototype'].includes(member))
  return [`new ${name}`, ...statics.map((member) => `${name}.${member}`), ...found]
}

function namesOf(value: object): readonly string[] {
  return Reflect.ownKeys(value).flatMap((key) => {
    if (typeof key === 'symbol') return [`[${SYMBOLS.get(key) ?? key.description}]`]
    return PROTECTED.has(key) ? [] : [key]
  })
}

/** Versions of Node describe them in different words. */
const SYMBOLS: ReadonlyMap<symbol, string> = new Map([
  [Symbol.dispose, 'Symbol.dispose'],
  [Symbol.asyncDispose, 'Symbol.asyncDispose'],
])
/** Of the class that buffers have in common; TypeScript alone knows that they are not public. */
const PROTECTED: ReadonlySet<string> = new Set(['beforeClose', 'part', 'viewed', 'checkOpen'])

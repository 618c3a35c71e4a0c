/** All public members, and those that no entry of the catalogue is about. */
import { construct } from '../../src/foundation/base/library-object.js'
import { entryPoints, isClass } from './entry-points.js'

/**
 * What makes nothing that a driver knows, queues nothing, waits for nothing and closes nothing, by the reason. `#closed` stands for that
 * member of every class, a name alone for a function or all members of a class.
 */
const QUIET: Readonly<Record<string, readonly string[]>> = {
  'says what the object was made with, or what is known of it without the driver': [
    ...['#handle', '#closed', '#toString', '#[Symbol.toStringTag]', '#[nodejs.util.inspect.custom]'],
    ...['context', 'equals', 'valueOf', '[cuda.stream]'].map((name) => `Stream#${name}`),
    ...['Stream.compare', 'ExternalStream#owner', 'Event#equals', 'Device#driver'],
    ...['DeviceBuffer#pointer', 'DeviceBuffer#owner', 'PinnedBuffer#pointer'],
  ],
  'asks the driver about the machine, or for the primary context': [
    ...['Device.count', 'Device.get', 'Device.current', 'Device.all', 'Device.fromPciBusId', 'Device#canAccess'],
    ...['Device#profilerRange', 'Device#usage'],
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
    'new TensorMap',
    ...['new Communicator', 'new GreenContext', 'new DLPackTensor', 'new Session', 'new StreamLane'],
    ...['new OpaqueArray', 'new SurfaceObject', 'new TextureObject'],
  ],
  'is what stream.launch() or exec.update() calls: the rows of that are its own': ['#[launchOn]', '#[updateNode]'],
  'is what defineKernel() returns: the row of that is its own': ['new DefinedKernel'],
  'is made by compilers, and launched as other kernels: tests/core/kernels/triton-kernel.test.ts': [
    ...['TritonKernel', 'defineTritonKernel'],
  ],
  'is an error, or the name of a method': ['CudaError', 'LibraryError', 'cudaStream'],
  'is a machine of its own, or runs programs on many: tests/simulator and tests/tools/explore': ['simulationOf'],
  'loses the whole machine: tests/torture/faults.test.ts': ['fault'],
  'describes a type, and knows no driver': ['elements'],
  'is refused but in a capture, where it calls code of the program: tests/conformance/conditional-graphs.test.ts': [
    ...['createCondition', 'if', 'while', 'switch'].map((name) => `Stream#${name}`),
    ...[
      'new Condition',
      'Condition#toString',
      'Condition#[Symbol.toStringTag]',
      'Condition#[nodejs.util.inspect.custom]',
    ],
  ],
  'reads bytes of the host, and knows no driver': ['readJpegInfo'],
  'runs Python: tests/python': ['Python', 'PythonError', 'PythonObject'],
  'watches what a program does: tests/tools/sanitizer and tests/tools/timeline': [
    ...[
      'Recorder',
      'Sanitizer',
      'SanitizerError',
      'declareWait',
      'Timeline',
      'TimelineSession',
      'mergeTraces',
      'nameStream',
    ],
  ],
  'compiles files, and knows no driver: tests/cu': ['compileCuNow', 'compileTritonNow', 'cuEsbuild'],
}

const quiet = new Set(Object.values(QUIET).flat())
const classOf = (member: string): string => member.replace(/^new /, '').split(/[#.]/)[0] ?? ''

/** Is there a reason that no entry of the catalogue is about it? */
export const isQuiet = (member: string): boolean =>
  [member, classOf(member), member.replace(/^\w+(?=#)/, '')].some((name) => quiet.has(name))

/** Reasons that are about nothing. */
export const staleReasons = (): readonly string[] => {
  const members = publicMembers()
  return [...quiet].filter(
    (name) => !members.some((member) => member === name || classOf(member) === name || member.endsWith(name)),
  )
}

/** Options that no entry has, by the reason: a call stands for all of its own. */
export const QUIET_OPTIONS: Readonly<Record<string, readonly string[]>> = {
  'is left out of what the call takes, by its type': [
    ...['mode', 'fix', 'atOnce', 'exitCode'].map((name) => `sanitize: ${name}`),
    ...['id', 'rank', 'size', 'device'].map((name) => `Communicator.createAll: ${name}`),
    ...['device', 'name'].map((name) => `foreignStream: ${name}`),
  ],
  'describes a tensor and its tiles: tests/conformance/tensor-maps.test.ts': ['DeviceBuffer#tensorMap'],
  'describes memory of another library, and comes with it: tests/libraries/dlpack': [
    ...['__cuda_array_interface__', 'shape', 'typestr', 'data', 'version', 'strides', 'mask'].map(
      (name) => `fromCudaArrayInterface: ${name}`,
    ),
    ...['pointer', 'versioned'].map((name) => `fromDLPack: ${name}`),
  ],
  'is a part of the value of another option: tests/simulator/compute-capability.test.ts': [
    ...['major', 'minor'].map((name) => `simulate: ${name}`),
  ],
}

/** As `new Stream`, `Stream.from`, `Stream#record`, or `simulate` for a function. */
export function publicMembers(): readonly string[] {
  const exported = Object.entries(Object.assign({}, ...entryPoints.values()) as object)
  const classes = new Set(exported.flatMap(([, value]) => (isClass(value) ? [value.prototype] : [])))
  return exported.flatMap(([name, value]) => {
    if (isClass(value)) return membersOfClass(name, value, classes)
    if (typeof value === 'object' && value !== null) return namesOf(value).map((member) => `${name}.${member}`)
    return [name]
  })
}

/** By the second the copies of the package know each other's objects: it is for no program. */
const INNER = new Set(['constructor', '[cuda-streams.copy]'])

interface Class {
  readonly prototype: object
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
    for (const member of namesOf(at)) if (!INNER.has(member)) found.add(`${name}#${member}`)
  }
  const statics = namesOf(value).filter((member) => !['length', 'name', 'prototype'].includes(member))
  return [`new ${name}`, ...statics.map((member) => `${name}.${member}`), ...found]
}

function namesOf(value: object): readonly string[] {
  return Reflect.ownKeys(value).flatMap((key) => {
    // The library makes objects by it, and declarations do not have it.
    if (key === construct) return []
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

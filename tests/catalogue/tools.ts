/** Calls with options that queue nothing, or are tried elsewhere: machines, tools, and what describes kernels and types. */
import { join } from 'node:path'
import { defineKernel, Module, Program, struct } from 'cuda-streams'
import { compileCu, compileTriton, cuRollup } from 'cuda-streams/cu'
import { traceOperations } from 'cuda-streams/opentelemetry'
import { Recorder } from 'cuda-streams/recording'
import { declareAccess, Sanitizer, sanitize } from 'cuda-streams/sanitizer'
import { explore, replay, simulate, simulationOf } from 'cuda-streams/sim'
import { publish, Timeline } from 'cuda-streams/timeline'
import { root } from '../helpers/root.js'
import { type Call, onlySimulated } from './call.js'
import { calls } from './catalogue.js'
import type { Scene } from './scene.js'

/** As options whose values do not matter: only their names are tried. */
const named = (...names: readonly string[]): Readonly<Record<string, () => undefined>> =>
  Object.fromEntries(names.map((name) => [name, () => undefined]))

const MACHINES = 'is a machine of its own, or runs programs on many: tests/simulator and tests/tools/explore'
const READ_FIRST = 'is read before there is anything to close: K8 in tests/conformance/defined-kernels.test.ts'
const TOOLS = 'watches, and queues nothing: tests/tools/sanitizer, tests/tools/timeline'
const COMPILES = 'compiles files, and knows no driver: tests/cu'

const FAULT = ['call', 'operation', 'nth', 'times', 'probability', 'result']
const RECORDING = ['device', 'simulation', 'callSites', 'limit', 'everything', 'profile']
const KERNEL = [
  ...['name', 'source', 'ptx', 'cubins', 'mangledName', 'options', 'signature', 'parameterNames', 'simulate'],
  ...['simulateGrid', 'runs', 'nanoseconds'],
]

/** A call of which only the names of its options are tried. `of`: the member that has them, if they are not of other options. */
const apart = (
  reason: string,
  name: string,
  of: string | undefined,
  names: readonly string[],
  call: (options: never, scene: Scene) => unknown,
): Call =>
  ({
    name,
    members: of === undefined ? [] : [of],
    act: 'makes',
    apart: reason,
    options: { values: named(...names), apart: reason, isNested: of === undefined },
    prepare: (scene) => (options) => call(options as never, scene),
  }) satisfies Call

const recordingOf = ({ device }: Scene): Promise<Timeline> => Timeline.record(() => {}, { device })

const toolCalls: readonly Call[] = [
  apart(READ_FIRST, 'Module.load(ptx, options)', 'Module.load', ['device'], (o) => Module.load('', o)),
  apart(READ_FIRST, 'Program.compile(source, options)', undefined, ['arch', 'options', 'device', 'name'], (o) =>
    Program.compile('', o),
  ),
  apart(READ_FIRST, 'defineKernel()', 'defineKernel', KERNEL, (o) => defineKernel(o)),
  apart('describes a type, and knows no driver', 'struct()', 'struct', ['alignment'], (o) => struct({ x: 'f32' }, o)),
  apart(COMPILES, 'compileCu()', 'compileCu', ['arch', 'cubins', 'options'], (o) => compileCu('none.cu', o)),
  apart(COMPILES, 'compileTriton()', 'compileTriton', ['arch', 'python'], (o) => compileTriton('none.py', o)),
  apart(COMPILES, 'cuRollup()', 'cuRollup', ['arch', 'cubins', 'options', 'declarations', 'python'], (o) =>
    cuRollup(o),
  ),

  apart(
    MACHINES,
    'simulate()',
    'simulate',
    ['devices', 'seed', 'memory', 'instructions', 'computeCapability', 'inStep', 'sourceMaps', 'faults'],
    (o) => simulate(o),
  ),
  apart(MACHINES, 'simulate({ faults })', undefined, FAULT, (fault) => simulate({ faults: [fault] })),
  {
    ...apart(MACHINES, 'simulation.inject()', undefined, FAULT, (fault, { device }) =>
      simulationOf(device).inject(fault),
    ),
    lacks: onlySimulated,
  },
  apart(
    MACHINES,
    'explore()',
    'explore',
    ['devices', 'maxRuns', 'maxMilliseconds', 'seed', 'strategy', 'faults', 'onProgress'],
    (o) => explore(() => {}, o),
  ),
  apart(MACHINES, 'replay()', 'replay', ['devices', 'seed', 'faults'], (o) => replay(() => {}, '2:5=7,9=0', o)),

  apart(
    TOOLS,
    'Sanitizer.start()',
    'Sanitizer.start',
    ['mode', 'fix', 'causal', 'device', 'stacks', 'suppress', 'atOnce', 'exitCode'],
    (o) => Sanitizer.start(o),
  ),
  apart(TOOLS, 'sanitize()', 'sanitize', ['device', 'stacks', 'causal', 'suppress'], (o) => sanitize(() => {}, o)),
  apart(TOOLS, 'Sanitizer.start({ suppress })', undefined, ['match', 'reason'], (o) =>
    Sanitizer.start({ suppress: [o] }),
  ),
  apart(TOOLS, 'declareAccess()', 'declareAccess', ['reads', 'writes'], (o, { stream }) => declareAccess(stream, o)),
  apart(TOOLS, 'Timeline.start()', 'Timeline.start', RECORDING, (o) => Timeline.start(o)),
  apart(TOOLS, 'Timeline.record()', 'Timeline.record', RECORDING, (o) => Timeline.record(() => {}, o)),
  apart(TOOLS, 'timeline.toHtml()', 'Timeline#toHtml', ['title'], async (o, scene) =>
    (await recordingOf(scene)).toHtml(o),
  ),
  apart(
    TOOLS,
    'timeline.toSvg()',
    'Timeline#toSvg',
    ['width', 'from', 'to', 'title', 'arrows', 'criticalPath'],
    async (o, scene) => (await recordingOf(scene)).toSvg(o),
  ),
  apart(TOOLS, 'Recorder.start()', 'Recorder.start', ['device', 'stacks'], (o) =>
    Recorder.start(join(root, 'never', 'written'), o),
  ),
  apart(TOOLS, 'publish()', 'publish', ['device', 'interval'], (o) => publish(o)),
  apart(TOOLS, 'traceOperations()', 'traceOperations', ['tracer', 'device', 'interval'], (o) => traceOperations(o)),
]

/** All entries. */
export const allCalls: readonly Call[] = [...calls, ...toolCalls]

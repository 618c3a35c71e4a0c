/** Plays a case of this folder on the engine. */
import type { KernelFault, KernelFinding } from '../../../src/ptx/faults.js'
import { KernelLaunch } from '../../../src/ptx/launch.js'
import type { LaunchOptions } from '../../../src/ptx/launch-options.js'
import { encodeTensorMap, TENSOR_ELEMENTS, type TensorMapFields } from '../../../src/ptx/tensor-map.js'
import { Machine } from '../machine.js'
import type { HopperCase, MapSpec } from './hopper-case.js'

/** The bytes behind each buffer, so that a map whose tensor is larger than the buffer is as on a GPU. */
const ROOM = 2 ** 16

export interface Played {
  /** The buffers after the launch. */
  readonly buffers: readonly Uint8Array[]
  readonly fault: KernelFault | undefined
  readonly findings: readonly KernelFinding[]
}

export interface PlayOptions extends Pick<LaunchOptions, 'choose' | 'instructionLimit'> {
  /** Whether races and unfinished copies are looked for. */
  readonly checked?: boolean
  /** The instructions of each part of the launch. Default: all. */
  readonly budget?: number
}

export function tensorMapOf(spec: MapSpec, address: number): TensorMapFields {
  const {
    type,
    dims,
    strides,
    elementStrides = dims.map(() => 1),
    interleave = 0,
    swizzle = 0,
    l2 = 0,
    fill = 0,
  } = spec
  const element = TENSOR_ELEMENTS[type]
  if (element === undefined) throw new Error(`There is no type ${type}`)
  const box = spec.im2col === undefined ? spec.box : undefined
  return { address, element, dims, strides, elementStrides, interleave, swizzle, l2, fill, box, im2col: spec.im2col }
}

export function play(each: HopperCase, options: PlayOptions = {}): Played {
  const machine = new Machine()
  const pointers = each.buffers.map((bytes) => {
    const whole = new Uint8Array(Math.max(ROOM, bytes.byteLength))
    whole.set(bytes)
    return machine.put(whole)
  })
  const findings: KernelFinding[] = []
  const { checked = false, budget = Number.POSITIVE_INFINITY, ...others } = options
  const checks = checked ? { report: (found: KernelFinding) => void findings.push(found), mayWrite: () => true } : {}
  const module = machine.load(each.ptx)
  const code = module.code(each.entry ?? 'k', { checked, recorded: checked })
  const parameters = new Uint8Array(code.program.parameters.byteLength)
  const view = new DataView(parameters.buffer)
  for (const [index, offset] of [...code.program.parameters.offsets.values()].entries()) {
    const given = each.args[index]
    if (given === undefined) throw new Error(`${each.name} lacks an argument`)
    if ('map' in given) {
      const { buffer, offset: from = 0 } = given.map
      parameters.set(encodeTensorMap(tensorMapOf(given.map, (pointers[buffer] ?? 0) + from)), offset)
    } else if ('buffer' in given)
      view.setBigUint64(offset, BigInt((pointers[given.buffer] ?? 0) + (given.offset ?? 0)), true)
    else view.setUint32(offset, given.u32 >>> 0, true)
  }
  const configuration = {
    ...{ grid: each.grid, block: each.block, parameters, dynamicSharedBytes: each.shared ?? 0 },
    cluster: each.cluster ?? module.facts(each.entry ?? 'k').requiredCluster,
  }
  let fault: KernelFault | undefined
  try {
    const launch = new KernelLaunch(code, configuration, { ...others, ...checks })
    while (launch.run(budget) === 'more') {}
  } catch (error) {
    fault = error as KernelFault
  }
  const buffers = pointers.map((pointer, index) =>
    (machine.memory.use(pointer, each.buffers[index]?.byteLength ?? 0) ?? new Uint8Array()).slice(),
  )
  return { buffers, fault, findings }
}

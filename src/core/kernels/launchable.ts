/** The targets of `stream.launch()`: graphs and kernels, which queue themselves. */
import { invalidType, invalidValue } from '../../foundation/base/errors.js'
import type { Driver } from '../../foundation/driver/driver.js'
import type { ContextHandle, GraphExecHandle, NodeHandle } from '../../foundation/driver/handle-types.js'
import type { LaunchAttributes, LaunchShape } from '../../foundation/driver/kernel-driver.js'
import type { Device } from '../device.js'
import type { OpenMemory } from '../memory/buffer.js'
import type { StreamImpl } from '../streams/stream-impl.js'

export const launchOn: unique symbol = Symbol('launchOn')

export const updateNode: unique symbol = Symbol('updateNode')

/** A node of a graph instance for which a kernel was captured. */
export interface LaunchNode {
  readonly driver: Driver
  readonly device: Device
  readonly ordinal: number
  readonly exec: GraphExecHandle
  readonly node: NodeHandle
  /** The context and the shape of the captured launch. */
  readonly context: ContextHandle
  readonly shape: LaunchShape
  /** Throws ERR_CLOSED if the instance is closed. */
  checkOpen(): void
}

/** A kernel of a node. */
export interface NodeKernel {
  /** Gives the node these arguments. Returns the memory among them. */
  [updateNode](target: LaunchNode, config: unknown, args: unknown[]): readonly OpenMemory[]
}

export const isKernel = (value: unknown): value is NodeKernel => hasMethod(value, updateNode)

const isSameAs = (one: LaunchAttributes | undefined, other: LaunchAttributes | undefined): boolean =>
  JSON.stringify(one) === JSON.stringify(other)

/** Throws ERR_INVALID_ARG_VALUE if the shape differs in something that an update cannot change. */
export function checkUpdate({ shape: captured }: LaunchNode, shape: LaunchShape): void {
  const [now, before] = [shape.cluster, captured.cluster]
  const isSameCluster = now === before || String(now) === String(before)
  const isSame = shape.attributes === undefined || isSameAs(shape.attributes, captured.attributes)
  if (shape.cooperative === captured.cooperative && isSameCluster && isSame) return
  throw invalidValue(
    'All of config but grid, block and sharedMemory must be what the node was captured with: no update changes it',
  )
}

interface Launchable {
  /** The array of arguments is the callee's to keep. */
  [launchOn](stream: StreamImpl, config: unknown, args: unknown[]): void
}

/** The way out for what is launched by mistake. */
function wayOutOf(target: unknown): string | undefined {
  if (target === undefined) return 'a module exports its kernels by their names: is it one of them?'
  if (Object.prototype.toString.call(target) !== '[object Module]') return undefined
  const isNamespace = Object.getPrototypeOf(target) === null
  return isNamespace
    ? 'name one of the kernels that the module exports'
    : 'module.kernel(name, signature) is a kernel of it'
}

/**
 * Throws ERR_INVALID_ARG_VALUE for a configuration or arguments: a graph has those that it was captured with.
 */
export function refuseArguments(graph: object, config: unknown, args: readonly unknown[]): void {
  if (config === undefined && args.length === 0) return
  throw invalidValue(
    `${graph} takes no configuration and no arguments: it has those of its capture, and exec.update(node, config, ...args) changes them`,
  )
}

/** `stream.launch()` for every kind of target. */
export function launch(stream: StreamImpl, target: unknown, config: unknown, args: unknown[]): void {
  if (!isLaunchable(target)) throw invalidType('target', 'a GraphExec or a Kernel', target, wayOutOf(target))
  target[launchOn](stream, config, args)
}

const isLaunchable = (target: unknown): target is Launchable => hasMethod(target, launchOn)

const hasMethod = (value: unknown, name: typeof launchOn | typeof updateNode): boolean =>
  typeof (value as Partial<Launchable & NodeKernel> | null | undefined)?.[name] === 'function'

/** The targets of `stream.launch()`: objects that queue themselves, as graphs and kernels do. */
import { invalidType, invalidValue, printed } from '../base/errors.js'
import type { Device } from '../device.js'
import type {
  ContextHandle,
  Driver,
  GraphExecHandle,
  LaunchAttributes,
  LaunchShape,
  NodeHandle,
} from '../driver/driver.js'
import type { OpenMemory } from '../memory/buffer-core.js'
import type { StreamCore } from '../streams/stream-core.js'

export const launchOn: unique symbol = Symbol('launchOn')

export const updateNode: unique symbol = Symbol('updateNode')

/** A node of an instance that a kernel was captured for. */
export interface LaunchNode {
  readonly driver: Driver
  readonly device: Device
  readonly ordinal: number
  readonly exec: GraphExecHandle
  readonly node: NodeHandle
  /** In which it was captured. */
  readonly context: ContextHandle
  /** As it was captured. */
  readonly shape: LaunchShape
  /** Throws ERR_CLOSED where the instance is closed. */
  checkOpen(): void
}

/** Kernels: what can stand in a node. */
export interface NodeKernel {
  /** Gives the node these arguments. Returns the memory among them. */
  [updateNode](place: LaunchNode, config: unknown, args: unknown[]): readonly OpenMemory[]
}

export const isNodeKernel = (value: unknown): value is NodeKernel => hasMethod(value, updateNode)

const isSameAs = (one: LaunchAttributes | undefined, other: LaunchAttributes | undefined): boolean =>
  JSON.stringify(one) === JSON.stringify(other)

/** Throws ERR_INVALID_ARG_VALUE where the shape differs in what an update cannot change. */
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
  [launchOn](stream: StreamCore, config: unknown, args: unknown[]): void
}

/** What people launch in place of what they mean, by its tag. */
const WAYS: ReadonlyMap<string, string> = new Map([
  ['[object Module]', 'module.kernel(name, signature) is a kernel of it'],
])

/** `stream.launch()` for every kind of target. */
export function launch(stream: StreamCore, target: unknown, config: unknown, args: unknown[]): void {
  if (!isLaunchable(target)) throw invalidType('target', 'a GraphExec or a Kernel', target, WAYS.get(printed(target)))
  target[launchOn](stream, config, args)
}

const isLaunchable = (target: unknown): target is Launchable => hasMethod(target, launchOn)

const hasMethod = (value: unknown, name: typeof launchOn | typeof updateNode): boolean =>
  typeof (value as Partial<Launchable & NodeKernel> | null | undefined)?.[name] === 'function'

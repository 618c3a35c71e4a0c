/** The order of two places of a function: lanes of a warp that are behind go on before those that wait for them. */
import { type ControlFlow, successorsOf } from './control-flow.js'

interface Task {
  readonly members: readonly number[]
}

/**
 * The position of each block in an order in which a block comes before all that it leads to, and a whole loop before what follows it, although
 * branches lead back to the start of the loop.
 */
export function programOrder(flow: ControlFlow): Int32Array {
  const { blocks } = flow
  const places = new Int32Array(blocks.length)
  const successors = blocks.map(successorsOf)
  /** The task that each block belongs to, so that edges out of the task can be left out. */
  const taskOf = new Int32Array(blocks.length)
  let [place, number] = [0, 0]
  const tasks: Task[] = [{ members: blocks.map((_, index) => index) }]
  for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) {
    const { members } = task
    const [only = 0] = members
    if (members.length === 1) {
      places[only] = place++
      continue
    }
    number++
    for (const block of members) taskOf[block] = number
    const own = number
    const within = (block: number): readonly number[] =>
      (successors[block] ?? []).filter((target) => taskOf[target] === own)
    const components = componentsOf(members, within)
    // The components come last first, and tasks are taken from the end of the list.
    const next: Task[] = []
    for (const component of components) {
      if (component.length === 1) next.push({ members: component })
      else {
        const [head = 0, ...rest] = component
        next.push({ members: rest }, { members: [head] })
      }
    }
    tasks.push(...next)
  }
  return places
}

/**
 * The strongly connected components by Tarjan's algorithm, each with its entry first; a component stands before those that
 * lead to it.
 */
function componentsOf(members: readonly number[], within: (block: number) => readonly number[]): number[][] {
  const indices = new Map<number, number>()
  const lowest = new Map<number, number>()
  const isOpen = new Set<number>()
  const open: number[] = []
  const components: number[][] = []
  const stack: { readonly block: number; readonly targets: readonly number[]; next: number }[] = []
  const enter = (block: number): void => {
    indices.set(block, indices.size)
    lowest.set(block, indices.size - 1)
    open.push(block)
    isOpen.add(block)
    stack.push({ block, targets: within(block), next: 0 })
  }
  const lower = (block: number, to: number): void => {
    lowest.set(block, Math.min(lowest.get(block) ?? 0, to))
  }
  for (const root of members) {
    if (indices.has(root)) continue
    enter(root)
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const target = top.targets[top.next++]
      if (target !== undefined) {
        if (!indices.has(target)) enter(target)
        else if (isOpen.has(target)) lower(top.block, indices.get(target) ?? 0)
        continue
      }
      stack.pop()
      const above = stack.at(-1)
      if (above !== undefined) lower(above.block, lowest.get(top.block) ?? 0)
      if (lowest.get(top.block) !== indices.get(top.block)) continue
      const component = open.splice(open.lastIndexOf(top.block))
      for (const block of component) isOpen.delete(block)
      components.push(component)
    }
  }
  return components
}

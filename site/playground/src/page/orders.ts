/** Two orders that disagree, step by step, with the bytes of each buffer beside. */
import { byId, element, hint } from '../../../../src/tools/timeline/page/panel.js'
import type { Explored, Insertion, Memory, Order } from '../run/messages.js'
import { advice } from './findings.js'

export function noOrders(): void {
  byId('orders', HTMLElement).replaceChildren(hint('All orders that CUDA allows are tried after each run.'))
}

export function showProgress(runs: number, maxRuns: number): void {
  byId('orders', HTMLElement).replaceChildren(
    hint(runs === 0 ? 'Trying orders …' : `Trying orders: ${runs} of at most ${maxRuns} …`),
  )
}

export function showOrders(
  { verdict, summary, missing, insertions, orders }: Explored,
  insert: (insertions: readonly Insertion[]) => void,
  markLines: (lines: readonly number[]) => void,
): void {
  const target = byId('orders', HTMLElement)
  const verdictLine = element('p', { className: `verdict ${verdict}` }, summary)
  target.replaceChildren(verdictLine)
  if (missing !== '') target.append(advice(missing, insertions, insert))
  const [first, second] = orders
  if (first === undefined) return
  const length = Math.max(...orders.map(({ steps }) => steps.length))
  const slider = element('input', { type: 'range', min: '0', max: String(length - 1), id: 'step' })
  const button = (text: string, name: string, by: number): HTMLElement => {
    const made = element('button', { className: 'button', type: 'button', onclick: () => go(at + by) }, text)
    made.setAttribute('aria-label', name)
    return made
  }
  const place = element('output', {})
  const lists = orders.map((order, which) => listOf(order, titleOf(orders.length, which), (step) => go(step)))
  const memory = element('div', { className: 'memory' })
  const controls = element(
    'div',
    { className: 'stepping' },
    button('◀', 'One step back', -1),
    slider,
    button('▶', 'One step on', 1),
    place,
  )
  slider.setAttribute('aria-label', 'Step')
  slider.addEventListener('input', () => go(Number(slider.value)))
  target.append(controls, element('div', { className: 'orders' }, ...lists.map(({ box }) => box)), memory)
  let at = 0
  const go = (to: number, moves = true): void => {
    at = Math.max(0, Math.min(to, length - 1))
    slider.value = String(at)
    place.value = `step ${first.from + at + 1} of ${Math.max(...orders.map(({ all }) => all))}`
    for (const { rows } of lists)
      for (const [index, row] of rows.entries()) row.ariaCurrent = index === at ? 'step' : 'false'
    memory.replaceChildren(memoryTable(orders, at))
    if (moves) markLines(orders.flatMap(({ steps }) => steps[at]?.line ?? []))
  }
  go(
    Math.max(
      0,
      (second ?? first).steps.findIndex(({ parts }) => parts),
    ),
    false,
  )
}

const titleOf = (count: number, which: number): string =>
  count === 1 ? 'An order that waits forever' : which === 0 ? 'The default order' : 'Another that is allowed'

function listOf(
  { steps, outcome, schedule, from }: Order,
  title: string,
  go: (step: number) => void,
): { readonly box: HTMLElement; readonly rows: readonly HTMLElement[] } {
  const rows = steps.map(({ text, parts, races }, index) =>
    element(
      'button',
      { type: 'button', className: `step${parts ? ' parts' : ''}${races ? ' races' : ''}`, onclick: () => go(index) },
      text,
    ),
  )
  const list = element('ol', { start: from + 1 }, ...rows.map((row) => element('li', {}, row)))
  const end = element('pre', { className: 'outcome', title: `replay(program, '${schedule}')`, tabIndex: 0 }, outcome)
  return { box: element('div', { className: 'order' }, element('h3', {}, title), list, end), rows }
}

function memoryTable(orders: readonly Order[], at: number): HTMLElement {
  const states = orders.map(({ steps }) => (steps[at] ?? steps.at(-1))?.memory ?? [])
  const names = [...new Set(states.flatMap((memory) => memory.map(({ name }) => name)))]
  if (names.length === 0) return hint('No buffer has been made yet.')
  const before = orders.map(({ steps }) => steps[at - 1]?.memory ?? [])
  const body = names.map((name) => {
    const of = (all: readonly (readonly Memory[])[]): (Memory | undefined)[] =>
      all.map((memory) => memory.find((one) => one.name === name))
    const now = of(states)
    const earlier = of(before)
    return element(
      'tr',
      {},
      element('th', { scope: 'row' }, name),
      ...now.map((one, which) => element('td', {}, bytesOf(one, now[1 - which], earlier[which]))),
    )
  })
  const heads = orders.map((_, which) => element('th', { scope: 'col' }, titleOf(orders.length, which)))
  const head = element('thead', {}, element('tr', {}, element('th', { scope: 'col' }, 'bytes of'), ...heads))
  const box = element(
    'div',
    { className: 'scrolls', tabIndex: 0 },
    element('table', {}, head, element('tbody', {}, ...body)),
  )
  box.setAttribute('role', 'region')
  box.setAttribute('aria-label', 'Bytes of the buffers')
  return box
}

const MOST_BYTES = 16

/** Bytes that differ from the other order's are marked, and those that this step wrote. */
function bytesOf(memory: Memory | undefined, other: Memory | undefined, before: Memory | undefined): HTMLElement {
  if (memory === undefined) return element('span', { className: 'faint' }, 'not there yet')
  const { bytes, byteLength } = memory
  if (bytes === undefined) return element('span', { className: 'faint' }, 'freed')
  const box = element('code', { className: 'bytes' })
  for (const [index, byte] of bytes.subarray(0, MOST_BYTES).entries()) {
    const differs = other?.bytes !== undefined && other.bytes[index] !== byte
    const isNew = before?.bytes !== undefined && before.bytes[index] !== byte
    const className = `${differs ? 'differs' : ''}${isNew ? ' new' : ''}`
    box.append(element('span', { className }, byte.toString(16).padStart(2, '0')), ' ')
  }
  if (byteLength > MOST_BYTES) box.append(`… ${byteLength} in all`)
  return box
}

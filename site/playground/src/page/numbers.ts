/** What the kernels did at each line, and how many of their blocks a multiprocessor has room for. */
import type { KernelProfile } from 'cuda-streams/sim'
import { formatCount } from '../../../../src/tools/timeline/page/data.js'
import { byLine, lineText, occupancyText, statementsOf } from '../../../../src/tools/timeline/page/kernel-numbers.js'
import { byId, element } from '../../../../src/tools/timeline/page/panel.js'

const section = (): HTMLElement => byId('numbers-section', HTMLElement)

export function noNumbers(): void {
  section().hidden = true
}

/** @param show Brings a line of a file into sight */
export function showNumbers(profiles: readonly KernelProfile[], show: (file: string, line: number) => void): void {
  section().hidden = profiles.length === 0
  const names = profiles.map(({ kernel, grid, block }) => `${kernel} ${grid} ${block}`)
  const boxes = [...new Set(names)].map((name) => {
    return boxOf(
      profiles.filter((_, at) => names[at] === name),
      show,
    )
  })
  byId('numbers', HTMLElement).replaceChildren(...boxes)
}

/** The launches of one kernel with as many blocks and threads each. */
function boxOf(profiles: readonly KernelProfile[], show: (file: string, line: number) => void): HTMLElement {
  const [first] = profiles
  if (first === undefined) return element('div')
  const { kernel, grid, block } = first
  const times = profiles.length === 1 ? '' : `, ${formatCount(profiles.length)} times`
  const rows = byLine(profiles.flatMap(({ lines }) => lines)).map(({ file, line, counts }) => {
    const said = statementsOf(counts).map(({ subject, text, excess }) => {
      return element('span', { className: excess === 0 ? 'best' : 'worse' }, `${subject}: ${text}`)
    })
    const where = file === undefined ? element('span', {}, lineText({ file, line })) : placeOf(file, line, show)
    return element('li', { className: 'counted' }, where, element('div', {}, ...said))
  })
  return element(
    'div',
    { className: 'launch' },
    element(
      'h3',
      {},
      element('code', {}, kernel),
      ` in ${sizeOf(grid, 'block')} of ${sizeOf(block, 'thread')}${times}`,
    ),
    element('p', {}, `Occupancy ${occupancyText(first)}.`),
    element('ul', { className: 'lines' }, ...rows),
  )
}

const placeOf = (file: string, line: number, show: (file: string, line: number) => void): HTMLElement =>
  element('button', { type: 'button', className: 'side', onclick: () => show(file, line) }, `line ${line}`)

/** Numbers of blocks or threads in each direction, without directions of one. */
const sizeOf = (size: readonly number[], what: string): string => {
  const counts = size.filter((count, at) => at === 0 || count > 1)
  return `${counts.join(' × ')} ${what}${counts.length === 1 && counts[0] === 1 ? '' : 's'}`
}

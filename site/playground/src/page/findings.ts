/** Errors that nothing caught, and what the sanitizer found: the two lines, and a button that puts in what is missing. */
import { byId, element, hint } from '../../../../src/tools/timeline/page/panel.js'
import type { Failure, Finding, Insertion, Side } from '../run/messages.js'

export interface FindingActions {
  readonly insert: (insertions: readonly Insertion[]) => void
  readonly mark: (finding: Finding) => void
  readonly show: (line: number) => void
}

export function showFindings(
  findings: readonly Finding[],
  failures: readonly Failure[],
  actions: FindingActions,
): void {
  const boxes = [
    ...failures.map((failure) => failureBox(failure, actions)),
    ...findings.map((finding) => boxOf(finding, actions)),
  ]
  const nothing = element('p', { className: 'verdict agree' }, 'The sanitizer found nothing.')
  byId('findings', HTMLElement).replaceChildren(...(boxes.length === 0 ? [nothing] : boxes))
}

export function noFindings(isRunning: boolean): void {
  const looks = 'the sanitizer looks for waits that are missing, and for mistakes of kernels.'
  byId('findings', HTMLElement).replaceChildren(hint(isRunning ? `It runs: ${looks}` : `Run the program: ${looks}`))
}

function failureBox({ text, line }: Failure, { show }: FindingActions): HTMLElement {
  const box = element('div', { className: 'finding failure' }, element('h3', {}, 'An uncaught error'))
  if (line !== undefined) {
    const place = element(
      'button',
      { type: 'button', className: 'side second', onclick: () => show(line) },
      `line ${line}`,
    )
    box.append(element('div', { className: 'sides' }, place))
  }
  box.append(element('p', {}, text))
  return box
}

function boxOf(finding: Finding, actions: FindingActions): HTMLElement {
  const { first, second, message, insertions, severity } = finding
  const [heading = ''] = message.split('\n')
  const sides = [first, second].flatMap((side, at) =>
    side === undefined ? [] : [sideOf(side, first !== undefined && at === 0 ? 'first' : 'second', actions, finding)],
  )
  const box = element(
    'div',
    { className: `finding ${severity}` },
    element('h3', {}, heading.replace(/ \(.*\)$/, '')),
    element('div', { className: 'sides' }, ...sides),
    advice(finding.advice, insertions, actions.insert),
  )
  const more = element(
    'details',
    {},
    element('summary', {}, 'The whole report'),
    element('pre', { tabIndex: 0 }, message),
  )
  box.append(more)
  return box
}

function sideOf(
  { what, stream, line }: Side,
  which: 'first' | 'second',
  actions: FindingActions,
  finding: Finding,
): HTMLElement {
  const place = line === undefined ? '' : `line ${line}: `
  return element(
    'button',
    {
      type: 'button',
      className: `side ${which}`,
      onclick: () => {
        actions.mark(finding)
        if (line !== undefined) actions.show(line)
      },
    },
    `${place}${what} ${stream === undefined ? 'in JavaScript' : `on ${stream}`}`,
  )
}

/** The advice, and a button where it is a line of code. */
export function advice(
  text: string,
  insertions: readonly Insertion[],
  insert: (insertions: readonly Insertion[]) => void,
): HTMLElement {
  const box = element('div', { className: 'advice' }, element('p', {}, ...withCode(text)))
  if (insertions.length > 0) {
    const lines = insertions.map((one) => one.text).join('; ')
    box.append(
      element(
        'button',
        { type: 'button', className: 'button insert', onclick: () => insert(insertions) },
        'Insert ',
        element('code', {}, lines),
        ` before line ${insertions[0]?.line}`,
      ),
    )
  }
  return box
}

export const withCode = (text: string): (Node | string)[] =>
  text.split('`').map((part, at) => (at % 2 === 1 ? element('code', {}, part) : part))

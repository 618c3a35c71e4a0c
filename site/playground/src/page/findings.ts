/** What the sanitizer found: the two lines, and a button that puts in what is missing. */
import { byId, element, hint } from '../../../../src/timeline/page/panel.js'
import type { Finding, Insertion, Side } from '../run/messages.js'

export interface FindingActions {
  readonly insert: (insertions: readonly Insertion[]) => void
  readonly mark: (finding: Finding) => void
  readonly show: (line: number) => void
}

export function showFindings(findings: readonly Finding[], actions: FindingActions): void {
  const target = byId('findings', HTMLElement)
  if (findings.length === 0) {
    target.replaceChildren(element('p', { className: 'verdict agree' }, 'The sanitizer found no missing wait.'))
    return
  }
  target.replaceChildren(...findings.map((finding) => boxOf(finding, actions)))
}

export function noFindings(): void {
  byId('findings', HTMLElement).replaceChildren(
    hint('Run the program: the sanitizer looks for waits that are missing.'),
  )
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

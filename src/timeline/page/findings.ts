/** The top of the page: how busy each stream was, what overlapped, and what held the streams up. */
import { type Data, laneName } from './data.js'
import { byId, element, hint, MOST_LISTED } from './elements.js'
import { formatShare, formatTime } from './format.js'

export function showOverlaps({ overlaps, duration }: Data): void {
  const target = byId('overlaps', HTMLElement)
  for (const { device, name, copy, compute, overlap, busy } of overlaps) {
    const parts = [
      ['compute', compute - overlap],
      ['both', overlap],
      ['copy', copy - overlap],
      ['idle', Math.max(0, duration - busy)],
    ] as const
    const less = Math.min(copy, compute)
    const what = copy <= compute ? 'copying' : 'computing'
    const verdict =
      less === 0
        ? `It only ${copy > 0 ? 'copied' : 'computed'}.`
        : `${formatShare(overlap / less)} of the ${what} overlapped.`
    target.append(
      element(
        'div',
        { className: 'device' },
        element('h3', { title: name }, `Device ${device}: `, element('strong', {}, verdict)),
        element(
          'div',
          { className: 'parts', ariaHidden: 'true' },
          ...parts.map(([part, time]) => {
            const box = element('span', { className: part })
            box.style.flexGrow = String(time)
            return box
          }),
        ),
        element(
          'p',
          { className: 'legend' },
          ...parts.map(([part, time]) =>
            element(
              'span',
              {},
              element('i', { className: part, ariaHidden: 'true' }),
              `${part} ${formatTime(time, 2)}`,
            ),
          ),
        ),
      ),
    )
  }
}

/** How busy each stream was. Pressing one brings it into view. */
export function listStreams(data: Data, show: (lane: number) => void): void {
  const used = new Set(data.lane)
  for (const { stream, busy, share } of data.streams.filter((one) => used.has(one.stream)).slice(0, MOST_LISTED)) {
    const bar = element('span', { className: 'bar', ariaHidden: 'true' }, element('span'))
    bar.style.setProperty('--share', String(share))
    byId('streams', HTMLElement).append(
      element(
        'button',
        { className: 'row stream', type: 'button', onclick: () => show(stream) },
        element('span', { className: 'name', title: laneName(data, stream) }, laneName(data, stream)),
        bar,
        element('span', { className: 'share' }, formatShare(share)),
        element('span', { className: 'took' }, formatTime(busy, 2)),
      ),
    )
  }
}

/** What held the streams up. Pressing one marks its gaps. Returns what shows which is marked. */
export function listHoldUps({ holdUps }: Data, mark: (place: number) => void): (marked: number) => void {
  const target = byId('hold-ups', HTMLElement)
  if (holdUps.length === 0) target.append(hint('Nothing held a stream up between two operations.'))
  const buttons = holdUps
    .slice(0, MOST_LISTED)
    .map(({ message, advice, time, callSite }, place) =>
      element(
        'button',
        { className: 'row hold-up', type: 'button', onclick: () => mark(place), title: callSite ?? '' },
        element('span', { className: 'took' }, formatTime(time, 2)),
        element('span', { className: 'message' }, ...withCode(message)),
        element('span', { className: 'advice' }, ...withCode(advice)),
      ),
    )
  target.append(...buttons)
  const showMarked = (marked: number): void => {
    for (const [place, button] of buttons.entries()) button.ariaPressed = String(place === marked)
  }
  showMarked(-1)
  return showMarked
}

/** What stands between backticks is code. */
const withCode = (text: string): (Node | string)[] =>
  text.split('`').map((part, at) => (at % 2 === 1 ? element('code', {}, part) : part))

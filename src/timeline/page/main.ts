/** The page: puts the parts together, and listens. */
import type { Gap } from '../gap.js'
import { isHostOnly } from '../kinds.js'
import { Arrows } from './arrows.js'
import { type Data, placeOf, readData, titleOf } from './data.js'
import { AXIS, type Highlights, Painter } from './draw.js'
import { formatCount, formatTime } from './format.js'
import { layOut } from './layout.js'
import { Overview } from './overview.js'
import { byId, element, gapReason, listGaps, listNames, listPath, showDetails } from './panel.js'
import { neighbour, trackOf } from './pick.js'
import { listenToPointer } from './pointer.js'
import { find, timeOf } from './search.js'
import { readColours, themeButton } from './theme.js'
import { View } from './view.js'

declare global {
  interface Window {
    /** For tests: how long the latest frames took to draw, in milliseconds. */
    timelineFrames: number[]
  }
}

const KEY_PAN = 0.15
const KEY_ZOOM = 1.5
const FRAMES_KEPT = 600

function start(data: Data): void {
  const canvas = byId('lanes', HTMLCanvasElement)
  const area = byId('area', HTMLElement)
  const labels = byId('labels', HTMLElement)
  const tooltip = byId('tooltip', HTMLElement)
  const searchBox = byId('search', HTMLInputElement)
  const status = byId('status', HTMLElement)
  const spoken = byId('spoken', HTMLElement)
  const layout = layOut(data)
  const arrows = new Arrows(data, layout)
  const isCritical = new Uint8Array(data.length)
  for (const row of data.path) isCritical[row] = 1
  const highlights: Highlights = {
    selected: -1,
    hovered: -1,
    matches: undefined,
    matchesBefore: new Map(),
    isCritical,
    showCritical: true,
    gap: undefined,
  }
  window.timelineFrames = []
  let asked = false
  let height = 1
  let found: Int32Array = new Int32Array()
  let foundAt = -1

  const redraw = (): void => {
    if (asked) return
    asked = true
    requestAnimationFrame(() => {
      asked = false
      paint()
    })
  }
  const view = new View(data.duration, redraw)
  const painter = new Painter(canvas, data, layout, arrows, view, highlights, readColours())
  const overview = new Overview(byId('overview', HTMLCanvasElement), view, data, layout)

  const paint = (): void => {
    const before = performance.now()
    const ratio = devicePixelRatio
    painter.draw(height, ratio)
    overview.draw(painter.colours, ratio)
    labels.style.transform = `translateY(${AXIS - view.scroll}px)`
    const hidden = arrows.hidden === 0 ? '' : ` · ${formatCount(arrows.hidden)} arrows: zoom in to see them`
    status.textContent = `${formatTime(Math.max(0, view.begin))} to ${formatTime(Math.min(data.duration, view.end))}${hidden}`
    window.timelineFrames.push(performance.now() - before)
    if (window.timelineFrames.length > FRAMES_KEPT) window.timelineFrames.shift()
  }

  const resize = (): void => {
    view.width = Math.max(1, area.clientWidth)
    height = Math.max(1, area.clientHeight)
    canvas.width = Math.round(view.width * devicePixelRatio)
    canvas.height = Math.round(height * devicePixelRatio)
    scrollTo(view.scroll)
  }
  const scrollTo = (to: number): void => {
    view.scroll = Math.max(0, Math.min(to, layout.height + AXIS - height))
    redraw()
  }

  const select = (row: number, move: boolean): void => {
    if (move) showTooltip(0, 0, -1)
    highlights.selected = row
    highlights.gap = undefined
    showDetails(data, row, follow)
    if (row >= 0) {
      spoken.textContent = `${titleOf(data, row)}, ${placeOf(data, row)}, at ${formatTime(timeOf(data, row))}`
      if (move) reveal(row)
    }
    redraw()
  }
  /** Brings a row into view, no larger than it must be. */
  const reveal = (row: number): void => {
    const from = timeOf(data, row)
    const to = Math.max(from, data.end[row] ?? from) || from
    const span = view.end - view.begin
    if (to - from > span) view.show(from - (to - from) * 0.2, to + (to - from) * 0.2, true)
    else if (to - from < span / 400 && to > from) view.show(from - (to - from) * 40, to + (to - from) * 40, true)
    else if (from < view.begin || to > view.end) view.show((from + to - span) / 2, (from + to + span) / 2, true)
    const track = trackOf(data, layout, row)
    if (track === undefined) return
    if (track.y < view.scroll) scrollTo(track.y - 20)
    else if (track.y + track.height > view.scroll + height - AXIS) scrollTo(track.y + track.height - height + AXIS + 20)
  }
  const follow = (row: number): void => select(row, true)
  const showGap = (gap: Gap): void => {
    select(gap.next, false)
    highlights.gap = gap
    const margin = (gap.end - gap.begin) * 1.5
    view.show(gap.begin - margin, gap.end + margin, true)
    spoken.textContent = `${data.lanes[gap.lane]?.name} stood idle for ${formatTime(gap.end - gap.begin)}: ${gapReason(data, gap)}`
    const track = layout.ofLane.get(gap.lane)
    if (track !== undefined && (track.y < view.scroll || track.y + track.height > view.scroll + height - AXIS)) {
      scrollTo(track.y - 40)
    }
  }

  const search = (text: string): void => {
    const result = find(data, layout.tracks, text)
    highlights.matches = result?.matches
    highlights.matchesBefore = result?.matchesBefore ?? new Map()
    found = result?.rows ?? new Int32Array()
    foundAt = -1
    byId('found', HTMLElement).textContent = result === undefined ? '' : `${formatCount(found.length)} found`
    redraw()
  }
  const goToFound = (step: number): void => {
    if (found.length === 0) return
    foundAt = (foundAt + step + found.length) % found.length
    byId('found', HTMLElement).textContent = `${formatCount(foundAt + 1)} of ${formatCount(found.length)}`
    follow(found[foundAt] ?? -1)
  }

  const showTooltip = (x: number, y: number, row: number): void => {
    tooltip.hidden = row < 0
    if (row < 0) return
    const took = (data.end[row] ?? Number.NaN) - (data.start[row] ?? Number.NaN)
    const call = (data.returned[row] ?? 0) - (data.called[row] ?? 0)
    const length = Number.isNaN(took) ? `call of ${formatTime(call)}` : formatTime(took)
    const where = `${placeOf(data, row)} · at ${formatTime(timeOf(data, row))}`
    tooltip.replaceChildren(element('strong', {}, titleOf(data, row)), ` ${length}`, element('br'), where)
    const width = tooltip.offsetWidth
    tooltip.style.left = `${Math.min(x + 14, area.clientWidth - width - 8)}px`
    tooltip.style.top = `${y + 18}px`
  }

  // The keyboard.
  const zoomToSelection = (): void => {
    const row = highlights.selected
    if (row < 0) return
    const from = timeOf(data, row)
    const to = Math.max(from, data.end[row] ?? from) || from
    const margin = Math.max((to - from) * 0.5, 500)
    view.show(from - margin, to + margin, true)
  }
  const step = (by: number): void => {
    const track = trackOf(data, layout, highlights.selected)
    if (track !== undefined) follow(neighbour(track, highlights.selected, by))
    else {
      const first = layout.tracks.find((one) => one.kind === 'stream' && one.rows.length > 0)
      follow(first?.rows[0] ?? -1)
    }
  }
  const middle = (): number => {
    const row = highlights.selected
    const at = row < 0 ? Number.NaN : timeOf(data, row)
    return at >= view.begin && at <= view.end ? at : (view.begin + view.end) / 2
  }
  const span = (): number => view.end - view.begin
  const help = byId('help', HTMLDialogElement)
  const critical = byId('critical', HTMLInputElement)
  const followCause = (): void => {
    const by = data.heldUpBy[highlights.selected] ?? -1
    if (by >= 0) follow(by)
  }
  const keys: readonly (readonly [keys: string, action: () => void])[] = [
    ['ArrowLeft a', () => view.pan(-span() * KEY_PAN, true)],
    ['ArrowRight d', () => view.pan(span() * KEY_PAN, true)],
    ['w + =', () => view.zoom(KEY_ZOOM, middle(), true)],
    ['s -', () => view.zoom(1 / KEY_ZOOM, middle(), true)],
    ['ArrowUp', () => scrollTo(view.scroll - 40)],
    ['ArrowDown', () => scrollTo(view.scroll + 40)],
    ['Home', () => view.show(0, span(), true)],
    ['End', () => view.show(data.duration - span(), data.duration, true)],
    ['f 0', () => view.fit()],
    ['z', zoomToSelection],
    ['[', () => step(-1)],
    [']', () => step(1)],
    ['Enter', followCause],
    ['n', () => goToFound(1)],
    ['p', () => goToFound(-1)],
    ['c', () => critical.click()],
    ['t', () => byId('theme', HTMLButtonElement).click()],
    ['/', () => searchBox.focus()],
    ['?', () => help.showModal()],
    ['Escape', () => select(-1, false)],
  ]
  listenToKeys(
    new Map(keys.flatMap(([names, action]) => names.split(' ').map((name) => [name, action] as const))),
    () => help.open,
    () => showTooltip(0, 0, -1),
  )
  listenToPointer(canvas, view, layout, {
    select: (row) => select(row, false),
    hover(x, y, row) {
      if (row !== highlights.hovered) redraw()
      highlights.hovered = row
      showTooltip(x, y, row)
    },
    scrollBy: (pixels) => scrollTo(view.scroll + pixels),
    zoomToSelection,
  })
  searchBox.addEventListener('input', () => search(searchBox.value))
  searchBox.addEventListener('keydown', (event) => {
    if (event.key === 'Enter') goToFound(event.shiftKey ? -1 : 1)
    if (event.key === 'Escape') {
      searchBox.value = ''
      search('')
      canvas.focus()
    }
  })
  byId('fit', HTMLButtonElement).addEventListener('click', () => view.fit())
  byId('help-button', HTMLButtonElement).addEventListener('click', () => help.showModal())
  critical.addEventListener('change', () => {
    highlights.showCritical = critical.checked
    redraw()
  })

  // Screen readers are to pass the keys on.
  canvas.setAttribute('role', 'application')

  // What does not move.
  for (const { text, y } of layout.headings) label(labels, text, 'heading', y, 28)
  for (const track of layout.tracks) {
    if (track.label !== '') label(labels, track.label, 'lane', track.y, track.height).title = track.detail
  }
  const operations = data.kind.reduce((count, kind) => count + (isHostOnly(kind) ? 0 : 1), 0)
  const about = [
    `${formatCount(operations)} operations`,
    formatTime(data.duration),
    data.clock === 'virtual' ? 'virtual time, exact' : `times to ${formatTime(data.uncertainty)} or so`,
    ...(data.dropped > 0 ? [`${formatCount(data.dropped)} more not recorded`] : []),
  ]
  byId('about', HTMLElement).textContent = about.join(' · ')
  listGaps(data, showGap)
  listPath(data, follow)
  listNames(data, (text) => {
    searchBox.value = text
    search(text)
  })
  showDetails(data, -1, follow)
  themeButton(byId('theme', HTMLButtonElement), () => {
    painter.restyle(readColours())
    redraw()
  })
  new ResizeObserver(resize).observe(area)
  resize()
}

function label(into: HTMLElement, text: string, className: string, y: number, height: number): HTMLElement {
  const made = element('div', { className }, text)
  made.style.top = `${y}px`
  made.style.lineHeight = `${height}px`
  into.append(made)
  return made
}

/** Keys, wherever the focus is, but in the search box and in a dialog; letters in lower case. */
function listenToKeys(keys: ReadonlyMap<string, () => void>, isModal: () => boolean, pressed: () => void): void {
  document.addEventListener('keydown', (event) => {
    const { target, key } = event
    if (event.ctrlKey || event.metaKey || event.altKey || isModal()) return
    if (target instanceof HTMLInputElement && target.type === 'search') return
    // Enter on a button is that button's.
    if (key === 'Enter' && target instanceof HTMLButtonElement) return
    const action = keys.get(key.length === 1 ? key.toLowerCase() : key)
    if (action === undefined) return
    event.preventDefault()
    pressed()
    action()
  })
}

start(readData())
